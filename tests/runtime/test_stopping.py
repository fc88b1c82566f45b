"""A heavy step that ends early finishes the current kernel of its compute thread, and begins no other."""

import asyncio
import gc
import threading
import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow.plan import op_cost
from aioflow.program import blockwise
from aioflow.testing import cluster, faulty_kernel
from tests.support.doubles import light

pytestmark = pytest.mark.real


UNHURRIED = af.RunOptions(timeout=600)
"""A busy machine may take longer over the least run than the limits of these tests."""


@pytest.fixture(autouse=True)
def _all_is_heavy(monkeypatch):
    """Send kernels with short estimates to compute threads, because estimates may be wrong by any factor."""
    monkeypatch.setattr(op_cost, "HEAVY", 0.0)
    monkeypatch.setattr(op_cost, "BRIEF", 0.0)
    monkeypatch.setattr(op_cost, "WAKE", 0.0)
    monkeypatch.setattr(op_cost, "BIG_KERNEL", 0.0)


class Kernels:
    """Counts the kernels of a step; those from number `held` on wait for their release."""

    def __init__(self):
        self.again(None)

    def again(self, held):
        self.held, self.calls = held, 0
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, value=None):
        self.calls += 1
        if self.held is not None and self.calls > self.held:
            self.begun.set()
            assert self.go_on.wait(600)
        return value


def straight(x, kernels):
    for _ in range(4):
        x = light(x, kernels)
    return x


def looped(x, kernels):
    def body(i, value):
        return i + 1, light(light(value, kernels), kernels)

    return af.while_loop(lambda i, value: i < 3, body, [0, x])[1]


def branched(x, kernels):
    def taken():
        return light(light(light(x, kernels), kernels), kernels)

    return af.cond(af.reduce_sum(x) < 100.0, taken, lambda: light(x, kernels))


def nested(x, kernels):
    def body(i, value):
        inner = af.cond(i > 0, lambda: looped(value, kernels), lambda: light(value, kernels))
        return i + 1, light(inner, kernels)

    return af.while_loop(lambda i, value: i < 2, body, [0, x])[1]


def mapped(x, kernels):
    return af.map_fn(lambda row: light(light(row, kernels), kernels), x)


def conditioned(x, kernels):
    def more(i, value):
        return light(i, kernels) < 3

    return af.while_loop(more, lambda i, value: (i + 1, value + 1.0), [0, x])[1]


PROGRAMS = [straight, looped, branched, nested, mapped, conditioned]


def training(program):
    """A graph that changes a variable by the result of the program."""
    with af.Graph().as_default() as graph:
        x, kernels, v = af.placeholder(af.float32, [None]), Kernels(), af.Variable(np.zeros(3, np.float32))
        changed = v.assign(program(x, kernels) + 1.0)
    return graph, x, kernels, v, changed


FED = np.zeros(3, np.float32)


async def arrived(kernels, run):
    """Wait until a kernel is held or the run is over. Whether a kernel is held."""
    begun = kernels.begun
    reached = asyncio.create_task(asyncio.to_thread(begun.wait, 60))
    await asyncio.wait([run, reached], return_when=asyncio.FIRST_COMPLETED)
    held = begun.is_set()
    begun.set()
    await reached
    return held


async def at_rest(local):
    """Wait until no kernel runs on a compute thread."""
    for device in local.devices:
        await device.compute.drained()


async def no_steps(local):
    """Wait until the task has no step."""
    if local.steps:
        local._drained = asyncio.get_running_loop().create_future()
        await local._drained


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_run_cancelled_at_any_kernel_runs_no_further_kernel_and_changes_nothing(program, fuse):
    graph, x, kernels, v, changed = training(program)
    config = af.Config(compute_threads=1, fuse_elementwise=fuse)
    async with af.Session(graph=graph, config=config) as session:
        await session.run(v.initializer)
        for held in range(100):  # 0 is the first call of the signature
            kernels.again(held)
            run = asyncio.create_task(session.run(changed, {x: FED}))
            if not await arrived(kernels, run):
                break
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            kernels.go_on.set()
            await at_rest(session._state)
            assert kernels.calls == held + 1
            assert not (await session.run(v)).any()
        assert held == kernels.calls > 2
        assert (await session.run(v) != 0).all()


@pytest.mark.parametrize("limited", ["options", "config"])
@pytest.mark.parametrize("program", [straight, nested])
async def test_a_run_that_takes_too_long_runs_no_further_kernel(program, limited):
    graph, x, kernels, v, changed = training(program)
    config = af.Config(operation_timeout=0.3 if limited == "config" else None)
    options = af.RunOptions(timeout=0.3) if limited == "options" else None
    async with af.Session(graph=graph, config=config) as session:
        await session.run(v.initializer, options=UNHURRIED)
        for held in (0, 2):
            kernels.again(held)
            with pytest.raises(af.errors.DeadlineExceededError):
                await session.run(changed, {x: FED}, options=options)
            before = kernels.calls
            kernels.go_on.set()
            await at_rest(session._state)
            assert kernels.calls == before <= held + 1
            assert not (await session.run(v, options=UNHURRIED)).any()


@pytest.mark.parametrize("program", [straight, nested])
async def test_a_failure_on_another_device_stops_a_run_before_its_next_kernel(program):
    graph, x, kernels, v, changed = training(program)

    def fail(value):
        assert kernels.begun.wait(600)
        raise ValueError("as told")

    with graph.as_default(), af.device("/cpu:1"):
        failing = light(x, fail)
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2})) as session:
        await session.run(v.initializer)
        for held in (0, 2):
            kernels.again(held)
            with pytest.raises(af.errors.InvalidArgumentError, match="as told"):
                await session.run([changed, failing], {x: FED})
            assert kernels.calls == held + 1
            kernels.go_on.set()
            await at_rest(session._state)
            assert kernels.calls == held + 1
            assert not (await session.run(v)).any()


async def test_a_slow_cleanup_does_not_let_heavy_kernels_continue():
    """The heavy region stops when the run is cancelled, not when the last waiting kernel has ended."""
    cleaning = asyncio.Event()

    async def careful():
        try:
            await asyncio.Event().wait()
        finally:
            await cleaning.wait()

    graph, x, kernels, v, changed = training(looped)
    with graph.as_default():
        waits = af.py_func(careful, [], [])
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        kernels.again(1)
        run = asyncio.create_task(session.run([waits, changed], {x: FED}))
        assert await arrived(kernels, run)
        run.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        kernels.go_on.set()
        await at_rest(session._state)
        assert kernels.calls == 2
        assert not run.done()
        cleaning.set()
        with pytest.raises(asyncio.CancelledError):
            await run


async def test_the_thread_is_free_for_other_runs_and_queued_work_never_begins():
    graph, x, kernels, v, changed = training(looped)
    other = Kernels()
    with graph.as_default():
        beside = straight(x, other)
    async with af.Session(graph=graph, config=af.Config(compute_threads=1)) as session:
        await session.run(v.initializer)
        for _ in range(3):
            kernels.again(1)
            other.again(None)
            runs = [asyncio.create_task(session.run(changed, {x: FED})) for _ in range(4)]
            assert await arrived(kernels, runs[0])
            late = asyncio.create_task(session.run(beside, {x: FED}))
            await asyncio.sleep(0)
            for run in runs:
                run.cancel()
            assert all(
                isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*runs, return_exceptions=True)
            )
            kernels.go_on.set()
            np.testing.assert_array_equal(await late, FED)
            assert (kernels.calls, other.calls) == (2, 4)
            assert session.detached_kernels == []


async def test_the_values_of_a_stopped_run_are_freed_as_soon_as_its_kernel_ends():
    made = []

    def note(value):
        made.append(weakref.ref(value))
        return value

    with af.Graph().as_default() as graph:
        x, kernels = af.placeholder(af.float32, [None]), Kernels()
        value = light(x + 1.0, note)
        last = light(light(value * 2.0, kernels) + value, kernels)
    async with af.Session(graph=graph) as session:
        for _ in range(2):
            kernels.again(0)
            run = asyncio.create_task(session.run(last, {x: FED}))
            assert await arrived(kernels, run)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            del run
            gc.collect()
            gc.disable()
            try:
                kernels.go_on.set()
                await at_rest(session._state)
                await session.run(last, {x: FED})  # the thread has dropped its last work
                assert [found() for found in made if found() is not None] == []
            finally:
                gc.enable()
            made.clear()


# Chains


@pytest.mark.parametrize("size", [40, 6])
async def test_a_chain_of_element_wise_kernels_stops_between_two_blocks_and_between_two_small_kernels(
    size, monkeypatch
):
    monkeypatch.setattr(blockwise, "BLOCK", 4)
    monkeypatch.setattr(blockwise, "SMALLEST", 8)
    members, kernels = 3, Kernels()
    with faulty_kernel("tanh") as fault, af.Graph().as_default() as graph:
        fault.raise_if_due = kernels
        x = af.placeholder(af.float32, [None])
        y = x
        for _ in range(members):
            y = af.tanh(y)
        fed = np.zeros(size, np.float32)
        async with af.Session(graph=graph) as session:
            kernels.again(None)
            await session.run(y, {x: fed})
            whole = kernels.calls
            assert whole > members * (size > 8)
            cores = session._state.devices[0].cores._count if size > 8 else 1
            for held in range(whole):
                kernels.again(held)
                run = asyncio.create_task(session.run(y, {x: fed}))
                assert await arrived(kernels, run)
                run.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await run
                kernels.go_on.set()
                await at_rest(session._state)
                assert kernels.calls <= held + cores * (members if size > 8 else 1)
            kernels.again(None)
            np.testing.assert_array_equal(await session.run(y, {x: fed}), fed)


def test_code_for_the_loop_has_no_stop_and_code_for_a_thread_has_one_before_each_kernel():
    from tests.program.test_codegen import program_of

    with af.Graph().as_default():
        x, kernels = af.placeholder(af.float32, [None]), Kernels()
        (unit,) = program_of(nested(x, kernels), feeds=[x]).units
    assert "stop" not in unit.begin.__code__.co_names
    assert "stop" in unit.heavy.compiled().begin.__code__.co_names


# Clusters


ENDS = {
    "cancel": asyncio.CancelledError,
    "limit": af.errors.DeadlineExceededError,
    "lost": af.errors.UnavailableError,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_step_of_a_cluster_that_ends_early_runs_no_further_kernel_on_any_task(end):
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # simulated hosts need this loop
        runner.run(end_early(end))


async def end_early(end):
    kernels = Kernels()
    with faulty_kernel("tanh") as fault, af.Graph().as_default() as graph:
        fault.raise_if_due = kernels
        x = af.placeholder(af.float32, [None])
        with af.device("/job:worker/task:0"):
            y = x
            for _ in range(6):
                y = af.reduce_max(af.tanh(y), axis=[], keepdims=True)
        with af.device("/job:worker/task:1"):
            never = af.FIFOQueue(1, [af.float32], shapes=[[]]).dequeue()
        options = af.RunOptions(timeout=0.5 if end == "limit" else None)
        async with (
            cluster({"worker": 2}) as simulated,
            af.Session(simulated.target("worker", 0), graph=graph) as session,
        ):
            kernels.again(None)
            await session.run(y, {x: FED})
            assert kernels.calls == 6
            kernels.again(2)
            run = asyncio.create_task(session.run([y, never], {x: FED}, options=options))
            assert await arrived(kernels, run)
            if end == "cancel":
                run.cancel()
            elif end == "lost":
                await simulated.crash("worker", 1)
            with pytest.raises(ENDS[end]):
                await run
            local = simulated.servers["worker0"]._worker._state
            await no_steps(local)
            kernels.go_on.set()
            await at_rest(local)
            assert kernels.calls == 3
