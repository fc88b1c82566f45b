"""However a step ends, what it held is gone with its error, at once: nothing is left to the garbage collector."""

import asyncio
import contextlib
import gc
import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import Gate
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import GpuFailure, Machine, OutOfMemory
from tests.support.doubles import gated, heavy, light, waiting

SIZE = 100_000


def ones():
    return np.ones(SIZE, np.float32)


def fail(value):
    raise ValueError("lost")


async def fail_later(value):
    await asyncio.sleep(1)
    raise ValueError("lost")


class Made:
    """A graph whose values are watched, on so many devices: all that is asked for comes after `seen`."""

    def __init__(self, devices, executor):
        self.devices, self.executor, self.gate, self.refs = devices, executor, Gate(), []
        with af.Graph().as_default() as self.graph:
            self.x = af.placeholder(af.float32, [None], name="x")
            self.i = af.placeholder(af.float32, [], name="i")
            self.seen = self.on(1, lambda: light(self.on(0, lambda: light(self.x * 2.0, self.watch)) + 1.0, self.watch))
            self.waits = self.on(2, lambda: gated(self.seen, self.gate)) + self.on(3, lambda: gated(self.x, self.gate))

    def on(self, device, build):
        with af.device(f"/cpu:{device % self.devices}"):
            return build()

    def watch(self, value):
        self.refs.append(weakref.ref(value))
        return value

    def session(self, **options):
        config = af.Config(device_count={"CPU": self.devices}, executor=self.executor, track_memory=True, **options)
        return af.Session(graph=self.graph, config=config)

    def failing(self, op, function=fail):
        """Another device fails, after what has to be seen was."""
        with self.graph.as_default():
            return self.on(2, lambda: op(self.seen, function)) + self.on(0, lambda: light(self.seen))


async def a_kernel(made, session):
    await session.run(made.failing(light), {made.x: ones()})


async def a_kernel_on_a_thread(made, session):
    await session.run(made.failing(heavy), {made.x: ones()})


async def a_kernel_that_waited(made, session):
    await session.run(made.failing(waiting, fail_later), {made.x: ones()})


async def a_kernel_of_a_plan_that_is_one_unit(made, session):
    with made.graph.as_default():
        await session.run(light(light(made.x, made.watch), fail), {made.x: ones()})


async def a_kernel_in_a_loop(made, session):
    def body(i, value):
        value = made.on(1, lambda: light(value * 2.0, made.watch))
        return i + 1, made.on(2, lambda: af.cond(i > 1, lambda: light(value, fail), lambda: value + 1.0))

    with made.graph.as_default():
        await session.run(af.while_loop(lambda i, _: i < 4, body, [0, made.x])[1], {made.x: ones()})


async def a_traced_step(made, session):
    await session.run(made.failing(light), {made.x: ones()}, af.RunOptions(trace=True), af.RunMetadata())


async def numbers_that_are_not_finite(made, session):
    with made.graph.as_default():
        await session.run(af.log(made.seen - 3.0), {made.x: ones()}, af.RunOptions(check_numerics=True))


async def a_function_on_a_thread(made, session):
    with made.graph.as_default():
        await session.run(af.py_func(fail, [made.seen], af.float32) + made.seen, {made.x: ones()})


async def a_function_on_the_loop(made, session):
    with made.graph.as_default():
        await session.run(af.py_func(fail_later, [made.seen], af.float32) + made.seen, {made.x: ones()})


async def cancelling(made, session):
    run = asyncio.create_task(session.run(made.waits, {made.x: ones()}))
    await made.gate.arrived(2)
    run.cancel()
    await run


async def a_time_limit(made, session):
    await session.run(made.waits, {made.x: ones()}, af.RunOptions(timeout=5))


async def a_time_limit_of_the_callers(made, session):
    async with asyncio.timeout(5):
        await session.run(made.waits, {made.x: ones()})


async def closing(made, session):
    run = asyncio.create_task(session.run(made.waits, {made.x: ones()}))
    await made.gate.arrived(2)
    await session.close()
    await run


async def memory_that_is_used_up(made, session):
    """The last device of the step cannot hold one array."""
    with made.graph.as_default():
        more = made.on(2, lambda: (made.seen + 2.0) * made.seen)
    limit = {"CPU:0": 6 * SIZE} if made.devices == 1 else {"CPU:2": 2 * SIZE}
    async with made.session(memory_limit=limit) as limited:
        await limited.run(more, {made.x: ones()})


async def an_error_in_a_partial_run(made, session):
    broken = made.failing(light)
    handle = await session.partial_run_setup([made.seen, broken], [made.x])
    await session.partial_run(handle, [made.seen, broken], {made.x: ones()})


async def an_error_in_a_partial_run_that_nobody_heard_of(made, session):
    broken = made.failing(light)
    handle = await session.partial_run_setup([made.seen, broken, made.i * 1.0], [made.x, made.i])
    await session.partial_run(handle, [], {made.x: ones()})
    await asyncio.wait([handle.runner])
    raise ValueError("nobody asked")


async def cancelling_a_partial_run(made, session):
    handle = await session.partial_run_setup([made.seen, made.waits], [made.x])
    call = asyncio.create_task(session.partial_run(handle, made.waits, {made.x: ones()}))
    await made.gate.arrived(2)
    call.cancel()
    await call


async def a_time_limit_of_a_partial_run(made, session):
    handle = await session.partial_run_setup([made.seen, made.waits], [made.x], af.RunOptions(timeout=5))
    await session.partial_run(handle, made.seen, {made.x: ones()})
    await session.partial_run(handle, made.waits)


ENDINGS = [
    a_kernel, a_kernel_on_a_thread, a_kernel_that_waited, a_kernel_of_a_plan_that_is_one_unit, a_kernel_in_a_loop,
    a_traced_step, numbers_that_are_not_finite, a_function_on_a_thread, a_function_on_the_loop, cancelling,
    a_time_limit, a_time_limit_of_the_callers, closing, memory_that_is_used_up, an_error_in_a_partial_run,
    an_error_in_a_partial_run_that_nobody_heard_of, cancelling_a_partial_run, a_time_limit_of_a_partial_run,
]  # fmt: skip


@pytest.fixture
def uncollected():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


HOW = [(devices, executor) for devices in (1, 4) for executor in ("regions", "tokens")]


@pytest.mark.whole
@pytest.mark.parametrize(("devices", "executor"), HOW)
@pytest.mark.parametrize("ending", ENDINGS)
async def test_what_a_step_held_is_gone_with_its_error(uncollected, devices, executor, ending):
    await check(devices, executor, ending)


@pytest.mark.real
@pytest.mark.parametrize(("devices", "executor"), HOW)
@pytest.mark.parametrize("ending", [a_kernel_on_a_thread, a_function_on_a_thread, cancelling])
async def test_so_it_is_with_real_threads(uncollected, devices, executor, ending):
    await check(devices, executor, ending)


async def check(devices, executor, ending):
    made = Made(devices, executor)
    session = made.session()
    ledgers = [device.memory for device in session._state.devices]
    try:
        await ending(made, session)
    except (af.errors.OpError, asyncio.CancelledError, TimeoutError, ValueError):
        ended = True
    await session.close()  # its threads have let go of what they told, and so has the loop after a turn
    await asyncio.sleep(0)
    assert ended
    assert made.refs
    assert not any(reference() is not None for reference in made.refs)
    assert max(ledger.live for ledger in ledgers) < SIZE


@pytest.mark.parametrize("executor", ["regions", "tokens"])
@pytest.mark.parametrize("failure", [None, GpuFailure, OutOfMemory])
async def test_what_a_step_held_on_a_gpu_is_gone_when_it_ends(uncollected, failure, executor):
    gc.collect()  # the fake GPU of the test before, which refers to itself
    machine = Machine()
    gpu = FakeGpu(machine)
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None])
        with af.device("/gpu:0"):
            y = af.sin(x) * 2.0
        waits = y if failure else gated(y, Gate())
    async with af.Session(graph=graph, config=af.Config(gpus=[gpu], executor=executor)) as session:
        gpu.fail_next = None if failure is None else failure("lost")
        with contextlib.suppress(af.errors.OpError):
            await session.run(waits, {x: ones()}, af.RunOptions(timeout=5))
        await asyncio.sleep(0)
        machine.run()
        assert gpu.used < SIZE
        assert gc.collect() == 0


async def test_a_partial_run_ends_when_its_handle_is_gone_before_all_was_fed(uncollected):
    made = Made(4, "regions")
    async with made.session() as session:
        handle = await session.partial_run_setup([made.seen, made.seen + made.i], [made.x, made.i])
        await session.partial_run(handle, made.seen, {made.x: ones()})
        runner = handle.runner
        del handle
        await asyncio.wait([runner])
        del runner
        await asyncio.sleep(0)
        assert session._engine._partial == set()
        assert session._state.steps == {}
        assert not any(reference() is not None for reference in made.refs)


async def test_a_partial_run_that_has_all_its_feeds_goes_on_without_its_handle(uncollected):
    made = Made(1, "regions")
    with made.graph.as_default():
        v = af.Variable(0.0)
        update = v.assign(made.i)
    async with made.session() as session:
        await session.run(v.initializer)
        handle = await session.partial_run_setup([update.op], [made.i])
        await session.partial_run(handle, [], {made.i: 3.0})
        handle = await session.partial_run_setup([v.assign_add(1.0).op])
        runner = handle.runner
        del handle
        await runner
        assert await session.run(v) == 4.0
