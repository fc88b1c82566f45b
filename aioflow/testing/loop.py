"""Virtual time: a test that waits for an hour ends at once, and a test that would hang says where.

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())

An event loop sleeps only in its selector, and only until the next timer. The selector here does not sleep but moves the
clock to that timer. The rest is asyncio's own loop, so order and cancellation are the real ones, and a program runs
the same way every time.
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
        waiting: for each waiting task its name, its coroutine and the lines at which it is suspended.
    """

    def __init__(self, waiting: tuple[str, ...]) -> None:
        super().__init__("\n".join(["nothing can wake", *(waiting or ["the loop, which has no task"])]))
        self.waiting: Final = waiting


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock starts at 0 and jumps to the next timer whenever nothing is ready.

    Running it raises DeadlockError when nothing can wake it. Work for an executor runs inline, one turn of the loop
    later and in no time. The loop checks watched files (sockets) but waits for them only when no timer is set: code
    that depends on sockets, threads, processes or signals belongs on a real loop. Time does not pass while callbacks
    are ready, so a task that polls with `sleep(0)` until a later time polls for ever.
    """

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        self._clock_resolution = 1e-6  # asyncio adds it to the time, so it must not vanish beside years

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._clock.now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call `func(*args)` inline on the next turn. Cancelling the future before that prevents the call.

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
        except BaseException as error:  # the waiter receives any error, as from an executor
            future.set_exception(error)
        finally:
            asyncio._set_running_loop(self)


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the clock to the next timer instead of sleeping until then."""

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
        if len(self.get_map()) > 1:  # more than the loop's own pipe, with which threads wake it
            return super().select()
        raise DeadlockError(tuple(sorted(map(describe, asyncio.all_tasks()))))


def describe(task: asyncio.Task[Any]) -> str:
    """Return the task's name, its coroutine and the lines at which it is suspended, outermost first."""
    frames = []
    link: Any = task.get_coro()
    name = link.__qualname__
    while frame := getattr(link, "cr_frame", None) or getattr(link, "gi_frame", None):
        frames.append((frame, frame.f_lineno))
        link = getattr(link, "cr_await", None) or getattr(link, "gi_yieldfrom", None)
    stack = traceback.StackSummary.extract(iter(frames)).format()
    return f"{task.get_name()} ({name})\n{''.join(stack)}".rstrip()
