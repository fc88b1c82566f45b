"""A fair mutex for callers on all event loops of the process.

Each change is made at once, under a lock that is held for a few statements. A waiter awaits a future of its own loop.
So a cancelled wait only leaves the line.
"""

import asyncio
import threading
from collections import OrderedDict
from typing import Any

from aioflow import errors


class Mutex:
    """A mutex with at most one holder. Waiters get it in the order of their calls.

    Holders and waiters are arbitrary objects, compared by identity.
    """

    def __init__(self, name: str = "mutex") -> None:
        self.name = name
        self._holder: object | None = None
        self._line: OrderedDict[int, tuple[object, asyncio.Future[None]]] = OrderedDict()
        self._lock = threading.Lock()
        self._released = False

    @property
    def holder(self) -> object | None:
        """The holder; None if it is free."""
        return self._holder

    @property
    def waiting(self) -> tuple[object, ...]:
        """The waiters, the next one first."""
        with self._lock:
            return tuple([who for who, _ in self._line.values()])

    async def enter(self, who: object) -> None:
        """Wait until `who` holds the mutex. A cancelled call leaves the line.

        Raises:
            ValueError: `who` holds it, or waits, already.
            af.errors.CancelledError: the mutex was released for good.
        """
        turn = self._join(who)
        if turn is None:
            return
        try:
            await turn
        except BaseException:
            self.leave(who)  # the turn may have come already: then it is the next one's
            raise

    def _join(self, who: object) -> "asyncio.Future[None] | None":
        """Take the mutex, or a place in line, with a future of its turn."""
        with self._lock:
            if self._released:
                raise self._gone()
            if who is self._holder or id(who) in self._line:
                raise ValueError(f"{who!r} is inside {self.name!r} or waits for it already")
            if self._holder is None:
                self._holder = who
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._line[id(who)] = who, turn
            return turn

    def leave(self, who: object) -> None:
        """Release the mutex if `who` holds it, or leave the line. May be called from any thread."""
        with self._lock:
            self._line.pop(id(who), None)
            if who is not self._holder:
                return
            turn = self._next()
        while turn is not None and not _wake(turn, None):
            with self._lock:  # its loop is closed, so that its waiter cannot enter or leave
                turn = self._next()

    def _next(self) -> "asyncio.Future[None] | None":
        """Let the next in line in. Returns the future of its turn."""
        if not self._line:
            self._holder = None
            return None
        _, (self._holder, turn) = self._line.popitem(last=False)
        return turn

    def release(self) -> None:
        """Release it after a reset or the end of the session: present and later waiters get a CancelledError."""
        with self._lock:
            self._released, self._holder = True, None
            turns = [turn for _, turn in self._line.values()]
            self._line.clear()
        for turn in turns:
            _wake(turn, self._gone())

    def _gone(self) -> errors.CancelledError:
        return errors.CancelledError(f"mutex {self.name!r} is gone: its container was reset or its session closed")

    def __repr__(self) -> str:
        state = "free" if self._holder is None else "held"
        return f"<Mutex {self.name!r} {state}, {len(self._line)} waiting>"


def _wake(turn: "asyncio.Future[None]", error: BaseException | None) -> bool:
    """Say that the turn has come, or never will. False if the waiter's loop is closed."""
    loop = turn.get_loop()
    try:
        if asyncio._get_running_loop() is loop:
            _settle(turn, error)
        else:
            loop.call_soon_threadsafe(_settle, turn, error)
    except RuntimeError:
        return False
    return True


def _settle(turn: "asyncio.Future[None]", error: BaseException | None) -> None:
    if turn.done():
        return
    if error is None:
        turn.set_result(None)
    else:
        turn.set_exception(error)


class Ticket:
    """One pass through a mutex: one operation enters, another one leaves, and a third coroutine guards it.

    The coroutine `keep` guarantees that the mutex is left, however the step ends: it runs from before the entry until
    the exit, and leaves the mutex when it is cancelled. A ticket without `keep` is left as soon as it is entered. All
    calls happen on one loop.

    Attributes:
        step: the step it belongs to.
        who: the operation that enters the mutex; None before it begins to enter.
        since: the time on the loop's clock at which it began to hold the mutex.
    """

    def __init__(self, mutex: Mutex, step: Any = None) -> None:
        self.mutex = mutex
        self.step = step
        self.who: Any = None
        self.since: float = 0.0
        self._kept: asyncio.Future[None] | None = None
        self._left = False

    async def keep(self) -> None:
        """Wait until the ticket is left; leave it in any case."""
        self._kept = asyncio.get_running_loop().create_future()
        try:
            if not self._left:
                await self._kept
        finally:
            self.leave()

    async def enter(self, who: Any = None) -> None:
        """Wait until the ticket holds the mutex. A cancelled call holds nothing."""
        self.who = who
        await self.mutex.enter(self)
        self.since = asyncio.get_running_loop().time()
        if self._kept is None or self._left:
            self.mutex.leave(self)

    def leave(self) -> None:
        """The mutex is not held, and not waited for, by this ticket any more. Doing it twice does no harm."""
        self._left = True
        self.mutex.leave(self)
        if self._kept is not None and not self._kept.done():
            self._kept.set_result(None)

    def __repr__(self) -> str:
        return f"<Ticket for {self.mutex!r}>"
