"""The CPU device: NumPy on the loop's own thread, and a few threads for what would hold the loop too long."""

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import numpy as np

R = TypeVar("R")
_log = logging.getLogger("aioflow.devices")


class Job(Generic[R]):
    """A function on its way to a thread. It can be withdrawn until it has begun; after that it is detached."""

    __slots__ = ("_ticket", "abandoned", "done", "function", "label")

    def __init__(self, function: Callable[[], R], label: str) -> None:
        self.function = function
        self.label = label
        self.done = False
        self.abandoned = False
        self._ticket = [True]

    def claim(self) -> bool:
        """True for the first caller only, which thereby decides: the thread to begin, or the owner to withdraw."""
        try:
            return self._ticket.pop()
        except IndexError:
            return False


class Cores:
    """One thread for each further core, to share out work on parts of large arrays; started when first needed."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def share_out(self, work: Callable[[int, int], object], size: int) -> None:
        """Run work(begin, end) for parts that make up range(size), on this thread and the others; wait for all."""
        bounds = [size * part // self._count for part in range(self._count + 1)]
        parts = list(itertools.pairwise(bounds))
        futures = [self._threads().submit(self._quietly, work, part) for part in parts[1:]]
        try:
            work(*parts[0])
        finally:
            for future in futures:
                future.result()

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count - 1, thread_name_prefix=self._name)
            return self._pool

    @staticmethod
    def _quietly(work: Callable[[int, int], object], part: tuple[int, int]) -> None:
        with np.errstate(all="ignore"):
            work(*part)

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


class Threads:
    """Threads for work that cannot run on the loop; started when first needed.

    Cancelling `run` returns at once. A function that has begun cannot be interrupted: it is detached, counted in
    `detached`, and `close` waits for it.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._pool: ThreadPoolExecutor | None = None
        self._detached: set[Job[Any]] = set()
        self._idle = asyncio.Event()

    @property
    def detached(self) -> list[str]:
        """What still runs although nobody waits for it."""
        return [job.label for job in self._detached]

    async def run(self, function: Callable[[], R], label: str, withdrawn: Callable[[], object] = lambda: None) -> R:
        """The result of `function`, run on a thread; `withdrawn()` is called if it never began."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, thread_name_prefix=self._name)
        loop = asyncio.get_running_loop()
        job = Job(function, label)
        try:
            return await loop.run_in_executor(self._pool, self._perform, job, loop)
        except (asyncio.CancelledError, GeneratorExit):
            if job.claim():
                withdrawn()
            else:
                self._detach(job)
            raise

    def _perform(self, job: Job[R], loop: asyncio.AbstractEventLoop) -> R:
        if not job.claim():
            raise asyncio.CancelledError
        try:
            return job.function()
        finally:
            job.done = True
            if job.abandoned:
                with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                    loop.call_soon_threadsafe(self._finished, job)

    def _detach(self, job: Job[R]) -> None:
        job.abandoned = True
        if not job.done:
            self._detached.add(job)
            self._idle.clear()

    def _finished(self, job: Job[Any]) -> None:
        self._detached.discard(job)
        if not self._detached:
            self._idle.set()

    async def close(self, limit: float) -> list[str]:
        """End the threads. Waits up to `limit` seconds for detached functions; returns those that still run."""
        if self._detached:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await self._idle.wait()
        if self._pool is not None:
            self._pool.shutdown(wait=not self._detached, cancel_futures=True)
            self._pool = None
        if self._detached:
            _log.warning("still running after %.1f s: %s", limit, ", ".join(self.detached))
        return self.detached
