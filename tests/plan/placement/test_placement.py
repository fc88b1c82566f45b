"""Where nodes are put by simulating the step: how good that is, and what is said of it."""

import itertools
import random
import re
import statistics

import pytest

import aioflow as af
from aioflow.plan.cost_model import CostModel, Link
from aioflow.plan.op_cost import Rates
from aioflow.plan.placement.constraints import demands
from aioflow.plan.placement.refinement import place
from aioflow.plan.placement.simulation import Layout, peaks, simulate, simulate_shorter
from aioflow.plan.placement.work import Work
from aioflow.tensors.dtypes import DeviceKind
from tests.support.placements import GPU, HERE, Told, flow_of, only_cpu, short, sites, work
from tests.support.scale import amount

MIB = 1 << 20
LONG = (1.0, 1.0)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def placed(flow, devices, model=None, **options):
    """The short name of the device of each node, by the node's name."""
    found = place(flow, devices, model or Told(), **options)
    return {node.name: short(device) for node, device in found.devices.items()}


def step(flow, devices, places, model=None):
    """The simulated step with these places, and its peaks."""
    model = model or Told()
    layout = Layout(devices, model)
    numbers = Work(flow, demands(flow, devices, soft=False, homes={}), layout.kinds, model)
    timeline = simulate(numbers, layout, places)
    return timeline, peaks(numbers, layout, places, timeline)


def same_link(latency, rate):
    return Told(links=dict.fromkeys(("process", "bus", "peer", "network"), Link(latency, rate)))


# The simulated step


def test_nodes_of_one_device_run_one_after_the_other_in_the_order_they_were_built():
    a, b = work([], LONG), work([], (2.0, 2.0))
    timeline, _ = step(flow_of(a, b), sites(2), [0, 0])
    assert timeline.start == [0.0, 1.0]
    assert timeline.makespan == 3.0


def test_a_value_is_read_elsewhere_after_its_transfer_and_the_last_one_comes_back():
    a = work([], LONG, elements=250)
    b = work([a], LONG, elements=250)
    timeline, _ = step(flow_of(b), sites(2), [0, 1], same_link(0.5, 1000.0))
    assert timeline.start == [0.0, 1.0 + 0.5 + 1.0]
    assert timeline.makespan == 3.5 + 0.5 + 1.0


def test_what_is_fed_comes_from_the_client():
    x = af.placeholder(af.float32, [250])
    timeline, _ = step(flow_of(work([x], LONG), feeds=[x]), sites(2), [1], same_link(0.5, 1000.0))
    assert timeline.start == [1.5]


def test_what_is_too_short_for_a_thread_gains_nothing_on_another_cpu_of_the_task():
    ends = [work([], (1e-6, 1e-6)) for _ in range(2)]
    model = same_link(0.0, 1.0)
    here, _ = step(flow_of(*ends), sites(2), [0, 1], model)
    assert max(here.end) == 2e-6
    elsewhere, _ = step(flow_of(*ends), sites(1, tasks=2), [0, 1], model)
    assert max(elsewhere.end) == 1e-6


@pytest.mark.parametrize(("tasks", "copied"), [(1, 0), (2, 2)])
def test_the_peak_counts_state_values_until_their_last_use_and_copies_in_other_tasks(tasks, copied):
    variable = af.Variable(af.zeros([MIB // 4]), name="v")  # 1 MiB
    a = work([variable.read_value()], LONG, elements=MIB // 2)  # 2 MiB
    b = work([a], LONG, elements=1)
    c = work([b], LONG, elements=3 * MIB // 4)
    _, (here, there) = step(flow_of(c), sites(2 // tasks, tasks=tasks), [0, 0, 0, 1, 0])
    assert here == pytest.approx(1 * MIB + 3 * MIB, abs=100)
    assert there == pytest.approx(copied * MIB, abs=100)


# Where nodes go


def test_branches_that_take_long_go_to_different_devices():
    ends = [work([work([], LONG)], LONG) for _ in range(3)]
    found = placed(flow_of(*ends), sites(3))
    assert len({found[end.op.name] for end in ends}) == 3
    assert all(found[end.op.name] == found[end.op.inputs[0].op.name] for end in ends)


def test_what_takes_no_longer_than_a_transfer_stays_with_the_client():
    x = af.placeholder(af.float32, [10])
    y = x
    for _ in range(20):
        y = af.tanh(y) + af.exp(y)
    assert set(placed(flow_of(y, feeds=[x]), sites(4, 1), CostModel()).values()) == {"CPU:0"}


def test_large_products_go_to_the_gpu_and_small_ones_do_not():
    large, small = (af.placeholder(af.float32, [size, size], name=f"x{size}") for size in (2000, 4))
    ends = [af.matmul(x, x, name=f"of_{x.op.name}") for x in (large, small)]
    found = placed(flow_of(*ends, feeds=[large, small]), sites(1, 1), CostModel())
    assert found == {"of_x2000": "GPU:0", "of_x4": "CPU:0"}


def test_a_device_that_is_twice_as_fast_is_used_first():
    end = work([], (2.0, 1.0))
    assert placed(flow_of(end), sites(2, 2))[end.op.name] == "GPU:0"


def test_of_equal_devices_it_is_the_one_of_the_inputs_then_the_first():
    with af.device("/cpu:1"):
        a = work([], LONG, name="a")
    b = work([a], LONG, name="b")
    c = work([], LONG, name="c")
    model = Told(links={"process": Link(0.0, float("inf"))})
    assert placed(flow_of(b), sites(3), model) == {"a": "CPU:1", "b": "CPU:1"}
    assert placed(flow_of(c), sites(3), model) == {"c": "CPU:0"}


def test_what_is_made_of_nothing_goes_where_it_is_first_used():
    variable = af.Variable([1.0], name="v")
    with af.device("/cpu:2"):
        work([variable.read_value()], LONG)
        end = work([af.random_uniform([4], name="random")], LONG)
    with af.device("/cpu:1"):
        used = work([variable.read_value()], LONG)
    found = placed(flow_of(end, used), sites(3))
    assert found["random/uniform" if "random/uniform" in found else "random"] == "CPU:2"
    assert found["v"] == "CPU:1"


def test_what_asks_for_a_shape_goes_where_the_tensor_is():
    with af.device("/cpu:1"):
        tensor = work([], LONG)
    asked = [af.shape(tensor, name="shape"), af.size(tensor, name="size"), af.rank(tensor, name="rank")]
    found = placed(flow_of(*[work([each], LONG) for each in asked]), sites(3))
    assert {found[name] for name in ("shape", "size", "rank") if name in found} == {"CPU:1"}


def test_a_group_goes_where_its_first_placed_member_ends_first():
    with af.device("/cpu:1"):
        large = work([], LONG, elements=MIB)
    variable = af.Variable(af.zeros([MIB]), name="v")
    update = variable.assign_add(large)
    found = placed(flow_of(targets=[update.op]), sites(3), Told(links={"process": Link(1e-3, 1e6)}))
    assert found["v"] == found[update.op.name] == "CPU:1"


def test_a_device_that_is_full_is_passed_over():
    variables = [af.Variable(af.zeros([MIB // 4]), name=f"v{i}") for i in range(4)]  # 1 MiB each
    reads = flow_of(*[each.read_value() for each in variables])
    free = placed(reads, sites(2))
    assert {free[f"v{i}"] for i in range(4)} == {"CPU:0"}
    limited = placed(reads, sites(2, memory={"CPU:0": 2 * MIB, "CPU:1": 2 * MIB}))
    assert sorted(limited[f"v{i}"] for i in range(4)) == ["CPU:0", "CPU:0", "CPU:1", "CPU:1"]


def test_where_nothing_fits_it_is_put_where_most_is_left():
    end = work([], LONG, elements=10 * MIB)
    flow = flow_of(end)
    found = place(flow, sites(2, memory={"CPU:0": MIB, "CPU:1": 2 * MIB}), Told())
    assert short(found.devices[flow.nodes[-1]]) == "CPU:1"
    assert found.reasons[flow.nodes[-1]] == "no device has enough memory, this one has most"


def test_measurements_change_where_nodes_go():
    x = af.placeholder(af.float32, [2000, 2000])
    flow = flow_of(af.matmul(x, x, name="y"), feeds=[x])
    assert placed(flow, sites(1, 1), CostModel())["y"] == "GPU:0"
    assert placed(flow, sites(1, 1), CostModel({GPU: Rates(10.0, 1.0, 1.0)}))["y"] == "CPU:0"


# Many devices


@pytest.mark.parametrize(("cpus", "gpus"), [(64, 0), (48, 16)])
def test_many_devices_share_a_wide_graph(cpus, gpus):
    ends = [work([work([], (2.0, 1.0))], (2.0, 1.0)) for _ in range(96)]
    found = placed(flow_of(*ends), sites(cpus, gpus))
    assert len(set(found.values())) == cpus + gpus


# How good it is


def random_flow(draw: random.Random, nodes: int, size: float):
    """A random graph whose nodes take about 100 us and make values that take about `size` times as long to transfer."""
    tensors: list[af.Tensor] = []
    for _ in range(nodes):
        inputs = draw.sample(tensors, min(len(tensors), draw.choice([0, 1, 1, 2, 2, 3])))
        seconds = 100e-6 * draw.lognormvariate(0, 1)
        elements = int(100e-6 * size * draw.lognormvariate(0, 1) * 1e9 / 4) + 1
        tensors.append(work(inputs, (seconds, seconds * draw.choice([0.1, 0.5, 1, 3])), elements))
    return flow_of(targets=[tensor.op for tensor in tensors if not tensor.consumers()])


def best(flow, devices, model):
    """The shortest of all steps that there are, whatever is put where."""
    layout = Layout(devices, model)
    numbers = Work(flow, demands(flow, devices, soft=False, homes={}), layout.kinds, model)
    everything = itertools.product(range(len(devices)), repeat=len(numbers.nodes))
    return min(simulate(numbers, layout, places).makespan for places in everything)


@pytest.mark.parametrize(("cpus", "gpus", "nodes"), [(2, 0, 8), (3, 0, 5), (1, 1, 8), (2, 1, 5)])
def test_small_random_graphs_are_placed_nearly_as_well_as_can_be(cpus, gpus, nodes):
    ratios = []
    for seed, size in itertools.product(range(amount(2, 5)), (0.1, 1.0, 5.0)):
        with af.Graph().as_default():
            flow = random_flow(random.Random(seed), nodes, size)
        model = same_link(20e-6 * size, 1e9)
        ratios.append(place(flow, sites(cpus, gpus), model).makespan / best(flow, sites(cpus, gpus), model))
    assert min(ratios) >= 1 - 1e-9
    assert statistics.median(ratios) <= 1.15
    assert max(ratios) <= 2


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_step_that_takes_too_long_is_not_simulated_to_its_end(gpus):
    devices, model, draw = sites(2, gpus), same_link(20e-6, 1e9), random.Random(gpus)
    layout, cut_short = Layout(devices, model), 0
    for _ in range(20):
        with af.Graph().as_default():
            flow = random_flow(draw, 12, 1.0)
        numbers = Work(flow, demands(flow, devices, soft=False, homes={}), layout.kinds, model)
        places = [draw.randrange(len(devices)) for _ in numbers.nodes]
        whole = simulate(numbers, layout, places)
        assert simulate_shorter(numbers, layout, places, whole.makespan * 1.001) == whole
        for limit in (whole.makespan, whole.makespan * 0.7, whole.makespan * 0.1):
            assert simulate_shorter(numbers, layout, places, limit) is None
        numbers.users = None  # a look at a second node fails
        try:
            simulate_shorter(numbers, layout, places, whole.makespan * 0.1)
        except TypeError:
            continue
        cut_short += 1
    assert cut_short > 10


# The report


def test_the_report_has_a_line_for_each_node_with_its_reason():
    with af.device("/cpu:1"):
        a = work([], LONG, name="a")
    flow = flow_of(work([a], (2.0, 5.0), name="b"), only_cpu([work([], LONG, name="c")], name="d"))
    found = place(flow, sites(2, 1), Told())
    lines = str(found.report()).splitlines()
    assert lines[0].startswith("Placement of 4 nodes on 2 devices, estimated to take ")
    assert lines[1].split() == ["a", "test_work", f"{HERE}/device:CPU:1", "asked", "for", "/device:CPU:1"]
    reasons = {node.name: reason for node, reason in found.reasons.items()}
    assert re.fullmatch(r"ends first, at 3 s; on .*CPU:0 at 3 s", reasons["b"])
    assert reasons["d"].startswith("kernels for CPU alone; ends first, at ")
    assert len(lines) == 1 + len(found.reasons) == 5


def test_the_report_says_that_all_is_on_one_device_because_that_takes_least():
    flow = flow_of(work([work([], (30e-6, 1.0)), work([], (30e-6, 1.0))], (30e-6, 1.0)))
    found = place(flow, sites(3), Told())
    assert set(found.reasons.values()) == {"the step is shortest with all that may be on this one device"}


def test_the_only_device_needs_no_simulation(monkeypatch):
    monkeypatch.setattr(CostModel, "seconds", None)
    flow = flow_of(work([]))
    found = place(flow, sites(1), CostModel())
    assert set(found.devices.values()) == {f"{HERE}/device:CPU:0"}
    assert set(found.reasons.values()) == {"the only device"}
    assert repr(found.report()) == "<Placement of 1 nodes on 1 device>"


def test_an_empty_flow_is_placed():
    assert place(flow_of(), sites(2), Told()).devices == {}


def test_devices_without_a_cpu_have_the_first_one_as_their_client():
    end = work([])
    assert placed(flow_of(end), sites(0, 2)) == {end.op.name: f"{DeviceKind.GPU}:0"}


async def test_variables_of_several_plans_are_put_where_there_is_room_for_them():
    limits = {f"CPU:{index}": 2_500_000 for index in range(4)}
    with af.Graph().as_default() as graph:
        variables = [af.Variable(af.fill([250_000], float(index))) for index in range(4)]
    config = af.Config(device_count={"CPU": 4}, memory_limit=limits, optimize=False)
    async with af.Session(graph=graph, config=config) as session:
        for variable in variables:
            await session.run(variable.initializer)
        assert [value[0] for value in await session.run(variables)] == [0, 1, 2, 3]
