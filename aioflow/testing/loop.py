"""Virtual time: a test that waits for an hour ends at once, and a test that would hang says where.

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())

An event loop sleeps only in its selector, and only until the next timer. The selector here does not sleep but moves the
clock to that timer. The rest is asyncio's own loop, so order and cancellation are the real ones, and a program runs
the same way every time.
"""

import asyncio
import contextvars
import os
import selectors
import stat
import traceback
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class DeadlockError(Exception):
    """Nothing can happen any more: no callback is ready and no timer is set.

    Attributes:
        waiting: for each waiting task its name, its coroutine and the lines at which it is suspended.

    Examples:
        >>> from aioflow.testing import DeadlockError
        >>> DeadlockError(("task 'reader' in session.run",)).waiting
        ("task 'reader' in session.run",)
    """

    def __init__(self, waiting: tuple[str, ...]) -> None:
        super().__init__("\n".join(["nothing can wake", *(waiting or ["the loop, which has no task"])]))
        self.waiting: Final = waiting


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock starts at 0 and jumps to the next timer whenever nothing is ready.

    Running it raises DeadlockError when nothing can wake it. Work for an executor runs inline, one turn of the loop
    later and in no time. Code that depends on sockets, threads, processes or signals belongs on a real loop: watching a
    socket or another file raises RuntimeError. Time does not pass while callbacks are ready, so a task that polls
    with `sleep(0)` until a later time polls for ever.

    Examples:
        >>> from aioflow.testing import VirtualTimeLoop
        >>> def sleep_for_an_hour():
        ...     with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        ...         runner.run(asyncio.sleep(3600.0))
        ...         return runner.get_loop().time()
        >>> await asyncio.to_thread(sleep_for_an_hour)
        3600.0
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
        self._unseen: RuntimeError | None = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch the loop's own pipe, with which threads wake it, and nothing else.

        A callback of the loop, unlike a task, has no caller that receives the error: then running the loop raises it.
        """
        if not self.get_map():
            return super().register(fileobj, events, data)
        error = _refusal(fileobj)
        if asyncio._get_running_loop() is not None and asyncio.current_task() is None:
            self._unseen = error
        raise error

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        unseen, self._unseen = self._unseen, None
        if unseen is not None:
            raise unseen
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is not None:
            self.now += timeout
            return []
        raise DeadlockError(tuple(sorted(map(describe, asyncio.all_tasks()))))


def _refusal(file: Any) -> RuntimeError:
    """The error of code that waits for a file, or for the file of a descriptor."""
    number = file if isinstance(file, int) else file.fileno()
    kind = "a socket" if stat.S_ISSOCK(os.fstat(number).st_mode) else "a file"
    return RuntimeError(
        f"a VirtualTimeLoop cannot wait for {kind} (descriptor {number}): its clock would jump over the time until "
        "something arrives; run code with sockets, pipes or processes on a real event loop, such as that of "
        "asyncio.run (aioflow's own tests: mark them `sockets` or `real`)"
    )


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
