"""Coordinators: tasks that stop together, the first cause raised, nothing left running."""

import asyncio
import sys
import threading
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow import errors
from aioflow.testing import Gate, VirtualTimeLoop, no_pending_tasks
from aioflow.train.coordinator import Coordinator

END = errors.OutOfRangeError("the input has ended")


async def failing(error, after=0.0):
    await asyncio.sleep(after)
    raise error


async def stubborn(gate):
    """Goes on although it is cancelled, until the gate is opened."""
    while True:
        try:
            return await gate.wait()
        except asyncio.CancelledError:
            continue


async def within(body):
    async with Coordinator() as coord:
        await body(coord)


def now():
    return asyncio.get_running_loop().time()


# The block


async def test_leaving_the_block_stops_the_tasks_and_waits_for_them():
    async with Coordinator() as coord:
        tasks = [coord.create_task(coord.wait_for_stop()) for _ in range(3)]
        await asyncio.sleep(1)
        assert not coord.should_stop()
        assert not any(task.done() for task in tasks)
    assert all(task.done() and not task.cancelled() for task in tasks)
    assert coord.should_stop()
    assert coord.joined


async def test_the_end_of_the_input_stops_the_tasks_and_is_no_error():
    async with Coordinator() as coord:
        coord.create_task(failing(END, after=1))
        await coord.wait_for_stop()
        assert now() == 1
    async with Coordinator() as coord:
        coord.create_task(coord.wait_for_stop())
        raise END


async def test_what_counts_as_the_end_of_the_input_can_be_chosen():
    async with Coordinator([StopAsyncIteration]):
        raise StopAsyncIteration
    for chosen in ([StopAsyncIteration], []):
        with pytest.raises(errors.OutOfRangeError):
            async with Coordinator(chosen):
                raise END


async def test_a_task_that_somebody_cancels_stops_nothing():
    async with Coordinator() as coord:
        coord.create_task(asyncio.sleep(9)).cancel()
        await asyncio.sleep(1)
        assert not coord.should_stop()


async def test_the_error_of_a_task_reaches_who_leaves_the_block_and_what_came_of_it_does_not():
    first = errors.DataLossError("the file is damaged")

    async def cancelled_by_the_stop(coord):
        await coord.wait_for_stop()
        raise errors.CancelledError("the queue is closed")

    async def body(coord):
        coord.create_task(cancelled_by_the_stop(coord))
        coord.create_task(failing(first, after=1))
        coord.create_task(failing(ValueError("later"), after=2))
        await coord.wait_for_stop()
        assert now() == 1
        raise errors.OutOfRangeError("the queue is closed and has 0 elements left")

    with pytest.raises(errors.DataLossError) as caught:
        await within(body)
    assert caught.value is first
    assert "0 elements left" not in "".join(traceback.format_exception(first))
    assert now() == 2


async def test_an_error_of_the_body_is_raised_as_it_is_after_the_tasks_have_stopped():
    error = ValueError("of the body")
    tasks = []

    async def body(coord):
        tasks.append(coord.create_task(coord.wait_for_stop()))
        raise error

    with pytest.raises(ValueError, match="of the body") as caught:
        await within(body)
    assert caught.value is error
    assert error.__context__ is None
    assert tasks[0].done()


async def test_another_error_of_the_body_is_shown_beside_the_first():
    first, second = ValueError("first"), KeyError("second")

    async def body(coord):
        coord.create_task(failing(first))
        await coord.wait_for_stop()
        raise second

    with pytest.raises(ValueError, match="first") as caught:
        await within(body)
    assert caught.value.__context__ is second


async def test_an_error_after_a_stop_in_good_order_is_not_lost():
    async def body(coord):
        coord.create_task(failing(ValueError("late"), after=5))
        coord.request_stop()

    with pytest.raises(ValueError, match="late"):
        await within(body)


async def test_a_cancelled_body_cancels_the_tasks_at_once():
    tasks = []

    async def body():
        async with Coordinator() as coord:
            tasks.extend([coord.create_task(asyncio.sleep(1000)), coord.create_task(coord.wait_for_stop())])
            await asyncio.sleep(3)

    with pytest.raises(TimeoutError), no_pending_tasks():
        async with asyncio.timeout(1):
            await body()
    assert now() == 1
    assert [task.cancelled() for task in tasks] == [True, True]


async def test_a_cancelled_body_tells_why_the_tasks_had_stopped():
    async def body(coord):
        coord.create_task(failing(ValueError("of a task")))
        await coord.wait_for_stop()
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError) as caught:
        await within(body)
    assert caught.value.__notes__ == ["aioflow: the coordinator had stopped for ValueError('of a task')"]


async def test_cancelling_who_waits_for_the_tasks_to_stop_cancels_them():
    async def body():
        async with Coordinator() as coord:
            coord.create_task(asyncio.sleep(100))

    task = asyncio.create_task(body())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError), no_pending_tasks():
        await task
    assert now() == 1


async def test_a_task_that_goes_on_when_cancelled_is_waited_for_however_often_the_body_is_cancelled():
    gate = Gate()

    async def body():
        async with Coordinator() as coord:
            coord.create_task(stubborn(gate))
            await gate.arrived()
            raise RuntimeError("the body's")

    task = asyncio.create_task(body())
    for count in (2, 3, 4):
        await asyncio.sleep(1)
        task.cancel()
        await gate.arrived(count)
    assert not task.done()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_tasks_made_by_tasks_while_all_stop_are_waited_for_too():
    made = []

    async def child():
        await asyncio.sleep(2)

    async def parent(coord):
        await coord.wait_for_stop()
        made.append(coord.create_task(child()))

    async with Coordinator() as coord:
        coord.create_task(parent(coord))
    assert made[0].done()
    assert now() == 2


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["end", "error", "forever", "clean"])), max_size=5),
    st.sampled_from(["end", "error", "clean", "cancel"]),
    st.integers(0, 5),
)
def test_nothing_is_left_and_the_first_error_is_raised_whatever_happens_when(tasks, how, when):
    problems = {}

    async def work(coord, number, after, kind):
        if kind == "forever":
            await asyncio.sleep(10_000)
        await asyncio.sleep(after)
        if kind == "clean":
            raise END
        if kind == "error":
            problems[number] = ValueError(number)
            raise problems[number]

    async def body():
        async with Coordinator() as coord:
            for number, (after, kind) in enumerate(tasks):
                coord.create_task(work(coord, number, after, kind), name=f"task {number}")
            await asyncio.sleep(when + 0.5)
            if how == "clean":
                raise END
            if how == "error":
                problems["body"] = ValueError("body")
                raise problems["body"]

    async def main():
        task = asyncio.create_task(body())
        with no_pending_tasks():
            await asyncio.sleep(when + 0.25)
            if how == "cancel":
                task.cancel()
            await asyncio.wait([task])
        return asyncio.CancelledError() if task.cancelled() else task.exception()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        outcome = runner.run(main())
    if how == "cancel":
        assert isinstance(outcome, asyncio.CancelledError)
    elif problems:
        assert outcome is next(iter(problems.values()))
    elif any(kind == "forever" for _, kind in tasks):
        assert isinstance(outcome, RuntimeError)
    else:
        assert outcome is None


# Joining


async def test_join_returns_when_all_tasks_have_ended_by_themselves():
    coord = Coordinator()
    mine = asyncio.create_task(asyncio.sleep(3))
    coord.create_task(asyncio.sleep(2))
    await coord.join([mine])
    assert (now(), coord.should_stop(), coord.joined) == (3, False, True)


async def test_stragglers_are_named_and_cancelled_after_the_grace_period():
    async def straggler():
        await asyncio.sleep(1000)

    for ignored in (False, True):
        coord = Coordinator()
        tasks = [coord.create_task(straggler(), name=name) for name in "ab"]
        coord.request_stop()
        begin = now()
        if ignored:
            await coord.join(stop_grace_period_secs=10, ignore_live_threads=True)
        else:
            with pytest.raises(
                RuntimeError,
                match=r"^a \(.*straggler\); b \(.*straggler\): .* still ran 10 s after",
            ):
                await coord.join(stop_grace_period_secs=10)
        assert now() == begin + 10
        assert all(task.cancelled() for task in tasks)


async def test_the_block_has_a_grace_period_of_two_minutes():
    with pytest.raises(RuntimeError, match="still ran 120 s"):
        async with Coordinator() as coord:
            coord.create_task(asyncio.sleep(1000))
    assert now() == 120


async def test_an_error_comes_before_stragglers():
    coord = Coordinator()
    coord.create_task(asyncio.sleep(1000))
    coord.create_task(failing(ValueError("first")))
    with pytest.raises(ValueError, match="first"):
        await coord.join()


async def test_who_joins_in_the_block_hears_of_the_error_there_and_not_again():
    async with Coordinator() as coord:
        coord.create_task(failing(ValueError("of a task")))
        with pytest.raises(ValueError, match="of a task"):
            await coord.join()
        late = asyncio.create_task(asyncio.sleep(1000))
        coord.register_task(late)
    assert late.cancelled()


async def test_a_task_cannot_join_its_own_coordinator():
    async with Coordinator() as coord:
        task = coord.create_task(coord.join())
        await asyncio.wait([task])
        coord._error, error = None, coord._error
    assert "it would wait for its own end" in str(error)


async def test_after_join_an_error_is_raised_where_it_is_reported_until_the_stop_is_cleared():
    coord = Coordinator()
    await coord.join()
    with pytest.raises(ValueError, match="nobody"):
        coord.request_stop(ValueError("nobody would hear of it"))
    coord.request_stop(END)
    with pytest.raises(RuntimeError, match=r"has been joined.*clear_stop"):
        coord.create_task(asyncio.sleep(1))
    coord.clear_stop()
    assert (coord.should_stop(), coord.joined) == (False, False)
    coord.request_stop(ValueError("heard of"))
    with pytest.raises(ValueError, match="heard of"):
        coord.raise_requested_exception()
    coord.clear_stop()
    coord.raise_requested_exception()
    await coord.join()


# Stopping


async def test_only_the_first_error_is_kept():
    coord = Coordinator()
    coord.request_stop(END)
    coord.request_stop(errors.CancelledError("because of the stop"))
    try:
        raise KeyError("first")
    except KeyError:
        coord.request_stop(sys.exc_info())
    coord.request_stop(ValueError("second"))
    with pytest.raises(KeyError, match="first"):
        await coord.join()
    with pytest.raises(TypeError, match="must be an exception"):
        coord.request_stop("an error")


async def test_a_cancelled_run_before_any_stop_is_an_error():
    async def body(coord):
        coord.create_task(failing(errors.CancelledError("the application closed the queue")))
        await coord.wait_for_stop()

    with pytest.raises(errors.CancelledError):
        await within(body)


async def test_stop_on_exception_keeps_errors_and_lets_cancellations_pass():
    coord = Coordinator()
    with coord.stop_on_exception():
        raise ValueError("kept")
    with pytest.raises(ValueError, match="kept"):
        await coord.join()
    coord.clear_stop()
    with pytest.raises(asyncio.CancelledError), coord.stop_on_exception():
        raise asyncio.CancelledError
    assert coord.should_stop()
    await coord.join()


async def test_waiting_for_a_stop_can_be_cancelled_and_limited():
    coord = Coordinator()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await coord.wait_for_stop()
    coord.request_stop()
    await coord.wait_for_stop()
    assert now() == 5


@pytest.mark.real
async def test_a_thread_can_ask_for_a_stop():
    coord = Coordinator()
    thread = threading.Timer(0.01, coord.request_stop)
    thread.start()
    await coord.wait_for_stop()
    thread.join()


async def test_only_tasks_are_registered_and_each_once():
    async with Coordinator() as coord:
        with pytest.raises(TypeError, match="coordinates tasks"):
            coord.register_task(threading.Thread())
        task = asyncio.create_task(coord.wait_for_stop())
        coord.register_task(task)
        coord.register_thread(task)
        assert repr(coord) == "<af.train.Coordinator of 1 tasks, running>"
    assert repr(coord) == "<af.train.Coordinator of 0 tasks, stopped>"
