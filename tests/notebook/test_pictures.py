"""What notebooks show of objects: what they are, in bounded size, and names of any kind as texts."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import aioflow as af
from aioflow.layers.callbacks import History
from aioflow.notebook.card import COLOURS
from aioflow.notebook.progress import EpochRow, EpochTable, ProgressLine
from aioflow.notebook.scope_flow import flow
from aioflow.plan.placement.report import Placed, Placement
from aioflow.runtime.explain import Caller, LockHolder, Report, Wait
from aioflow.runtime.wait_graph import Cycle, Edge
from aioflow.tracing import NodeStats, Transfer

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"' &lt; \u202e \ud800" + "w" * 10_000
LARGEST = 200_000
"""Characters of a picture, at most."""
TAGS = {
    *("b", "details", "div", "g", "i", "line", "path", "rect", "span", "style", "summary", "svg", "table", "td"),
    *("text", "th", "title", "tr"),
}


class Page(HTMLParser):
    """The elements, attributes and texts of a picture, whose elements all end where they should."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.texts, self._open = [], [], []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def page(thing):
    """The picture of a thing, which has only elements that the package makes, and nothing that runs."""
    html = thing._repr_html_()
    assert html.encode()  # no lone surrogate is left
    assert len(html) < LARGEST
    found = Page(html)
    assert {tag for tag, _ in found.elements} <= TAGS
    assert not [name for _, attributes in found.elements for name in attributes if re.match("on|href|src", name)]
    return found


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 3], name="x")
        with af.name_scope("layer"):
            w = af.Variable(af.ones([3, 2]), name="weights")
            af.matmul(x, w, name="product")
    return graph


def test_a_graph_is_a_tree_of_scopes(graph):
    found = page(graph)
    assert repr(graph) == f"<af.Graph of {graph.version} operations>"
    assert f"Graph {graph.version} operations" in found.text
    assert [tag for tag, _ in found.elements].count("details") >= 1
    assert "layer" in found.texts
    assert "product matmul float32[?, 2] x, layer/read_variable" in found.text
    assert page(af.Graph()).text == "Graph without operations"


def test_values_flow_past_the_boxes_between():
    with af.Graph().as_default() as graph:
        x = y = af.placeholder(af.float32, [2], name="x")
        for number in range(4):
            with af.name_scope(f"layer{number}"):
                y = af.tanh(y)
        af.add_n([x, y, af.constant([1.0, 2.0])], name="sum")
    found = page(graph)
    boxes = [attributes for tag, attributes in found.elements if tag == "rect"]
    lines = [attributes["d"] for tag, attributes in found.elements if tag == "path" and attributes["fill"] == "none"]
    assert len(boxes) == 6  # without the constant
    assert len(lines) == 6
    tops = {float(box["y"]) for box in boxes}
    levels = [re.findall(r"([\d.]+)H", line) for line in lines]
    (passing,) = filter(None, levels)
    assert len(passing) == 4
    assert not [y for y in passing for top in tops if top <= float(y) <= top + float(boxes[0]["height"])]
    assert "viewbox" not in dict(page(af.Graph()).elements)


def test_scopes_that_take_values_from_each_other_are_beside_each_other():
    boxes = Page(flow({"a": 2, "b": 2, "alone": 3}, [("a", "b"), ("b", "a"), ("a", "a")]))
    assert [attributes["x"] for tag, attributes in boxes.elements if tag == "rect"] == ["0", "148"]
    assert [tag for tag, _ in boxes.elements].count("path") == 4
    assert flow({str(number): 1 for number in range(25)}, [("0", str(number)) for number in range(25)]) is None


@pytest.mark.parametrize("style", ["flat", "scopes", "deep"])
def test_ten_thousand_operations_have_a_small_picture(style):
    scope = {"flat": lambda _: "", "scopes": lambda number: f"layer{number // 100}/", "deep": lambda _: "a/" * 60}[
        style
    ]
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2], name="x")
        for number in range(10_000):
            x = af.tanh(x, name=f"{scope(number)}tanh{number}")
    found = page(graph)
    assert "Graph 10,001 operations: 10,000 tanh, 1 placeholder" in found.text
    assert found.text.count("more scopes and operations") >= 1
    if style == "scopes":
        assert found.text.count("100 operations") >= 39


def test_a_tensor_and_an_operation_are_tables(graph):
    product = graph.get_tensor_by_name("layer/product:0")
    text = page(product).text
    for part in (
        "layer/product:0 Tensor",
        "dtype float32",
        "shape [?, 2]",
        "layer/product (matmul)",
        "test_pictures.py:",
    ):
        assert part in text
    text = page(product.op).text
    assert "inputs x:0 float32[?, 3] layer/read_variable:0 float32[3, 2]" in text
    assert "transpose_a = False" in text
    assert "taken by layer/product" in page(graph.get_tensor_by_name("x:0")).text


def test_variables_queues_and_composed_tensors_are_tables(graph):
    (weights,) = graph.get_collection(af.GraphKeys.GLOBAL_VARIABLES)
    text = page(weights).text
    for part in ("layer/weights Variable", "dtype float32", "shape [3, 2]", "trainable yes", "layer/read_variable"):
        assert part in text
    assert "built at" in text
    assert "test_pictures.py:" in text
    with graph.as_default():
        queue = af.PaddingFIFOQueue(8, [af.int32, af.string], shapes=[[None], []], names=["ids", "text"], name="rows")
        queue.dequeue(name="take")
        sparse = af.SparseTensor([[0, 1]], [5.0], [2, 3])
        slices = af.IndexedSlices(af.ones([1, 2], name="some"), [3])
    text = page(queue).text
    for part in ("rows PaddingFIFOQueue", "capacity 8", "ids int32[?] text string[]", "used by take"):
        assert part in text
    text = page(sparse).text
    for part in ("SparseTensor", "shape [2, 3]", "int64[1, 2] constant", "values", "indices"):
        assert part in text
    text = page(slices).text
    assert "IndexedSlices dtype float32 shape [?, 2]" in text
    assert "values some:0 float32[1, 2]" in text


def test_a_dataset_is_a_table_of_its_stages():
    numbers = af.data.Dataset.range(10)
    text = page(numbers.repeat().batch(4)).text
    assert "Dataset 3 stages" in text
    assert "1 range 10 10" in text
    assert "2 repeat" in text
    assert "no end" in text
    both = page(af.data.Dataset.zip((numbers, numbers.map(lambda number: number)))).text
    assert "3 zip 1, 2 10" in both
    assert "an element decided by a function" in page(numbers.map(lambda number: number)).text
    for _ in range(2000):
        numbers = numbers.skip(0)
    assert "1,951 more stages" in page(numbers).text


async def test_a_model_and_its_history_are_tables():
    with af.Graph().as_default():
        assert "not built yet" in page(af.Sequential([af.layers.Dense(1)])).text
        async with af.Sequential([af.layers.Input([3]), af.layers.Dense(1, name="dense")], name="net") as model:
            text = page(model).text
            assert "net Sequential Layer (class) Outputs Weights Parameters dense (Dense) [?, 1] [3, 1], [1] 4" in text
            assert "Parameters: 4, of them trainable: 4" in text
            model.compile("sgd", "mse")
            x = np.ones((4, 3), np.float32)
            history = await model.fit(x, x[:, :1], epochs=15, verbose=0, callbacks=[])
    found = page(history)
    assert "History 15 epochs … and 3 more epochs before epoch loss 4 " in found.text
    assert f"15 {history.history['loss'][-1]:.4g}" in found.text


async def test_a_session_a_placement_and_a_trace_are_shown(graph):
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None, 3], name="x")
        total = af.reduce_sum(af.matmul(x, af.ones([3, 2]), name="product"), name="total")
    metadata = af.RunMetadata()
    assert "nothing was traced" in page(metadata).text
    async with af.Session(graph=graph) as session:
        feeds = {x: np.ones((4, 3), np.float32)}
        await session.run(total, feeds, af.RunOptions(trace=True), metadata)
        text = page(session).text
        assert "Session open" in text
        assert "runs 1 run began" in text
        assert "device:CPU:0 no limit" in text
        placement = await session.placement(total, [x])
        text = page(placement).text
        assert f"Placement {len(placement.nodes)} nodes on 1 device" in text
        assert all(node.reason in text for node in placement.nodes)
        assert page(await session.explain()).text == "Waiting no step is running"
    assert "Session closed" in page(session).text
    found = page(metadata)
    assert f"Trace of step {metadata.step_id} {len(metadata.step_stats)} executions, 0 transfers" in found.text
    titles = [text for text in found.texts if text.startswith("product (matmul)")]
    assert len(titles) == 1
    bars = [attributes for tag, attributes in found.elements if tag == "rect"]
    assert len(bars) == len(metadata.step_stats)
    assert {bar["fill"] for bar in bars} <= set(COLOURS)


def stats(number, name="a", device="/job:worker/replica:0/task:1/device:CPU:0", waits=False):
    return NodeStats(name, name, device, 0.0, number * 1.0, number + 1.0, 8, number % 3, waits)


def test_a_long_trace_has_a_small_picture():
    metadata = af.RunMetadata()
    metadata.step_stats += [
        stats(number, f"op{number}", f"/device:CPU:{number % 50}", number % 2) for number in range(20_000)
    ]
    metadata.transfers += [
        Transfer("k", "/device:CPU:0", "/device:CPU:1", 8, 1.0, 1.0, 3.0, (0, 1)) for _ in range(5000)
    ]
    text = page(metadata).text
    assert "20,000 executions, 5,000 transfers, 333 min 20 s" in text
    assert "more executions" in text
    assert " others" in text


def test_transfers_are_arrows_between_lanes():
    metadata = af.RunMetadata()
    there = "/job:worker/replica:0/task:0/device:CPU:0"
    metadata.step_stats += [stats(0), NodeStats("b", "b", there, 0.0, 3.0, 4.0, 8, 7, False)]
    metadata.transfers.append(Transfer("edge", stats(0).device, there, 2048, 1.0, 1.0, 3.0, (0, 7)))
    found = page(metadata)
    (arrow,) = [attributes for tag, attributes in found.elements if tag == "path" and attributes.get("fill") == "none"]
    assert re.fullmatch(r"M[\d.]+ [\d.]+C.*", arrow["d"])
    assert "edge\n2 KiB in 2 s" in found.texts
    assert {"worker 1 CPU:0", "worker 0 CPU:0"} <= {*found.texts}


def wait(number, name="take"):
    holder = LockHolder(1, name, name, name, 1.0)
    return Wait(
        number, name, "queue_dequeue", f"{name}.py:1", 2.5, f"take an element of {name}", name, name, False, holder
    )


def test_waits_and_deadlocks_are_shown():
    edge = Edge(3, "take", "queue_dequeue", "model.py:9", "CPU:0", "take an element", "put", 4)
    caller = Caller("put an element", 0.5, "reader", "read.py:4")
    report = Report((wait(3),), (caller,), ("queue runner of 'q'",), (), cycles=(Cycle((edge, edge)),))
    text = page(report).text
    parts = [
        "Waiting 1 deadlock, 1 operation under way",
        "deadlock: a cycle of 2 operations",
        "2.5 s take",
        "model.py:9",
    ]
    parts += ["waits to take an element of take", "held for 1.0 s by step 1", "500 ms reader", "read.py:4"]
    for part in (*parts, "queue runner of 'q' was never started"):
        assert part in text


def test_hostile_names_are_texts():
    with af.Graph().as_default():
        constant = af.constant(HOSTILE.replace("\ud800", ""))
        model = af.Sequential([af.layers.Dense(1)], name="<script>")
    assert "<script>" in page(constant.op).text
    assert "<script>" in page(model).text
    page(constant)
    metadata = af.RunMetadata()
    metadata.step_stats += [stats(number, HOSTILE, HOSTILE) for number in range(3)]
    metadata.transfers.append(Transfer(HOSTILE, HOSTILE, HOSTILE, 1, 1.0, 1.0, 2.0, (0, 1)))
    edge = Edge(*[1, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 2])
    caller = Caller(HOSTILE, 1.0, HOSTILE, HOSTILE)
    others = (HOSTILE,) * 5000
    history = History()
    history.on_epoch_end(0, {HOSTILE: HOSTILE})
    things = [
        metadata,
        Placement(tuple([Placed(*[HOSTILE] * 4)] * 10_000), 1.0),
        Placement(tuple([Placed("a", "b", f"{number}{HOSTILE}", "c") for number in range(1000)]), 1.0),
        Report((wait(1, HOSTILE),) * 30, (caller,) * 30, others[:30], (), (), (Cycle((edge,) * 5),)),
        EpochTable(500, [EpochRow(7, 1, 2, 0.1, {HOSTILE: 0.5})] * 400),
        ProgressLine(HOSTILE, HOSTILE, 3.0),
        history,
    ]
    for thing in things:
        assert "<script>" in page(thing).text
    assert "more waits" in page(Report((wait(1),) * 1000, (), others, others, others, ())).text
