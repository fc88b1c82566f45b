"""A step that its master runs without an asyncio task: it sends the requests at once, and acts as each answer arrives.

A nearly empty step takes the master as long as its Python takes after an idle wake. A coroutine that awaits each answer
would wake two more times. So only the end of a failed step is a coroutine, which tells all tasks.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from aioflow import errors
from aioflow.net.master.registered_plans import RegisteredPlan
from aioflow.net.peer.peers import Peers
from aioflow.net.wire.master_verbs import StepDone
from aioflow.net.wire.worker_verbs import GraphRan, RunGraph


class RunOwner(Protocol):
    """The session that runs the step."""

    @property
    def peers(self) -> Peers:
        """The tasks of the cluster."""

    def run_done(self, shared: RegisteredPlan, step: int, answers: Mapping[str, GraphRan], token: int) -> StepDone:
        """Return the answer to the client. Raises an error if the client has refused the values."""

    async def run_failed(self, shared: RegisteredPlan, step: int, error: BaseException) -> None:
        """End the step on all of its tasks with that error."""

    def run_ended(self, step: int, token: int) -> None:
        """Forget that the step runs."""

    def start_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run work in a task of the session."""


class CallableRun:
    """One step of a callable, from its requests to the answer.

    Attributes:
        answer: the answer, or the error of the step, once the step has ended.
        on_answer: called with the answer, or with the error of the step, unless the step was cancelled.
    """

    def __init__(self, owner: RunOwner, shared: RegisteredPlan, step: int, token: int) -> None:
        self.answer: StepDone | BaseException | None = None
        self.on_answer: Callable[[StepDone | BaseException], None] | None = None
        self._owner: Final = owner
        self._shared: Final = shared
        self._step: Final = step
        self._token: Final = token
        self._answers: Final[dict[str, GraphRan]] = {}
        self._missing = 0
        self._cancels: Final[list[Callable[[], object]]] = []
        """Functions that cancel the requests."""
        self._tasks: Final[list[asyncio.Task[GraphRan]]] = []
        """The requests that could not be sent at once, or that this task answers in an asyncio task."""
        self._ending = False
        self._end: asyncio.Task[None] | None = None
        """Ends a failed step."""

    def begin(self, requests: Mapping[str, RunGraph]) -> None:
        """Send the requests, the one to this task last: it may compute at once. `answer` may be there afterwards."""
        peers, self._missing = self._owner.peers, len(requests)
        try:
            for task in sorted(requests, key=peers.is_own):
                if not self._ending:
                    self._ask(task, requests[task])
        except Exception as error:  # other tasks may have begun
            self._fail(errors.from_exception(error))
        if not requests:
            self._succeed()

    def _ask(self, task: str, request: RunGraph) -> None:
        answered = functools.partial(self._answered, task)
        cancel = self._owner.peers.ask_at_once(task, request, answered)
        if cancel is None:
            asking = self._owner.start_task(self._owner.peers.ask(task, request))
            asking.add_done_callback(lambda done: done.cancelled() or answered(done.exception() or done.result()))
            self._tasks.append(asking)
            self._cancels.append(asking.cancel)
        else:
            self._cancels.append(cancel)

    def _answered(self, task: str, answer: GraphRan | BaseException) -> None:
        if self._ending:
            return
        if isinstance(answer, BaseException):
            self._fail(answer)
            return
        self._answers[task] = answer
        self._missing -= 1
        if not self._missing:
            self._succeed()

    def _succeed(self) -> None:
        self._ending = True
        self._owner.run_ended(self._step, self._token)
        answer: StepDone | BaseException
        try:
            answer = self._owner.run_done(self._shared, self._step, self._answers, self._token)
        except Exception as error:
            answer = error
        self._tell(answer)

    def cancel(self) -> "asyncio.Task[None] | None":
        """End the step on all tasks, by the task that is returned. `on_answer` is not called."""
        self.on_answer = None
        if not self._ending:
            self._fail(errors.CancelledError("the run was cancelled"))
        return self._end

    def _fail(self, error: BaseException) -> None:
        if self._ending:
            return
        self._ending = True
        for cancel in self._cancels:
            cancel()
        self._end = self._owner.start_task(self._failed(error))

    async def _failed(self, error: BaseException) -> None:
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._owner.run_failed(self._shared, self._step, error)
        finally:
            self._owner.run_ended(self._step, self._token)
            self._tell(error)

    def _tell(self, answer: StepDone | BaseException) -> None:
        self.answer = answer
        if self.on_answer is not None:
            self.on_answer(answer)
