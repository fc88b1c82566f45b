"""What nodes and transfers cost: estimated, measured, kept in a file."""

import dataclasses
import json

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.cost_model import LINKS, CostModel, Link
from aioflow.plan.op_cost import Rates, Site
from aioflow.plan.passes.prune import prune
from aioflow.runtime.device_executor import DeviceExecutor
from aioflow.tensors.dtypes import DeviceKind
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from aioflow.tracing import NodeStats, Trace, Transfer
from tests.support.doubles import light

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
HERE = "/job:localhost/replica:0/task:0"
THERE = "/job:localhost/replica:0/task:1"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def site(name):
    return Site.from_string(name)


def nodes_of(*fetches):
    """The flow of these fetches, and its nodes by name."""
    flow = prune([], fetches, [])
    return flow, {node.name: node for node in flow.nodes}


def products(*sizes):
    """Matrix products of these sizes, with their flow."""
    made = [af.matmul(af.ones([size, size]), af.ones([size, size]), name=f"of_{size}") for size in sizes]
    return nodes_of(*made)


def stats(node, seconds, device=f"{HERE}/device:CPU:0", waits=False):
    return NodeStats(node.name, node.definition.name, device, 1.0, 1.0, 1.0 + seconds, 0, 1, waits)


def test_a_node_is_estimated_by_its_operations_and_bytes_and_the_rates_of_the_device():
    rates = {CPU: Rates(1.0, 100.0, 1000.0), GPU: Rates(2.0, 1000.0, 1e6)}
    _, nodes = products(10)
    model = CostModel(rates)
    assert model.seconds(nodes["of_10"], CPU) == 1.0 + 3 * 400 / 100 + 2 * 10**3 / 1000
    assert model.seconds(nodes["of_10"], GPU) == 2.0 + 3 * 400 / 1000 + 2 * 10**3 / 1e6


def test_a_branch_costs_what_the_longer_one_does_and_a_loop_several_rounds():
    x = af.placeholder(af.float32, [200, 200])
    long, short = lambda: af.matmul(x, af.matmul(x, x)), lambda: af.matmul(x, x)
    branch = af.cond(af.reduce_sum(x) > 0, long, short)
    loop = af.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, af.matmul(y, y)], [0, x])[1]
    flow = prune([x], [branch, loop, long()], [])
    costs = {node.definition.name: CostModel().seconds(node, CPU) for node in flow.nodes}
    assert costs["cond"] == pytest.approx(2 * costs["matmul"])
    assert 10 * costs["matmul"] < costs["while_loop"] < 20 * costs["matmul"]


@pytest.mark.parametrize(
    ("source", "target", "link"),
    [
        (f"{HERE}/device:CPU:0", f"{HERE}/device:CPU:1", "process"),
        (f"{HERE}/device:CPU:0", f"{HERE}/device:GPU:0", "bus"),
        (f"{HERE}/device:GPU:0", f"{HERE}/device:CPU:1", "bus"),
        (f"{HERE}/device:GPU:0", f"{HERE}/device:GPU:1", "peer"),
        (f"{HERE}/device:CPU:0", f"{THERE}/device:CPU:0", "network"),
        (f"{HERE}/device:GPU:0", f"{THERE}/device:GPU:0", "network"),
    ],
)
def test_a_transfer_takes_what_the_link_between_the_devices_does(source, target, link):
    model = CostModel(links={name: Link(index + 1.0, 10.0) for index, name in enumerate(LINKS)})
    assert model.transfer(20, site(source), site(target)) == list(LINKS).index(link) + 1.0 + 2.0


def test_nothing_is_transferred_within_a_device():
    assert CostModel().transfer(1 << 30, site(f"{HERE}/device:GPU:0"), site(f"{HERE}/device:GPU:0")) == 0


def test_the_median_of_what_was_measured_replaces_the_estimate_for_all_that_is_alike():
    flow, nodes = products(10, 20)
    _, others = products(10, 30)
    model = CostModel()
    model.learn(flow.nodes, [stats(nodes["of_10"], seconds) for seconds in (5.0, 90.0, 4.0)])
    assert model.seconds(others["of_10_1"], CPU) == 5.0
    for node in (others["of_30"], nodes["of_20"]):
        assert model.seconds(node, CPU) == CostModel().seconds(node, CPU)
    assert model.seconds(nodes["of_10"], GPU) == CostModel().seconds(nodes["of_10"], GPU)


def test_only_the_latest_measurements_count():
    flow, nodes = products(10)
    model = CostModel()
    for seconds in [100.0] * 20 + [2.0] * 15:
        model.learn(flow.nodes, [stats(nodes["of_10"], seconds)])
    assert model.seconds(nodes["of_10"], CPU) == 2.0


def test_a_measurement_on_one_kind_of_device_says_nothing_of_another():
    flow, nodes = products(10)
    model = CostModel()
    model.learn(flow.nodes, [stats(nodes["of_10"], 3.0, f"{HERE}/device:GPU:0")])
    assert model.seconds(nodes["of_10"], GPU) == 3.0
    assert model.seconds(nodes["of_10"], CPU) < 1.0


def test_what_may_have_waited_and_what_is_not_among_the_nodes_teaches_nothing():
    flow, nodes = products(10)
    model = CostModel()
    stranger = NodeStats("stranger", "tanh", f"{HERE}/device:CPU:0", 0.0, 0.0, 9.0, 0, 1, False)
    namesake = dataclasses.replace(stats(nodes["of_10"], 9.0), op_type="tanh")
    model.learn(flow.nodes, [stats(nodes["of_10"], 9.0, waits=True), stranger, namesake])
    assert repr(model) == "<CostModel: 0 measured>"


def test_transfers_teach_latency_by_small_values_and_the_rate_by_large_ones():
    model = CostModel()
    cpu, gpu = f"{HERE}/device:CPU:0", f"{HERE}/device:GPU:0"
    small = [Transfer("k", cpu, gpu, 8, 0.0, 0.0, took, (1, 1)) for took in (0.5, 0.5, 70.0)]
    large = [Transfer("k", cpu, gpu, 1 << 20, 0.0, 3.0, 4.5, (1, 1))]
    model.learn([], [], small + large)
    assert model.transfer(0, site(cpu), site(gpu)) == 0.5
    assert model.transfer(1 << 20, site(gpu), site(cpu)) == 1.5
    assert model.link("process") == LINKS["process"]


# Sessions


TRACE = af.RunOptions(trace=True)
TWO = {"CPU": 2}


@pytest.fixture
def slow(monkeypatch):
    """A tensor equal to another one, whose kernel is thought to be quick and takes 50 ms, on a clock of its own."""
    now = 0.0

    def clock():
        return now

    def kernel(value):
        nonlocal now
        now += 0.05
        return value

    monkeypatch.setattr(Trace, "now", staticmethod(clock))
    monkeypatch.setattr(DeviceExecutor, "clock", staticmethod(clock))
    return lambda x, name=None: light(x, kernel, name=name)


async def places(session, fetches, *feeds):
    """The device of each operation that a call would run, by its number."""
    found = (await session.placement(fetches, feeds)).devices
    return {name: int(device.rpartition(":")[2]) for name, device in found.items()}


async def test_a_traced_run_teaches_its_session_what_its_nodes_took(graph):
    x = af.placeholder(af.float32, [8, 8])
    y = af.matmul(x, x)
    metadata = af.RunMetadata()
    async with af.Session(graph=graph) as session:
        run = session.make_callable(y, [x])
        await run(np.eye(8), options=TRACE, metadata=metadata)
        (took,) = [each.busy for each in metadata.step_stats if each.op_type == "matmul"]
        _, nodes = nodes_of(y)
        assert session.cost_model.seconds(nodes[y.op.name], CPU) == took
        await run(np.eye(8))
        assert session.cost_model.seconds(nodes[y.op.name], CPU) == took


@pytest.mark.parametrize("kept", [True, False])
async def test_each_run_teaches_once_whether_its_metadata_is_kept_or_used_again(graph, slow, kept):
    y = slow(af.placeholder(af.float32, [], name="x"))
    metadata = af.RunMetadata() if kept else None
    async with af.Session(graph=graph) as session:
        for _ in range(3):
            await session.run(y, {"x:0": 1.0}, TRACE, metadata)
        (row,) = [line.split() for line in str(session.cost_model).splitlines() if "test_light(" in line]
        assert row[:3] == ["50", "ms", "3"]


async def test_what_runs_in_loops_and_branches_is_learnt_from_each_time_it_does(graph, slow):
    def body(i, y):
        return i + 1, af.cond(i > 0, lambda: slow(y), lambda: y)

    x = af.placeholder(af.float32, [3])
    y = af.while_loop(lambda i, _: i < 4, body, [0, x])[1]
    async with af.Session(graph=graph) as session:
        await session.run(y, {x: np.ones(3)}, TRACE)
        (row,) = [line.split() for line in str(session.cost_model).splitlines() if "test_light(" in line]
        assert row[:3] == ["50", "ms", "3"]


async def test_a_run_of_many_nodes_teaches_too(graph, slow):
    y = af.placeholder(af.float32, [], name="x")
    for _ in range(300):
        y = slow(y)
    async with af.Session(graph=graph) as session:
        await session.run(y, {"x:0": 1.0}, TRACE)
        assert any(
            "test_light(" in line and line.split()[:2] == ["50", "ms"] for line in str(session.cost_model).split("\n")
        )


async def test_what_proves_slow_moves_when_placed_anew_and_state_stays(graph, slow):
    x = af.placeholder(af.float32, [], name="x")
    v = af.Variable(1.0, name="v")
    one, other = slow(x + v, name="one"), slow(x - v, name="other")
    update = v.assign_add(one * other)
    async with af.Session(graph=graph, config=af.Config(device_count=TWO)) as session:
        await session.run(v.initializer)
        before = await places(session, update, x)
        assert before["one"] == before["other"]
        assert await session.run(update, {x: 3.0}, TRACE) == 9.0
        assert await places(session, update, x) != before  # as it would be placed now; what was planned stays
        await session.replan()
        after = await places(session, update, x)
        assert after["one"] != after["other"]
        state = ["v", "read_variable", "assign_add_variable"]
        assert [after[name] for name in state] == [before[name] for name in state]
        metadata = af.RunMetadata()
        assert await session.run(update, {x: 10.0}, TRACE, metadata) == 28.0
        ran = {stats.name: int(stats.device[-1]) for stats in metadata.step_stats}
        assert {name: ran[name] for name in after} == after
        assert metadata.transfers


async def test_what_was_learnt_and_saved_places_alike_in_another_session(graph, slow, tmp_path):
    x = af.placeholder(af.float32, [], name="x")
    total = slow(x, name="one") + slow(x, name="other")
    async with af.Session(graph=graph, config=af.Config(device_count=TWO)) as session:
        alike = await places(session, total, x)
        await session.run(total, {x: 1.0}, TRACE)
        learnt = await places(session, total, x)
        session.cost_model.save(tmp_path / "costs.json")
    assert learnt != alike
    for model, expected in ((CostModel.load(tmp_path / "costs.json"), learnt), (None, alike)):
        async with af.Session(graph=graph, config=af.Config(device_count=TWO, cost_model=model)) as session:
            assert await places(session, total, x) == expected


async def test_of_a_gpu_its_kernels_teach_and_what_is_copied_does_not(graph):
    gpu = FakeGpu(Machine())
    x = af.placeholder(af.float32, [8, 8], name="x")
    with af.device("/gpu:0"):
        y = af.matmul(x, x)
    with af.device("/cpu:0"):
        z = af.exp(y)
    metadata = af.RunMetadata()
    async with af.Session(graph=graph, config=af.Config(gpus=[gpu])) as session:
        await session.run(z, {x: np.eye(8)}, TRACE, metadata)
        model = session.cost_model
    assert metadata.transfers
    (took,) = [stats.busy for stats in metadata.step_stats if stats.op_type == "matmul"]
    _, nodes = nodes_of(y)
    assert model.seconds(nodes[y.op.name], GPU) == took
    assert model.seconds(nodes[y.op.name], CPU) != took
    assert model.link("bus") == LINKS["bus"]


# Files


def test_what_was_saved_is_loaded_again(tmp_path):
    flow, nodes = products(10)
    model = CostModel({GPU: Rates(0.0, 2.0, 3.0)}, {"peer": Link(0.0, 5.0)})
    transfer = Transfer("k", f"{HERE}/device:CPU:0", f"{HERE}/device:CPU:1", 8, 0.0, 0.0, 0.25, (1, 1))
    model.learn(flow.nodes, [stats(nodes["of_10"], seconds) for seconds in (6.0, 0.0, 7.0)], [transfer])
    model.save(tmp_path / "costs.json")
    loaded = CostModel.load(tmp_path / "costs.json")
    assert str(loaded) == str(model)
    assert loaded.seconds(nodes["of_10"], CPU) == 6.0
    assert loaded.link("process").latency == 0.25


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"rates": 3}, TypeError, "rates are by CPU, GPU, not 3"),
        ({"rates": {"XPU": Rates(1, 1, 1)}}, ValueError, "rates are by CPU, GPU, not 'XPU'"),
        ({"rates": {"CPU": 3}}, TypeError, r"rates\['CPU'\] must be Rates, not 3"),
        ({"rates": {"CPU": Rates(-1, 1, 1)}}, ValueError, r"rates\['CPU'\].per_call is at least 0, and cannot be -1"),
        ({"rates": {"CPU": Rates(1, 0, 1)}}, ValueError, r"rates\['CPU'\].bytes_per_second is above 0"),
        ({"rates": {"CPU": Rates(1, 1, "fast")}}, TypeError, r"operations_per_second is a number, not 'fast'"),
        ({"links": {"foo": Link(1, 1)}}, ValueError, "links are by process, bus, peer, network, not 'foo'"),
        ({"links": {"bus": (1, 1)}}, TypeError, r"links\['bus'\] must be Link, not \(1, 1\)"),
        ({"links": {"bus": Link(float("nan"), 1)}}, ValueError, r"links\['bus'\].latency is at least 0"),
    ],
)
def test_figures_that_cannot_be_are_refused_by_name(given, error, said):
    with pytest.raises(error, match=said):
        CostModel(**given)


def damaged(**changes):
    plain = {"rates": {}, "links": {}, "latencies": {}, "bandwidths": {}, "measured": {}}
    return json.dumps(plain | changes)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Expecting value"),
        ("[]", "holds no cost model"),
        ("[" * 100_000 + "]" * 100_000, "holds no cost model: RecursionError"),
        ("{}", "rates"),
        (damaged(rates={"TPU": {}}), "TPU"),
        (damaged(rates={"CPU": {"per_call": 1}}), "missing"),
        (damaged(rates={"CPU": {"per_call": -1, "bytes_per_second": 1, "operations_per_second": 1}}), "-1"),
        (damaged(links={"wire": [1, 2]}), "'wire' is not a link; the links are process, bus, peer, network"),
        (damaged(links={"bus": [1, "fast"]}), "'fast' is not a number"),
        (damaged(links={"bus": [1]}), "not enough values"),
        (damaged(measured={"CPU": {"matmul": [True]}}), "True is not a number"),
        (damaged(measured={"CPU": {"matmul": []}}), "holds no cost model"),
        (damaged(latencies={"bus": 3}), "holds no cost model"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_by_name(tmp_path, text, complaint):
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint) as caught:
        CostModel.load(path)
    assert str(path) in str(caught.value)


def test_the_table_shows_rates_links_and_what_took_longest_first():
    flow, nodes = products(10, 20)
    model = CostModel()
    assert "no measurements: all times are estimates" in str(model)
    model.learn(flow.nodes, [stats(nodes["of_10"], 2e-6), stats(nodes["of_20"], 5e-6)])
    lines = str(model).splitlines()
    assert any(line.split()[0] == "network" for line in lines if line)
    assert [line.split()[:2] for line in lines[-2:]] == [["5", "us"], ["2", "us"]]
    assert "matmul(float32[20, 20], float32[20, 20]) -> (float32[20, 20])" in lines[-2]
