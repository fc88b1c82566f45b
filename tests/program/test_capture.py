"""Sessions with `Config(cuda_graphs=True)`, on fake GPUs: kernels launched together, and the values as without."""

import asyncio
import gc

import numpy as np
import pytest
from hypothesis import given, settings

import aioflow as af
from aioflow import errors
from aioflow.program import capture
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import GpuFailure, Machine
from tests.devices.test_gpu_sessions import CHOICES, Plugged, scattered, virtual
from tests.support.programs import START, blocks, built
from tests.support.scale import amount

GPU = "/device:GPU:0"


class Host:
    """A machine with a GPU."""

    def __init__(self):
        self.machine = Machine()
        self.gpu = FakeGpu(self.machine)

    def config(self, **options):
        options.setdefault("cuda_graphs", True)
        return af.Config(gpus=[self.gpu], allow_soft_placement=True, **options)

    def check(self):
        gc.collect()
        self.machine.run()
        self.machine.check()
        assert self.gpu.used == 0


@pytest.fixture
def host():
    made = Host()
    yield made
    made.check()


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph, af.device(GPU):
        yield graph


@pytest.fixture
async def session(graph, host):
    async with af.Session(graph=graph, config=host.config()) as session:
        yield session


async def launches(host, run):
    """The kernels that a run launches, by name, and its values."""
    host.machine.launches.clear()
    values = await run()
    return dict(host.machine.launches), values


def layers(x, w):
    y = af.tanh(af.matmul(x, w))
    y = af.nn.softmax(af.matmul(y, w))
    return af.reduce_sum(af.matmul(y, w), axis=0)


def layers_by_numpy(x, w):
    y = np.tanh(x @ w) @ w
    y = np.exp(y - y.max(1, keepdims=True))
    return (y / y.sum(1, keepdims=True) @ w).sum(0)


def weights(size=4):
    return np.linspace(-1, 1, size * size, dtype=np.float32).reshape(size, size)


# Launches


async def test_inference_is_one_launch_and_copies_no_weights(host, session):
    x, w = af.placeholder(af.float32, [None, 4]), af.Variable(weights())
    y = layers(x, w)
    await session.run(w.initializer)
    counts = []
    for step in range(6):
        batch = np.full((3, 4), step / 6, np.float32)
        launched, value = await launches(host, lambda batch=batch: session.run(y, {x: batch}))
        counts.append(sum(launched.values()))
        np.testing.assert_allclose(value, layers_by_numpy(batch, weights()), rtol=1e-5)
    assert counts[0] > 4
    assert counts[1:] == [1] * 5
    assert host.machine.copies["D2D"] == 0


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: af.train.GradientDescentOptimizer(0.1),
        lambda: af.train.MomentumOptimizer(0.1, 0.9),
        lambda: af.train.AdamOptimizer(0.01),
    ],
)
async def test_training_gives_the_bits_that_it_gives_without(graph, host, optimizer):
    x, w, b = af.placeholder(af.float32, [None, 4]), af.Variable(weights()), af.Variable(np.zeros(4, np.float32))
    loss = af.reduce_mean(af.square(layers(x, w) + b))
    train = optimizer().minimize(loss)
    init = af.global_variables_initializer()

    async def trained(**options):
        async with af.Session(graph=graph, config=host.config(**options)) as session:
            await session.run(init)
            found, random = [], np.random.default_rng(3)
            for step in range(12):  # two shapes of batches in turn
                batch = random.standard_normal((3 + step % 2, 4))
                found.append((await session.run([loss, train], {x: batch}))[0])
            return [*found, *await session.run([w, b])]

    wanted = await trained(cuda_graphs=False)
    host.machine.launches.clear()
    for value, right in zip(await trained(), wanted, strict=True):
        np.testing.assert_array_equal(value, right)
    assert host.machine.launches["graph"] == 10  # one in a step, although the gradient needs the size of a batch


async def test_kernels_with_an_effect_keep_their_order(host, session):
    x, state = af.placeholder(af.float32, [4, 4]), af.Variable(np.zeros((4, 4), np.float32))
    first = layers(x, state + 1)
    added = state.assign_add(x)
    with af.control_dependencies([added]):
        second = layers(x, state.read_value() + 1)
    await session.run(state.initializer)
    total = np.zeros((4, 4), np.float32)
    for step in range(6):
        batch = np.full((4, 4), step / 8, np.float32)
        before, after = await session.run([first, second], {x: batch})
        np.testing.assert_allclose(before, layers_by_numpy(batch, total + 1), rtol=1e-5)
        total += batch
        np.testing.assert_allclose(after, layers_by_numpy(batch, total + 1), rtol=1e-5)
    assert host.machine.launches["graph"] == 5  # the update and both reads come before all other kernels


async def test_what_a_variable_keeps_of_a_graph_is_not_overwritten(host, session):
    x, state = af.placeholder(af.float32, [4, 4]), af.Variable(weights())
    y = af.tanh(af.matmul(af.tanh(af.matmul(state.read_value() * 0.5, x)) + x, x))
    step = state.assign(y)
    await session.run(state.initializer)
    right = weights()
    for number in range(8):
        batch = np.eye(4, dtype=np.float32) * (number + 1) / 4
        await session.run(step.op, {x: batch})
        right = np.tanh((np.tanh((right * 0.5) @ batch) + batch) @ batch)
        np.testing.assert_allclose(await session.run(state), right, rtol=1e-5)
    assert host.machine.launches["graph"] == 7


async def test_an_assigned_variable_is_read_where_it_is_then(host, session):
    x, w = af.placeholder(af.float32, [3, 4]), af.Variable(weights())
    y = layers(x, w)
    new = af.placeholder(af.float32, [4, 4])
    assign = w.assign(new)
    await session.run(w.initializer)
    batch = np.full((3, 4), 0.3, np.float32)
    for number in range(8):
        if number % 2:
            await session.run(assign.op, {new: weights() * number})
        found = await session.run(y, {x: batch})
        np.testing.assert_allclose(
            found, layers_by_numpy(batch, weights() * max(1, number - 1 + number % 2)), rtol=1e-5
        )


async def test_concurrent_steps_and_sessions_of_one_gpu_do_not_meet(graph, host):
    x, w = af.placeholder(af.float32, [3, 4]), af.Variable(weights())
    y = layers(x, w)

    async def runs(session, number):
        batch = np.full((3, 4), number / 20, np.float32)
        np.testing.assert_allclose(await session.run(y, {x: batch}), layers_by_numpy(batch, weights()), rtol=1e-5)

    async with (
        af.Session(graph=graph, config=host.config()) as one,
        af.Session(graph=graph, config=host.config()) as other,
    ):
        for session in (one, other):
            await session.run(w.initializer)
        for _ in range(3):
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(runs(one if number % 3 else other, number))
    assert host.machine.launches["graph"] > 50


async def test_views_of_feeds_that_are_fetched_too_are_those_of_the_run(host, session):
    x, w = af.placeholder(af.float32, [4, 4]), af.placeholder(af.float32, [4, 4])
    y = layers(x, w)
    mixed = af.where_v2(af.reduce_sum(y) > 1e9, x, w)  # a kernel that might return its input
    flat = af.reshape(x, [16])
    for number in range(4):
        a, b = np.full((4, 4), number, np.float32), weights() * number
        found = await session.run([y, mixed, flat], {x: a, w: b})
        np.testing.assert_allclose(found[0], layers_by_numpy(a, b), rtol=1e-5)
        np.testing.assert_array_equal(found[1], b)
        np.testing.assert_array_equal(found[2], a.reshape(16))


# What stays as it was


@pytest.mark.parametrize("options", [{"track_memory": True}, {"memory_limit": {"GPU:0": 1 << 20}}])
async def test_where_memory_is_accounted_for_each_kernel_is_launched_alone(graph, host, options):
    x, w = af.placeholder(af.float32, [3, 4]), af.Variable(weights())
    y = layers(x, w)
    async with af.Session(graph=graph, config=host.config(**options)) as session:
        await session.run(w.initializer)
        for _ in range(3):
            await session.run(y, {x: np.ones((3, 4))})
    assert host.machine.launches["graph"] == 0
    host.gpu.limit = None


async def test_traces_and_checks_see_every_kernel(host, session):
    x, w = af.placeholder(af.float32, [3, 4]), af.Variable(weights())
    y = layers(x, w)
    z = af.log(y - 1e9, name="bad") + y
    await session.run(w.initializer)
    feeds = {x: np.ones((3, 4), np.float32)}
    for _ in range(3):
        await session.run([y, z], feeds)
    host.machine.launches.clear()
    metadata = af.RunMetadata()
    await session.run([y, z], feeds, options=af.RunOptions(trace=True), metadata=metadata)
    kernels = {stats.op_type for stats in metadata.step_stats if stats.device.endswith("GPU:0")}
    assert {"matmul", "softmax", "tanh", "log"} <= kernels
    with pytest.raises(errors.InvalidArgumentError, match="bad:0 is not finite"):
        await session.run([y, z], feeds, options=af.RunOptions(check_numerics=True))
    assert host.machine.launches["graph"] == 0


async def test_random_numbers_and_state_are_never_repeated(session):
    x = af.placeholder(af.float32, [4, 4])
    drawn = af.random_uniform([4, 4], seed=1)
    y = layers(x + drawn, x)
    found = [await session.run([y, drawn], {x: weights()}) for _ in range(5)]
    for value, number in found:
        np.testing.assert_allclose(value, layers_by_numpy(weights() + number, weights()), rtol=1e-5, atol=1e-6)
    assert len({float(number[0, 0]) for _, number in found}) == 5


async def test_sizes_that_a_step_finds_out_are_those_of_the_step(host, session):
    x, n = af.placeholder(af.float32, [None, 4]), af.placeholder(af.int32, [])
    y = layers(x, af.constant(weights()))
    rows = af.tile(af.reshape(y, [1, 4]), [n, 1]) * 2 + 1
    total = af.reduce_sum(af.exp(-rows), axis=0)
    for number in range(1, 5):
        batch = np.full((2, 4), 0.1, np.float32)
        found = await session.run(total, {x: batch, n: number})
        np.testing.assert_allclose(found, number * np.exp(-2 * layers_by_numpy(batch, weights()) - 1), rtol=1e-5)
    assert host.machine.launches["graph"] > 0


# Errors and ends


async def test_kernels_that_cannot_be_captured_are_named_by_explain(host, session):
    x = af.placeholder(af.float32, [1, 4, 4, 1])
    y = af.nn.avg_pool(af.tanh(x), [1, 3, 3, 1], [1, 1, 1, 1], "SAME", name="pool")  # counts by values of the host
    y = af.nn.softmax(af.exp(af.reshape(y, [4, 4])))
    y = af.matmul(y, y)
    feeds = {x: np.ones((1, 4, 4, 1), np.float32)}
    values = [await session.run(y, feeds) for _ in range(3)]
    np.testing.assert_array_equal(values[0], values[2])
    report = await session.explain()
    (failure,) = report.uncaptured
    assert "'pool': " in failure
    assert f"not captured in a CUDA graph: {failure}" in str(report)
    assert host.machine.launches["graph"] == 0


async def test_an_error_of_an_ordinary_run_names_the_kernel(session):
    x, w = af.placeholder(af.float32, [None, None]), af.placeholder(af.float32, [None, None])
    y = af.reduce_sum(af.tanh(af.matmul(af.tanh(af.matmul(x, w, name="first")), w, name="second")))
    ones = np.ones((3, 3), np.float32)
    for _ in range(3):
        await session.run(y, {x: ones, w: ones})
    with pytest.raises(errors.InvalidArgumentError, match="'second'"):
        await session.run(y, {x: np.ones((3, 3)), w: np.ones((3, 2))})


async def test_a_launch_that_fails_fails_its_step(graph):
    host = Host()
    x, w = af.placeholder(af.float32, [3, 4]), af.constant(weights())
    y = layers(x, w)
    feeds = {x: np.ones((3, 4), np.float32)}
    async with af.Session(graph=graph, config=host.config()) as session:
        for _ in range(3):
            await session.run(y, feeds)
        host.gpu.fail_next = GpuFailure("an illegal address")
        with pytest.raises(errors.UnavailableError, match="GPU:0: the GPU failed: an illegal address"):
            await session.run(y.op, feeds)


async def test_cancelled_while_the_gpu_runs_a_graph_a_step_leaves_nothing(host, session):
    x, w = af.placeholder(af.float32, [3, 4]), af.Variable(weights())
    y = layers(x, w)
    await session.run(w.initializer)
    batch = np.full((3, 4), 0.2, np.float32)
    for _ in range(2):
        await session.run(y, {x: batch})
    host.machine.held = True
    running = asyncio.create_task(session.run(y, {x: batch * 2}))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    host.machine.held = False
    np.testing.assert_allclose(await session.run(y, {x: batch}), layers_by_numpy(batch, weights()), rtol=1e-5)


# Random programs


async def _program(program, config):
    async with af.Session(graph=program.graph, config=config) as session:
        await session.run(program.init)
        wanted = [*program.results, *program.derivatives]
        found = [
            value for step in range(4) for value in await session.run(wanted, {program.x: np.float32(step) + START})
        ]
        return found + await session.run([state.read_value() for state in program.states])


@settings(max_examples=amount(5, 10))
@given(blocks(depth=2), CHOICES)
def test_programs_over_gpus_give_what_they_give_without_graphs(block, choices):
    program = built(block, 1, scattered(choices))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "FEWEST", 1)
        found = []
        for graphs in (True, False):
            plugged = Plugged()
            found.append(virtual(_program(program, plugged.config(cuda_graphs=graphs))))
            plugged.check()
    for value, wanted in zip(*found, strict=True):
        np.testing.assert_array_equal(value, wanted)
