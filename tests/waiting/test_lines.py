"""Waiting without threads: lines served in order, slices, loops that stop, ends."""

import asyncio
import contextlib
import gc
import itertools
import threading
from collections import Counter
from types import SimpleNamespace

import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import VirtualTimeLoop
from aioflow.waiting import lines
from aioflow.waiting.lines import BATCH, Attempt, Waitable, WaiterLine, wake
from aioflow.waiting.tasks import SLICE, slice_of


class Tokens(Waitable):
    """So many tokens; who wants some waits for them."""

    def __init__(self, count=0):
        super().__init__("tokens")
        self.count = count
        self.line = WaiterLine()
        self._lines = (self.line,)

    def wanting(self, count):
        def serve():
            if self.count < count:
                return None
            self.count -= count
            return count, None

        return Attempt(f"get {count} tokens of", serve)

    async def get(self, count=1):
        return await self.attempt(self.line, self.wanting(count))

    def add(self, count):
        with self._lock:
            self.count += count
            served = self._serve()
        wake(served)

    def _give_back(self, attempt):
        self.count += attempt.outcome[0]

    def _dropped_error(self):
        return errors.CancelledError("the tokens are gone")


async def turns(count=12):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_only_the_first_in_line_is_tried():
    tokens = Tokens()
    large, small = [asyncio.create_task(tokens.get(count)) for count in (3, 1)]
    await turns()
    tokens.add(2)
    await turns()
    assert (large.done(), small.done(), tokens.count) == (False, False, 2)
    assert [attempt.what for attempt in tokens.waiting] == ["get 3 tokens of", "get 1 tokens of"]
    tokens.add(2)
    assert await asyncio.gather(large, small) == [3, 1]
    assert tokens.waiting == []


async def test_who_leaves_the_head_of_the_line_lets_the_next_be_served():
    tokens = Tokens(2)
    large, small = [asyncio.create_task(tokens.get(count)) for count in (3, 1)]
    await turns()
    large.cancel()
    assert await small == 1
    assert large.cancelled()
    assert tokens.count == 1


async def test_who_is_cancelled_before_hearing_gives_back():
    tokens = Tokens()
    first, second = [asyncio.create_task(tokens.get()) for _ in range(2)]
    await turns()
    tokens.add(1)
    first.cancel()
    assert await second == 1
    assert tokens.count == 0


async def test_now_means_that_nobody_waits_and_it_can_be_done():
    tokens = Tokens(1)
    attempt = tokens.wanting(1)
    assert tokens.attempt_now(tokens.line, attempt)
    assert attempt.result() == 1
    assert not tokens.attempt_now(tokens.line, tokens.wanting(1))
    task = asyncio.create_task(tokens.get(2))
    await turns()
    tokens.add(1)
    assert not tokens.attempt_now(tokens.line, tokens.wanting(1))
    tokens.add(1)
    await task


async def test_an_attempt_knows_when_it_came():
    tokens = Tokens()
    await asyncio.sleep(5)
    task = asyncio.create_task(tokens.get())
    await asyncio.sleep(2)
    (attempt,) = tokens.waiting
    assert attempt.since == pytest.approx(5)
    tokens.add(1)
    await task


@pytest.fixture
def slow(monkeypatch):
    """Each look at the clock finds that an eighth of a slice has passed."""
    looks = itertools.count()
    monkeypatch.setattr("aioflow.waiting.tasks.time", SimpleNamespace(perf_counter=lambda: next(looks) * SLICE / 8))


async def test_many_are_served_as_long_as_the_time_allows_and_the_loop_turns_in_between(slow):
    tokens = Tokens()
    tasks = [asyncio.create_task(tokens.get()) for _ in range(8 * BATCH)]
    await turns()
    tokens.add(8 * BATCH)
    assert len(tokens.line) == 5 * BATCH
    await asyncio.sleep(0)
    assert len(tokens.line) == 2 * BATCH
    done = []
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        done.append(sum(task.done() for task in tasks))
    assert len(set(done)) > 2
    assert [task.done() for task in tasks] == [True] * len(tasks)


async def test_waking_many_leaves_the_loop_time_for_others(monkeypatch):
    now, tokens, cost = 0.0, Tokens(), 0.0005
    monkeypatch.setattr(slice_of(asyncio.get_running_loop()), "clock", lambda: now)

    async def wanting():
        nonlocal now
        await tokens.get()
        now += cost  # the work of a waiter before it waits again

    tasks = [asyncio.create_task(wanting()) for _ in range(300)]
    await turns()
    lags = []
    tokens.add(300)
    while not all(task.done() for task in tasks):
        begin = now
        await asyncio.sleep(0)
        lags.append(now - begin)
    lags.sort()
    assert lags[len(lags) // 2] < SLICE


async def test_slices_grow_and_shrink_with_the_time_that_the_woken_take(monkeypatch):
    now, woken = 0.0, []
    monkeypatch.setattr(slice_of(asyncio.get_running_loop()), "clock", lambda: now)
    monkeypatch.setattr(lines, "SLICE", 1.0)
    tokens, cost = Tokens(), 1 / 128

    async def wanting():
        nonlocal now
        await tokens.get()
        now += cost
        woken[-1] += 1

    tasks = [asyncio.create_task(wanting()) for _ in range(2000)]
    await turns()
    tokens.add(2000)
    while not all(task.done() for task in tasks):
        woken.append(0)
        await asyncio.sleep(0)
        cost = 1 / 128 if len(woken) < 20 else 1 / 8
    assert woken[:2] == [16, 16]
    assert set(woken[2:20]) == {64}
    assert set(woken[-9:-1]) == {4}


async def test_the_line_keeps_its_order_whoever_leaves():
    line, attempts = WaiterLine(), [Attempt(str(number), lambda: None) for number in range(6)]
    for attempt in attempts:
        line.join(attempt)
    assert all(map(line.leave, [attempts[0], attempts[3], attempts[5]]))
    assert not line.leave(attempts[3])
    line.join(attempts[0])
    assert [attempt.what for attempt in line] == ["1", "2", "4", "0"]
    assert (line.first, len(line)) == (attempts[1], 4)
    assert not WaiterLine().leave(attempts[1])


@pytest.mark.parametrize("ending", ["served", "cancelled", "failed"])
async def test_runs_that_waited_leave_nothing_to_the_cyclic_collector(ending):
    for _ in range(3):
        if not (left := await cycles_left_by_runs(ending)):
            break
    assert left == {}


async def cycles_left_by_runs(ending):
    """The types of the objects that runs that waited leave to the collector.

    Threads of earlier tests may leave some, too.
    """
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(10, af.float32, [[]])
        fetches = [queue.dequeue(), queue.dequeue() + 1.0]
    async with af.Session(graph=graph) as session:
        live = session.queue(queue)
        for fetch in fetches:
            await live.put(0)
            await session.run(fetch)
        while gc.collect():
            pass  # what earlier tests left may hold more
        with collector_off():
            tasks = [asyncio.create_task(session.run(fetch)) for fetch in fetches]
            await turns()
            if ending == "served":
                await live.put_many([[1], [2]])
            elif ending == "failed":
                await live.close()
            else:
                for task in tasks:
                    task.cancel()
            await asyncio.wait(tasks)
            assert {task.cancelled() or bool(task.exception()) for task in tasks} == {ending != "served"}
            del tasks
            await turns()
            return collected()


def collected():
    """The types of the objects that the collector finds, and how many there are of each."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return Counter(type(found).__name__ for found in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@contextlib.contextmanager
def collector_off():
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_callers_come_from_any_loop():
    tokens, got, lock = Tokens(), [], threading.Lock()

    async def work():
        for _ in range(100):
            count = await tokens.get(1)
            with lock:
                got.append(count)
            tokens.add(1)
            await asyncio.sleep(0)

    tokens.count = 2
    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 400
    assert tokens.count == 2


def test_who_waited_on_a_closed_loop_is_passed_over():
    tokens = Tokens()
    gone = asyncio.new_event_loop()
    task = gone.create_task(tokens.get())
    gone.run_until_complete(turns())
    task._log_destroy_pending = False
    gone.close()
    tokens.add(1)
    assert (tokens.count, len(tokens.line)) == (1, 0)
    task.get_coro().close()


def test_a_loop_that_stopped_while_it_served_does_not_hold_up_another():
    tokens, other = Tokens(), VirtualTimeLoop()
    stopped = VirtualTimeLoop()

    async def begin():
        for _ in range(2 * BATCH):
            tokens._begin(tokens.line, tokens.wanting(1))
        tokens.add(3 * BATCH)  # the loop ends before its next turn, in which it would go on

    async def main():
        async with asyncio.timeout(10):
            return await tokens.get()

    try:
        stopped.run_until_complete(begin())
        assert other.run_until_complete(main()) == 1
        assert len(tokens.line) == 0
    finally:
        stopped.close()
        other.close()


def test_released_from_a_thread_without_a_loop_all_are_told():
    tokens = Tokens()

    async def main():
        tasks = [asyncio.create_task(tokens.get()) for _ in range(3 * BATCH)]
        await turns()
        await asyncio.to_thread(tokens.release)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {errors.CancelledError}
        with pytest.raises(errors.CancelledError, match="the tokens are gone"):
            await tokens.get()

    asyncio.run(main())


async def test_an_aborted_one_gives_each_an_error_of_its_own_and_the_first_end_stands():
    tokens, cause = Tokens(), ValueError("as told")
    tasks = [asyncio.create_task(tokens.get()) for _ in range(3)]
    await turns()
    tokens.abort(cause)
    tokens.release()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(result) for result in results] == ["as told"] * 3
    assert len({id(result) for result in results}) == 3
    assert {result.__cause__ for result in results} == {cause}
    with pytest.raises(ValueError, match="as told"):
        await tokens.get()


async def test_an_error_that_cannot_be_copied_is_shared():
    class Stubborn(Exception):
        def __reduce__(self):
            raise TypeError("never")

    tokens, cause = Tokens(), Stubborn()
    tokens.abort(cause)
    with pytest.raises(Stubborn) as caught:
        await tokens.get()
    assert caught.value is cause
