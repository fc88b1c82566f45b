"""Long-lived values computed again, or put away in host memory, instead of kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow.devices.gpu import Gpu
from aioflow.kernels.context import Context
from aioflow.kernels.control.transfer import swap_free, swap_in, swap_out
from aioflow.plan.partition import Part
from aioflow.plan.passes.flow import Flow, Node, verify
from aioflow.plan.passes.liveness import peak
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.prune import prune
from aioflow.plan.passes.recompute import recompute, swap
from aioflow.plan.passes.timeline import estimated
from aioflow.resources.containers import Resources
from aioflow.tensors.dtypes import DeviceKind
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from tests.support.doubles import gated, light
from tests.support.parts import A, World
from tests.support.scale import amount

GPU = DeviceKind.GPU
SIDE = 128
SIZE = SIDE * SIDE * 4


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def swish(x: af.Tensor) -> af.Tensor:
    return x * af.sigmoid(x)


def training(layers: int, activation=swish) -> Flow:
    """The gradient of a deep perceptron with respect to its first weights."""
    value = af.placeholder(af.float32, [SIDE, SIDE], name="x")
    weights = [af.placeholder(af.float32, [SIDE, SIDE], name=f"w{layer}") for layer in range(layers)]
    feeds = (value, *weights)
    for each in weights:
        value = activation(af.matmul(value, each))
    (found,) = af.gradients(af.reduce_sum(value), weights[:1])
    return verify(optimise(prune(feeds, (found,), ())))


def fed(flow: Flow) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((SIDE, SIDE), np.float32) / 10 for _ in flow.feeds]


async def run(flow: Flow, values, fused: bool = True):
    """What is fetched, on a CPU."""
    world = World(lambda *_: 0.0, lambda *_: 0.0)
    count = len(flow.fetches)
    part = Part(A, flow, tuple(range(len(flow.feeds))), tuple(range(count)))
    return await world.run([part], {A: flow}, count, values, fused)


def seconds(node: Node) -> float:
    return estimated(node, "")


def time_of(flow: Flow) -> float:
    return sum(map(seconds, flow.nodes))


def matmul_costs_all(node: Node) -> float:
    return 1.0 if node.definition.name == "matmul" else 1e-3


@pytest.mark.parametrize("fused", [False, True], ids=["tokens", "regions"])
async def test_cheap_values_are_computed_again_in_less_memory_with_the_same_result(fused):
    flow = training(12)
    found = verify(recompute(flow, most=0.02, seconds=matmul_costs_all))
    assert peak(found) <= 0.6 * peak(flow)
    again = {node.definition.name for node in found.nodes if "/again" in node.name}
    assert again
    assert "matmul" not in again
    values = fed(flow)
    np.testing.assert_array_equal(await run(found, values, fused), await run(flow, values, fused))


def test_more_time_buys_less_memory_and_no_more_is_taken_than_allowed():
    flow = training(16, af.nn.relu)
    peaks = []
    for most in (0.0, 0.1, 0.2, 0.4):
        found = verify(recompute(flow, most=most))
        assert time_of(found) <= time_of(flow) * (1 + most) * (1 + 1e-9)
        peaks.append(peak(found))
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] == peak(flow)
    assert peaks[-1] <= 0.6 * peaks[0]


def test_nothing_is_done_once_the_target_is_met_and_small_values_are_kept():
    flow = training(6)
    assert recompute(flow, target=peak(flow)) is flow
    assert recompute(flow, smallest=SIZE + 1) is flow
    assert swap(flow, lambda size: 0.0, target=peak(flow)) is flow


def test_what_has_state_is_never_run_twice():
    x = af.placeholder(af.float32, [SIDE, SIDE])
    values = [x]
    for _ in range(8):
        noise = af.random_uniform([SIDE, SIDE])
        values.append(light(values[-1] * noise))
    value = values[-1]
    for each in reversed(values):
        value = af.tanh(value * each)
    flow = optimise(prune((x,), (value,), ()))
    found = recompute(flow, most=1.0)
    assert not [node.name for node in found.nodes if "/again" in node.name and node.definition.stateful]


def test_a_copy_comes_no_earlier_than_its_reader_could():
    flow = training(8)
    found = recompute(flow, most=0.02, seconds=matmul_costs_all)
    number = {node: index for index, node in enumerate(found.nodes)}
    for node in found.nodes:
        if "/again" in node.name:
            (trigger,) = node.controls
            assert number[trigger] >= number[next(n for n in found.nodes if n.name == node.name.split("/again")[0])]
            assert "grad" in trigger.operation.name or number[trigger] >= len(flow.nodes) // 3


def test_no_copy_waits_for_what_its_reader_does_not_wait_for():
    """The last before the reader waits for a gate: whoever opens it may wait for the reader."""
    x = af.placeholder(af.float32, [SIDE, SIDE])
    early, sums = [], []
    for k in range(8):
        early.append(af.exp(x * float(k)))
        sums.append(af.reduce_sum(early[-1]))
    value = af.add_n(sums)
    slow = gated(value, af.testing.Gate())
    ends = [af.reduce_max(each) + value for each in early]
    flow = optimise(prune((x,), (slow, *ends), ()))
    found = recompute(flow, most=10.0)
    waiting = {node for node in found.nodes if node.waits}
    assert any("/again" in node.name for node in found.nodes)
    assert not [node for node in found.nodes if "/again" in node.name and waiting.intersection(node.controls)]


async def test_values_are_put_away_on_a_gpu_and_come_back_in_time():
    flow = training(12, af.nn.relu)
    compute = sum(matmul_costs_all(node) for node in flow.nodes)
    found = verify(swap(flow, lambda size: 0.1, seconds=matmul_costs_all, smallest=1))
    assert peak(found, GPU) <= 0.6 * peak(flow, GPU)
    moved = [node.definition.name for node in found.nodes if node.definition.name.startswith("swap")]
    assert moved.count("swap_out") == moved.count("swap_in")
    assert all(node.controls for node in found.nodes if node.definition.name == "swap_in")
    values = fed(flow)
    np.testing.assert_array_equal(await run(found, values), await run(flow, values))
    assert swap(flow, lambda size: compute, seconds=matmul_costs_all, smallest=1) is flow  # they would come too late
    assert swap(flow, lambda size: 0.0, kind=DeviceKind.CPU) is flow


async def test_on_a_gpu_the_copies_are_enqueued_and_the_value_is_the_same():
    machine = Machine(strict=True)
    driver = FakeGpu(machine)
    gpu = Gpu(driver, "/job:localhost/replica:0/task:0/device:GPU:0")
    context = Context(gpu.xp, Resources(), None, device=gpu)
    value = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)
    mine = gpu.copy_in(value)
    out, free, back = (op.kernels[GPU][0].function for op in (swap_out, swap_free, swap_in))
    away = out(context, mine)
    assert driver.used == value.nbytes
    assert free(context, away, mine) is away
    del mine
    assert driver.used == 0  # kernels enqueued from here on, which may use that memory, wait for the copy
    returned = back(context, away)
    await gpu.settled()
    np.testing.assert_array_equal(returned._data, value)
    for function in (out, back):
        assert function(context, 1.5) == 1.5  # a value that is in host memory already
    await gpu.settled()
    gpu.close()
    machine.check()


async def test_the_log_has_the_cost_of_recomputing(caplog):
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [512, 1024])
        h = x
        for _ in range(12):
            h = af.tanh(af.exp(-h * h) + h * 0.5)
        (slope,) = af.gradients(af.reduce_sum(h), x)
    with caplog.at_level("INFO", "aioflow.plan"):
        async with af.Session(graph=graph, config=af.Config(recompute=True)) as session:
            await session.run(slope, {x: np.zeros([512, 1024], np.float32)})
    (record,) = caplog.records
    again, more, after, before = record.args[1:]
    assert again > 0
    assert 0 < more <= 10
    assert after < before


@st.composite
def programs(draw):
    """A random chain with values read again at its end: x and what is fetched."""
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [16, 16])
        tensors = [x]
        for _ in range(draw(st.integers(4, 25))):
            one, other = draw(st.sampled_from(tensors[-3:])), draw(st.sampled_from(tensors))
            made = draw(st.sampled_from([af.tanh, af.transpose, swish, lambda t: af.matmul(t, t) / 16.0]))(one)
            tensors.append(draw(st.sampled_from([made, made + other, made * other])))
        value = tensors[-1]
        for each in reversed(tensors):
            if draw(st.booleans()):
                value = draw(st.sampled_from([af.add, af.multiply, af.maximum]))(value, each)
    return graph, x, value


@settings(max_examples=amount(2, 50))
@given(programs(), st.booleans())
async def test_random_programs_give_the_same_in_no_more_memory(program, fused):
    graph, x, value = program
    with graph.as_default():
        flow = optimise(prune((x,), (value,), ()))
    data = [np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16)]
    expected = await run(flow, data, fused)
    again = verify(recompute(flow, most=1.0, smallest=1))
    away = verify(swap(flow, lambda size: 1e-9, smallest=1))
    assert peak(again) <= peak(flow)
    assert peak(away, GPU) <= peak(flow, GPU)
    rounding = {"rtol": 1e-4, "atol": 1e-6} if fused else {"rtol": 0}
    for found in (again, away, verify(swap(again, lambda size: 1e-9, smallest=1))):
        # Regions reuse buffers; of one that lies transposed, the elements are added up in another order.
        np.testing.assert_allclose(await run(found, data, fused), expected, **rounding)
