"""Cancelling, time limits and failures: a step that ends, however it ends, leaves nothing, and the session goes on."""

import asyncio
import contextvars
import gc
import random
import threading
import warnings

import numpy as np
import pytest

import aioflow as af
from aioflow.runtime import plan_cache
from aioflow.testing import Gate, no_leaks, no_pending_tasks
from tests.support.doubles import failing, gated, heavy, light, waiting
from tests.support.scale import amount, some

EXECUTORS = pytest.mark.parametrize("executor", ["regions", "tokens"])


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session
        assert session._state.steps == {}
        assert session.detached_kernels == []


def notes(error):
    return " ".join(getattr(error, "__notes__", []))


# The caller's cancellation


@EXECUTORS
async def test_a_cancelled_run_is_cancelled_and_says_what_it_waited_for(graph, executor):
    gate = Gate()
    value = gated(gated(1.0, opened(), name="done"), gate, name="pending") + 1.0
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        run = asyncio.create_task(session.run(value))
        await gate.arrived()
        run.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough") as caught:
            await run
        where = session.list_devices()[0].name
        assert notes(caught.value) == f"aioflow: the run was waiting for 'pending' (test_waiting) on {where}"
        assert session._state.steps == {}
        gate.open()
        assert await session.run(value) == 2.0


async def test_every_kernel_that_waits_is_named(session):
    gates = [Gate() for _ in range(3)]
    values = [gated(float(i), gate, name=f"wait{i}") for i, gate in enumerate(gates)]
    run = asyncio.create_task(session.run(values))
    for gate in gates:
        await gate.arrived()
    run.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await run
    assert all(f"'wait{i}' (test_waiting)" in notes(caught.value) for i in range(3))


async def test_cancelling_reaches_a_kernel_as_cancellation_at_its_await(session):
    gate, seen = Gate(), []

    async def witness(value):
        try:
            await gate.wait()
        except BaseException as error:
            seen.append(type(error))
            raise

    run = asyncio.create_task(session.run([waiting(1.0, witness), waiting(2.0, witness)]))
    await gate.arrived(2)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert seen == [asyncio.CancelledError] * 2


async def test_a_kernel_finishes_its_cleaning_before_the_run_ends(session):
    gate, cleaned = Gate(), []

    async def careful(value):
        try:
            await gate.wait()
        finally:
            await asyncio.sleep(1)
            cleaned.append(True)

    with no_pending_tasks():
        run = asyncio.create_task(session.run([waiting(1.0, careful), waiting(2.0, careful)]))
        await gate.arrived(2)
        run.cancel()
        await asyncio.sleep(0.5)
        run.cancel()  # once more, while they clean
        with pytest.raises(asyncio.CancelledError):
            await run
    assert cleaned == [True, True]


async def test_a_run_that_is_cancelled_before_it_begins_does_nothing(session):
    seen = []
    run = asyncio.create_task(session.run(light(1.0, lambda x: seen.append(x) or x)))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert seen == []


async def test_cancelling_one_run_leaves_the_others(session):
    gate = Gate()
    value = gated(1.0, gate)
    runs = [asyncio.create_task(session.run(value)) for _ in range(3)]
    await gate.arrived(3)
    runs[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await runs[1]
    assert len(session._state.steps) == 2
    gate.open()
    assert await runs[0] == 1.0
    assert await runs[2] == 1.0


async def test_a_cancelled_run_commits_nothing_of_what_came_after(session):
    gate, v = Gate(), af.Variable(1.0)
    first = v.assign(2.0)
    with af.get_default_graph().control_dependencies([first]):
        late = v.assign(gated(3.0, gate))
    await session.run(v.initializer)
    run = asyncio.create_task(session.run(late))
    await gate.arrived()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await session.run(v) in (1.0, 2.0)
    gate.open()
    await asyncio.sleep(0)
    assert await session.run(v) != 3.0


async def test_a_task_group_around_runs_works_as_everywhere(session):
    gate = Gate()

    async def run_both():
        async with asyncio.TaskGroup() as group:
            group.create_task(session.run(gated(1.0, gate)))
            await gate.arrived()
            group.create_task(session.run(failing(1.0, ValueError("bad"), name="broken")))

    with pytest.raises(ExceptionGroup) as caught:
        await run_both()
    (error,) = caught.value.exceptions
    assert isinstance(error, af.errors.InvalidArgumentError)
    assert error.op == "broken"


# Time limits


@EXECUTORS
@pytest.mark.parametrize("limited", ["options", "config"])
async def test_a_limit_that_passes_names_the_task_and_what_it_waited_for(graph, executor, limited):
    loop = asyncio.get_running_loop()
    gate = Gate()
    value = gated(1.0, gate, name="slow")
    config = af.Config(executor=executor, operation_timeout=3 if limited == "config" else None)
    options = af.RunOptions(timeout=3) if limited == "options" else None
    async with af.Session(graph=graph, config=config) as session:
        began = loop.time()
        with pytest.raises(af.errors.DeadlineExceededError) as caught:
            await session.run(value, options=options)
        assert loop.time() - began == pytest.approx(3)
        text = str(caught.value)
        assert "longer than 3 s on /job:localhost/replica:0/task:0" in text
        assert "waiting for 'slow' (test_waiting)" in text
        assert caught.value.task == "/job:localhost/replica:0/task:0"
        assert isinstance(caught.value, TimeoutError)
        assert asyncio.current_task().cancelling() == 0
        assert session._state.steps == {}
        gate.open()
        assert await session.run(value) == 1.0


async def test_the_limit_of_a_run_wins_over_the_session_and_zero_is_a_limit(graph):
    loop = asyncio.get_running_loop()
    value = gated(1.0, Gate())
    async with af.Session(graph=graph, config=af.Config(operation_timeout=50)) as session:
        for limit in (0, 1, 100):
            began = loop.time()
            with pytest.raises(af.errors.DeadlineExceededError, match=f"longer than {limit} s"):
                await session.run(value, options=af.RunOptions(timeout=limit))
            assert loop.time() - began == pytest.approx(limit)


async def test_a_callable_obeys_the_session_and_its_own_limit(graph):
    value = gated(1.0, Gate())
    async with af.Session(graph=graph, config=af.Config(operation_timeout=5)) as session:
        step = session.make_callable(value)
        with pytest.raises(af.errors.DeadlineExceededError, match="longer than 5 s"):
            await step()
        with pytest.raises(af.errors.DeadlineExceededError, match="longer than 2 s"):
            await step(options=af.RunOptions(timeout=2))


async def test_a_timeout_around_a_run_works_as_everywhere(session):
    value = gated(1.0, Gate(), name="slow")
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(3):
            await session.run(value)
    assert not isinstance(caught.value, af.errors.OpError)
    assert "waiting for 'slow'" in notes(caught.value.__cause__ or caught.value.__context__)
    assert asyncio.get_running_loop().time() == pytest.approx(3)


@pytest.mark.parametrize(("outer", "inner"), [(1, 2), (2, 1)])
async def test_the_shorter_of_two_limits_counts(session, outer, inner):
    wanted = af.errors.DeadlineExceededError if inner < outer else TimeoutError
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(outer):
            await session.run(gated(1.0, Gate()), options=af.RunOptions(timeout=inner))
    assert type(caught.value) is wanted
    assert asyncio.current_task().cancelling() == 0


async def test_a_timeout_raised_by_a_kernel_is_the_kernels(session):
    async def late(value):
        raise TimeoutError("the camera is silent")

    with pytest.raises(af.errors.DeadlineExceededError, match="the camera is silent") as caught:
        await session.run(waiting(1.0, late, name="camera"), options=af.RunOptions(timeout=100))
    assert caught.value.op == "camera"


@EXECUTORS
async def test_a_function_may_use_timeouts_and_task_groups_of_its_own_beside_others(graph, executor):
    gate = Gate()

    async def patient():
        try:
            async with asyncio.timeout(1), asyncio.TaskGroup() as group:
                group.create_task(Gate().wait())
        except TimeoutError:
            return 2.0

    values = [af.py_func(patient, [], af.float32), gated(5.0, gate), af.py_func(patient, [], af.float32)]
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        run = asyncio.create_task(session.run(values))
        await asyncio.sleep(2)
        gate.open()
        assert await run == [2.0, 5.0, 2.0]


# Kernels that fail or cancel themselves


@EXECUTORS
@pytest.mark.parametrize("place", [light, heavy])
async def test_a_failure_stops_what_waits_beside_it(graph, executor, place):
    gate, ended = Gate(), []

    async def witness(value):
        try:
            await gate.wait()
        finally:
            ended.append(True)

    def fail(value):
        raise ValueError("bad")

    x = af.placeholder(af.float32, [])
    fetches = [waiting(x, witness), place(x, fail, name="broken"), waiting(x, witness)]
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        with no_pending_tasks(), pytest.raises(af.errors.InvalidArgumentError, match="bad") as caught:
            await session.run(fetches, {x: 1.0})
        assert caught.value.op == "broken"
        assert len(ended) == gate.entered
        assert session._state.steps == {}


async def test_a_kernel_that_is_stopped_before_its_second_turn_ends_like_any_other(session):
    """The unit beside it fails in the very turn in which it began to wait."""
    events, inner = [], []

    async def held(value):
        inner.append(asyncio.ensure_future(Gate().wait()))
        try:
            await inner[0]
        except asyncio.CancelledError:
            events.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            events.append("cleaned")

    x = af.placeholder(af.float32, [])
    fetches = [waiting(x, held), failing(x, ValueError("bad")), waiting(x, held)]
    with no_pending_tasks(), pytest.raises(af.errors.InvalidArgumentError, match="bad"):
        await session.run(fetches, {x: 1.0})
    assert events in (["cancelled", "cleaned"], ["cancelled"] * 2 + ["cleaned"] * 2)
    assert all(task.cancelled() for task in inner)


async def test_the_first_failure_is_the_one_raised(session):
    gates = [Gate(), Gate()]

    async def fail(value):
        await gates[int(value)].wait()
        raise ValueError(f"number {int(value)}")

    run = asyncio.create_task(session.run([waiting(0.0, fail), waiting(1.0, fail)]))
    for gate in gates:
        await gate.arrived()
    gates[1].open()
    with pytest.raises(af.errors.InvalidArgumentError, match="number 1"):
        await run


async def test_a_failure_while_others_are_stopped_does_not_hide_the_first(session):
    gate = Gate()

    async def spiteful(value):
        try:
            await gate.wait()
        finally:
            raise RuntimeError("derived")

    async def first(value):
        await gate.arrived(2)
        raise ValueError("root cause")

    with pytest.raises(af.errors.InvalidArgumentError, match="root cause"):
        await session.run([waiting(1.0, spiteful), waiting(1.0, spiteful), waiting(1.0, first)])


async def test_cancelling_while_a_failed_run_cleans_up_is_not_lost(session):
    gate, cleaning = Gate(), Gate()

    async def careful(value):
        try:
            await gate.wait()
        finally:
            await cleaning.wait()

    async def fail(value):
        await asyncio.sleep(1)
        raise ValueError("bad")

    run = asyncio.create_task(session.run([waiting(1.0, careful), waiting(1.0, fail)]))
    await cleaning.arrived()
    run.cancel()
    await asyncio.sleep(0)
    cleaning.open()
    await asyncio.wait([run])
    assert run.cancelled()


async def test_closing_while_a_failed_run_cleans_up_does_not_cancel_the_caller(graph):
    gate, cleaning = Gate(), Gate()

    async def careful(value):
        try:
            await gate.wait()
        finally:
            await cleaning.wait()

    async def fail(value):
        await asyncio.sleep(1)
        raise ValueError("bad")

    session = af.Session(graph=graph)
    run = asyncio.create_task(session.run([waiting(1.0, careful), waiting(1.0, fail)]))
    await cleaning.arrived()
    closing = asyncio.create_task(session.close())
    await asyncio.sleep(0)
    cleaning.open()
    await closing
    with pytest.raises((af.errors.CancelledError, af.errors.InvalidArgumentError)):
        await run
    assert run.cancelling() == 0


async def test_a_kernel_that_raises_cancelled_error_does_not_cancel_the_caller(session):
    async def quits(value):
        raise asyncio.CancelledError

    async def quits_later(value):
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    for function in (quits, quits_later):
        alone, beside = waiting(1.0, function, name="quits"), gated(1.0, Gate())
        for fetches in (alone, [beside, alone]):
            with pytest.raises(af.errors.CancelledError, match=r"the kernel raised asyncio\.CancelledError") as caught:
                await session.run(fetches)
            assert caught.value.op.startswith("quits")
    assert asyncio.current_task().cancelling() == 0


async def test_a_run_inside_a_kernel_is_cancelled_with_it(session, graph):
    gate = Gate()
    inner = gated(1.0, gate, name="inner")

    async def nested(value):
        return await session.run(inner)

    run = asyncio.create_task(session.run(waiting(1.0, nested, name="outer")))
    await gate.arrived()
    assert len(session._state.steps) == 2
    run.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await run
    assert "'inner'" in notes(caught.value)
    assert "'outer'" in notes(caught.value)


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_a_run_that_is_cancelled_takes_nothing_that_comes_afterwards(graph, executor):
    queue, other = (af.FIFOQueue(1, [af.int32], shapes=[[]]) for _ in range(2))
    both = [queue.dequeue(), other.dequeue()]
    summed = af.while_loop(lambda total: total < 3, lambda total: total + queue.dequeue(), [0])
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        live = session.queue(queue)
        for fetches in (both, summed):
            task = asyncio.create_task(session.run(fetches))
            await asyncio.sleep(1)
            task.cancel()
            await live.put(7)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await live.take() == (7,)


async def test_closing_ends_a_run_inside_a_kernel_too(graph):
    gate = Gate()
    session = af.Session(graph=graph)
    inner = gated(1.0, gate)

    async def nested(value):
        return await session.run(inner)

    run = asyncio.create_task(session.run(waiting(1.0, nested)))
    await gate.arrived()
    await session.close()
    with pytest.raises(af.errors.CancelledError, match="the session was closed"):
        await run
    assert run.cancelling() == 0


async def test_a_kernel_that_closes_its_own_session_ends_its_run(graph):
    session = af.Session(graph=graph)

    async def close(value):
        await session.close()

    with pytest.raises(af.errors.CancelledError, match="the session was closed"):
        await session.run(waiting(1.0, close))
    assert session._state.steps == {}
    assert asyncio.current_task().cancelling() == 0


async def test_context_variables_may_be_set_and_reset_across_waits(session):
    user, gate = contextvars.ContextVar("user", default="nobody"), Gate()

    async def login(number):
        token = user.set("anna")
        await gate.wait()
        user.reset(token)
        return number

    values = [af.py_func(login, [number], af.float32) for number in (1.0, 2.0)]
    run = asyncio.create_task(session.run(values))
    await gate.arrived(2)
    gate.open()
    assert await run == [1.0, 2.0]


# Threads


@pytest.mark.real
async def test_cancelling_work_on_a_thread_returns_at_once_and_detaches_it(graph):
    begun, go_on = threading.Event(), threading.Event()

    def work(value):
        begun.set()
        go_on.wait()
        return value

    v = af.Variable(1.0)
    changed = v.assign(heavy(af.constant(2.0), work, name="busy"))
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        run = asyncio.create_task(session.run(changed))
        await asyncio.to_thread(begun.wait)
        run.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await run
        assert "busy" in notes(caught.value) or "assign" in notes(caught.value)
        (kernel,) = session.detached_kernels
        assert "busy" in kernel or "assign" in kernel
        assert await session.run(v) == 1.0
        go_on.set()
        await session._state.compute.drained()
        assert await session.run(v) == 1.0  # it ended, and what it made was not committed


@pytest.mark.real
async def test_close_waits_for_a_detached_kernel(graph):
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def work(value):
        begun.set()
        go_on.wait()
        ended.append(True)
        return value

    session = af.Session(graph=graph)
    run = asyncio.create_task(session.run(heavy(1.0, work)))
    await asyncio.to_thread(begun.wait)
    closing = asyncio.create_task(session.close())
    with pytest.raises(af.errors.CancelledError, match="the session was closed"):
        await run
    assert not closing.done()
    go_on.set()
    await closing
    assert ended == [True]


def runs_of(graph):
    """Runs that wait before their step begins, or after its end: for a plan, feeds, turns of the loop, or copies."""
    x, large = af.placeholder(af.float32, [None], name="x"), np.ones(1 << 19)
    v = af.Variable(np.ones(1 << 19, np.float32))
    total = af.reduce_sum(x) * v[0]
    return {
        "converting feeds": lambda session: session.run(total, {x: large}),
        "planning": lambda session: session.run(total, {x: [1.0]}),
        "a turn of the loop": lambda session: session.run(total, {x: [2.0]}),
        "copying fetched values": lambda session: session.run([v, total], {x: [3.0]}),
    }


@pytest.mark.real
@pytest.mark.parametrize("waits", ["converting feeds", "planning", "a turn of the loop", "copying fetched values"])
async def test_close_ends_runs_that_wait_outside_of_their_step(graph, waits, monkeypatch):
    run, busy, begun = runs_of(graph)[waits], threading.Event(), threading.Event()
    session = af.Session(graph=graph, config=af.Config(compute_threads=1))
    await session.run(af.global_variables_initializer())
    state = session._state
    if waits == "planning":
        monkeypatch.setattr(plan_cache, "LONG_PLAN", 0)
    else:
        await run(session)
    if waits == "a turn of the loop":
        monkeypatch.setattr(type(state.slice), "used_up", lambda self: True)
    other = asyncio.create_task(state.compute.run(lambda: (begun.set(), busy.wait()), "other work"))
    await asyncio.to_thread(begun.wait)
    runs = [asyncio.create_task(run(session)) for _ in range(3)]
    if waits != "a turn of the loop":
        await asyncio.sleep(0)
        assert len(state.compute._jobs) == 4
    closing = asyncio.create_task(session.close())
    for each in runs:
        with pytest.raises(af.errors.CancelledError, match="the session was closed while the run went on"):
            await each
        assert not each.cancelling()
    assert not closing.done()
    busy.set()
    await closing
    assert other.done()


@pytest.mark.real
async def test_close_says_what_still_runs_after_its_limit(graph, caplog):
    begun, go_on = threading.Event(), threading.Event()

    def work(value):
        begun.set()
        go_on.wait()
        return value

    session = af.Session(graph=graph, config=af.Config(close_timeout=0.01))
    run = asyncio.create_task(session.run(heavy(1.0, work, name="stuck")))
    await asyncio.to_thread(begun.wait)
    await session.close()
    with pytest.raises(af.errors.CancelledError):
        await run
    assert "still running after 0.0 s" in caplog.text
    assert "stuck" in caplog.text
    go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("aioflow-compute"):
            await asyncio.to_thread(thread.join)


@pytest.mark.real
async def test_work_that_waits_for_a_thread_is_withdrawn(graph):
    begun, go_on, ran = threading.Event(), threading.Event(), []

    def work(value):
        begun.set()
        go_on.wait()
        return value

    first, second = heavy(1.0, work), heavy(2.0, lambda value: ran.append(True) or value)
    async with af.Session(graph=graph, config=af.Config(compute_threads=1)) as session:
        busy = asyncio.create_task(session.run(first))
        await asyncio.to_thread(begun.wait)
        queued = asyncio.create_task(session.run(second))
        await asyncio.sleep(0)
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        assert session.detached_kernels == []
        go_on.set()
        assert await busy == 1.0
    assert ran == []


# Fuzz


KINDS = ["plain", "plain", "light", "heavy", "gate", "turns", "sleep", "assign", "function", "thread", "bad"]
ENDINGS = (
    type(None),
    af.errors.InvalidArgumentError,
    af.errors.UnavailableError,
    af.errors.CancelledError,
    af.errors.DeadlineExceededError,
)


class Chaos:
    """A random graph of light and heavy, waiting and never-waiting, sound and failing kernels, with a variable."""

    def __init__(self, seed, second=1.0):
        self.random = random.Random(seed)
        self.second = second
        self.gates = [Gate() for _ in range(3)]
        self.x = af.placeholder(af.float32, [4])
        self.v = af.Variable(np.zeros(4, np.float32))
        self.values = [self.x, self.v.read_value()]
        for _ in range(self.random.randint(2, 10)):
            self.values.append(self.grow(self.random.choice(self.values)))

    def grow(self, x):
        kind = self.random.choice(KINDS)
        match kind:
            case "plain":
                return af.tanh(x) + self.random.choice(self.values)
            case "light" | "heavy":
                return {"light": light, "heavy": heavy}[kind](x)
            case "gate":
                return gated(x, self.random.choice(self.gates))
            case "assign":
                return self.v.assign_add(x)
            case "function" | "thread":
                made = af.py_func(self.function if kind == "function" else np.tanh, [x], af.float32)
                made.set_shape([4])
                return made
            case "bad":
                return self.bad(x) if self.random.random() < 0.5 else x * 2.0
            case _:
                return waiting(x, getattr(self, kind))

    def bad(self, x):
        error = self.random.choice([ValueError("bad"), af.errors.UnavailableError("gone"), asyncio.CancelledError()])
        return self.random.choice([failing, failing_on_a_thread, failing_later])(x, error)

    async def turns(self, value):
        for _ in range(self.random.randint(0, 4)):
            await asyncio.sleep(0)
        return value

    async def sleep(self, value):
        try:
            await asyncio.sleep(self.random.random() * self.second)
        finally:
            await asyncio.sleep(0)
        return value

    async def function(self, value):
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(self.random.random() * self.second))
            group.create_task(self.turns(value))
        return value

    async def end(self, run):
        """Cancel it once, twice or not at all: at once, after some turns or after some time."""
        for _ in range(self.random.randint(0, 2)):
            if self.random.random() < 0.5:
                await asyncio.sleep(self.random.random() * self.second / 2)
            for _ in range(self.random.randint(0, 6)):
                await asyncio.sleep(0)
            run.cancel()
        for gate in self.gates:
            await asyncio.sleep(0)
            gate.open()
        await asyncio.wait([run])


def failing_on_a_thread(x, error):
    def fail(value):
        raise error

    return heavy(x, fail)


def failing_later(x, error):
    async def fail(value):
        await asyncio.sleep(0)
        raise error

    return waiting(x, fail)


UNHURRIED = af.RunOptions(timeout=600)
"""A busy machine may take longer over the least run than the limit of a storm."""


async def storm(seed, executor="regions", second=1.0):
    """One random graph, one run of it that ends somehow, and what must be true afterwards."""
    with af.Graph().as_default() as graph:
        chaos = Chaos(seed, second)
    limit = chaos.random.choice([None, None, 0.3 * second])
    config = af.Config(executor=executor, operation_timeout=limit, compute_threads=chaos.random.randint(1, 2))
    async with af.Session(graph=graph, config=config) as session:
        await session.run(chaos.v.initializer, options=UNHURRIED)
        fetches = chaos.random.sample(chaos.values[2:], chaos.random.randint(1, len(chaos.values) - 2))
        feeds = {chaos.x: np.ones(4, np.float32)}
        with no_pending_tasks():
            run = asyncio.create_task(session.run(fetches, feeds))
            await chaos.end(run)
            if not run.cancelled():
                assert isinstance(run.exception(), ENDINGS)
        assert session._state.steps == {}
        assert (await session.run(chaos.v.read_value() * 0.0, options=UNHURRIED)).tolist() == [0.0] * 4
    assert session.detached_kernels == []


@pytest.mark.parametrize("hundred", some(range(10), 1))
async def test_1000_random_cancels_and_failures_leave_nothing(hundred):
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seed in range(100 * hundred, 100 * hundred + 100):
            try:
                await storm(seed, "tokens" if seed % 4 == 0 else "regions")
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise
        gc.collect()
    assert problems == []
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.real
async def test_random_cancels_with_real_threads_leave_nothing():
    threads = threading.active_count()
    with no_leaks():
        for seed in range(5000, 5100):
            await storm(seed, second=0.01)
    assert threading.active_count() == threads


async def test_random_cancels_of_many_runs_of_one_session_leave_nothing(graph):
    chaos = Chaos(7)
    for _ in range(30):
        chaos.values.append(chaos.grow(chaos.random.choice(chaos.values)))
    async with af.Session(graph=graph) as session:
        await session.run(chaos.v.initializer)
        with no_pending_tasks():
            runs = []
            for _ in range(amount(40, 100)):
                fetches = chaos.random.sample(chaos.values[2:], 3)
                runs.append(asyncio.create_task(session.run(fetches, {chaos.x: np.ones(4)})))
            await asyncio.gather(*[chaos.end(run) for run in runs])
        assert all(run.done() for run in runs)
        assert session._state.steps == {}
        for run in runs:
            assert run.cancelled() or isinstance(run.exception(), ENDINGS)


def opened():
    gate = Gate()
    gate.open()
    return gate
