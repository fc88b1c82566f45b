"""One life of a monitored session: from a ready session to the loss of a peer, or to the end."""

import asyncio
import contextlib
import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from aioflow import errors
from aioflow.graph.graph_keys import GraphKeys
from aioflow.runtime.attempts import Attempt
from aioflow.session import Session
from aioflow.train.coordinator import Coordinator
from aioflow.train.queue_runner import QueueRunner
from aioflow.train.session_creator import FailedRuns
from aioflow.train.session_run_hook import SessionRunHook

T = TypeVar("T")
_LOOK: Final = 1.0
"""Seconds in which to find out the waits of runs."""


class Life:
    """A ready session, the tasks of its coordinator, and its running runs.

    The queue runners of the graph run as its tasks. At the end they are cancelled and their queues stay open, since the
    queues of a cluster outlive a life, and the next life fills them again.

    Attributes:
        session: the session.
        coord: owns the tasks that hooks create.
        lost: the error that indicated a loss, if any: then this life is over.
        failed: the runs that a loss has ended.
        attempts: the attempts of its runs, until they succeed or are undone.
        unfit: whether a hook found a loss although the session was ready.
    """

    def __init__(self, session: Session) -> None:
        self.session: Final = session
        self.coord: Final = Coordinator()
        self.lost: errors.OpError | None = None
        self.failed: Final = FailedRuns()
        self.unfit = False
        self.attempts: Final[set[Attempt]] = set()
        self._runs: Final[set[asyncio.Timeout]] = set()
        self._no_runs: Final = asyncio.Event()
        self._no_runs.set()
        self._fillers: list[asyncio.Task[None]] = []

    async def begin(self, hooks: Sequence[SessionRunHook], deadline: float) -> None:
        """Start the queue runners, and show the session to the hooks.

        Raises:
            af.errors.DeadlineExceededError: one of them was too late; the error names it and its wait.
        """
        self.coord.create_task(self._watch(), name="watching the tasks of a session")
        runners: list[QueueRunner] = self.session.graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        for runner in runners:
            for task in runner.create_tasks(self.session):
                self._fillers.append(task)
                task.add_done_callback(functools.partial(self._on_runner_end, runner))
        for hook in hooks:
            known = hook.after_create_session(self.session, self.coord)
            if inspect.isawaitable(known):
                await self._call_hook_in_time(hook, known, deadline)

    async def _call_hook_in_time(self, hook: SessionRunHook, known: Awaitable[None], deadline: float) -> None:
        """Show the session to the hook. In a task, because explain() names only waits of running tasks."""
        task = asyncio.ensure_future(known)
        try:
            await asyncio.wait((task,), timeout=max(deadline - asyncio.get_running_loop().time(), 0.0))
            if not task.done():
                text = f"after_create_session of {type(hook).__name__} was not done before max_wait_secs were over"
                raise errors.DeadlineExceededError(f"{text}: {await self._waited_for(task)}")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        task.result()

    async def _waited_for(self, task: "asyncio.Future[None]") -> str:
        """Return the place where it waits, and the waits of the session's runs, if they can be found at once."""
        frames = task.get_stack() if isinstance(task, asyncio.Task) else []
        lines = [f"it waited at {frame.f_code.co_filename}:{frame.f_lineno}" for frame in frames[-1:]]
        with contextlib.suppress(errors.OpError, TimeoutError, RuntimeError):
            async with asyncio.timeout(_LOOK):
                lines.append(str(await self.session.explain()))
        return "\n".join(lines)

    def _on_runner_end(self, runner: QueueRunner, task: asyncio.Task[None]) -> None:
        """Note that a task of that runner has ended, perhaps with an error."""
        if runner.exceptions_raised:
            self.coord.request_stop(runner.exceptions_raised[0])

    async def _watch(self) -> None:
        """End the runs that may wait for a failed task of the coordinator."""
        await self.coord.wait_for_stop()
        if self.error is not None:
            self._interrupt()

    @property
    def error(self) -> BaseException | None:
        """The first error of a task of the coordinator."""
        try:
            self.coord.raise_requested_exception()
        except BaseException as error:
            return error
        return None

    # Runs

    async def run(self, step: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `step()`.

        Raises:
            BaseException: its own error, or an earlier error of a task of the coordinator.
            af.errors.OpError: this life is over; the error indicates the loss.
        """
        self._check()
        limit = asyncio.timeout(None)
        self._runs.add(limit)
        self._no_runs.clear()
        try:
            async with limit:
                return await step()
        except Exception as error:
            if self._is_derived(limit, error):
                self._check()
            raise
        finally:
            self._runs.discard(limit)
            if not self._runs:
                self._no_runs.set()

    def _is_derived(self, limit: asyncio.Timeout, error: Exception) -> bool:
        """Whether the error follows from the end of this life, or of a task of the coordinator."""
        return (limit.expired() and isinstance(error, TimeoutError)) or isinstance(
            error, (errors.CancelledError, errors.OutOfRangeError)
        )

    def _check(self) -> None:
        """Raise the error that has ended this life, or a task of the coordinator."""
        if self.error is not None:
            raise self.error
        if self.lost is not None:
            raise copy.copy(self.lost)  # a new traceback for each run that ends with it

    def lose(self, error: errors.OpError, attempt: Attempt | None = None) -> None:
        """End this life. It keeps the first error, and collects the failed attempts for repetition."""
        self.lost = self.lost or error
        self.failed.add(attempt, error)

    def _interrupt(self) -> None:
        for limit in self._runs:
            limit.reschedule(0.0)

    async def end_runs(self) -> None:
        """Wait until the interrupted runs have ended."""
        self._interrupt()
        await self._no_runs.wait()

    # Its end

    async def end(self, grace: float) -> None:
        """Wait until no task is left. Cancels tasks that do not stop in time after the request.

        Raises:
            BaseException: the first error of a task of the coordinator.
        """
        for task in self._fillers:
            task.cancel()
        try:
            if self._fillers:
                await asyncio.wait(self._fillers)
        finally:
            self.coord.request_stop()
            await self.coord.join(stop_grace_period_secs=grace, ignore_live_threads=True)
