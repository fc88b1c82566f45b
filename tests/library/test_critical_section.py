"""Critical sections: one at a time, in order, and nothing held by who failed or was cancelled."""

import asyncio
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import aioflow as af
from aioflow import errors
from aioflow.kernels.control.py_func import py_func
from aioflow.library.critical_section import CriticalSection
from aioflow.testing import VirtualTimeLoop
from aioflow.waiting.mutex import Mutex, Ticket
from tests.support.scale import amount


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


class Counter:
    """A variable that is read, and written a second later: without a lock, increments are lost."""

    def __init__(self):
        self.variable = af.Variable(0, name="counter")
        self.inside = self.most = 0

    def body(self):
        later = py_func(self._later, [self.variable.value()], af.int32)
        later.set_shape([])
        return self.variable.assign(later)

    async def _later(self, value):
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await asyncio.sleep(1)
            return value + np.int32(1)
        finally:
            self.inside -= 1


def mutex_of(session):
    (mutex,) = [value for (kind, _), value in session._state.resources.container("").objects().items() if kind is Mutex]
    return mutex


async def initialized(session):
    await session.run(af.variables_initializer(session.graph.get_collection(af.GraphKeys.GLOBAL_VARIABLES)))


async def ended(task):
    return (await asyncio.gather(task, return_exceptions=True))[0]


# Running


async def test_one_step_at_a_time_is_inside_and_in_the_order_they_came(graph, session):
    counter = Counter()
    count = CriticalSection().execute(counter.body)
    await initialized(session)
    assert await asyncio.gather(*[session.run(count) for _ in range(10)]) == list(range(1, 11))
    assert counter.most == 1
    assert asyncio.get_running_loop().time() == pytest.approx(10)


async def test_a_step_that_fails_inside_lets_the_next_in_though_its_error_is_kept(graph, session):
    def fail():
        raise ValueError("as told")

    section, counter = CriticalSection(), Counter()
    failing = section.execute(lambda: py_func(fail, [], af.int32), exclusive_resource_access=False)
    count = section.execute(counter.body)
    await initialized(session)
    kept = []
    for number in range(1, 4):
        with pytest.raises(errors.InvalidArgumentError, match="as told") as caught:
            await session.run(failing)
        kept.append(caught.value)
        assert await session.run(count) == number
    assert repr(mutex_of(session)) == "<Mutex 'CriticalSection' free, 0 waiting>"


@pytest.mark.parametrize("victim", [0, 1])
async def test_a_cancelled_step_holds_nothing_whether_inside_or_waiting(graph, session, victim):
    counter = Counter()
    count = CriticalSection().execute(counter.body)
    await initialized(session)
    tasks = [asyncio.create_task(session.run(count)) for _ in range(3)]
    await asyncio.sleep(0.5)
    assert len(mutex_of(session).waiting) == 2
    tasks[victim].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results.pop(victim), asyncio.CancelledError)
    assert results == [1, 2]
    assert mutex_of(session).holder is None


async def test_a_step_that_takes_too_long_gives_the_lock_back(graph, session):
    counter = Counter()
    count = CriticalSection().execute(counter.body)
    await initialized(session)
    with pytest.raises(errors.DeadlineExceededError):
        await session.run(count, options=af.RunOptions(timeout=0.5))
    assert await session.run(count) == 1


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_in_one_step_executions_run_in_the_order_they_were_built(graph, executor):
    section, v = CriticalSection(), af.Variable(1)

    async def late():
        await asyncio.sleep(5)
        return np.int32(10)

    slow = py_func(late, [], af.int32)
    first = section.execute(lambda: v.assign(v * slow))
    second = section.execute(lambda: v.assign_add(1))
    third = section.execute(lambda: v.assign(v * first))
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        await initialized(session)
        async with asyncio.timeout(100):
            assert await session.run([third, second, first]) == [110, 11, 10]
            assert await session.run(second) == 111


async def test_what_comes_from_outside_is_there_before_the_lock_is_taken(graph, session):
    section, v = CriticalSection(), af.Variable(1)

    async def late():
        await asyncio.sleep(5)
        return np.int32(10)

    slow = py_func(late, [], af.int32)
    waits, quick = section.execute(lambda: v.assign_add(slow)), section.execute(lambda: v.assign_add(1))
    await initialized(session)
    task = asyncio.create_task(session.run(waits))
    await asyncio.sleep(1)
    assert await session.run(quick) == 2
    assert asyncio.get_running_loop().time() == pytest.approx(1)
    assert await task == 12


async def test_a_gradient_through_a_section_alone_does_not_hold_the_lock(graph, session):
    section, v = CriticalSection(), af.Variable(3.0)
    squared = section.execute(lambda: v.value() * v.value())
    (slope,) = af.gradients(squared, [v])
    assert slope is None or isinstance(slope, af.Tensor)
    x = af.placeholder(af.float32, [])
    y = section.execute(lambda: x * x * v)
    (dx,) = af.gradients(y, [x])
    await initialized(session)
    for _ in range(2):
        async with asyncio.timeout(1):
            assert await session.run([dx, y], {x: 2.0}) == [12, 12]
            assert await session.run(dx, {x: 2.0}) == 12
    assert mutex_of(session).holder is None


async def test_sessions_that_share_a_container_share_the_lock():
    counters, counts, sessions = [], [], []
    for _ in range(2):
        with af.Graph().as_default() as graph, af.container("shared"):
            counters.append(Counter())
            counts.append(CriticalSection(shared_name="ours").execute(counters[-1].body))
        sessions.append(af.Session(graph=graph))
    async with sessions[0], sessions[1]:
        await initialized(sessions[0])
        runs = [s.run(count) for s, count in zip(sessions, counts, strict=True) for _ in range(3)]
        assert sorted(await asyncio.gather(*runs)) == [1, 2, 3, 4, 5, 6]
    await af.reset(["shared"])


async def test_closing_the_session_ends_those_who_wait(graph):
    counter = Counter()
    count = CriticalSection().execute(counter.body)
    session = af.Session(graph=graph)
    await initialized(session)
    tasks = [asyncio.create_task(session.run(count)) for _ in range(3)]
    await asyncio.sleep(0.5)
    mutex = mutex_of(session)
    await session.close()
    assert {type(await ended(task)) for task in tasks} == {errors.CancelledError}
    with pytest.raises(errors.CancelledError, match="is gone"):
        await mutex.enter(object())


# Building


async def test_what_the_function_returns_keeps_its_structure(graph, session):
    v = af.Variable(1)
    made = CriticalSection().execute(lambda: {"a": [v.assign_add(1), 7], "b": (None, v.assign_add(1).op)})
    assert made["b"][0] is None
    assert isinstance(made["b"][1], af.Operation)
    await initialized(session)
    assert await session.run([made["a"], made["b"][1]]) == [[2, 7], None]


def test_a_section_inside_itself_is_refused_and_leaves_the_graph_as_it_was(graph):
    section, v = CriticalSection(name="outer"), af.Variable(1)
    before = graph.version
    with pytest.raises(ValueError, match="'outer' is executed inside itself"):
        section.execute(lambda: section.execute(lambda: v.assign_add(1)))
    with pytest.raises(ValueError, match="fn returned None"):
        section.execute(lambda: None)
    with pytest.raises(TypeError, match="a function without arguments"):
        section.execute(v)
    assert graph.version == before
    assert repr(section) == "<af.CriticalSection 'outer'>"


def through_cond(execute, v):
    return af.cond(af.constant(True), execute, v.value)


def through_nested_conds(execute, v):
    return through_cond(lambda: through_cond(execute, v), v)


def through_while(execute, v):
    return af.while_loop(lambda i: i < 2, lambda i: (execute(), i + 1)[1], [af.constant(0)])


def through_a_map(execute, v):
    return af.map_fn(lambda i: i + execute(), af.constant([1, 2]))


def after_another(execute, v):
    with af.control_dependencies([v.assign_add(1)]):
        return execute()


NESTED = [lambda execute, v: execute(), through_cond, through_nested_conds, through_while, through_a_map, after_another]


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("inside", [False, True])
def test_sections_of_one_shared_name_are_refused_inside_one_another(graph, nested, inside):
    first, second = CriticalSection(shared_name="lock"), CriticalSection(name="second", shared_name="lock")
    v = af.Variable(1, use_resource=True)

    def build():
        return first.execute(
            lambda: nested(lambda: second.execute(v.value, exclusive_resource_access=False), v),
            exclusive_resource_access=False,
        )

    with pytest.raises(ValueError, match="is executed inside itself, by 'second', which shares its lock"):
        af.cond(af.constant(True), build, v.value) if inside else build()


@pytest.mark.parametrize("nested", NESTED)
def test_sections_of_two_names_or_containers_may_be_nested(graph, nested):
    first, v = CriticalSection(shared_name="lock"), af.Variable(1)
    with graph.container("elsewhere"):
        second = CriticalSection(shared_name="lock")
    for other in (second, CriticalSection(shared_name="another")):
        first.execute(
            lambda other=other: nested(lambda: other.execute(v.value, exclusive_resource_access=False), v),
            exclusive_resource_access=False,
        )


def test_two_sections_share_variables_only_if_both_say_so(graph):
    first, second, v = CriticalSection(), CriticalSection(), af.Variable(1, name="v")
    first.execute(lambda: v.assign_add(1))
    first.execute(lambda: v.assign_add(2))
    for exclusive in (True, False):
        with pytest.raises(ValueError, match="'CriticalSection_1' and 'CriticalSection' both use v"):
            second.execute(lambda: v.value(), exclusive_resource_access=exclusive)
    w = af.Variable(1)
    first.execute(lambda: w.assign_add(1), exclusive_resource_access=False)
    second.execute(lambda: w.assign_add(1), exclusive_resource_access=False)


# The mutex


class Mutexes(RuleBasedStateMachine):
    """A mutex against a list: the first is inside, the others wait; who is cancelled is gone when the loop turns."""

    def __init__(self):
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.mutex = Mutex("tested")
        self.line = []  # [(who, task)]
        self.cancelled = set()

    def turn(self):
        async def turns():
            for _ in range(5):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())
        self.line = [(who, task) for who, task in self.line if who not in self.cancelled]
        self.cancelled.clear()

    @rule()
    def enter(self):
        who = object()
        self.line.append((who, self.loop.create_task(self.mutex.enter(who))))
        self.turn()

    @precondition(lambda self: self.line)
    @rule()
    def leave(self):
        who, task = self.line[0]
        if task.done():
            self.mutex.leave(who)
            self.line.pop(0)

    @precondition(lambda self: self.line)
    @rule(place=st.integers(0, 5))
    def cancel(self, place):
        who, task = self.line[place % len(self.line)]
        if task.cancel():
            self.cancelled.add(who)

    @rule()
    def let_the_loop_turn(self):
        self.turn()
        holder, *waiting = [who for who, _ in self.line] or [None]
        assert self.mutex.holder is holder
        assert list(self.mutex.waiting) == waiting
        assert [task.done() for _, task in self.line] == [True, *[False] * len(waiting)][: len(self.line)]

    @invariant()
    def nobody_waits_for_a_free_mutex(self):
        assert self.mutex.holder is not None or not self.mutex.waiting

    def teardown(self):
        for _, task in self.line:
            task.cancel()
        self.turn()
        for who, _ in self.line:
            self.mutex.leave(who)
        assert self.mutex.holder is None or self.line == []
        self.loop.close()


def test_a_mutex_agrees_with_its_model_under_cancellation():
    run_state_machine_as_test(
        Mutexes, settings=settings(max_examples=amount(15, 100), stateful_step_count=40, deadline=None)
    )


@pytest.mark.parametrize("moment", [0, 0.5, 1, 1.5, 2.5])
async def test_a_kept_ticket_is_left_however_its_step_ends(moment):
    mutex, other = Mutex(), object()
    await mutex.enter(other)

    async def step():
        ticket = Ticket(mutex)
        async with asyncio.TaskGroup() as group:
            group.create_task(ticket.keep())
            await asyncio.sleep(0)
            await ticket.enter()
            await asyncio.sleep(1)
            ticket.leave()

    task = asyncio.create_task(step())
    asyncio.get_running_loop().call_later(1, mutex.leave, other)
    await asyncio.sleep(moment)
    task.cancel()
    await ended(task)
    mutex.leave(other)
    assert mutex.holder is None
    assert mutex.waiting == ()


async def test_a_ticket_that_nobody_keeps_is_not_held():
    mutex = Mutex()
    await Ticket(mutex).enter()
    assert mutex.holder is None


async def test_who_waits_cannot_come_twice():
    mutex, who = Mutex("m"), "me"
    await mutex.enter(who)
    with pytest.raises(ValueError, match="'me' is inside 'm' or waits for it already"):
        await mutex.enter(who)
    mutex.leave("another")
    assert mutex.holder is who


def test_loops_on_several_threads_take_turns():
    mutex, inside, counts = Mutex(), [], []

    async def work():
        for _ in range(100):
            who = object()
            await mutex.enter(who)
            inside.append(who)
            counts.append(len(inside))
            await asyncio.sleep(0)
            inside.remove(who)
            mutex.leave(who)

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [1] * 400
    assert mutex.holder is None


def test_who_waits_on_a_loop_that_has_closed_is_passed_over():
    mutex, first, last = Mutex(), object(), object()
    gone, loop = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        loop.run_until_complete(mutex.enter(first))

        async def join():
            return mutex._join(object())

        gone.run_until_complete(join())
        gone.close()
        task = loop.create_task(mutex.enter(last))
        loop.run_until_complete(asyncio.sleep(0))
        mutex.leave(first)
        loop.run_until_complete(task)
        assert mutex.holder is last
    finally:
        loop.close()
