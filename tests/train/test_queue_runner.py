"""Queue runners: tasks that fill queues until the input ends or all stop, and of which nothing is left."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.testing import Gate, VirtualTimeLoop, no_pending_tasks
from aioflow.train import Coordinator, QueueRunner, add_queue_runner, start_queue_runners


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


def now():
    return asyncio.get_running_loop().time()


def source(count, pause=1.0, last=None):
    """A scalar that is 0, 1, 2 ... in run after run, each a while later, until it raises `last`."""
    numbers = iter(range(count))

    async def following():
        number = next(numbers, None)
        await asyncio.sleep(pause)
        if number is None:
            raise last or errors.OutOfRangeError("the input has ended")
        return np.int32(number)

    made = af.py_func(following, [], af.int32)
    made.set_shape([])
    return made


def filled(*sources, capacity=100, **options):
    """A queue, and its runner with a task for each source."""
    queue = af.FIFOQueue(capacity, [af.int32], [[]])
    runner = QueueRunner(queue, [queue.enqueue(source) for source in sources], **options)
    add_queue_runner(runner)
    return queue, runner


async def taken(session, queue):
    """What is taken off the queue until it is closed and empty."""
    step = session.make_callable(queue.dequeue())
    found = []
    try:
        while True:
            found.append(int(await step()))
    except errors.OutOfRangeError:
        return found


# The end of the input


async def test_a_queue_is_filled_until_the_input_ends_and_then_closed_with_all_that_is_in_it(session):
    queue, runner = filled(source(5))
    async with Coordinator() as coord:
        start_queue_runners(session, coord)
        assert await taken(session, queue) == [0, 1, 2, 3, 4]
        assert now() == 6
        await coord.join()
        assert not coord.should_stop()
    assert session.queue(queue).closed
    assert runner.exceptions_raised == []


async def test_the_last_task_of_a_runner_closes_the_queue(session):
    queue, _ = filled(source(3), source(10))
    async with Coordinator() as coord:
        start_queue_runners(session, coord)
        await asyncio.sleep(5)
        assert not session.queue(queue).closed
        assert sorted(await taken(session, queue)) == sorted([*range(3), *range(10)])
        assert now() == 11


@pytest.mark.parametrize("together", [False, True])
async def test_the_last_of_two_runners_that_feed_one_queue_closes_it(session, together):
    queue, _ = filled(source(3))
    add_queue_runner(QueueRunner(queue, [queue.enqueue(source(3 if together else 6))]))
    async with Coordinator() as coord:
        assert len(start_queue_runners(session, coord)) == 4
        found = await taken(session, queue)
        await coord.join()
    assert sorted(found) == sorted([*range(3), *range(3 if together else 6)])


async def test_what_is_taken_for_the_end_of_the_input_can_be_chosen(session):
    ends = errors.OutOfRangeError, errors.NotFoundError
    queue, _ = filled(source(2, last=errors.NotFoundError("no more files")), queue_closed_exception_types=ends)
    async with Coordinator() as coord:
        start_queue_runners(session, coord)
        assert await taken(session, queue) == [0, 1]
        await coord.join()


async def test_the_ops_that_close_can_be_given(session):
    closed = []
    queue, _ = filled(
        source(1),
        close_op=af.py_func(lambda: closed.append("in order"), [], []),
        cancel_op=af.py_func(lambda: closed.append("at once"), [], []),
    )
    for expected in ("in order", "at once"):
        async with Coordinator() as coord:
            start_queue_runners(session, coord)
            await asyncio.sleep(5 if expected == "in order" else 0.5)
        assert closed.pop() == expected
        assert not session.queue(queue).closed


async def test_one_queue_feeds_another_and_each_is_closed_when_its_input_ends(session):
    first, _ = filled(source(20, pause=0))
    second, _ = filled(first.dequeue() * 10, first.dequeue() * 10, capacity=2)
    async with Coordinator() as coord:
        start_queue_runners(session, coord)
        assert sorted(await taken(session, second)) == [10 * number for number in range(20)]
        await coord.join()


# Errors


async def test_an_error_stops_all_and_reaches_the_training_loop_as_the_first_cause(session):
    queue, _ = filled(source(3, last=errors.DataLossError("the file is damaged")))
    other, _ = filled(source(1000))
    train = queue.dequeue() + other.dequeue()
    done = []

    async def body():
        async with Coordinator() as coord:
            start_queue_runners(session, coord)
            while True:
                done.append(await session.run(train))

    with pytest.raises(errors.DataLossError, match="the file is damaged") as caught, no_pending_tasks():
        await body()
    assert caught.value.op_type == "py_func"
    assert "test_queue_runner.py" in caught.value.line
    assert done == [0, 2, 4]
    assert now() == 4
    assert session.queue(other).closed


async def test_without_a_coordinator_errors_are_kept_by_the_runner(session):
    _, runner = filled(source(1, last=errors.DataLossError("damaged")), source(1, last=ValueError("bad")))
    tasks = runner.create_tasks(session)
    assert len(tasks) == 2
    await asyncio.wait(tasks)
    assert [type(error) for error in runner.exceptions_raised] == [errors.DataLossError, errors.InvalidArgumentError]


# Stopping


async def test_a_stop_ends_what_waits_to_be_put_and_whoever_waits_for_more(session):
    queue, _ = filled(source(1000, pause=0), capacity=3)
    async with Coordinator() as coord:
        start_queue_runners(session, coord)
        await asyncio.sleep(1)
        assert session.queue(queue).statistics().putting == 1
        await session.run(queue.dequeue_many(3))
        waiting = asyncio.create_task(session.run(queue.dequeue_many(5)))
        await asyncio.sleep(1)
        await waiting
        coord.request_stop()
    assert now() == 2
    assert session.queue(queue).size == 3
    assert session.queue(queue).closed
    assert await taken(session, queue) == [8, 9, 10]


async def test_a_stop_ends_a_runner_that_waits_for_a_queue_nobody_fills(session):
    empty = af.FIFOQueue(10, [af.int32], [[]])
    queue, _ = filled(empty.dequeue())
    async with Coordinator() as coord:
        start_queue_runners(session, coord)
        await asyncio.sleep(1)
    assert now() == 1
    assert session.queue(empty).statistics().taking == 0
    assert session.queue(queue).closed


async def test_tasks_that_are_cancelled_without_a_stop_leave_the_queue_open_for_others(session):
    queue, _ = filled(source(1000))
    async with Coordinator() as coord:
        tasks = start_queue_runners(session, coord)
        await asyncio.sleep(2.5)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert not session.queue(queue).closed
        start_queue_runners(session, coord)
        await asyncio.sleep(1.5)
        assert session.queue(queue).size == 3
    assert session.queue(queue).closed


async def test_a_stop_closes_the_queue_though_the_tasks_are_cancelled_with_it(session):
    queue, _ = filled(source(1000))
    async with Coordinator() as coord:
        tasks = start_queue_runners(session, coord)
        await asyncio.sleep(2.5)
        coord.request_stop()
        for task in tasks:
            task.cancel()
    assert session.queue(queue).closed


async def test_closing_the_session_ends_the_tasks_quietly(graph):
    queue, runner = filled(source(1000))
    async with af.Session(graph=graph) as session:
        tasks = start_queue_runners(session)
        await asyncio.sleep(2.5)
        assert session.queue(queue).size == 2
    await asyncio.wait(tasks)
    assert [task.exception() for task in tasks] == [None]
    assert runner.exceptions_raised == []
    async with Coordinator() as coord:
        async with af.Session(graph=graph) as session:
            start_queue_runners(session, coord)
            await asyncio.sleep(2.5)
        assert not coord.should_stop()


@given(st.integers(0, 40), st.integers(1, 3), st.integers(1, 4), st.sampled_from(["cancel", "stop", "close"]))
def test_nothing_is_left_whenever_a_pipeline_is_cancelled_or_stopped(when, tasks, capacity, how):
    async def main():
        with af.Graph().as_default() as graph:
            first, _ = filled(source(8, pause=0.5), capacity=capacity)
            second, _ = filled(*[first.dequeue()] * tasks, capacity=capacity)
            train = second.dequeue_many(2)
            fine = af.constant(3)
        async with af.Session(graph=graph) as session:
            with no_pending_tasks():
                task = asyncio.create_task(training(session, train))
                await asyncio.sleep(when / 8)
                if how == "cancel":
                    task.cancel()
                elif how == "close":
                    await session.close()
                else:
                    coords[-1].request_stop()
                await asyncio.wait([task])
            if how == "close":
                assert task.exception() is None or isinstance(task.exception(), errors.CancelledError)
                return
            for queue in (first, second):
                live = session.queue(queue)
                assert live.closed
                assert (live.statistics().putting, live.statistics().taking) == (0, 0)
            assert await session.run(fine) == 3
            assert not task.cancelled() or how == "cancel"
            if how == "stop":
                assert task.exception() is None

    coords = []

    async def training(session, train):
        async with Coordinator() as coord:
            coords.append(coord)
            start_queue_runners(session, coord)
            while not coord.should_stop():
                await session.run(train)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


async def test_a_runner_that_never_waits_lets_the_loop_turn(session):
    queue = af.FIFOQueue(-1, [af.int32], [[]])
    add_queue_runner(QueueRunner(queue, [queue.enqueue(7)]))
    async with Coordinator() as coord:
        start_queue_runners(session, coord)
        for _ in range(5):
            await asyncio.sleep(0)
    assert session.queue(queue).size > 0


# Starting


async def test_an_op_that_is_there_several_times_is_made_ready_once_and_run_by_as_many_tasks(session, monkeypatch):
    made, gate = [], Gate()
    make = session.make_callable
    monkeypatch.setattr(session, "make_callable", lambda fetches: made.append(fetches) or make(fetches))

    async def held():
        await gate.wait()
        return np.int32(1)

    value = af.py_func(held, [], af.int32)
    queue = af.FIFOQueue(10, [af.int32], [[]])
    enqueue = queue.enqueue(af.ensure_shape(value, []))
    runner = QueueRunner(queue, [enqueue] * 4)
    async with Coordinator() as coord:
        assert len(runner.create_threads(session, coord, start=True)) == 5
        await gate.arrived(4)
    assert made == [enqueue]


async def test_a_runner_is_started_once_per_session_as_long_as_its_tasks_run(graph, session):
    _, runner = filled(source(2))
    async with af.Session(graph=graph) as other, Coordinator() as coord:
        assert len(runner.create_tasks(session, coord)) == 2
        assert runner.create_tasks(session, coord) == []
        assert len(runner.create_tasks(other, coord)) == 2
        await asyncio.sleep(5)
        assert len(runner.create_tasks(session, coord)) == 2


async def test_a_runner_that_was_never_started_can_be_told(graph, session):
    queue, runner = filled(source(2))
    assert graph.get_collection(af.GraphKeys.QUEUE_RUNNERS) == [runner]
    assert not runner.was_started(session)
    assert repr(runner) == f"<af.train.QueueRunner of 1 operations that fill {queue!r}>"
    async with Coordinator() as coord:
        start_queue_runners(session, coord)
    assert runner.was_started(session)


async def test_runners_of_another_collection_and_of_the_default_session_are_started(graph, session):
    queue = af.FIFOQueue(10, [af.int32], [[]])
    add_queue_runner(QueueRunner(queue, [queue.enqueue(source(2))]), "mine")
    assert start_queue_runners(session) == []
    async with Coordinator() as coord:
        with session.as_default():
            assert len(start_queue_runners(coord=coord, collection="mine")) == 2


def test_queue_runners_need_a_session():
    with pytest.raises(ValueError, match="no default session"):
        start_queue_runners()


async def test_what_cannot_be_a_runner_is_refused(session):
    queue, runner = filled(source(1))
    with pytest.raises(TypeError, match="fills a queue of the graph"):
        QueueRunner("queue", [af.no_op()])
    with pytest.raises(ValueError, match="needs operations to run"):
        QueueRunner(queue, [])
    for kinds in ((), [errors.OutOfRangeError], (ValueError,)):
        with pytest.raises(TypeError, match="tuple of classes of"):
            QueueRunner(queue, [af.no_op()], queue_closed_exception_types=kinds)
    with pytest.raises(ValueError, match="a task begins when it is created"):
        runner.create_tasks(session, start=False)
    with pytest.raises(TypeError, match="run in a session"):
        start_queue_runners(Coordinator())
