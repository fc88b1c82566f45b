"""Tasks that belong to an object and end with it, and tasks for coroutines that are already begun.

How long work may hold an event loop before the loop gets a turn.
"""

import asyncio
import contextvars
import time
import types
import weakref
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

from aioflow.errors import OpError

T = TypeVar("T")


class OwnedTasks:
    """The running tasks of an object, in the order of their starts."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: Final[dict[asyncio.Task[Any], None]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def start(
        self, coroutine: Coroutine[Any, Any, T], name: str, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine in a new task."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def cancel(self) -> None:
        """Cancel all tasks. Does not wait."""
        for task in self._tasks:
            task.cancel()

    async def ended(self, deadline: float | None = None) -> None:
        """Wait until no task runs, or until a time on the clock of the loop."""
        loop = asyncio.get_running_loop()
        while (running := self._running()) and (deadline is None or loop.time() < deadline):
            await asyncio.wait(running, timeout=None if deadline is None else deadline - loop.time())

    async def stop(self) -> None:
        """Cancel all tasks, also tasks that start meanwhile, and wait until none runs."""
        while running := self._running():
            self.cancel()
            await asyncio.wait(running)

    def _running(self) -> list[asyncio.Task[Any]]:
        """The tasks that have not ended. The callback that removes an ended task may still be in the loop's queue."""
        return [task for task in self._tasks if not task.done()]


def ignore_op_error(task: asyncio.Task[Any]) -> None:
    """A done callback of a task that is not awaited: ignores its OpError, and raises any other error at once."""
    if not task.cancelled() and not isinstance(task.exception(), OpError | None):
        task.result()


async def shared_result(task: "asyncio.Task[T]", cancelled: Callable[[], OpError]) -> T:
    """Return the result of a task that other callers await, too. If the task is cancelled, raise `cancelled()`.

    A cancelled caller leaves the task running.
    """
    await asyncio.wait((task,))
    if task.cancelled():
        raise cancelled()
    return task.result()


def begin(coroutine: Coroutine[Any, Any, T]) -> "Suspended[T]":
    """Run a coroutine to its first suspension, in the caller's task.

    Raises StopIteration, with the result, if the coroutine ends before; or the error of the coroutine.
    """
    return Suspended(coroutine, coroutine.send(None))


class Suspended(Coroutine[Any, Any, T]):
    """A coroutine that is begun and has suspended. A Task carries it on.

    A cancellation before the first turn of the Task reaches the coroutine where it is suspended. asyncio would close a
    coroutine that it has not begun, and the kernel could not end in order.
    """

    __slots__ = ("_coroutine", "_fresh", "_waiting_on")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waiting_on: "asyncio.Future[Any] | None") -> None:
        self._coroutine: Final = coroutine
        self._fresh = True
        self._waiting_on = waiting_on
        if waiting_on is not None:
            waiting_on._asyncio_future_blocking = False  # no Task awaits it yet: another may await it meanwhile

    def send(self, value: Any) -> Any:
        """Go on to the next suspension. The first call returns the future of the present one."""
        return self._first() if self._fresh else self._coroutine.send(value)

    def throw(self, error: Any, *rest: Any) -> Any:
        """Raise an error where the coroutine is suspended.

        Before the first turn this cancels the awaited future, as `Task.cancel` does later.
        """
        try:
            if self._fresh:
                waiting_on = self._first()
                if waiting_on is not None and waiting_on.cancel():
                    return waiting_on
            return self._coroutine.throw(error, *rest)
        finally:
            del error, rest  # its traceback leads here

    def close(self) -> None:
        """End the coroutine where it is suspended."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        """Await the rest of the coroutine. Tasks do not use it."""
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """The attributes of the coroutine, such as its frame."""
        return getattr(self._coroutine, name)

    def _first(self) -> "asyncio.Future[Any] | None":
        waiting_on, self._waiting_on, self._fresh = self._waiting_on, None, False
        if waiting_on is not None:
            waiting_on._asyncio_future_blocking = True
        return waiting_on


@types.coroutine
def in_context(
    context: contextvars.Context,
    coroutine: Coroutine[Any, Any, T],
    before: Callable[[], object],
    after: Callable[[], object],
) -> Generator[Any, Any, T]:
    """Run a coroutine with these context variables, in the caller's task.

    Calls `before` each time it goes on, and `after` each time it suspends.
    """
    resume: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        before()
        try:
            awaited = context.run(resume, value)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            value = None  # an error leads here by its traceback
        after()
        try:
            value = yield awaited
            resume = coroutine.send
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            resume, value = coroutine.throw, error


SLICE: Final = 0.002
"""Seconds of work after which the loop gets a turn.

When many waiters are served at a time, a quarter of it goes to serving them, half to running them and the rest to
waking them. A timer is late by up to two turns of the loop: asyncio notes in one turn that the timer is due, and runs
its callback in the next.
"""


class Slice:
    """The slice of time that inline work has before its loop must turn: shared by all sessions of the loop.

    It begins with the first work after a turn of the loop. A callback in the loop records the turn, so that work that
    lets the loop turn by itself never pauses.

    Attributes:
        clock: the clock by which work is measured. A simulation stops it, so that nothing depends on the speed of the
            machine.
        due: the time at which the slice ends.
        turns: how often the loop has turned after work.
    """

    __slots__ = ("_begun", "clock", "due", "turns")

    def __init__(self) -> None:
        self.clock: Callable[[], float] = time.perf_counter
        self.due: float = 0.0
        self.turns: int = 0
        self._begun = False

    def begin(self) -> float:
        """The end of the present slice; of one that begins now, if the loop has turned since the last."""
        if not self._begun:
            self._begun = True
            self.due = self.clock() + SLICE
            asyncio.get_running_loop().call_soon(self._turned)
        return self.due

    def used_up(self) -> bool:
        """Whether the loop should turn now. Asked after each piece of inline work."""
        return self._begun and self.clock() > self.due

    def _turned(self) -> None:
        self._begun = False
        self.turns += 1


_slices: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Slice]"] = weakref.WeakKeyDictionary()


def slice_of(loop: asyncio.AbstractEventLoop) -> Slice:
    """The slice of time of that loop."""
    return _slices.setdefault(loop, Slice())
