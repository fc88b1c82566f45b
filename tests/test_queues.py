"""Live queues: against a plain model under cancellation, and what each kind promises."""

import asyncio
import contextlib
import functools
import math
import random
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from aioflow import errors
from aioflow.queues import Queue
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Spec, TensorShape
from aioflow.testing import VirtualTimeLoop
from aioflow.waiting.element_spec import Elements
from aioflow.waiting.stores import ByPriority, Fifo, Shuffled
from tests.support.queue_model import Attempt, Model
from tests.support.scale import amount

STORES = {"fifo": Fifo, "shuffled": lambda: Shuffled(random.Random(1)), "priority": ByPriority}


def queue_of(kind="fifo", capacity=-1, min_after=0, **options):
    return Queue("q", STORES[kind](), capacity, min_after, **options)


LONG = 40
"""The turns of the loop in which all callers resume that can: one put may wake the next, and so on."""


async def turns(count=12):
    for _ in range(count):
        await asyncio.sleep(0)


async def ended(task):
    return (await asyncio.gather(task, return_exceptions=True))[0]


# Against the model


class Queues(RuleBasedStateMachine):
    """Puts and takes of all sorts, closing, and cancelling at any moment: before, while and after being served."""

    kind = "fifo"

    @initialize(capacity=st.integers(1, 5), min_after=st.integers(0, 3))
    def make(self, capacity, min_after):
        least = min_after if self.kind == "shuffled" else 0
        self.loop = VirtualTimeLoop()
        self.queue = queue_of(self.kind, capacity + least, least)
        self.model = Model(self.kind, capacity + least, least)
        self.capacity = capacity + least
        self.runs = []  # [(attempt, task)], in the order they began
        self.cancelled = {}  # {attempt: when}
        self.heard = {}  # {attempt: when it was served, and whether on the loop}
        self.time = 0
        self.value = 0

    def values(self, count):
        first, self.value = self.value, self.value + count
        return list(range(first, first + count))

    def item(self, value):
        return (value % 3, value) if self.kind == "priority" else (value,)

    def begin(self, coroutine, attempt):
        """Begin it, at once: what the loop does first is to take the attempt's place in line."""
        self.turn()
        task = self.loop.create_task(coroutine)
        self.loop.run_until_complete(turns(LONG))
        self.runs.append((self.model.join(attempt), task))
        while self.model.granted:  # the loop has turned
            self.model.finish(self.model.granted[0])

    def turn(self):
        """Let all that was woken or cancelled go on, in the order it was.

        A caller that is served from outside of the loop is woken in the next turn, and resumes in the one after that,
        as do callers that get the room of a cancelled one.
        """
        self.loop.run_until_complete(turns(LONG))
        moments = {**dict.fromkeys(self.model.granted, (math.inf, False)), **self.heard}
        for each, when in self.cancelled.items():
            heard, inside = self.heard.get(each, (math.inf, True))
            moments[each] = (min(when, heard) if inside else when, True)
        later = []
        for attempt, (_, inside) in sorted(moments.items(), key=lambda moment: moment[1][0]):
            before = list(self.model.granted)
            if attempt in self.cancelled:
                self.model.leave(attempt)
            elif attempt in before and inside:
                self.model.finish(attempt)
            elif attempt in before:
                later.append(attempt)
            later += [each for each in self.model.granted if each not in before]
        for attempt in later:
            if attempt in self.model.granted:
                self.model.finish(attempt)
        while self.model.granted:
            self.model.finish(self.model.granted[0])
        self.cancelled, self.heard = {}, {}
        self.check()

    def hears(self, inside):
        """Served callers resume in the next turn in the order of these moments; last those served from outside."""
        self.time += 1
        for attempt in [*self.model.granted, *[attempt for attempt, _ in self.runs], *self.cancelled]:
            if attempt.outcome is not None or attempt in self.model.granted:
                self.heard.setdefault(attempt, (self.time, inside))

    @contextlib.contextmanager
    def at_once(self, inside):
        """Something happens without a turn of the loop, on it or beside it: who is served has not heard of it yet."""
        asyncio._set_running_loop(self.loop if inside else None)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)
        self.hears(inside)

    def check(self):
        for attempt, task in self.runs:
            assert task.done() == (attempt.outcome is not None), (attempt.kind, attempt.outcome, task)
            if task.done():
                assert self.came_to(attempt, task) == self.expected(attempt)
        self.runs = [run for run in self.runs if not run[1].done()]

    def expected(self, attempt):
        return [value for _, value in attempt.outcome] if isinstance(attempt.outcome, list) else attempt.outcome

    def came_to(self, attempt, task):
        match task.exception():
            case None:
                takes = attempt.kind in ("take", "up_to")
                return [item[-1] for item in task.result()] if takes else "done"
            case errors.OutOfRangeError():
                return "out of range"
            case errors.CancelledError():
                return "closed"

    @rule()
    def put(self):
        (value,) = self.values(1)
        self.begin(self.queue.put(*self.item(value)), Attempt("put", [value]))

    @rule(count=st.integers(2, 5), atomic=st.booleans())
    def put_many(self, count, atomic):
        values = self.values(min(count, self.capacity) if atomic else count)
        items = [self.item(value) for value in values]
        self.begin(self.queue.put_many(items, atomic), Attempt("atomic" if atomic else "put", values))

    @rule(count=st.integers(1, 7))
    def take_many(self, count):
        self.begin(self.queue.take_many(count), Attempt("take", count=count))

    @rule(count=st.integers(1, 7))
    def take_up_to(self, count):
        self.begin(self.queue.take_up_to(count), Attempt("up_to", count=count))

    @rule(inside=st.booleans())
    def put_now(self, inside):
        (value,) = self.values(1)
        attempt = Attempt("put", [value])
        self.try_now(attempt, self.model.puts)
        with self.at_once(inside):
            try:
                assert self.queue.put_nowait(*self.item(value)) == (attempt.outcome == "done")
            except errors.CancelledError:
                assert attempt.outcome == "closed"

    @rule(inside=st.booleans())
    def take_now(self, inside):
        attempt = Attempt("take", count=1)
        self.try_now(attempt, self.model.takes)
        with self.at_once(inside):
            try:
                item = self.queue.take_nowait()
                assert (None if item is None else [item[-1]]) == self.expected(attempt)
            except errors.OutOfRangeError:
                assert attempt.outcome == "out of range"

    def try_now(self, attempt, line):
        self.model.join(attempt)
        if attempt in line:
            line.remove(attempt)

    @precondition(lambda self: self.runs)
    @rule(place=st.integers(0, 9))
    def cancel(self, place):
        """Cancel somebody, who may have been served without having heard of it."""
        attempt, task = self.runs[place % len(self.runs)]
        if task.cancel():
            self.runs.remove((attempt, task))
            self.time += 1
            self.cancelled[attempt] = self.time

    @rule(now=st.booleans(), inside=st.booleans())
    @precondition(lambda self: self.value > 20)
    def close(self, now, inside):
        if not now:
            self.begin(self.queue.close(), Attempt("close"))
        elif not self.model.closed:
            self.model.close_now()
            with self.at_once(inside):
                self.queue.close_nowait()

    @rule()
    def let_the_loop_turn(self):
        self.turn()

    @invariant()
    def nothing_is_lost_or_doubled(self):
        statistics = self.queue.statistics()
        assert statistics.size == self.queue.size == self.model.size
        assert statistics.put - statistics.taken == statistics.size
        assert (statistics.putting, statistics.taking) == (
            len(self.model.puts + self.model.granted),
            len(self.model.takes),
        )
        assert statistics.closed == self.model.closed
        assert sorted(item[-1] for item in self.queue._store) == sorted(value for _, value in self.model.items)

    def teardown(self):
        for _, task in self.runs:
            task.cancel()
        self.loop.run_until_complete(turns())
        assert not self.queue.waiting
        assert all(task.done() for _, task in self.runs)
        self.loop.close()


@pytest.mark.parametrize("kind", STORES)
def test_a_queue_agrees_with_its_model_under_cancellation(kind):
    machine = type(f"Queues of {kind}", (Queues,), {"kind": kind})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=amount(20, 150), stateful_step_count=60, deadline=None)
    )


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("last", [2, 3])
def test_the_room_of_a_cancelled_put_is_granted_before_puts_hear_of_room_made_outside_of_their_loop(kind, last):
    machine = type(f"Queues of {kind}", (Queues,), {"kind": kind})()
    machine.make(capacity=2, min_after=0)
    for _ in range(6):
        machine.put()
    machine.cancel(place=0)
    machine.take_now(inside=False)
    machine.take_now(inside=False)
    machine.take_many(count=last)
    machine.put()
    machine.nothing_is_lost_or_doubled()
    machine.teardown()


# Giving back


async def test_a_put_that_is_cancelled_after_its_first_elements_leaves_the_room_to_the_next():
    queue = queue_of(capacity=1)
    many = asyncio.create_task(queue.put_many([(1,), (2,)]))
    await turns()
    many.cancel()
    assert isinstance(await ended(many), asyncio.CancelledError)
    assert queue.take_nowait() == (1,)
    following = asyncio.create_task(queue.put(3))
    await turns()
    assert following.done()
    assert queue.take_nowait() == (3,)


async def test_a_put_that_is_cancelled_once_its_room_is_granted_leaves_the_room_to_the_next():
    queue = queue_of(capacity=1)
    assert queue.put_nowait(1)
    granted = asyncio.create_task(queue.put(2))
    await turns()
    assert queue.take_nowait() == (1,)
    granted.cancel()
    assert isinstance(await ended(granted), asyncio.CancelledError)
    following = asyncio.create_task(queue.put(3))
    await turns()
    assert following.done()
    assert queue.take_nowait() == (3,)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
async def test_who_is_cancelled_before_hearing_gives_back_in_the_old_order(order):
    queue = queue_of()
    tasks = [asyncio.create_task(queue.take()) for _ in range(3)]
    await turns()
    for value in range(4):
        assert queue.put_nowait(value)
    assert queue.size == 1
    for place in order:
        tasks[place].cancel()
    await turns()
    assert [await queue.take() for _ in range(4)] == [(0,), (1,), (2,), (3,)]


async def test_what_is_given_back_goes_to_who_waits():
    queue = queue_of()
    first, second = [asyncio.create_task(queue.take()) for _ in range(2)]
    await turns()
    queue.put_nowait(1)
    first.cancel()
    assert await second == (1,)
    assert first.cancelled()


async def test_a_batch_whose_stacking_is_cancelled_is_given_back():
    queue = queue_of(elements=Elements([Spec(dtypes.float32, TensorShape([1 << 19]))]))
    await queue.put_batch(np.ones((2, 1 << 19), np.float32))

    async def work(function, *arguments):
        await asyncio.sleep(1)

    task = asyncio.create_task(queue.take_batch(2, work=work))
    await asyncio.sleep(0.5)
    assert queue.size == 0
    task.cancel()
    await ended(task)
    assert queue.statistics().size == 2
    assert queue.statistics().taken == 0


# Many


async def test_thousands_of_elements_go_through_a_narrow_queue_in_order():
    queue = queue_of(capacity=10)
    put = asyncio.create_task(queue.put_many([(value,) for value in range(3000)]))
    taken = []
    for count in (1, 700, 5, 2294):
        taken += await queue.take_many(count)
    assert taken == [(value,) for value in range(3000)]
    await put


async def test_the_loop_turns_while_thousands_are_served():
    queue = queue_of()
    tasks = [asyncio.create_task(queue.take()) for _ in range(2000)]
    await turns()
    put = asyncio.create_task(queue.put_many([(value,) for value in range(2000)]))
    counts = []
    while not all(task.done() for task in tasks):
        counts.append(sum(task.done() for task in tasks))
        await asyncio.sleep(0)
    await put
    assert len(counts) > 4
    assert [task.result() for task in tasks] == [(value,) for value in range(2000)]


@pytest.mark.parametrize("kind", STORES)
async def test_loops_on_several_threads_lose_nothing(kind):
    queue, taken, lock = queue_of(kind, capacity=7), [], threading.Lock()

    async def producer(start):
        for value in range(start, start + 200):
            await queue.put(value % 3, value) if kind == "priority" else await queue.put(value)

    async def consumer():
        async for item in queue:
            with lock:
                taken.append(item)

    threads = [threading.Thread(target=asyncio.run, args=(consumer(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    makers = [threading.Thread(target=asyncio.run, args=(producer(start),)) for start in (0, 1000)]
    for thread in makers:
        thread.start()
    while any(thread.is_alive() for thread in makers):
        await turns()
    await queue.close()
    for thread in threads:
        thread.join()
    values = [item[-1] if kind == "priority" else item for item in taken]
    assert sorted(values) == [*range(200), *range(1000, 1200)]
    assert queue.statistics().putting == queue.statistics().taking == 0


def test_who_waited_on_a_loop_that_is_closed_takes_nothing():
    queue = queue_of()
    loop = asyncio.new_event_loop()
    task = loop.create_task(queue.take())
    loop.run_until_complete(turns())
    task._log_destroy_pending = False
    loop.close()
    assert queue.statistics().taking == 1

    async def main():
        assert queue.put_nowait(1)
        return await queue.take()

    assert asyncio.run(main()) == (1,)
    task.get_coro().close()


# Room


async def test_capacity_in_bytes_counts_what_is_in_the_queue():
    queue = queue_of(capacity_bytes=100)
    await queue.put(np.zeros(10, np.float32))
    await queue.put(b"x" * 60)
    assert queue.statistics().bytes == 100
    waiting = asyncio.create_task(queue.put(np.zeros(1000)))
    await turns()
    assert not waiting.done()
    await queue.take()
    await turns()
    assert not waiting.done()
    await queue.take()
    await waiting
    assert queue.statistics().bytes == 8000
    await queue.take()
    await queue.put_many([(np.array([b"abc", b"de"], object),), (b"f",)], atomic=True)
    assert queue.statistics().bytes == 6


async def test_taken_elements_leave_their_bytes_to_others():
    queue = queue_of(capacity_bytes=100)
    await queue.put_many([(b"x" * 60,), (b"y" * 30,)])
    await queue.take()
    assert queue.put_nowait(b"z" * 70)
    assert not queue.put_nowait(b"z")


async def test_a_waiting_take_of_more_than_the_bytes_allow_is_served():
    queue = queue_of(capacity_bytes=10)
    task = asyncio.create_task(queue.take_many(3))
    await queue.put_many([(b"x" * 8,)] * 4)
    assert len(await task) == 3


async def test_an_atomic_put_never_waits_for_who_waits_for_it():
    queue = queue_of(capacity=4)
    await queue.put_many([(1,), (2,), (3,)])
    take = asyncio.create_task(queue.take_many(4))
    await turns()
    await queue.put_many([(4,), (5,)], atomic=True)
    assert await take == [(1,), (2,), (3,), (4,)]
    assert queue.size == 1


async def test_more_than_the_capacity_is_never_put_at_once():
    queue = queue_of(capacity=2)
    with pytest.raises(ValueError, match=r"3 elements at once do not go into <Queue 'q' 0/2.*, which holds 2"):
        await queue.put_many([(1,), (2,), (3,)], atomic=True)


async def test_a_queue_of_capacity_zero_hands_over():
    queue = queue_of(capacity=0)
    put = asyncio.create_task(queue.put(1))
    await turns()
    assert not put.done()
    assert await queue.take() == (1,)
    await put


# Application code


async def test_iterating_ends_when_the_queue_is_closed_and_empty():
    queue = queue_of(capacity=2)

    async def produce():
        for value in range(5):
            await queue.put(value)
        await queue.put(5, "b")
        await queue.close()

    task = asyncio.create_task(produce())
    assert [item async for item in queue] == [0, 1, 2, 3, 4, (5, "b")]
    await task


LARGE_ONE = np.zeros(1 << 18, np.float64)


@pytest.mark.parametrize("way", ["put", "put_many", "put_batch"])
@pytest.mark.real
async def test_what_is_large_is_copied_on_a_thread_and_keeps_its_place_in_line(way, monkeypatch):
    copying, go_on = threading.Event(), threading.Event()
    queue = queue_of(elements=Elements([Spec(dtypes.float64, TensorShape([None]))]))
    given = {"put": [LARGE_ONE], "put_many": [[[LARGE_ONE]]], "put_batch": [LARGE_ONE[None]]}[way]
    for name in ("item", "rows"):
        monkeypatch.setattr(queue.elements, name, held_up(getattr(queue.elements, name), copying, go_on))
    large = asyncio.create_task(getattr(queue, way)(*given))
    await asyncio.to_thread(copying.wait)
    small = asyncio.create_task(queue.put(np.ones(3)))
    await turns()
    assert (queue.size, small.done(), large.done()) == (0, False, False)
    go_on.set()
    await asyncio.gather(large, small)
    first, second = await queue.take_many(2)
    assert (first[0].shape, second[0].shape) == (LARGE_ONE.shape, (3,))
    assert not np.shares_memory(first[0], LARGE_ONE)


def held_up(function, begun, go_on):
    """The function, which for what is large waits until it may go on."""

    def call(values):
        if np.size(values) >= LARGE_ONE.size:
            begun.set()
            go_on.wait()
        return function(values)

    return call


async def test_what_is_large_and_refused_holds_up_nobody():
    queue = queue_of(capacity=1, elements=Elements([Spec(dtypes.float64, TensorShape([3]))]))
    await queue.put(np.ones(3))
    with pytest.raises(ValueError, match="must have shape"):
        await queue.put(LARGE_ONE)
    with pytest.raises(ValueError, match="2 elements at once do not go into"):
        await queue.put_many([[np.ones(3)], [np.broadcast_to(0.0, 3)]], atomic=True)
    waiting = asyncio.create_task(queue.put(LARGE_ONE))
    await asyncio.sleep(0)
    waiting.cancel()
    assert isinstance(await ended(waiting), asyncio.CancelledError)
    assert queue.statistics().putting == 0


async def test_what_is_copied_while_the_queue_is_released_is_not_put():
    queue = queue_of(elements=Elements([Spec(dtypes.float64, TensorShape([None]))]))
    putting = asyncio.create_task(queue.put(LARGE_ONE))
    await asyncio.sleep(0)
    queue.release()
    await turns()
    assert isinstance(await ended(putting), errors.CancelledError)
    assert queue.size == 0


@pytest.fixture
def typed():
    return queue_of(elements=Elements([Spec(dtypes.float32, TensorShape([2])), Spec(dtypes.string, TensorShape([]))]))


async def test_what_is_put_is_converted_and_copied(typed):
    given = np.array([1, 2], np.float32)
    await typed.put(given, "text")
    await typed.put([3, 4], b"bytes")
    given[:] = 0
    first, second = await typed.take_many(2)
    np.testing.assert_array_equal(first[0], [1, 2])
    assert first[1] == b"text"
    assert second[0].dtype == np.float32
    assert second[1] == b"bytes"


@pytest.mark.parametrize(
    ("components", "kind", "text"),
    [
        (([1, 2],), ValueError, r"1 components were given, an element has 2: float32\[2\], string\[\]"),
        (([1, 2, 3], ""), ValueError, r"component 0 must have shape \[2\], not \[3\]"),
        (([1, 2], ["a"]), ValueError, r"component 1 must have shape \[\], not \[1\]"),
        ((["a", "b"], ""), TypeError, r"component 0 is float32\[2\]: "),
        (([1, 2j], ""), TypeError, "component 0 is float32.*complex"),
        (([1, 2], 5), TypeError, "component 1 is string"),
        (([[1], [2, 3]], ""), ValueError, "component 0 is float32.*cannot be made into one array"),
    ],
)
async def test_what_the_queue_cannot_hold_is_refused(typed, components, kind, text):
    with pytest.raises(kind, match=text):
        await typed.put(*components)
    with pytest.raises(kind, match=text):
        await typed.put_many([([1, 2], "a"), components])
    with pytest.raises(kind, match=text):
        typed.put_nowait(*components)
    assert typed.size == 0


async def test_batches_go_in_and_come_out_stacked(typed):
    await typed.put_batch(np.arange(6).reshape(3, 2), ["a", "b", "c"])
    vectors, texts = await typed.take_batch(2)
    np.testing.assert_array_equal(vectors, [[0, 1], [2, 3]])
    assert (vectors.dtype, texts.tolist()) == (np.float32, [b"a", b"b"])
    vectors, texts = await typed.take_batch(0)
    assert (vectors.shape, vectors.dtype, texts.shape, texts.dtype) == ((0, 2), np.float32, (0,), object)
    with pytest.raises(ValueError, match=r"as many rows of each component; their shapes are \[2, 2\], \[1\]"):
        await typed.put_batch([[1, 2], [3, 4]], ["a"])
    with pytest.raises(ValueError, match=r"rows of a batch must have shape \[2\], not \[3\]"):
        await typed.put_batch([[1, 2, 3]], ["a"])
    with pytest.raises(TypeError, match="holds anything, and so no batches"):
        await queue_of().take_batch(1)
    with pytest.raises(ValueError, match="-1 elements cannot be taken"):
        await typed.take_many(-1)


async def test_closing_is_heard_by_all():
    queue = queue_of(capacity=1)
    await queue.put(1)
    put, close, late = [asyncio.create_task(c) for c in (queue.put(2), queue.close(), queue.put(3))]
    await turns()
    assert not queue.closed
    assert repr(queue) == "<Queue 'q' 1/1, 3 putting, 0 taking>"
    assert await queue.take() == (1,)
    await close
    await put
    with pytest.raises(errors.CancelledError, match="queue 'q' is closed"):
        await late
    assert repr(queue) == "<Queue 'q' 1/1, 0 putting, 0 taking, closed>"
    with pytest.raises(errors.OutOfRangeError, match="'q' is closed and has 1 elements left; 2 elements asked for"):
        await queue.take_many(2)
    assert await queue.take_up_to(2) == [(2,)]
    with pytest.raises(errors.OutOfRangeError, match="has 0 elements left; an element asked for"):
        await queue.take()
    with pytest.raises(errors.CancelledError, match="is closed"):
        await queue.close()
    await queue.close(cancel_pending_enqueues=True)


async def test_who_waits_when_it_is_released_or_aborted_is_told():
    for end, kind, text in (
        (Queue.release, errors.CancelledError, "queue 'q' is gone"),
        (functools.partial(Queue.abort, error=OSError("the disk is on fire")), OSError, "on fire"),
    ):
        full, queue = queue_of(capacity=1), queue_of()
        full.put_nowait(1)
        waiting = full.put(2), full.put_many([(3,), (4,)]), full.close(), queue.take_many(3), queue.take()
        tasks = [asyncio.create_task(each) for each in waiting]
        await turns()
        end(full)
        end(queue)
        for task in tasks:
            with pytest.raises(kind, match=text):
                await task
        for call in (queue.put(1), queue.take(), queue.close()):
            with pytest.raises(kind, match=text):
                await call
        with pytest.raises(kind, match=text):
            queue.take_nowait()
        with pytest.raises(kind, match=text):
            queue.close_nowait()


# Order of what comes out


def test_a_shuffled_store_takes_all_in_an_order_that_its_seed_decides():
    def drawn(seed):
        store = Shuffled(random.Random(seed))
        for value in range(50):
            store.add((value,))
        return [store.take()[-1][0] for _ in range(50)]

    assert drawn(3) == drawn(3) != drawn(4)
    assert sorted(drawn(3)) == list(range(50)) != drawn(3)


def test_a_shuffled_store_takes_each_as_often():
    counts = np.zeros(10)
    store = Shuffled(random.Random(5))
    for value in range(10):
        store.add((value,))
    for _ in range(20_000):
        taken = store.take()
        counts[taken[-1][0]] += 1
        store.put_back([taken])
    chi_squared = ((counts - 2000) ** 2 / 2000).sum()
    assert chi_squared < 40


@pytest.mark.parametrize("make", [Fifo, ByPriority])
def test_elements_that_are_put_back_in_any_order_come_out_as_before(make):
    store = make()
    for value in range(5):
        store.add((value,))
    taken = [store.take() for _ in range(4)]
    store.put_back([taken[place] for place in (2, 0, 3, 1)])
    assert [store.take()[-1] for _ in range(5)] == [(value,) for value in range(5)]


@pytest.mark.parametrize("kind", STORES)
async def test_what_is_given_back_is_in_a_full_and_in_a_closed_queue_at_once(kind):
    queue = queue_of(kind, capacity=1, capacity_bytes=8)
    await queue.put(np.int64(1))
    waiting = asyncio.ensure_future(queue.put(np.int64(2)))
    await turns()
    queue.give_back([(np.int64(1),), (np.int64(1),)])
    assert queue.size == 3
    assert [await queue.take() for _ in range(2)] == [(1,)] * 2
    await turns()
    assert not waiting.done()
    assert await queue.take() == (1,)
    await waiting
    queue.close_nowait()
    assert await queue.take() == (2,)
    queue.give_back([(np.int64(2),)])
    assert await queue.take() == (2,)
    with pytest.raises(errors.OutOfRangeError):
        await queue.take()
    queue.release()
    with pytest.raises(errors.CancelledError, match="is gone"):
        queue.give_back([(np.int64(2),)])


async def test_who_waits_to_take_is_served_of_what_is_given_back():
    queue = queue_of(capacity=1)
    taking = asyncio.ensure_future(queue.take_many(2))
    await turns()
    queue.give_back([(1,), (2,)])
    assert await taking == [(1,), (2,)]
