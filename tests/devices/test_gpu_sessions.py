"""Sessions with GPUs, on fake ones: what they give, where values are, what is copied, and that nothing is left."""

import asyncio
import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.plan.placement.colocation import is_state
from aioflow.testing import VirtualTimeLoop, no_pending_tasks
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import GpuFailure, Machine
from tests.support.graphs import built_graphs
from tests.support.programs import START, blocks, built
from tests.support.scale import amount

DEVICES = ["/device:CPU:0", "/device:CPU:1", "/device:GPU:0", "/device:GPU:1", ""]
EXECUTORS = ["tokens", "regions"]
CHOICES = st.lists(st.sampled_from(DEVICES), min_size=1, max_size=40)


class Plugged:
    """A machine with two GPUs that keeps what it has in order."""

    def __init__(self, **options):
        self.machine = Machine()
        self.gpus = [FakeGpu(self.machine, index, **options) for index in range(2)]

    def config(self, **options):
        options.setdefault("allow_soft_placement", True)
        return af.Config(device_count={"CPU": 2}, gpus=self.gpus, **options)

    def check(self):
        """Nothing was read too early, nothing looked at in passing, and no memory is held."""
        gc.collect()
        self.machine.run()
        self.machine.check()
        assert [gpu.used for gpu in self.gpus] == [0, 0]


@pytest.fixture
def plugged():
    made = Plugged()
    yield made
    made.check()


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=EXECUTORS)
def executor(request):
    return request.param


@pytest.fixture
async def session(graph, plugged, executor):
    async with af.Session(graph=graph, config=plugged.config(executor=executor)) as session:
        yield session


def virtual(coroutine):
    """What the coroutine comes to, in virtual time; nothing of it is left."""

    async def run():
        with no_pending_tasks():
            return await coroutine

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run())


def scattered(choices):
    """A device function: operations ask for the devices of that list, over and over; those of state for none."""
    count = iter(range(10**9))

    def device(operation):
        if any(is_state(tensor.spec) for tensor in [*operation.inputs, *operation.outputs]):
            return ""
        return choices[next(count) % len(choices)]

    return device


# The same values


async def _program(program, config):
    async with af.Session(graph=program.graph, config=config) as session:
        await session.run(program.init)
        found = await session.run([*program.results, *program.derivatives], {program.x: START})
        return found + await session.run([state.read_value() for state in program.states])


def check_program(block, order, choices):
    program = built(block, order, scattered(choices))
    alone = af.Config(allow_soft_placement=True)
    for options in ({"executor": "tokens", "optimize": False}, {}):
        plugged = Plugged()
        found = virtual(_program(program, plugged.config(**options)))
        plugged.check()
        for value, wanted in zip(found, virtual(_program(program, alone)), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


@settings(max_examples=amount(5, 10))
@given(blocks(), CHOICES)
def test_branches_loops_and_state_are_the_same_over_gpus(block, choices):
    check_program(block, 0, choices)


@settings(max_examples=amount(3, 5))
@given(blocks(depth=2), CHOICES)
def test_gradients_are_the_same_over_gpus(block, choices):
    check_program(block, 1, choices)


@settings(max_examples=amount(5, 12))
@given(CHOICES, st.data())
def test_graphs_of_variables_and_control_edges_are_the_same_over_gpus(choices, data):
    graph = data.draw(built_graphs(device=scattered(choices)))

    async def run(config):
        async with af.Session(graph=graph.graph, config=config) as session:
            await session.run(graph.init)
            whole = await session.run(graph.tensors, graph.feeds)
            handle = await session.partial_run_setup(graph.tensors, list(graph.feeds))
            part = await session.partial_run(handle, [], dict(list(graph.feeds.items())[:1]))
            part += await session.partial_run(handle, graph.tensors, dict(list(graph.feeds.items())[1:]))
            return [*whole, *part]

    plugged = Plugged()
    found = virtual(run(plugged.config()))
    plugged.check()
    for value, wanted in zip(found, virtual(run(af.Config(allow_soft_placement=True))), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


# Where things are


async def copies_of(session, machine, fetches, feeds):
    """How often a step copies, once its plan is made and its constants are there."""
    await session.run(fetches, feeds)
    machine.copies.clear()
    await session.run(fetches, feeds)
    return dict(machine.copies)


async def test_gpus_are_listed_after_cpus(session):
    assert [device.name[-5:] for device in session.list_devices()] == ["CPU:0", "CPU:1", "GPU:0", "GPU:1"]


async def test_a_value_is_brought_once_for_all_who_read_it_and_fetched_once(session, plugged):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        fetches = [x * 2, x + 1, af.exp(x)]
    with af.device("/gpu:0"):
        total = af.add_n(fetches)
    assert await copies_of(session, plugged.machine, total, {x: np.ones(4)}) == {"H2D": 1, "D2H": 1}


async def test_a_variable_lives_on_its_gpu_and_training_copies_the_batch_alone(session, plugged):
    x = af.placeholder(af.float32, [8, 4])
    with af.device("/gpu:0"):
        w = af.Variable(np.ones((4, 3), np.float32))
        loss = af.reduce_mean(af.square(af.matmul(x, w)))
        train = af.train.GradientDescentOptimizer(0.1).minimize(loss)
    await session.run(w.initializer)
    assert await copies_of(session, plugged.machine, train, {x: np.ones((8, 4))}) == {"H2D": 1}


async def test_the_counter_of_a_loop_never_leaves_the_host(session, plugged):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        _, y = af.while_loop(lambda i, y: i < 50, lambda i, y: (i + 1, y * 1.5), [0, x])
    assert await copies_of(session, plugged.machine, y, {x: np.ones(4)}) == {"H2D": 1, "D2H": 1}


async def test_shapes_and_sizes_stay_on_the_host(session, plugged):
    x = af.placeholder(af.float32, [None, 4])
    with af.device("/gpu:0"):
        y = af.reshape(x, [af.shape(x)[0] * 2, 2])
    assert (await session.run(y, {x: np.ones((3, 4))})).shape == (6, 2)
    assert await copies_of(session, plugged.machine, y, {x: np.ones((3, 4))}) == {"H2D": 1, "D2H": 1}


async def test_between_gpus_values_go_directly(session, plugged):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = x * 2
    with af.device("/gpu:1"):
        z = y + 1
    np.testing.assert_array_equal(await session.run(z, {x: np.ones(4)}), np.full(4, 3))
    assert await copies_of(session, plugged.machine, z, {x: np.ones(4)}) == {"H2D": 1, "P2P": 1, "D2H": 1}


async def test_a_predicate_made_on_a_gpu_decides_on_the_host(session):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = af.cond(af.reduce_sum(x) > 3, lambda: x * 2, lambda: -x)
    np.testing.assert_array_equal(await session.run(y, {x: np.ones(4)}), np.full(4, 2))
    np.testing.assert_array_equal(await session.run(y, {x: np.zeros(4)}), np.zeros(4))


async def test_runs_of_element_wise_ops_are_one_launch(graph, plugged):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = af.tanh(x * 2 + 1) * af.exp(-x)
    for fuse, launches in ((True, 1), (False, 5)):
        async with af.Session(graph=graph, config=plugged.config(fuse_elementwise=fuse)) as session:
            plugged.machine.launches.clear()
            found = await session.run(y, {x: np.ones(4)})
            np.testing.assert_allclose(found, np.full(4, np.tanh(3) * np.exp(-1)), rtol=1e-6)
            assert plugged.machine.launches.total() <= launches + (not fuse)


async def test_what_a_gpu_has_no_kernel_for_is_refused_or_placed_elsewhere(graph, plugged):
    with af.device("/gpu:0"):
        text = af.as_string(af.placeholder(af.float32, []))
    async with af.Session(graph=graph, config=plugged.config(allow_soft_placement=False)) as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"as_string has no kernel .*it has them for CPU"):
            await session.run(text, {text.op.inputs[0]: 1.0})
    async with af.Session(graph=graph, config=plugged.config()) as session:
        assert await session.run(text, {text.op.inputs[0]: 1.0}) == b"1.000000"


OPTIMIZERS = [af.train.GradientDescentOptimizer, af.train.AdagradOptimizer, af.train.AdamOptimizer]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
async def test_rows_of_a_table_on_a_gpu_are_trained_there(session, optimizer):
    found = []
    for device in ("/gpu:0", "/cpu:0"):
        rows = af.placeholder(af.int32, [None])
        with af.device(device):
            table = af.Variable(np.arange(20.0).reshape(5, 4))
            loss = af.reduce_sum(af.square(af.nn.embedding_lookup(table, rows)))
            train = optimizer(0.1).minimize(loss)
        await session.run(af.variables_initializer(af.global_variables()))
        await session.run(train, {rows: [1, 3, 1]})
        found.append(await session.run(table.read_value()))
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize("soft", [True, False])
async def test_layers_in_a_block_for_a_gpu_draw_their_weights_on_the_cpu(graph, plugged, soft):
    x = af.placeholder(af.float32, [None, 8])
    with af.device("/gpu:0"):
        y = af.layers.Dense(4)(x)
        missing = af.report_uninitialized_variables()
        init = af.global_variables_initializer()
    async with af.Session(graph=graph, config=plugged.config(allow_soft_placement=soft)) as session:
        assert len(await session.run(missing)) == 2
        await session.run(init)
        assert len(await session.run(missing)) == 0
        metadata = af.RunMetadata()
        await session.run(y, {x: np.ones((2, 8))}, af.RunOptions(trace=True), metadata)
    assert {stats.device[-5:] for stats in metadata.step_stats if stats.op_type == "matmul"} == {"GPU:0"}


# What goes wrong


async def test_a_kernel_that_fails_on_the_gpu_fails_the_step_that_launched_it(session, plugged):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = x * 2
    plugged.gpus[0].fail_next = GpuFailure("an illegal memory access was encountered")
    with pytest.raises(errors.UnavailableError, match=r"GPU:0.*illegal memory access"):
        await session.run(y.op, {x: np.ones(4)})


async def test_memory_that_does_not_suffice_names_the_op_its_line_and_the_device(graph, plugged, executor):
    x = af.placeholder(af.float32, [None])
    with af.device("/gpu:1"):
        y = af.tile(x, [1000])
    config = plugged.config(executor=executor, memory_limit={"GPU:1": 10_000})
    async with af.Session(graph=graph, config=config) as session:
        with pytest.raises(errors.ResourceExhaustedError, match=r"GPU:1") as caught:
            await session.run(y, {x: np.ones(100)})
        assert "test_gpu_sessions.py" in str(caught.value)
        np.testing.assert_array_equal(await session.run(y[:1], {x: np.ones(1)}), [1])
    plugged.gpus[1].limit = None


async def test_more_gpus_than_there_are_is_an_error_that_says_so(graph, plugged):
    with pytest.raises(errors.InvalidArgumentError, match=r"asks for 3 GPUs, and this process can use 2"):
        af.Session(graph=graph, config=af.Config(device_count={"GPU": 3}, gpus=plugged.gpus))


async def test_a_value_that_is_not_finite_is_found_on_a_gpu(session):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = af.log(x - 1, name="bad") + 1
    with pytest.raises(errors.InvalidArgumentError, match=r"bad:0 is not finite.*4 Inf"):
        await session.run(y, {x: np.ones(4)}, options=af.RunOptions(check_numerics=True))


async def test_cancelled_while_the_gpu_is_busy_a_step_ends_and_leaves_nothing(session, plugged):
    x = af.placeholder(af.float32, [1000])
    with af.device("/gpu:0"):
        y = af.exp(x)
    plugged.machine.held = True
    task = asyncio.ensure_future(session.run(y, {x: np.ones(1000)}))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    plugged.machine.held = False
    np.testing.assert_allclose(await session.run(y, {x: np.zeros(1000)}), np.ones(1000))


# Traces


async def test_a_trace_says_when_the_gpu_ran_each_kernel(session):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = af.exp(x, name="first")
        z = af.log(y, name="second")
    metadata = af.RunMetadata()
    await session.run(z, {x: np.ones(4)}, options=af.RunOptions(trace=True), metadata=metadata)
    stats = {each.name: each for each in metadata.step_stats}
    assert stats["first"].device.endswith("GPU:0")
    assert stats["first"].start < stats["first"].end <= stats["second"].start < stats["second"].end
    names = [event["args"]["name"] for event in metadata.chrome_trace()["traceEvents"] if event["ph"] == "M"]
    assert "compute stream" in names


async def test_a_partial_run_brings_what_is_fed_when_it_is_fed(session):
    x, y = af.placeholder(af.float32, [4]), af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        a = x * 2
        b = a + y
    handle = await session.partial_run_setup([a, b], [x, y])
    np.testing.assert_array_equal(await session.partial_run(handle, a, {x: np.ones(4)}), np.full(4, 2))
    np.testing.assert_array_equal(await session.partial_run(handle, b, {y: np.ones(4)}), np.full(4, 3))


async def test_fed_lists_are_brought_to_a_gpu_and_made_ones_fetched(session):
    with af.device("/device:GPU:0"):
        given = af.TensorArray.placeholder(af.float32, [None])
        doubled = given.concat() * 2.0
        longer = given.write(given.size(), doubled)
        (slopes,) = af.gradients(af.reduce_sum(doubled * doubled), given.flow)
    rows = [np.array([1, 2], np.float32), np.array([3], np.float32)]
    found = await session.run([doubled, longer, slopes, given], {given: rows})
    wanted = [[2, 4, 6], [[1, 2], [3], [2, 4, 6]], [[8, 16], [24]], [[1, 2], [3]]]
    assert found[0].tolist() == wanted[0]
    for made, values in zip(found[1:], wanted[1:], strict=True):
        assert [type(each) for each in made] == [np.ndarray] * len(values)
        assert [each.tolist() for each in made] == values


async def test_concurrent_steps_share_a_gpu(session):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = af.square(x) + 1
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(session.run(y, {x: np.full(4, float(n))})) for n in range(20)]
    for n, task in enumerate(tasks):
        np.testing.assert_array_equal(task.result(), np.full(4, n * n + 1))
