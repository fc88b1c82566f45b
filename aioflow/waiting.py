"""Waiting without threads: who waits for what, in which order, and how many are woken at a time.

What can be waited for is a plain object whose state changes at once, under a lock held for a few statements: `Line`s of
attempts are served strictly in order, by functions that change the state or leave it as it is. All that a caller awaits
is a future of its own loop. So a wait that is cancelled has nothing to undo but its place in line, and callers may come
from any loop of the process.
"""

import asyncio
import contextlib
import copy
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

BATCH: Final = 256
"""So many are served before the loop gets a turn."""
SLICE: Final = 0.002
"""Seconds that the waking of many waiters may hold a loop at a time."""
_AT_FIRST: Final = 16

Outcome = tuple[Any, BaseException | None]
"""What an attempt came to: a value, or an error."""


class Attempt:
    """Something that one caller wants done as soon as it can be.

    Attributes:
        what: what it waits to do, for those who ask why nothing happens.
        who: the operation that wants it, if one does.
        since: when it took its place in line, on its loop's clock.
        serve: does it, or as much as can be done now. Returns the outcome, None as long as it is not done.
    """

    __slots__ = ("future", "outcome", "serve", "since", "what", "who")

    def __init__(self, what: str, serve: Callable[[], Outcome | None], who: Any = None) -> None:
        self.what: Final = what
        self.who: Final = who
        self.serve = serve
        self.since = 0.0
        self.outcome: Outcome | None = None
        self.future: asyncio.Future[None] | None = None

    @property
    def stranded(self) -> bool:
        """Whether its caller's loop is closed, so that nobody will ever hear what it came to."""
        return self.future is not None and self.future.get_loop().is_closed()

    def result(self) -> Any:
        """What it came to; raises the error if that is one."""
        value, error = self.outcome if self.outcome is not None else (None, None)
        if error is not None:
            raise error
        return value


class Line:
    """Attempts in the order they came; only the first is tried."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts: OrderedDict[int, Attempt] = OrderedDict()

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._attempts.values())

    @property
    def first(self) -> Attempt | None:
        """The attempt that is served next, None if nobody waits."""
        return next(iter(self._attempts.values()), None)

    def join(self, attempt: Attempt) -> None:
        """Take the last place."""
        self._attempts[id(attempt)] = attempt

    def leave(self, attempt: Attempt) -> bool:
        """Give up the place. False if it had none."""
        return self._attempts.pop(id(attempt), None) is not None

    def turn_away(self, serve: Callable[[], Outcome | None]) -> None:
        """From here on all who wait are served so."""
        for attempt in self._attempts.values():
            attempt.serve = serve

    def serve(self, most: int) -> list[Attempt]:
        """Serve those at the head as long as they can be, at most so many. Returns those who are done."""
        done: list[Attempt] = []
        while self._attempts and len(done) < most:
            attempt = next(iter(self._attempts.values()))
            if attempt.stranded:
                self._attempts.popitem(last=False)
                continue
            attempt.outcome = attempt.serve()
            if attempt.outcome is None:
                break
            self._attempts.popitem(last=False)
            done.append(attempt)
        return done


class Waitable:
    """What attempts are made at: lines that are served whenever something has changed.

    A subclass says in `_lines` which lines there are, in the order they are tried. What serves an attempt by and by may
    leave the rest for later by setting `_unfinished`.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._lock: Final = threading.Lock()
        self._lines: tuple[Line, ...] = ()
        self._gone: Callable[[], BaseException] | None = None
        self._unfinished = False
        self._going_on: asyncio.AbstractEventLoop | None = None

    async def attempt(self, line: Line, attempt: Attempt) -> Any:
        """Have it done, after all who wait in that line. Cancelling gives up the place, and undoes nothing."""
        if self._begin(line, attempt):
            return attempt.result()
        assert attempt.future is not None
        try:
            await attempt.future
        except BaseException:
            self._abandon(line, attempt)
            raise
        return attempt.result()

    def attempt_now(self, line: Line, attempt: Attempt) -> bool:
        """Have it done at once, if nobody waits in that line and it can be. Whether it was; then `result` has it."""
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            line.join(attempt)  # for others may be served because it is there
            served = self._serve()
            line.leave(attempt)
        wake(served)
        return attempt.outcome is not None

    def _begin(self, line: Line, attempt: Attempt) -> bool:
        """Take a place in line, or be served at once. Whether it is done."""
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            line.join(attempt)
            served = self._serve()
            if attempt.outcome is None:
                loop = asyncio.get_running_loop()
                attempt.since, attempt.future = loop.time(), loop.create_future()
        wake(served)
        return attempt.outcome is not None

    def _abandon(self, line: Line, attempt: Attempt) -> None:
        """Nobody waits for the attempt any more: others may get their turn."""
        with self._lock:
            if not line.leave(attempt) and attempt.outcome is not None and attempt.outcome[1] is None:
                self._give_back(attempt)
            served = self._serve()
        wake(served)

    def _give_back(self, attempt: Attempt) -> None:
        """The attempt was served, and its caller was cancelled before hearing of it."""

    def _serve(self) -> list[Attempt]:
        """Serve the lines in turn until nothing changes, or for now: what is left is served later. The lock is held."""
        served: list[Attempt] = []
        running = asyncio._get_running_loop()
        while self._going_on is None or self._going_on is not running:
            before = len(served)
            for line in self._lines:
                served += line.serve(BATCH)
            if not self._unfinished and len(served) == before:
                break
            if running is not None and (self._unfinished or len(served) >= BATCH):
                self._going_on = running  # another loop that comes meanwhile goes on itself: this one may have stopped
                running.call_soon(self._go_on)
            self._unfinished = False
        return served

    def _go_on(self) -> None:
        with self._lock:
            self._going_on = None
            served = self._serve()
        wake(served)

    def release(self) -> None:
        """Its container was reset or its session closed: who waits, and whoever comes later, gets a CancelledError."""
        self._end(self._gone_error)

    def abort(self, error: BaseException) -> None:
        """Who waits, and whoever comes later, gets that error, unless another end came before."""
        self._end(lambda: _again(error))

    def _end(self, gone: Callable[[], BaseException]) -> None:
        with self._lock:
            if self._gone is None:
                self._gone = gone
            for line in self._lines:
                line.turn_away(self._fail)
            self._going_on = None
            served = self._serve()
        wake(served)

    def _fail(self) -> Outcome:
        assert self._gone is not None
        return None, self._gone()

    def _gone_error(self) -> BaseException:
        raise NotImplementedError

    @property
    def waiting(self) -> list[Attempt]:
        """All who wait, line by line."""
        with self._lock:
            return [attempt for line in self._lines for attempt in line]


def _again(error: BaseException) -> BaseException:
    """The error for one more who gets it, with a traceback of its own if it can be copied."""
    try:
        made = copy.copy(error)
    except Exception:  # whatever its class makes of being copied
        return error
    made.__cause__ = error
    return made


# Waking


class _Waker:
    """Wakes waiters of one loop, a slice at a time, so that the loop can do other things in between.

    How long those who were woken take is measured from the loop's next turn, in which they run, to the one after it.
    """

    __slots__ = ("_began", "_due", "_loop", "_size", "_used")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = weakref.ref(loop)
        self._due: deque[asyncio.Future[None]] = deque()
        self._size = _AT_FIRST
        self._used: int | None = None
        self._began = 0.0

    def add(self, future: "asyncio.Future[None]") -> None:
        """Wake it, now if the slice is not used up."""
        if self._used is None:
            self._used = 0
            self._later(self._run)
        self._due.append(future)
        self._wake()

    def _wake(self) -> None:
        assert self._used is not None
        while self._due and self._used < self._size:
            future = self._due.popleft()
            if not future.done():
                future.set_result(None)
                self._used += 1

    def _run(self) -> None:
        """They run after this, in the same turn of the loop."""
        self._began = time.perf_counter()
        self._later(self._measure)

    def _measure(self) -> None:
        taken = time.perf_counter() - self._began
        if self._used == self._size:
            self._size = max(1, min(4 * self._size, int(self._size * SLICE / max(taken, 1e-6))))
        self._used = 0 if self._due else None
        if self._due:
            self._wake()
            self._later(self._run)

    def _later(self, callback: Callable[[], None]) -> None:
        loop = self._loop()
        if loop is not None:
            loop.call_soon(callback)


_wakers: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker]"] = weakref.WeakKeyDictionary()


def wake(attempts: list[Attempt]) -> None:
    """Tell those whose attempts are done and who wait for that, on whichever loop; those of a closed one never hear."""
    for attempt in attempts:
        future = attempt.future
        if future is None:
            continue
        loop = future.get_loop()
        if asyncio._get_running_loop() is loop:
            _wake_here(loop, future)
        else:
            with contextlib.suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(_wake_here, loop, future)


def _wake_here(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = _Waker(loop)
    waker.add(future)


__all__ = ["Attempt", "Line", "Outcome", "Waitable", "wake"]
