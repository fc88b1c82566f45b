"""The threads of a CPU device, for kernels that would block the event loop too long."""

import asyncio
import contextlib
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, Final, Generic, ParamSpec, TypeVar

import numpy as np

from aioflow import errors
from aioflow.devices import activity

P = ParamSpec("P")
R = TypeVar("R")
_PARTS: Final = 4
"""The parts of shared work for each core."""
_log = logging.getLogger("aioflow.devices")


class ThreadJob(Generic[R]):
    """A function submitted to a thread. It can be withdrawn until it begins; a cancelled run detaches it afterwards."""

    __slots__ = ("_ticket", "abandoned", "done", "function", "label")

    def __init__(self, function: Callable[[], R], label: str) -> None:
        self.function: Callable[[], R] = function
        self.label: str = label
        self.done: bool = False
        self.abandoned: bool = False
        self._ticket = [True]

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return not self._ticket and not self.done

    def claim(self) -> bool:
        """Return True for the first caller only: the thread, which then begins, or the owner, which then withdraws."""
        try:
            return self._ticket.pop()
        except IndexError:
            return False


class Cores:
    """One thread for each further core, for work on parts of large arrays. They start with the first work."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def share_out(self, work: Callable[[int, int], object], size: int) -> None:
        """Run work(begin, end) for parts that cover range(size), on this thread and the others, and wait for all.

        There are more parts than cores, and each thread takes the next part when it has finished one. So a core that
        other programs use, too, does not delay the rest.
        """
        count = min(_PARTS * self._count, max(1, size))
        parts = iter([(size * part // count, size * (part + 1) // count) for part in range(count)])
        futures = [self._threads().submit(self._work_quietly, work, parts) for _ in range(self._count - 1)]
        try:
            _take_parts(work, parts)
        finally:
            begun = [future for future in futures if not future.cancel()]
            del futures
            wait(begun)
        while begun:
            _check(begun.pop())

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count - 1, thread_name_prefix=self._name)
            return self._pool

    @staticmethod
    def _work_quietly(work: Callable[[int, int], object], parts: Iterator[tuple[int, int]]) -> None:
        with np.errstate(all="ignore"):
            _take_parts(work, parts)

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def _take_parts(work: Callable[[int, int], object], parts: Iterator[tuple[int, int]]) -> None:
    """Take parts and work on them until none is left. A list's iterator gives each part to one thread."""
    for begin, end in parts:
        work(begin, end)


def _check(future: "Future[None]") -> None:
    """Raise the future's error. In a function of its own, because a frame that refers to both makes a cycle."""
    try:
        future.result()
    finally:
        del future


class ThreadPool(Executor):
    """An executor that prefers the thread that was busy last.

    Successive calls stay on one thread, with its warm caches and with the one team of threads that kernel libraries
    keep for each calling thread. If all threads are busy, a call waits for the first that becomes free.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: list[ThreadPoolExecutor] = []
        self._free: list[ThreadPoolExecutor] = []
        self._more = count

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Call `function` on a thread as soon as one is free."""
        future: Future[R] = Future()
        with self._lock:
            self._calls.append((future, functools.partial(function, *args, **kwargs)))
            thread = self._free.pop() if self._free else self._next_thread()
        if thread is not None:
            thread.submit(self._work, thread)
        return future

    def _next_thread(self) -> ThreadPoolExecutor | None:
        if not self._more:
            return None
        self._more -= 1
        self._threads.append(ThreadPoolExecutor(1, thread_name_prefix=f"{self._name}_{len(self._threads)}"))
        return self._threads[-1]

    def _work(self, thread: ThreadPoolExecutor) -> None:
        """Make calls on that thread until none is left.

        The thread is free before it sets a result, so that the next call uses it.
        """
        tell: Callable[[], None] | None = None
        while True:
            with self._lock:
                future, call = self._calls.popleft() if self._calls else (None, None)
                if future is None:
                    self._free.append(thread)
            if tell is not None:
                tell()
                tell = None  # an error's traceback refers to this frame
            if future is None or call is None:
                return
            tell = _make_call(future, call)

    def call_on_free(self, function: Callable[[], object]) -> None:
        """Call `function` on each thread that is free, without waiting for it."""
        with self._lock, contextlib.suppress(RuntimeError):  # they are being shut down
            for thread in self._free:
                thread.submit(function)

    def drop_calls(self, error: Callable[[], BaseException]) -> None:
        """Let calls that have not begun fail."""
        for future in self._take_calls():
            if future.set_running_or_notify_cancel():
                future.set_exception(error())

    def _take_calls(self) -> list[Future[Any]]:
        with self._lock:
            futures = [future for future, _ in self._calls]
            self._calls.clear()
        return futures

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after all calls; with `cancel_futures` after those that have begun."""
        for future in self._take_calls() if cancel_futures else ():
            future.cancel()
        with self._lock:
            self._more = 0
        for thread in self._threads:
            thread.shutdown(wait)


def _make_call(future: "Future[R]", call: Callable[[], R]) -> Callable[[], None] | None:
    """Make the call unless its future is cancelled. Returns the function that sets the future's result."""
    if not future.set_running_or_notify_cancel():
        return None
    try:
        return functools.partial(future.set_result, call())
    except BaseException as error:
        return functools.partial(future.set_exception, error)
    finally:
        del future  # it will hold the error, whose traceback refers to this frame


class Threads:
    """Threads for work that cannot run on the event loop. They start with the first work.

    A cancelled `run` returns at once. A function that has begun cannot be interrupted: it is detached, listed in
    `detached`, and `close` waits for it.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._pool: ThreadPool | None = None
        self._jobs: set[ThreadJob[Any]] = set()
        """The functions that wait for a thread or run."""
        self._is_closed = False
        self._drained: asyncio.Future[None] | None = None

    @property
    def detached(self) -> list[str]:
        """The labels of the functions that still run after their `run` was cancelled."""
        return [job.label for job in self._jobs if job.abandoned]

    async def run(self, function: Callable[[], R], label: str, withdrawn: Callable[[], object] = lambda: None) -> R:
        """Run `function` on a thread and return its result.

        A cancelled run calls `withdrawn()` if the function never began. If the threads are closed before the function
        begins, the run does so, too, and raises `errors.CancelledError`. So does each later run.
        """
        loop = asyncio.get_running_loop()
        job = ThreadJob(function, label)
        self._jobs.add(job)
        try:
            return await loop.run_in_executor(self._open_pool(), self._perform, job, loop)
        except BaseException:
            if job.claim():
                job.done = True
                withdrawn()
            raise
        finally:
            job.abandoned = True
            if job.done:
                self._finished(job)

    def _open_pool(self) -> ThreadPool:
        if self._is_closed:
            raise closed_meanwhile()
        if self._pool is None:
            self._pool = ThreadPool(self._name, self._count)
        return self._pool

    def call_on_free(self, function: Callable[[], object]) -> None:
        """Call `function` on each thread that is free, without waiting for it. May be called in any thread."""
        pool = self._pool
        if pool is not None:
            pool.call_on_free(function)

    def _perform(self, job: ThreadJob[R], loop: asyncio.AbstractEventLoop) -> R:
        if not job.claim():
            raise asyncio.CancelledError
        activity.begin(job, job.label)
        try:
            return job.function()
        finally:
            activity.end(job)
            job.done = True
            if job.abandoned:
                with contextlib.suppress(RuntimeError):  # the loop may be closed
                    loop.call_soon_threadsafe(self._finished, job)

    def _finished(self, job: ThreadJob[Any]) -> None:
        self._jobs.discard(job)
        if not self._jobs and self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    async def drained(self) -> None:
        """Wait until no function waits for a thread or runs."""
        if self._jobs:
            self._drained = self._drained or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    async def close(self, limit: float) -> list[str]:
        """End the threads. Functions that have not begun never do.

        Waits up to `limit` seconds for those that run, and returns the labels of those that still do.
        """
        self._is_closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.drop_calls(closed_meanwhile)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self.drained()
        if pool is not None:
            pool.shutdown(wait=not any(job.is_running for job in self._jobs))
        left = [job.label for job in self._jobs if job.is_running]
        if left:
            _log.warning("still running after %.1f s: %s", limit, ", ".join(left))
        return left


def closed_meanwhile() -> errors.CancelledError:
    """Return the error of a run whose session was closed."""
    return errors.CancelledError("the session was closed while the run went on")
