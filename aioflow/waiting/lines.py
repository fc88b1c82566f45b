"""Waits without threads: lines of waiters, their order, and how many are woken at a time.

A waitable object is a plain object. Its state changes at once, under a lock that is held for a few statements. Its
`WaiterLine`s serve attempts strictly in order; an attempt is a function that changes the state or leaves it as it is.
A caller awaits only a future of its own loop. A cancelled wait therefore leaves the line and changes nothing else, and
callers may come from any loop of the process.
"""

import asyncio
import contextlib
import copy
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from aioflow.waiting.tasks import SLICE, slice_of

BATCH: Final = 16
"""So many are served between two looks at the clock."""
_AT_FIRST: Final = 16

Outcome = tuple[Any, BaseException | None]
"""The outcome of an attempt: a value, or an error."""


class Attempt:
    """A change that one caller wants to make as soon as possible.

    The caller of a waiting attempt may be cancelled before it resumes. An attempt whose change must not be visible
    before is `granted`: `serve` reserves what the change needs, and `Waitable._finish` makes the change when the caller
    resumes.

    Attributes:
        what: the text of its wait in reports such as `explain`.
        who: the waiting operation; None for the application.
        since: the time at which it joined the line, on its loop's clock.
        serve: makes the change, or as much of it as is possible now. Returns the outcome; None until it is done.
        line: its line.
        granted: whether it was served, and its change is made when its caller resumes.
    """

    __slots__ = ("_after", "_before", "future", "granted", "line", "outcome", "serve", "since", "what", "who")

    def __init__(self, what: str, serve: Callable[[], Outcome | None], who: Any = None) -> None:
        self.what: Final = what
        self.who: Final = who
        self.serve: Callable[[], Outcome | None] = serve
        self.since: float = 0.0
        self.outcome: Outcome | None = None
        self.granted: bool = False
        self.future: asyncio.Future[None] | None = None
        self.line: WaiterLine | None = None
        self._before: Attempt | None = None
        self._after: Attempt | None = None

    def try_now(self) -> Outcome | None:
        """Serve it if that is possible now. Returns the outcome; None if it must wait."""
        return self.serve()

    @property
    def is_orphaned(self) -> bool:
        """Whether its caller's loop is closed, so that the outcome has no receiver."""
        return self.future is not None and self.future.get_loop().is_closed()

    def result(self) -> Any:
        """Return the outcome, or raise its error. Drops the error, whose traceback refers to this object."""
        value, error = self.outcome if self.outcome is not None else (None, None)
        if error is None:
            return value
        self.outcome = None
        try:
            raise error
        finally:
            del error


def serve_none() -> None:
    """Serves an attempt that is not ready."""


class WaiterLine:
    """Attempts in the order of their arrival. Only the first one is tried.

    The attempts are a linked list: joining and leaving take constant time, and a long line is never copied.

    Attributes:
        users: the names of the operations whose attempts were served; empty for the application.
    """

    __slots__ = ("_count", "_first", "_last", "users")

    def __init__(self) -> None:
        self.users: Final[set[str]] = set()
        self._first: Attempt | None = None
        self._last: Attempt | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Attempt]:
        attempt = self._first
        while attempt is not None:
            yield attempt
            attempt = attempt._after

    @property
    def first(self) -> Attempt | None:
        """The attempt that is served next; None for an empty line."""
        return self._first

    def join(self, attempt: Attempt) -> None:
        """Take the last place."""
        last, self._last = self._last, attempt
        if last is None:
            self._first = attempt
        else:
            last._after = attempt
        attempt.line, attempt._before = self, last
        self._count += 1

    def leave(self, attempt: Attempt) -> bool:
        """Leave the line. Returns False if the attempt was not in it."""
        if attempt.line is not self:
            return False
        before, after = attempt._before, attempt._after
        if before is None:
            self._first = after
        else:
            before._after = after
        if after is None:
            self._last = before
        else:
            after._before = before
        attempt.line = attempt._before = attempt._after = None
        self._count -= 1
        return True

    def serve_all_with(self, serve: Callable[[], Outcome | None]) -> None:
        """From now on serve all attempts by this function."""
        for attempt in self:
            attempt.serve = serve

    def serve(self, most: int) -> list[Attempt]:
        """Serve the first attempts while that is possible, at most `most`. Returns the attempts that are done."""
        done: list[Attempt] = []
        while (attempt := self._first) is not None and len(done) < most:
            if attempt.is_orphaned:
                self.leave(attempt)
                continue
            attempt.outcome = attempt.try_now()
            if attempt.outcome is None:
                break
            self.leave(attempt)
            self.users.add("" if attempt.who is None else attempt.who.name)
            done.append(attempt)
        return done


class Waitable:
    """An object with lines of attempts, which it serves after each change.

    A subclass lists its lines in `_lines`, in the order of serving. `_served_by` maps a line to the line whose attempts
    alone can serve it. An attempt that is served in parts sets `_unfinished` to leave the rest for later.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._lock: Final = threading.Lock()
        self._lines: tuple[WaiterLine, ...] = ()
        self._served_by: Mapping[WaiterLine, WaiterLine] = {}
        self._gone: Callable[[], BaseException] | None = None
        self._unfinished = False
        self._going_on: asyncio.AbstractEventLoop | None = None

    def action(self, attempt: Attempt) -> str:
        """Return what an attempt waits to do."""
        return f"{attempt.what} {self!r}"

    async def attempt(self, line: WaiterLine, attempt: Attempt) -> Any:
        """Serve an attempt after all attempts of that line. A cancelled call leaves the line and undoes nothing."""
        if self._begin(line, attempt):
            return attempt.result()
        assert attempt.future is not None
        try:
            await attempt.future
        except BaseException:
            self._abandon(line, attempt)
            raise
        if attempt.granted:
            self._go_on_with(attempt)
        return attempt.result()

    def attempt_now(self, line: WaiterLine, attempt: Attempt) -> bool:
        """Serve an attempt at once, if the line is empty and that is possible. Returns whether `result` has it."""
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            line.join(attempt)  # for others may be served because it is there
            served = self._serve()
            line.leave(attempt)
        wake(served)
        return attempt.outcome is not None

    def _begin(self, line: WaiterLine, attempt: Attempt) -> bool:
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

    def _abandon(self, line: WaiterLine, attempt: Attempt) -> None:
        """Nobody waits for the attempt any more: others may get their turn."""
        with self._lock:
            if not line.leave(attempt) and attempt.outcome is not None and attempt.outcome[1] is None:
                self._give_back(attempt)
            served = self._serve()
        wake(served)

    def _give_back(self, attempt: Attempt) -> None:
        """The attempt was served, and its caller was cancelled before hearing of it."""

    def _go_on_with(self, attempt: Attempt) -> None:
        """Finish a granted attempt when its caller resumes."""
        with self._lock:
            attempt.granted = False
            attempt.outcome = self._finish(attempt)
            served = self._serve()
        wake(served)

    def _finish(self, attempt: Attempt) -> Outcome:
        """Make the granted change, and drop its reservation. Subclasses that grant define it."""
        raise NotImplementedError

    def _serve(self) -> list[Attempt]:
        """Serve the lines in turn until nothing changes, or a bound is reached. The caller holds the lock."""
        served: list[Attempt] = []
        running = asyncio._get_running_loop()
        due = 0.0
        while self._going_on is None or self._going_on is not running:
            before = len(served)
            for line in self._lines:
                served += line.serve(BATCH)
            if not self._unfinished and len(served) == before:
                break
            if running is not None and (self._unfinished or len(served) >= BATCH):
                now = slice_of(running).clock()
                due = due or now + SLICE / 4
                if now >= due:
                    self._going_on = running  # another loop that comes meanwhile goes on itself: this may have stopped
                    running.call_soon(self._go_on)
            self._unfinished = False
        return served

    def _go_on(self) -> None:
        with self._lock:
            self._going_on = None
            served = self._serve()
        wake(served)

    def release(self) -> None:
        """Fail all present and later attempts with CancelledError: the container is reset, or the session closed."""
        self._end(self._dropped_error)

    def abort(self, error: BaseException) -> None:
        """Fail all present and later attempts with that error, unless the object has ended before."""
        self._end(lambda: own_copy(error))

    def _end(self, gone: Callable[[], BaseException]) -> None:
        with self._lock:
            if self._gone is None:
                self._gone = gone
            for line in self._lines:
                line.serve_all_with(self._fail)
            self._going_on = None
            served = self._serve()
        wake(served)

    def _fail(self) -> Outcome:
        assert self._gone is not None
        return None, self._gone()

    def _dropped_error(self) -> BaseException:
        raise NotImplementedError

    @property
    def waiting(self) -> list[Attempt]:
        """All waiting attempts, line by line."""
        with self._lock:
            return [attempt for line in self._lines for attempt in line]

    def servers_of(self, attempt: Attempt) -> Collection[str] | None:
        """The names of the operations that have served such attempts; None if they are unknown.

        An empty name stands for the application.
        """
        servers = None if attempt.line is None else self._served_by.get(attempt.line)
        if servers is None or self._going_on is not None or attempt.serve is serve_none:
            return None
        return servers.users


def own_copy(error: BaseException) -> BaseException:
    """Return the error for one more receiver: a copy with its own traceback, if it can be copied."""
    try:
        made = copy.copy(error)
    except Exception:  # the class of the error may fail to copy it
        return error
    made.__cause__ = error
    return made


# Waking


class _Waker:
    """Wakes waiters of one loop in slices, so that the loop turns in between.

    Woken waiters run in the next turn of the loop. Two callbacks measure the time of a whole slice, and the size of the
    next slice follows it.
    """

    __slots__ = ("_began", "_due", "_loop", "_size", "_slice", "_used")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = weakref.ref(loop)
        self._slice: Final = slice_of(loop)
        self._due: deque[asyncio.Future[None]] = deque()
        self._size = _AT_FIRST
        self._used: int | None = None
        self._began = 0.0

    def add(self, future: "asyncio.Future[None]") -> None:
        """Wake it, now if the slice is not used up."""
        if self._used is None:
            self._used = 0
            self._later(self._go_on)
        self._due.append(future)
        self._wake()

    def _wake(self) -> None:
        assert self._used is not None
        while self._due and self._used < self._size:
            future = self._due.popleft()
            if not future.done():
                future.set_result(None)
                self._used += 1

    def _go_on(self) -> None:
        """Wake the next slice, between the two callbacks that measure it."""
        if not self._due:
            self._used = None
            return
        self._used = 0
        self._later(self._begin)
        self._wake()
        self._later(self._end)

    def _begin(self) -> None:
        self._began = self._slice.clock()

    def _end(self) -> None:
        if self._used == self._size:
            share = SLICE / 2 / max(self._slice.clock() - self._began, 1e-6)
            self._size = max(1, min(4 * self._size, int(self._size * share)))
        self._go_on()

    def _later(self, callback: Callable[[], None]) -> None:
        loop = self._loop()
        if loop is not None:
            loop.call_soon(callback)


_wakers: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker]"] = weakref.WeakKeyDictionary()


def wake(attempts: list[Attempt]) -> None:
    """Complete the futures of done attempts, on the loop of each. Attempts of closed loops are skipped."""
    here = asyncio._get_running_loop()
    waker = None
    for attempt in attempts:
        future = attempt.future
        if future is None:
            continue
        loop = future.get_loop()
        if loop is here:
            waker = waker or _waker_of(loop)
            waker.add(future)
        else:
            with contextlib.suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(_wake_here, loop, future)


def _wake_here(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    _waker_of(loop).add(future)


def _waker_of(loop: asyncio.AbstractEventLoop) -> _Waker:
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = _Waker(loop)
    return waker
