"""Sessions on real GPUs: programs, training, memory, ends and traces give what they give on CPUs and on fake GPUs."""

import asyncio
import gc

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import aioflow as af
from aioflow import errors
from tests.devices.test_gpu_bfloat16 import VALUES, chain, elementwise, products
from tests.devices.test_gpu_sessions import CHOICES, scattered
from tests.devices.test_gpu_training import convolution, lookup, perceptron
from tests.support.gpus import RealGpus, needs_gpu, run_on_real_loop
from tests.support.memory_graphs import SWAPPED
from tests.support.programs import START, blocks, built

pytestmark = [pytest.mark.gpu, pytest.mark.real, needs_gpu]
OPTIMIZERS = [
    lambda: af.train.GradientDescentOptimizer(0.001),
    lambda: af.train.MomentumOptimizer(0.001, 0.9),
    lambda: af.train.AdamOptimizer(0.01),
]


@pytest.fixture
def gpus():
    made = RealGpus()
    yield made
    made.check()


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["tokens", "regions"])
async def session(request, graph, gpus):
    async with af.Session(graph=graph, config=gpus.config(executor=request.param)) as session:
        yield session


# The same values


async def _program(program, config):
    async with af.Session(graph=program.graph, config=config) as session:
        await session.run(program.init)
        found = await session.run([*program.results, *program.derivatives], {program.x: START})
        return found + await session.run([state.read_value() for state in program.states])


@settings(max_examples=10, derandomize=True, phases=set(Phase) - {Phase.shrink})
@given(blocks(), CHOICES)
def test_branches_loops_and_state_are_the_same_over_gpus(block, choices):
    program = built(block, 1, scattered(choices))
    alone = run_on_real_loop(_program(program, af.Config(device_count={"GPU": 0}, allow_soft_placement=True)))
    for options in ({"executor": "tokens", "optimize": False}, {}, {"cuda_graphs": True}):
        gpus = RealGpus()
        found = run_on_real_loop(_program(program, gpus.config(**options)))
        gpus.check()
        for value, wanted in zip(found, alone, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


async def losses_of(graph, init, loss, train, feeds, config):
    async with af.Session(graph=graph, config=config) as session:
        await session.run(init)
        return [(await session.run([loss, train], feeds))[0] for _ in range(8)]


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", [perceptron, convolution, lookup])
async def test_training_has_the_losses_of_training_on_a_cpu(graph, gpus, model, optimizer, graphs):
    loss, feeds = model()
    train = optimizer().minimize(loss)
    init = af.global_variables_initializer()
    expected = await losses_of(graph, init, loss, train, feeds, af.Config(device_count={"GPU": 0}))
    for operation in graph.get_operations():
        operation.device = "/device:GPU:0"
    found = await losses_of(graph, init, loss, train, feeds, gpus.config(cuda_graphs=graphs))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[-1] < found[0]


@pytest.mark.parametrize("build", [elementwise, products, chain])
@pytest.mark.parametrize("options", [{}, {"fuse_elementwise": False}, {"cuda_graphs": True}])
async def test_values_in_bfloat16_are_those_of_the_cpu(gpus, build, options):
    found = {}
    for device in ("/gpu:0", "/cpu:0"):
        with af.Graph().as_default() as graph, af.device(device):
            x, y = af.placeholder(af.bfloat16, [2, 3]), af.placeholder(af.bfloat16, [2, 3])
            fetches = build(x, y)
        async with af.Session(graph=graph, config=gpus.config(**options)) as session:
            feeds = {x: VALUES.astype(af.bfloat16.np), y: (VALUES[::-1] + 1).astype(af.bfloat16.np)}
            for _ in range(3):
                found[device] = await session.run(fetches, feeds)
    for value, right in zip(found["/gpu:0"], found["/cpu:0"], strict=True):
        np.testing.assert_allclose(np.asarray(value, np.float32), np.asarray(right, np.float32), rtol=2**-7)


# Where values are, and what goes wrong


async def test_branches_and_loops_on_a_gpu(session):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = af.cond(af.reduce_sum(x) > 3, lambda: x * 2, lambda: -x)
        _, z = af.while_loop(lambda i, z: i < 50, lambda i, z: (i + 1, z * 1.5), [0, x])
    for value in (np.ones(4, np.float32), np.zeros(4, np.float32)):
        found = await session.run([y, z], {x: value})
        np.testing.assert_array_equal(found[0], 2 * value)
        np.testing.assert_allclose(found[1], value * np.float32(1.5) ** 50, rtol=1e-5)


async def test_memory_that_does_not_suffice_names_the_op_its_line_and_the_device(graph, gpus):
    x = af.placeholder(af.float32, [None])
    with af.device("/gpu:1"):
        y = af.tile(x, [100_000])
    async with af.Session(graph=graph, config=gpus.config(memory_limit={"GPU:1": 10 << 20})) as session:
        with pytest.raises(errors.ResourceExhaustedError, match=r"GPU:1") as caught:
            await session.run(y, {x: np.ones(100)})
        assert "test_cuda_sessions.py" in str(caught.value)
        np.testing.assert_array_equal(await session.run(y[:1], {x: np.ones(1)}), [1])
    gpus.drivers[1].limit_memory(0)


async def test_a_value_that_is_not_finite_is_found_on_a_gpu(session):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = af.log(x - 1, name="bad") + 1
    with pytest.raises(errors.InvalidArgumentError, match=r"bad:0 is not finite.*4 Inf"):
        await session.run(y, {x: np.ones(4)}, options=af.RunOptions(check_numerics=True))


async def test_a_cancelled_step_ends_while_the_gpu_is_busy_and_later_ones_run(session):
    x = af.placeholder(af.float32, [4096, 4096])
    with af.device("/gpu:0"):
        y = x
        for _ in range(100):
            y = af.matmul(y, x)
        total = af.reduce_sum(y)
    feeds = {x: np.eye(4096, dtype=np.float32)}
    await session.run(total, feeds)
    task = asyncio.ensure_future(session.run(total, feeds))
    for _ in range(200):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await session.run(total, feeds) == 4096


async def test_a_trace_says_when_the_gpu_ran_each_kernel(session):
    x = af.placeholder(af.float32, [1000])
    with af.device("/gpu:0"):
        y = af.exp(x, name="first")
        z = af.cumsum(y, name="second")
    metadata = af.RunMetadata()
    await session.run(z, {x: np.ones(1000)}, options=af.RunOptions(trace=True), metadata=metadata)
    stats = {each.name: each for each in metadata.step_stats}
    assert stats["first"].device.endswith("GPU:0")
    assert stats["first"].start < stats["first"].end <= stats["second"].start < stats["second"].end


async def test_concurrent_steps_share_a_gpu(session):
    x = af.placeholder(af.float32, [4])
    with af.device("/gpu:0"):
        y = af.square(x) + 1
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(session.run(y, {x: np.full(4, float(n))})) for n in range(50)]
    for n, task in enumerate(tasks):
        np.testing.assert_array_equal(task.result(), np.full(4, n * n + 1))


async def test_variables_on_a_gpu_are_saved_and_restored(graph, gpus, tmp_path):
    with af.device("/gpu:0"):
        v = af.Variable(np.arange(6, dtype=np.float32).reshape(2, 3), name="v")
    saver, init = af.train.Saver(), v.assign(np.zeros((2, 3)))
    async with af.Session(graph=graph, config=gpus.config()) as session:
        await session.run(v.initializer)
        path = await saver.save(session, tmp_path / "model")
        await session.run(init)
        await saver.restore(session, path)
        np.testing.assert_array_equal(await session.run(v.read_value()), np.arange(6).reshape(2, 3))


async def test_a_model_of_layers_is_trained_on_a_gpu(graph, gpus):
    random = np.random.default_rng(1)
    x = random.standard_normal((256, 8)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.int32)
    with af.device("/gpu:0"):
        model = af.Sequential([af.layers.Dense(16, activation="relu"), af.layers.Dense(2)])
        loss = af.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
        history = await model.fit(x, y, batch_size=32, epochs=15, verbose=0)
        assert history.history["loss"][-1] < 0.8 * history.history["loss"][0]
        assert (await model.predict(x)).shape == (256, 2)
        await model.close()


# Memory


async def peak_on_gpu(build, limit=None, **options):
    """The peak bytes of the arrays of a step, and its first value."""
    gpus = RealGpus()
    with af.Graph().as_default() as graph:
        with af.device("/gpu:0"):
            fetches, feeds = build()
        init = af.global_variables_initializer()
    limits = None if limit is None else {"GPU:0": limit}
    config = gpus.config(memory_limit=limits, track_memory=True, **options)
    async with af.Session(graph=graph, config=config) as session:
        await session.run(init)
        value, *_ = await session.run(fetches, feeds)
        use = await session.memory()
    gpus.drivers[0].limit_memory(0)
    gc.collect()
    gpus.check()
    return use["/job:localhost/replica:0/task:0/device:GPU:0"].peak, value


@pytest.mark.parametrize("build", SWAPPED[:2], ids=lambda build: build.__name__)
async def test_swapping_keeps_a_limit_and_changes_no_value(build):
    free, expected = await peak_on_gpu(build)
    _, value = await peak_on_gpu(build, int(0.8 * free), swap_to_host=True)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
