"""Virtual time: a test that waits for an hour ends at once, and a test that would hang says where.

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())

An event loop sleeps in one place only, its selector, and only until the next timer. The selector here does not sleep
but moves the clock to that timer. All else is asyncio's own loop, so order and cancellation are the real ones, and the
same program takes the same turns every time.
"""

import asyncio
import contextvars
import selectors
import traceback
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class DeadlockError(Exception):
    """Nothing can happen any more: no callback is ready, no timer is set and no file is watched.

    Attributes:
        waiting: each task that waits for ever: its name, its coroutine and the lines it is suspended at.
    """

    def __init__(self, waiting: tuple[str, ...]) -> None:
        super().__init__("\n".join(["nothing is left that could wake", *(waiting or ["the loop, which has no task"])]))
        self.waiting: Final = waiting


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock starts at 0 and jumps to the next timer whenever nothing is ready.

    Running it raises DeadlockError when nothing is left that could wake it. Work given to an executor runs inline, one
    turn of the loop later and in no time. A watched file (a socket) is looked at, but waited for only when no timer is
    set: what depends on sockets, threads, processes or signals belongs on a real loop. Time stands still as long as
    callbacks are ready: whoever polls for a moment with `sleep(0)` polls for ever.
    """

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        self._clock_resolution = 1e-6  # asyncio adds it to the time, so it must not vanish beside years

    def time(self) -> float:
        """Give the virtual time, in seconds."""
        return self._clock.now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call `func(*args)` inline on the next turn; cancelling the future before that prevents the call.

        As on a thread, `func` sees no running loop and none of the caller's context variables.
        """
        future: asyncio.Future[T] = self.create_future()
        self.call_soon(self._perform, future, func, *args, context=contextvars.Context())
        return future

    def _perform(self, future: asyncio.Future[T], func: Callable[[*Ts], T], *args: *Ts) -> None:
        if future.cancelled():
            return
        asyncio._set_running_loop(None)
        try:
            future.set_result(func(*args))
        except BaseException as error:  # whatever it is, it goes to who awaits, as it does from an executor
            future.set_exception(error)
        finally:
            asyncio._set_running_loop(self)


class _JumpingSelector(selectors.DefaultSelector):
    """Looks at the files and, where a selector would sleep until the next timer, sets the clock to it instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is not None:
            self.now += timeout
            return []
        if len(self.get_map()) > 1:  # more than the pipe by which other threads wake a loop
            return super().select()
        raise DeadlockError(tuple(sorted(map(describe, asyncio.all_tasks()))))


def describe(task: asyncio.Task[Any]) -> str:
    """Give the task's name, its coroutine and the lines it is suspended at, outermost first."""
    frames = []
    link: Any = task.get_coro()
    name = link.__qualname__
    while frame := getattr(link, "cr_frame", None) or getattr(link, "gi_frame", None):
        frames.append((frame, frame.f_lineno))
        link = getattr(link, "cr_await", None) or getattr(link, "gi_yieldfrom", None)
    stack = traceback.StackSummary.extract(iter(frames)).format()
    return f"{task.get_name()} ({name})\n{''.join(stack)}".rstrip()
