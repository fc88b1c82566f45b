"""Barriers: tuples put together by key, in order, and nothing lost by who is cancelled."""

import asyncio
import contextlib

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

import aioflow as af
from aioflow import errors
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Spec
from aioflow.waiting.barrier import FIRST_INDEX, Barrier
from tests.support.machines import PLACES, WaitingMachine
from tests.support.scale import amount

TEXT = Spec(dtypes.string, SCALAR)
PAIR = [Spec(dtypes.int64, SCALAR)] * 2
KEYS = st.sampled_from([b"a", b"b", b"c"])


class Barriers(WaitingMachine):
    """Against dicts and a sorted list."""

    def __init__(self):
        super().__init__()
        self.incomplete, self.ready = {}, []
        self.index = self.count = self.number = 0
        self.closed = self.dropped = False

    def make(self):
        return Barrier("tested", PAIR)

    def served(self, entry):
        ready, incomplete = len(self.ready), len(self.incomplete)
        if ready >= entry.count:
            return self.taken(entry.count)
        if not self.closed:
            return None
        hope = incomplete > 0 and entry.patient if entry.small else ready + incomplete >= entry.count
        if hope:
            return None
        return self.taken(ready) if entry.small and ready else errors.OutOfRangeError

    def taken(self, count):
        self.ready.sort()
        found, self.ready = self.ready[:count], self.ready[count:]
        return found

    def given_back(self, entry):
        self.ready += entry.outcome

    def same(self, entry, found):
        items = [(item.insertion - FIRST_INDEX, item.place, item.key, *map(int, item.components)) for item in found]
        return items == entry.outcome

    @rule(component=st.integers(0, 1), keys=st.lists(KEYS, max_size=3), cancel=PLACES, turn=st.booleans())
    def insert(self, component, keys, cancel, turn):
        self.insert_now(component, keys)
        self.cancel_now(cancel)
        if turn:
            self.turn()

    def insert_now(self, component, keys):
        values = np.arange(self.number, self.number + len(keys), dtype=np.int64)
        self.number += len(keys)
        expected = self.model_insert(component, keys, values.tolist())
        with contextlib.nullcontext() if expected is None else pytest.raises(expected):
            self.live.insert(component, keys, values)
        self.settle()

    @rule(keys=st.lists(KEYS, max_size=2, unique=True), cancel=PLACES)
    def insert_whole(self, keys, cancel):
        self.insert_now(0, keys)
        self.insert_now(1, keys)
        self.cancel_now(cancel)

    def model_insert(self, component, keys, values):
        if self.dropped:
            return errors.CancelledError
        incomplete = {key: (index, dict(found)) for key, (index, found) in self.incomplete.items()}
        ready, new = [], False
        for key, value in zip(keys, values, strict=True):
            if key not in incomplete:
                if self.closed:
                    return errors.CancelledError
                incomplete[key], new = (self.index, {}), True
            index, found = incomplete[key]
            if component in found:
                return errors.InvalidArgumentError
            found[component] = value
            if len(found) == 2:
                ready.append((index, self.count + len(ready), key, found[0], found[1]))
                del incomplete[key]
        self.incomplete = incomplete
        self.ready += ready
        self.count += len(ready)
        self.index += new
        return None

    @rule(count=st.sampled_from([1, 2, 0, 1, 3]), small=st.booleans(), wait=st.booleans())
    def take(self, count, small, wait):
        patient = wait or not self.closed
        self.join(self.live.take(count, small, wait), count=count, small=small, patient=patient)

    @precondition(lambda self: self.number > 4)
    @rule(cancel=st.booleans())
    def close(self, cancel):
        if self.closed and (self.dropped or not cancel):
            with pytest.raises(errors.CancelledError, match="closed already"):
                self.live.close(cancel)
            return
        self.live.close(cancel)
        self.closed, self.dropped = True, cancel
        if cancel:
            self.incomplete.clear()
        self.settle()

    @rule()
    def sizes(self):
        assert (self.live.ready_size, self.live.incomplete_size) == (len(self.ready), len(self.incomplete))


def test_a_barrier_agrees_with_its_model_under_cancellation():
    run_state_machine_as_test(
        Barriers, settings=settings(max_examples=amount(10, 150), stateful_step_count=40, deadline=None)
    )


# Through a session


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


def live(session):
    (found,) = [v for (kind, _), v in session._state.resources.container("").objects().items() if kind is Barrier]
    return found


async def ended(task):
    return (await asyncio.gather(task, return_exceptions=True))[0]


async def test_components_of_any_dtype_leave_stacked_and_are_copies(graph, session):
    barrier = af.Barrier((af.float32, af.string), shapes=((2,), ()))
    x = af.placeholder(af.float32, [None, 2])
    points = np.array([[1, 2], [3, 4]], np.float32)
    insert = barrier.insert_many(0, ["a", "b"], x)
    await session.run(insert, {x: points})
    points[:] = 0
    await session.run(barrier.insert_many(1, ["b", "a"], ["B", "A"]))
    taken = barrier.take_many(2)
    assert (taken.indices.shape, taken.values[0].shape) == ((2,), (2, 2))
    indices, keys, (first, second) = await session.run(taken)
    order = sorted(range(2), key=lambda place: keys[place])
    assert indices.tolist() == [FIRST_INDEX] * 2
    assert [keys[at] for at in order] == [b"a", b"b"]
    assert first[order].tolist() == [[1, 2], [3, 4]]
    assert second[order].tolist() == [b"A", b"B"]


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_a_cancelled_step_and_one_that_is_late_take_nothing(graph, executor):
    barrier = af.Barrier([af.int32], shapes=[()])
    insert, take = barrier.insert_many(0, ["a", "b"], [1, 2]), barrier.take_many(3).values[0]
    later = barrier.insert_many(0, ["c"], [3])
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        await session.run(insert)
        task = asyncio.create_task(session.run(take))
        await asyncio.sleep(1)
        task.cancel()
        assert isinstance(await ended(task), asyncio.CancelledError)
        with pytest.raises(errors.DeadlineExceededError):
            await session.run(take, options=af.RunOptions(timeout=1))
        with pytest.raises(
            errors.DeadlineExceededError, match=r"waited 0\.5 s to take 3 tuples of barrier 'barrier', of "
        ):
            await session.run(barrier.take_many(3, timeout=500))
        assert await session.run([barrier.ready_size(), barrier.incomplete_size()]) == [2, 0]
        assert live(session).waiting == []
        await session.run(later)
        assert (await session.run(take)).tolist() == [1, 2, 3]


async def test_a_step_that_is_cancelled_after_an_insertion_removes_the_values(graph, session):
    never = af.FIFOQueue(1, af.int32, shapes=[[]]).dequeue()
    barrier = af.Barrier([af.int64, af.int64], shapes=[[], []])
    first, second = (barrier.insert_many(number, [b"a", b"b"], np.array([1, 2])) for number in range(2))
    sizes = [barrier.ready_size(), barrier.incomplete_size()]
    for insertion, during, after in (
        (first, [0, 2], [0, 0]),
        (second, [0, 2], [0, 0]),
        ([first, second], [2, 0], [0, 0]),
    ):
        running = asyncio.create_task(session.run([insertion, never]))
        await turns()
        assert await session.run(sizes) == during
        await cancelled(running)
        assert await session.run(sizes) == after
    await session.run(first)
    running = asyncio.create_task(session.run([second, never]))
    await turns()
    assert await session.run(sizes) == [2, 0]
    assert (await session.run(barrier.take_many(1)))[1] == [b"a"]
    await cancelled(running)
    assert await session.run(sizes) == [1, 0], "the values of another step have left with a tuple"


def test_removing_restores_the_state_before_for_equal_values_and_repeated_keys():
    same = b"x"
    barrier = Barrier("b", [TEXT, TEXT])
    keys, values = [b"a", b"b", b"a", b"c", b"a"], np.array([same] * 5, object)
    barrier.insert(0, [b"a", b"c"], values[:2])
    before = dict(barrier._incomplete)
    rows = barrier.rows(1, keys[:2] + keys[3:4], values[:3])
    barrier.insert_rows(1, keys[:2] + keys[3:4], rows)
    assert (barrier.ready_size, barrier.incomplete_size) == (2, 1)
    again = barrier.take_out(1, keys[:2] + keys[3:4], rows)
    assert (barrier.ready_size, barrier._incomplete) == (0, before)
    again()
    assert (barrier.ready_size, barrier.incomplete_size) == (2, 1)
    single = Barrier("single", [TEXT])
    rows = single.rows(0, keys, values)
    single.insert_rows(0, keys, rows)
    single.insert(0, [b"a"], values[:1])
    assert single.take_out(0, keys, rows) is not None
    assert (single.ready_size, single.incomplete_size) == (1, 0)
    assert single.take_out(0, keys, rows) is None


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_large_insertion_that_is_cancelled_at_any_moment_adds_nothing(graph, session):
    keys, values = af.placeholder(af.string, [None]), af.placeholder(af.int64, [None])
    barrier = af.Barrier([af.int64], shapes=[[]])
    insert = barrier.insert_many(0, keys, values)
    feeds = {keys: [b"%d" % number for number in range(2000)], values: np.arange(2000)}
    for moment in range(0, 60, 3):
        running = asyncio.create_task(session.run(insert, feeds))
        await turns(moment)
        await cancelled(running)
        ready = int(await session.run(barrier.ready_size()))
        assert ready == (0 if running.cancelled() else 2000)
        if ready:
            await session.run(barrier.take_many(ready))


async def test_those_who_wait_are_served_in_the_order_they_came(graph, session):
    barrier = af.Barrier([af.int32], shapes=[()])
    x = af.placeholder(af.int32, [None])
    insert, take = barrier.insert_many(0, af.as_string(x), x), barrier.take_many(2).values[0]
    tasks = [asyncio.create_task(session.run(take)) for _ in range(10)]
    await asyncio.sleep(1)
    for number in range(20):
        await session.run(insert, {x: [number]})
    assert [(await task).tolist() for task in tasks] == [[2 * n, 2 * n + 1] for n in range(10)]


async def test_closing_ends_those_who_wait_without_hope(graph, session):
    barrier = af.Barrier([af.int32], shapes=[()])
    tasks = [asyncio.create_task(session.run(barrier.take_many(2, allow_small_batch=small))) for small in (False, True)]
    await asyncio.sleep(1)
    await session.run(barrier.insert_many(0, ["a"], [1]))
    await session.run(barrier.close())
    assert isinstance(await ended(tasks[0]), errors.OutOfRangeError)
    assert (await tasks[1]).keys.tolist() == [b"a"]
    with pytest.raises(
        errors.OutOfRangeError, match="is closed and has 0 tuples ready and 0 keys incomplete; 1 tuples"
    ):
        await session.run(barrier.take_many(1))


async def test_a_small_batch_waits_for_what_is_incomplete_if_asked_to(graph, session):
    barrier = af.Barrier([af.int32, af.int32], shapes=[(), ()])
    await session.run(barrier.insert_many(0, ["a", "b"], [1, 2]))
    await session.run([barrier.insert_many(1, ["a"], [3]), barrier.close()])
    task = asyncio.create_task(session.run(barrier.take_many(5, allow_small_batch=True, wait_for_incomplete=True).keys))
    await asyncio.sleep(1)
    assert not task.done()
    await session.run(barrier.insert_many(1, ["b"], [4]))
    assert (await task).tolist() == [b"a", b"b"]


async def test_an_insertion_that_fails_leaves_everything_as_it_was(graph, session):
    barrier = af.Barrier([af.int32, af.int32], shapes=[(), ()])
    await session.run(barrier.insert_many(0, ["b"], [1]))
    with pytest.raises(errors.InvalidArgumentError, match="key b'b' has a value for component 0 already in barrier"):
        await session.run(barrier.insert_many(0, ["a", "b", "c"], [1, 2, 3]))
    assert await session.run(barrier.incomplete_size()) == 1


async def test_tuples_of_different_shapes_are_not_lost_when_they_cannot_be_joined(graph, session):
    barrier = af.Barrier([af.int32])
    await session.run(barrier.insert_many(0, ["a"], [[1, 2]]))
    await session.run(barrier.insert_many(0, ["b"], [[1]]))
    with pytest.raises(errors.InvalidArgumentError, match=r"has shapes \[\[1\], \[2\]\], which cannot be joined"):
        await session.run(barrier.take_many(2))
    assert (await session.run(barrier.take_many(1).values[0])).tolist() == [[1, 2]]


async def test_large_tuples_are_stacked_off_the_loop_and_cancelling_loses_none(graph, session):
    barrier = af.Barrier([af.float32], shapes=[(1 << 19,)])
    insert = barrier.insert_many(0, ["a", "b"], af.ones([2, 1 << 19]))
    await session.run(insert)
    take = barrier.take_many(2).values[0]
    task = asyncio.create_task(session.run(take))
    for _ in range(2):
        await asyncio.sleep(0)
    task.cancel()
    await ended(task)
    assert await session.run(barrier.ready_size()) == 2
    assert (await session.run(take)).shape == (2, 1 << 19)


async def test_sessions_that_share_a_container_share_the_barrier():
    sessions, takes, inserts = [], [], []
    for _ in range(2):
        with af.Graph().as_default() as graph, af.container("barriers"):
            barrier = af.Barrier([af.int32], shapes=[()], shared_name="ours")
            inserts.append(barrier.insert_many(0, ["a"], [7]))
            takes.append(barrier.take_many(1).values[0])
        sessions.append(af.Session(graph=graph))
    async with sessions[0], sessions[1]:
        task = asyncio.create_task(sessions[0].run(takes[0]))
        await asyncio.sleep(1)
        await sessions[1].run(inserts[1])
        assert (await task).tolist() == [7]
        waiting = asyncio.create_task(sessions[0].run(takes[0]))
        await asyncio.sleep(1)
        await af.reset(["barriers"])
        assert isinstance(await ended(waiting), errors.CancelledError)


async def test_reopening_with_another_signature_is_refused(graph, session):
    first = af.Barrier([af.int32], shapes=[()], shared_name="ours")
    other = af.Barrier([af.int32], shapes=[(2,)], shared_name="ours")
    await session.run(first.ready_size())
    with pytest.raises(
        errors.InvalidArgumentError, match=r"Barrier 'ours' is shared with shapes=\(\[\]\), not \(\[2\]\)"
    ):
        await session.run(other.ready_size())


async def test_closing_the_session_ends_those_who_wait(graph):
    barrier = af.Barrier([af.int32], shapes=[()])
    session = af.Session(graph=graph)
    tasks = [asyncio.create_task(session.run(barrier.take_many(1))) for _ in range(3)]
    await asyncio.sleep(1)
    found = live(session)
    await session.close()
    assert {type(await ended(task)) for task in tasks} == {errors.CancelledError}
    with pytest.raises(errors.CancelledError, match="is gone"):
        found.insert(0, [b"a"], [1])


async def test_the_live_barrier_checks_what_application_code_gives():
    barrier = Barrier("b", PAIR)
    with pytest.raises(ValueError, match="2 keys have as many values; 1 were given"):
        barrier.insert(0, [b"a", b"b"], [1])
    with pytest.raises(ValueError, match="has 2 components, but not number 2"):
        barrier.insert(2, [b"a"], [1])
    with pytest.raises(TypeError, match="does not fit dtype int64"):
        barrier.insert(0, [b"a"], [1.5])
    with pytest.raises(errors.InvalidArgumentError, match="-1 tuples cannot be taken"):
        await barrier.take(-1)
    assert repr(barrier) == "<Barrier 'b' 0 ready, 0 incomplete, 0 taking>"


# Building


def test_what_does_not_fit_is_refused_when_it_is_built(graph):
    barrier = af.Barrier((af.float32, af.int32), shapes=((2,), ()), name="b")
    x, before = af.placeholder(af.int32, [3]), graph.version
    for error, text, build in [
        (ValueError, "component_index=2 is out of range for 2 components", lambda: barrier.insert_many(2, ["a"], x)),
        (TypeError, "has dtype int32, float32 is needed", lambda: barrier.insert_many(0, ["a"], x)),
        (ValueError, r"not compatible", lambda: barrier.insert_many(1, ["a"], x)),
        (ValueError, "not rank 0", lambda: barrier.insert_many(1, ["a"], 1)),
        (ValueError, r"a row of values must have shape", lambda: barrier.insert_many(0, ["a"], [[1, 2, 3.0]])),
        (ValueError, "num_elements=-1 cannot be taken", lambda: barrier.take_many(-1)),
        (ValueError, "1 shapes were given for 2 components", lambda: af.Barrier((af.int32, af.int32), shapes=[()])),
        (ValueError, "component 0 has shape", lambda: af.Barrier([af.int32], shapes=[(0,)])),
        (ValueError, "at least one component", lambda: af.Barrier([])),
        (TypeError, "a handle to a barrier is needed", lambda: af.Barrier.ready_size(af.StagingArea([af.int32]))),
    ]:  # fmt: skip
        with pytest.raises(error, match=text):
            build()
        if "StagingArea" not in text and "handle" not in text:
            assert graph.version == before
    assert repr(barrier) == "<af.Barrier 'b'>"
    assert (barrier.name, barrier.types, barrier.shapes) == ("b", [af.float32, af.int32], [(2,), ()])


async def test_a_graph_that_was_written_and_read_does_the_same(graph):
    barrier = af.Barrier([af.int32], shapes=[()])
    insert, take = barrier.insert_many(0, ["a"], [7], name="insert"), barrier.take_many(1, name="take")
    assert (insert.name, take.keys.op.name) == ("insert", "take")
    with af.Graph().as_default() as copy:
        af.import_graph_def(af.GraphDef.from_json(graph.as_graph_def().to_json()), name="")
        async with af.Session(graph=copy) as session:
            await session.run("insert")
            assert (await session.run("take:2")).tolist() == [7]


async def test_in_a_branch_it_is_the_one_around(graph, session):
    choose = af.placeholder(af.bool_, [])

    def insert():
        barrier = af.Barrier([af.int32], shapes=[()], shared_name="one")
        with af.control_dependencies([barrier.insert_many(0, ["a"], [7])]):
            return af.constant(1)

    made = af.cond(choose, insert, lambda: 2)
    outside = af.Barrier([af.int32], shapes=[()], shared_name="one")
    assert await session.run([made], {choose: True}) == [1]
    assert (await session.run(outside.take_many(1).values[0])).tolist() == [7]


def test_a_barrier_of_one_component_takes_its_shape_alone():
    with af.Graph().as_default():
        for shape in ((), (2, 3), [None], af.TensorShape([2])):
            values = af.Barrier(af.float32, shapes=shape).take_many(2).values
            assert values[0].shape == [2, *af.TensorShape(shape)]
