"""Tasks that stop together: the first error stops all of them, and is raised at the end of the block.

    async with af.train.Coordinator() as coord:
        af.train.start_queue_runners(session, coord)
        while not coord.should_stop():
            await session.run(train)

The end of the input, an OutOfRangeError, is a regular stop: the block ends without an error.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from aioflow import errors
from aioflow.waiting.lines import Attempt, Outcome, Waitable, WaiterLine, wake

_GRACE: Final = 120
T = TypeVar("T")
Report = BaseException | tuple[type[BaseException], BaseException, TracebackType | None]
"""An exception, or the result of `sys.exc_info()` inside an `except`."""


class Coordinator:
    """Owns tasks, tells them when to stop, and keeps their first error.

    Leaving the block asks all tasks to stop and waits for them; tasks that take longer than two minutes are cancelled
    and named in a RuntimeError. If a cancellation ends the block, all tasks are cancelled at once. So no task remains
    after the block. Its error is the first one that a task, the block itself or a caller reported; errors that follow
    from the stop do not count.

    Args:
        clean_stop_exception_types: exceptions that mean the regular end of the work.

    Examples:
        >>> queue = af.FIFOQueue(10, [af.int32], shapes=[[]])
        >>> af.train.add_queue_runner(af.train.QueueRunner(queue, [queue.enqueue(7)]))
        >>> async with af.train.Coordinator() as coord:
        ...     tasks = af.train.start_queue_runners(session, coord)
        ...     print(await session.run(queue.dequeue()))
        ...     coord.request_stop()
        7
    """

    def __init__(
        self, clean_stop_exception_types: Iterable[type[BaseException]] | None = (errors.OutOfRangeError,)
    ) -> None:
        chosen = clean_stop_exception_types
        self._clean: Final = (errors.OutOfRangeError,) if chosen is None else tuple(chosen)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = self._joined = False
        self._error: BaseException | None = None
        self._stop: Final = _Condition("a stop", lambda: self._stopping)
        self._rest: Final = _Condition("the end of all tasks", lambda: not self._tasks)
        self._either: Final = _Condition("a stop or the end of all tasks", lambda: self._stopping or not self._tasks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None and not isinstance(error, Exception):
            await self._leave_at_once(error)
            return False
        expected = error is not None and self._is_expected(error)
        if self._joined:  # `join` has raised its error
            await self._cancel_rest()
            return expected
        self.request_stop(error)
        await self._join(_GRACE, ignore_live_threads=False)
        if self._error is not None and self._error is not error:
            if expected:  # an effect of the stop must not hide its cause
                raise self._error from self._error.__cause__
            raise self._error
        return expected

    async def _leave_at_once(self, error: BaseException) -> None:
        """Cancel every task, and wait until all have ended."""
        self.request_stop()
        if self._error is not None:
            error.add_note(f"aioflow: the coordinator had stopped for {self._error!r}")
        await self._cancel_rest()
        self._joined = True

    # Stopping

    def request_stop(self, ex: Report | None = None) -> None:
        """Ask all tasks to stop: `should_stop` becomes true, and waiting tasks wake up. Safe to call from any thread.

        Args:
            ex: the cause, if it is an error: `join` and leaving the block raise the first one.

        Raises:
            BaseException: `ex` itself, if `join` is over and cannot raise it.
        """
        error = ex[1] if isinstance(ex, tuple) else ex
        if error is not None and not isinstance(error, BaseException):
            raise TypeError(f"ex must be an exception or what sys.exc_info() gives, not {ex!r}")
        if error is not None and not self._is_expected(error):
            if self._joined:
                raise error
            if self._error is None:
                self._error = error
        self._stopping = True
        self._stop.check()
        self._either.check()

    def _is_expected(self, error: BaseException) -> bool:
        """Whether the error is a regular end or a consequence of the stop."""
        derived = (asyncio.CancelledError, errors.CancelledError) if self._stopping else (asyncio.CancelledError,)
        return isinstance(error, (*self._clean, *derived))

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stopping

    async def wait_for_stop(self) -> None:
        """Wait until a stop is requested. For a limit in seconds, use `asyncio.timeout`."""
        await self._stop.wait()

    def clear_stop(self) -> None:
        """Forget the stop and the error, so that the coordinator can be used again."""
        self._stopping = self._joined = False
        self._error = None

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Turn exceptions of the block into a request to stop, except a cancellation, which is raised."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)
        except BaseException:
            self.request_stop()
            raise

    def raise_requested_exception(self) -> None:
        """Raise the first reported error, if there is one."""
        if self._error is not None:
            raise self._error

    # Tasks

    def create_task(self, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run the coroutine as a task of the coordinator. Its error stops all others.

        RuntimeError after `join`; `clear_stop` makes the coordinator usable again.
        """
        if self._joined:
            coroutine.close()
            raise RuntimeError("the coordinator has been joined and waits for no new task; see clear_stop()")
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self.register_task(task)
        return task

    def register_task(self, task: asyncio.Task[Any]) -> None:
        """Make the task one of the coordinator, which waits for it; its error stops all others."""
        if not isinstance(task, asyncio.Task):
            raise TypeError(f"a coordinator coordinates tasks, not {task!r}")
        if task not in self._tasks:
            self._tasks.add(task)
            task.add_done_callback(self._on_task_end)

    register_thread = register_task

    def _on_task_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.request_stop(error)
        self._rest.check()
        self._either.check()

    @property
    def joined(self) -> bool:
        """Whether `join` is over."""
        return self._joined

    async def join(
        self,
        tasks: Iterable[asyncio.Task[Any]] | None = None,
        stop_grace_period_secs: float = _GRACE,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until every task has ended, by itself or after a stop. Late tasks are cancelled.

        Cancelling this cancels all tasks and returns when they have ended.

        Args:
            tasks: further tasks, which belong to the coordinator from here on.
            stop_grace_period_secs: seconds after the stop request until running tasks are cancelled.
            ignore_live_threads: whether cancelling late tasks is no error.

        Raises:
            BaseException: the first reported error.
            RuntimeError: tasks had to be cancelled; it names them.
        """
        for task in tasks or ():
            self.register_task(task)
        if asyncio.current_task() in self._tasks:
            raise RuntimeError("a task of the coordinator cannot join it: it would wait for its own end")
        await self._join(stop_grace_period_secs, ignore_live_threads)
        self.raise_requested_exception()

    async def _join(self, grace: float, ignore_live_threads: bool) -> None:
        stragglers: list[str] = []
        try:
            await self._either.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._rest.wait()
            stragglers = sorted(map(_description, self._tasks))
        finally:
            await self._cancel_rest()
            self._joined = True
        if stragglers and not ignore_live_threads and self._error is None:
            names = "; ".join(stragglers)
            raise RuntimeError(f"{names}: cancelled because they still ran {grace:g} s after the stop")

    async def _cancel_rest(self) -> None:
        """Cancel all remaining tasks, and wait until they have ended. Passes on a cancellation meanwhile."""
        cancelled = None
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            try:
                await self._rest.wait()
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def __repr__(self) -> str:
        state = "stopped" if self._joined else "stopping" if self._stopping else "running"
        reason = "" if self._error is None else f" for {self._error!r}"
        return f"<af.train.Coordinator of {len(self._tasks)} tasks, {state}{reason}>"


class _Condition(Waitable):
    """A condition that becomes true, and its waiters, on any loop."""

    def __init__(self, name: str, holds: Callable[[], bool]) -> None:
        super().__init__(name)
        self._line: Final = WaiterLine()
        self._lines = (self._line,)
        self._holds: Final = holds

    async def wait(self) -> None:
        """Wait until it is true."""
        await self.attempt(self._line, Attempt(f"see {self.name}", self._outcome))

    def check(self) -> None:
        """Wake the waiters if it is true."""
        with self._lock:
            served = self._serve()
        wake(served)

    def _outcome(self) -> Outcome | None:
        return (None, None) if self._holds() else None


def _description(task: asyncio.Task[Any]) -> str:
    return f"{task.get_name()} ({getattr(task.get_coro(), '__qualname__', task.get_coro())})"
