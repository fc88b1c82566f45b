"""The CPU's threads: which of them work goes to, and what becomes of it."""

import asyncio
import gc
import threading
import weakref
from concurrent.futures import wait

import pytest

from aioflow import errors
from aioflow.devices.cpu import Cores, ThreadPool, Threads


@pytest.fixture
def pool():
    made = ThreadPool("pool", 2)
    yield made
    made.shutdown()


def held(pool, event):
    """A call that is under way until the event is set."""
    begun = threading.Event()

    def call():
        begun.set()
        event.wait()
        return threading.get_ident()

    future = pool.submit(call)
    begun.wait()
    return future


def test_calls_one_after_the_other_stay_on_one_thread(pool):
    assert len({pool.submit(threading.get_ident).result() for _ in range(200)}) == 1


def test_calls_at_the_same_time_are_on_different_threads_and_the_next_go_where_one_has_just_ended(pool):
    ends = [threading.Event(), threading.Event()]
    first, second = [held(pool, end) for end in ends]
    ends[1].set()
    found = second.result()
    assert pool.submit(threading.get_ident).result() == found
    ends[0].set()
    assert first.result() != found


def test_what_comes_when_all_are_busy_waits_and_can_be_cancelled(pool):
    end = threading.Event()
    busy = [held(pool, end) for _ in range(2)]
    waiting = [pool.submit(int, text) for text in ("1", "2", "no")]
    assert waiting[0].cancel()
    end.set()
    wait(busy)
    assert waiting[1].result() == 2
    with pytest.raises(ValueError, match="no"):
        waiting[2].result()


def test_shut_down_it_makes_the_calls_that_wait_or_drops_them():
    for drop in (False, True):
        pool, end = ThreadPool("pool", 1), threading.Event()
        busy = held(pool, end)
        waiting = pool.submit(int, "1")
        pool.shutdown(wait=False, cancel_futures=drop)
        end.set()
        pool.shutdown()
        assert busy.done()
        assert waiting.cancelled() == drop


@pytest.mark.real
async def test_the_end_of_threads_waits_for_functions_that_run_and_fails_those_that_have_not_begun():
    threads, begun, end, withdrawn = Threads("ending", 1), threading.Event(), threading.Event(), []
    running = asyncio.create_task(threads.run(lambda: (begun.set(), end.wait()), "running"))
    await asyncio.to_thread(begun.wait)
    queued = [asyncio.create_task(threads.run(int, str(number), lambda: withdrawn.append(1))) for number in range(3)]
    await asyncio.sleep(0)
    queued[0].cancel()
    closing = asyncio.create_task(threads.close(600))
    ends = await asyncio.gather(*queued, return_exceptions=True)
    assert list(map(type, ends)) == [asyncio.CancelledError, errors.CancelledError, errors.CancelledError]
    assert len(withdrawn) == 3
    assert not closing.done()
    assert threads.detached == []
    end.set()
    assert await running == (None, True)
    assert await closing == []


@pytest.mark.real
async def test_threads_that_are_closed_without_a_wait_name_only_functions_that_have_begun():
    threads, begun, end = Threads("ending", 1), threading.Event(), threading.Event()
    running = asyncio.create_task(threads.run(lambda: (begun.set(), end.wait()), "running"))
    await asyncio.to_thread(begun.wait)
    queued = asyncio.create_task(threads.run(int, "queued"))
    await asyncio.sleep(0)
    assert await threads.close(0) == ["running"]
    with pytest.raises(errors.CancelledError, match="closed"):
        await queued
    end.set()
    assert await running == (None, True)
    with pytest.raises(errors.CancelledError, match="closed"):
        await threads.run(int, "late")


class Lost(Exception):
    pass


def test_who_shares_out_work_hears_of_an_error_when_all_have_ended_and_nothing_keeps_it():
    cores, others, done = Cores("cores", 3), threading.Barrier(3), []

    def work(begin, end):
        if begin < 3:  # one part for each of the three threads
            others.wait()
        if threading.current_thread() is not threading.main_thread():
            raise Lost
        done.append(begin)

    gc.collect()
    gc.disable()
    try:
        try:
            cores.share_out(work, 12)
        except Lost as error:
            found = weakref.ref(error)
        cores.close()
        assert len(done) == 10
        assert found() is None
    finally:
        gc.enable()
