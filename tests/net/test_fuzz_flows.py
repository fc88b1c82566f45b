"""Parts of plans as they are registered with workers: whoever changes one on the way gets it refused, by a ValueError.

What is let in keeps its types: kernels, some of which are compiled libraries, get what they were made for.
"""

import contextlib
import copy

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.net.worker.plan_shares import share_of
from aioflow.net.worker.registration import registered, registration
from aioflow.plan.partition import Part
from aioflow.plan.pipeline import Signature, make_flow, make_plan
from aioflow.plan.serialize import flow_from_plain, flow_to_plain
from aioflow.plan.split import Split
from tests.support.every_op import build, every_op

DEVICE = "/job:worker/replica:0/task:0/device:CPU:0"
SESSION = "0123456789abcdef" * 2
TASK = "/job:worker/replica:0/task:0"


def of_flow(flow):
    """The graph and the constants of a request that registers a flow whole, on one device."""
    part = Part(DEVICE, flow, tuple(range(len(flow.feeds))), tuple(range(len(flow.fetches))))
    message = registration(SESSION, 1, {TASK: share_of([part])}, (), False, {})
    return message.graphs[TASK], message.constants


def sample_flow():
    """A flow with most of what a flow can have: feeds, arrays beside it, a queue, lists, a branch and a loop."""
    with af.Graph().as_default():
        x, n = af.placeholder(af.float32, [None, 8], name="x"), af.placeholder(af.int32, [], name="n")
        weights = af.constant(np.arange(64, dtype=np.float32).reshape(8, 8))
        queue = af.FIFOQueue(3, [af.float32], shapes=[[]], name="queue")
        array = af.TensorArray(af.float32, 4).scatter([0, 1, 2, 3], x[0, :4])
        y = af.cond(n > 2, lambda: af.matmul(x, weights), lambda: af.tanh(x))
        count, y = af.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2.0), [0, y])
        put = queue.enqueue(af.reduce_sum(y))
        fetches = (y, count, array.stack(), queue.dequeue())
        return make_plan(Signature((x, n), fetches, (put,)), lambda flow: Split([]), optimize=False).flow


FLOW = sample_flow()
GRAPH, CONSTANTS = of_flow(FLOW)


def read(plain, constants=None):
    """The registration with that content."""
    packed = plain if isinstance(plain, bytes) else msgpack.packb(plain)
    return registered(packed, CONSTANTS if constants is None else constants)


def content():
    return copy.deepcopy(msgpack.unpackb(GRAPH))


def facts(flow):
    nodes = [inner for node in flow.nodes for inner in node.everything()]
    return [(node.name, node.definition.name, list(map(str, node.output_specs))) for node in nodes]


def test_a_registration_is_read_as_it_was_written():
    found = read(GRAPH)
    (part,) = found.parts
    assert (part.device, part.feeds, part.fetches, found.counted) == (DEVICE, (0, 1), (0, 1, 2, 3), [])
    assert facts(part.flow) == facts(FLOW)


@every_op(most=1)
def test_every_op_can_be_registered(name, sample):
    _, outputs, feeds = build(sample)
    flow = make_flow(Signature(tuple(feeds), tuple(outputs), ()), optimize=False)
    plain, beside = flow_to_plain(flow)
    again = flow_from_plain(msgpack.unpackb(msgpack.packb(plain)), beside)
    assert facts(again) == facts(flow)


# Changed at random

JUNK = st.sampled_from(
    [None, True, -1, 3, 1 << 63, -(1 << 63), 0.5, float("nan"), "", "x", "recv", "py_func", "resource", "list", b"x",
     [], {}, [1], [[0, 0]], ["resource", []], {"tuple": []}, {"beside": 0}, {"beside": 9}, {"dtype": "float64"}]
)  # fmt: skip


def damage(part, draw):
    """Replace, drop, double or exchange something somewhere inside."""
    while isinstance(part, (dict, list)) and part:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        key, other = draw(st.sampled_from(keys)), draw(st.sampled_from(keys))
        how = draw(st.integers(0, 7))
        if how == 0:
            part[key] = draw(JUNK)
        elif how == 1:
            del part[key]
        elif how == 2:
            part[key], part[other] = part[other], part[key]
        elif how == 3 and isinstance(part, list):
            part.insert(other, copy.deepcopy(part[key]))
        else:
            part = part[key]
            continue
        return


@given(st.data())
def test_registrations_with_other_content_are_refused_or_are_registrations(data):
    plain = content()
    for _ in range(data.draw(st.integers(1, 3))):
        damage(plain, data.draw)
    with contextlib.suppress(ValueError):
        assert all(isinstance(part, Part) for part in read(plain).parts)


@pytest.mark.parametrize("number", [[], {}, None, "0", -1, True])
@pytest.mark.parametrize("of", ["feeds", "fetches"])
def test_a_registration_whose_feeds_or_fetches_are_not_numbered_is_refused(of, number):
    plain = content()
    plain["parts"][0][of][0] = number
    with pytest.raises(ValueError, match=f"its {of} are not numbered from 0 on"):
        read(plain)


@given(st.data())
def test_registrations_with_other_bytes_are_refused_or_are_registrations(data):
    packed = bytearray(GRAPH)
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        read(bytes(packed))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_registration(data):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with them
        read(data)


@given(st.dictionaries(st.sampled_from(["0", "1", "2", "x", ""]), st.sampled_from([None, b"", 5, np.zeros(3)])))
def test_registrations_with_other_constants_are_refused_or_are_registrations(constants):
    with contextlib.suppress(ValueError):
        read(GRAPH, constants)


# Changed on purpose


def scalar(**changed):
    """A node that is a number."""
    value = {"array": {"dtype": "float32", "shape": [], "data": bytes(4)}}
    made = {"op": "constant", "name": "c", "in": [], "out": [["float32", 0]], "by": 0, "attr": {"value": value}}
    return made | changed


def node(op, inputs=(), out=(("float32", 0),), **changed):
    return {"op": op, "name": "n", "in": [list(i) for i in inputs], "out": [list(o) for o in out], "by": 0} | changed


def flow(*nodes, **changed):
    made = {"nodes": list(nodes), "feeds": [], "fetches": [[len(nodes) - 1, 0]], "targets": [], "shapes": [[]]}
    return made | {"by": [["o", "op", ["f.py", 1, "g"], 1, None]]} | changed


def nested(depth, kind):
    """A Spec of a list of lists of lists, or of handles to handles."""
    spec = ["float32", 0]
    for _ in range(depth):
        spec = ["list", [spec], None, False, False, True] if kind == "list" else [kind, [spec]]
    return spec


def block(*nodes, fetches=((0, 0),), takes=(), feeds=()):
    made = {"nodes": list(nodes), "feeds": list(feeds), "targets": [], "takes": list(takes)}
    return made | {"fetches": [list(fetch) for fetch in fetches]}


TRUE = scalar(out=[["bool", 0]], attr={"value": {"array": {"dtype": "bool", "shape": [], "data": b"\1"}}})
OF_LOOP = {"limited": False, "variables": 1, "replays": 0, "parallel_iterations": 10, "swap_memory": False}
OF_LOOP |= {"back_prop": True}
STARTED = (((0, 0),), (("float32", 0), ("int32", 0)))


def loop(*blocks, given=STARTED[0], out=STARTED[1], **attrs):
    return flow(scalar(), node("while_loop", given, out, attr=OF_LOOP | attrs, blocks=list(blocks)))


REFUSED = {
    "no such op": (flow(node("launch_missiles")), "no op 'launch_missiles', which 'n' is"),
    "an op that is none": (flow(node(["add"])), "no op 1 of list"),
    "an attribute of a later version": (flow(scalar(attr={"colour": 1})), "constant has no attribute 'colour'"),
    "an attribute that is missing": (flow(scalar(attr={})), r"'c' \(constant\): attribute value is missing"),
    "all of a send": (flow(scalar(), node("send", [(0, 0)], []), fetches=[]), "edge, .* position is missing"),
    "an attribute of another type": (
        flow(scalar(), node("reduce_sum", [(0, 0)], attr={"keepdims": "yes"})), "'yes' cannot be .*'keepdims'"),
    "too few inputs": (flow(scalar(), node("add", [(0, 0)])), r"'n' \(add\): it takes 2 inputs, and has 1"),
    "too many inputs": (flow(scalar(), node("add", [(0, 0)] * 3)), r"it takes 2 inputs, and has 3"),
    "inputs of other dtypes": (flow(scalar(), TRUE, node("add", [(0, 0), (1, 0)])), "dtypes float32 and bool differ"),
    "another dtype than it makes": (
        flow(scalar(out=[["float64", 0]])), r"'c' \(constant\): it makes float32\[\], not float64\[\]"),
    "more than it makes": (flow(scalar(), node("tanh", [(0, 0)], [("float32", 0)] * 3)), "it makes float32.*, not"),
    "less than it makes": (flow(scalar(), node("tanh", [(0, 0)], []), fetches=[]), "it makes float32.*, not nothing"),
    "a number for a handle": (flow(scalar(), node("queue_dequeue", [(0, 0)])), "a handle to a queue is needed"),
    "a constant that does not fit": (
        flow(scalar(attr={"value": {"array": {"dtype": "float32", "shape": [9], "data": b"x"}}})), "has 36 bytes"),
    "an array that is not there": (flow(scalar(attr={"value": {"beside": 7}})), "7 is not an index of"),
    "what comes later": (flow(node("tanh", [(1, 0)]), scalar()), "'n' needs 'c', which comes later"),
    "itself": (flow(node("tanh", [(0, 0)])), "'n' needs 'n', which comes later"),
    "a node that is not there": (flow(node("tanh", [(5, 0)])), "5 is not an index of 1 entr"),
    "an output that is not there": (flow(scalar(), node("tanh", [(0, 4)])), "4 is not an index of 1 entr"),
    "a node before the first": (flow(scalar(), node("tanh", [(-1, 0)])), "-1 is not an index of 2 entr"),
    "an origin before the first": (flow(scalar(by=-1)), "-1 is not an index of 1 entr"),
    "an origin that is its own": (flow(scalar(), by=[["o", "op", None, 1, 0]]), "0 is not an index of 0 entr"),
    "a size below 0": (flow(scalar(), shapes=[[-5]]), "a dimension cannot be negative: -5"),
    "a shape that is none": (flow(scalar(), shapes=["x"]), "'x' is not a shape"),
    "a known value that is none": (flow(scalar(out=[["float32", 0, "x"]])), "'x' is not a known value"),
    "a list of that size": (flow(scalar(out=[["list", [["float32", 0]], "x", 1, 2, 3]])), "is not the size of a list"),
    "lists in lists": (flow(scalar(out=[nested(200, "list")])), "nested more than 32 deep"),
    "handles in handles": (flow(scalar(out=[nested(400, "resource")])), "nested more than 32 deep"),
    "blocks of a tanh": (flow(scalar(), node("tanh", [(0, 0)], blocks=[block(scalar())] * 2)), "it runs no blocks"),
    "a branch without branches": (flow(TRUE, node("cond", [(0, 0)], blocks=[])), "then, otherwise is missing"),
    "a branch with one": (flow(TRUE, node("cond", [(0, 0)], blocks=[block(scalar())])), "it has 1 blocks"),
    "a branch by a number": (flow(scalar(), node("cond", [(0, 0)], blocks=[block(scalar())] * 2)), "not bool"),
    "a branch that makes something else": (
        flow(TRUE, node("cond", [(0, 0)], blocks=[block(scalar()), block(TRUE)])), "branch makes bool.*, not float32"),
    "a branch that takes what is not there": (
        flow(TRUE, node("cond", [(0, 0)], blocks=[block(scalar(), feeds=[0], takes=[4])] * 2)), "4 is not an index of"),
    "a branch that takes something else": (
        flow(TRUE, node("cond", [(0, 0)], blocks=[block(scalar(), feeds=[0], takes=[0])] * 2)), "a block takes bool"),
    "a loop that makes something else": (loop(block(TRUE), block(TRUE)), "its body makes bool.*, not float32"),
    "a loop that lasts while it is a number": (loop(block(scalar()), block(scalar())), "its condition makes float32"),
    "a loop of more than it has": (loop(block(TRUE), block(scalar()), variables=9), "are not those of 9 variables"),
    "a loop of less than nothing": (loop(block(TRUE), block(scalar()), variables=-1), "are not those of -1 variables"),
    "a loop that replays what is no list": (
        loop(block(TRUE), block(scalar()), given=[(0, 0)] * 2, replays=1), "the flow of a TensorArray is needed"),
    "a loop that records what is no list": (
        loop(block(TRUE), block(scalar()), out=(("float32", 0), ("int32", 0), ("float32", 0))), "the flow of a Tensor"),
    "a loop that starts with something else": (
        loop(block(TRUE), block(scalar()), out=(("bool", 0), ("int32", 0))), "it starts with float32.*, not bool"),
    "a loop with a limit that is no integer": (loop(block(TRUE), block(scalar()), limited=True, variables=0), "limit"),
    "no nodes": ({}, "malformed flow: 'by' is missing"),
    "a list": ([], "malformed flow: list indices"),
}  # fmt: skip
PARTS = {
    "a device that is none": ({"device": ["CPU"]}, "1 of list is not a device"),
    "a fetch that is left out": ({"fetches": [1]}, "its fetches are not numbered from 0 on"),
    "a fetch before the first": ({"fetches": [-1]}, "its fetches are not numbered from 0 on"),
    "a fetch that is not a number": ({"fetches": ["a"]}, "its fetches are not numbered from 0 on"),
    "a feed that is none": ({"feeds": [0]}, "other feeds or fetches than its flow"),
    "more arrays than there are": ({"arrays": [1 << 60]}, "'1152921504606846976' is missing"),
    "no flow": ({"flow": None}, "malformed flow"),
}


def document(**part):
    return {"parts": [{"device": DEVICE, "feeds": [], "fetches": [0], "arrays": []} | part], "counted": [], "below": []}


@pytest.mark.parametrize(("plain", "text"), REFUSED.values(), ids=REFUSED)
def test_a_flow_that_lies_is_refused_by_name(plain, text):
    with pytest.raises(ValueError, match=text):
        read(document(flow=plain))


@pytest.mark.parametrize(("changed", "text"), PARTS.values(), ids=PARTS)
def test_a_part_that_is_none_is_refused(changed, text):
    with pytest.raises(ValueError, match=text):
        read(document(**{"flow": flow(scalar())} | changed), {})


@pytest.mark.parametrize("counted", [5, [1], [None], None])
def test_operations_that_are_counted_have_names(counted):
    with pytest.raises(ValueError, match="malformed graph"):
        read({"parts": [], "counted": counted})


@pytest.mark.parametrize(
    "data", [b"\x91" * 5000, b"\x81\xa1a" * 5000, b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff"]
)
def test_what_is_nested_without_end_or_announced_and_not_there_takes_no_memory(data):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with them
        read(data)


def test_a_long_line_of_origins_is_read_and_compared_without_end():
    origins = [["o", "op", None, 1, None], *[["o", "op", None, 1, index] for index in range(20_000)]]
    (part,) = read(document(flow=flow(scalar(by=20_000), by=origins)), {}).parts
    (found,) = part.flow.nodes
    assert len({found.operation, found.operation.origin}) == 2
    assert len(repr(found.operation)) < 200
