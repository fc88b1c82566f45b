"""Memory limits: plans keep them, estimates match the real use, and swapping lowers it."""

import asyncio
import gc

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.plan.passes.liveness import peak_of_part
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import Machine
from tests.support.memory_graphs import GRAPHS, SWAPPED, there_and_back
from tests.support.scale import some

MB = 1 << 20
UNIT = MB // 10
ROWS = 200


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
async def test_the_planned_peak_is_within_a_tenth_of_the_real_one(build, graph):
    fetches, feeds = build()
    init = af.global_variables_initializer()
    async with af.Session(graph=graph, config=af.Config(track_memory=True)) as session:
        await session.run(init)
        await asyncio.sleep(0)
        local = session._engine.state
        ledger = local.devices[0].memory
        state = ledger.live
        ledger.reset_peak()
        await session.run(fetches, feeds)
        real = ledger.peak - state
        (part,) = local.plans.known(local.plans.signatures[-1]).plan.parts
    assert real > 100_000
    assert real <= 1.1 * peak_of_part(part.flow) <= 1.1 * 1.1 * real


# Placement


def fan_out(rows):
    x = af.placeholder(af.float32, [rows, 1000])
    return af.add_n([af.reduce_sum(af.tanh(x * float(number))) for number in range(1, 9)]), x


def chain(rows):
    x = af.placeholder(af.float32, [rows, 1000])
    values = [af.tanh(x)]
    for _ in range(5):
        values.append(af.tanh(values[-1] + 1.0))
    y = values.pop()
    for each in reversed(values):
        y = y * each
    return af.reduce_sum(y), x


@pytest.mark.parametrize("rows", [ROWS, None], ids=["static", "open"])
@pytest.mark.parametrize("build", [fan_out, chain])
@pytest.mark.parametrize("limits", [{"CPU:0": 10}, {"CPU:0": 20}, {"CPU:0": 30, "CPU:1": 100}, {"CPU:1": 10}], ids=str)
async def test_with_room_on_another_device_the_first_run_succeeds(build, limits, rows, graph):
    fetch, x = build(rows)
    limits = {device: size * UNIT for device, size in limits.items()}
    config = af.Config(device_count={"CPU": 2}, memory_limit=limits, track_memory=True)
    async with af.Session(graph=graph, config=config) as session:
        for _ in range(3):
            await session.run(fetch, {x: np.ones((ROWS, 1000), np.float32)})
        use = await session.memory()
    for device, limit in limits.items():
        assert use[f"/job:localhost/replica:0/task:0/device:{device}"].peak <= limit


def summed(rows):
    x = af.placeholder(af.float32, [rows, 1000])
    return af.reduce_sum(af.add_n([af.sin(x * float(number) + 1.0) for number in range(6)])), x


def summed_backwards(rows):
    x = af.placeholder(af.float32, [rows, 1000])
    kept, y = [af.exp(x * number * 1e-3) for number in range(6)], x
    for each in reversed(kept):
        y = y + each
    return af.gradients(af.reduce_sum(y), x)[0], x


@pytest.mark.parametrize("limits", [(30, None), (30, 150), (50, 150)])
@pytest.mark.parametrize(("build", "failures"), [(summed, 0), (summed_backwards, 1)])
async def test_devices_that_send_each_other_much_keep_to_their_limits_too(build, failures, limits, graph):
    fetch, x = build(ROWS)
    limits = {f"CPU:{number}": size * UNIT for number, size in enumerate(limits) if size is not None}
    config = af.Config(device_count={"CPU": 2}, memory_limit=limits)
    failed = 0
    async with af.Session(graph=graph, config=config) as session:
        for _ in range(5):
            try:
                await session.run(fetch, {x: np.ones((ROWS, 1000), np.float32)})
            except errors.ResourceExhaustedError:
                failed += 1
    assert failed <= failures


async def test_larger_feeds_are_planned_anew(graph):
    fetch, x = chain(None)
    config = af.Config(device_count={"CPU": 2}, memory_limit={"CPU:0": 20 * UNIT})
    async with af.Session(graph=graph, config=config) as session:
        for rows in (1, 10, 100, 1, 400, 800):
            await session.run(fetch, {x: np.ones((rows, 1000), np.float32)})


async def test_after_running_out_of_memory_the_next_step_has_another_plan(graph):
    """No plan knows the size of a py_func's result."""
    x = af.placeholder(af.float32, [])
    large = af.py_func(lambda _: np.ones(ROWS * 1000, np.float32), [x], af.float32)
    parts = [af.tanh(large * float(number)) for number in range(1, 5)]
    y = af.reduce_sum(parts[0] * parts[1] * parts[2] * parts[3])
    config = af.Config(device_count={"CPU": 2}, memory_limit={"CPU:0": 20 * UNIT})
    async with af.Session(graph=graph, config=config) as session:
        failed = 0
        while True:
            try:
                await session.run(y, {x: 0})
                break
            except errors.ResourceExhaustedError:
                failed += 1
                assert failed < 20, "nothing is learnt"
        for _ in range(3):
            await session.run(y, {x: 0})


async def test_if_no_placement_fits_the_error_names_the_memory_by_op(graph):
    fetches, feeds = there_and_back()
    config = af.Config(device_count={"CPU": 2}, memory_limit={"CPU:0": MB // 2, "CPU:1": MB // 2})
    async with af.Session(graph=graph, config=config) as session:
        for _ in range(3):
            with pytest.raises(errors.ResourceExhaustedError, match=r"needs 1,000,000 bytes on .* may hold 524,288"):
                await session.run(fetches, feeds)


# Swapping


async def peak_on_gpu(build, limit=None, **options):
    """The peak bytes on a GPU in a step, and its first value."""
    machine = Machine(strict=True)
    gpu = FakeGpu(machine)
    graph = af.Graph()
    with graph.as_default():
        with af.device("/gpu:0"):
            fetches, feeds = build()
        init = af.global_variables_initializer()
    limits = None if limit is None else {"GPU:0": limit}
    config = af.Config(gpus=[gpu], allow_soft_placement=True, memory_limit=limits, **options)
    async with af.Session(graph=graph, config=config) as session:
        await session.run(init)
        gpu.peak = gpu.used
        value, *_ = await session.run(fetches, feeds)
    found = gpu.peak
    gc.collect()
    machine.run()
    machine.check()
    assert gpu.used == 0
    return found, value


@pytest.mark.parametrize("build", some(SWAPPED, 1), ids=lambda build: build.__name__)
async def test_swapping_lowers_the_real_peak_and_changes_no_value(build):
    free, expected = await peak_on_gpu(build)
    limit = int(0.8 * free)
    swapped, value = await peak_on_gpu(build, limit, swap_to_host=True)
    assert swapped <= limit
    np.testing.assert_array_equal(value, expected)
    if not build.__name__.startswith("swapping"):  # loops decide themselves to swap when memory is short
        with pytest.raises(errors.ResourceExhaustedError):
            await peak_on_gpu(build, limit)
