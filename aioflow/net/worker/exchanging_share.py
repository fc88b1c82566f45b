"""A share of a step that is one unit and receives values: its answer comes as soon as the unit has ended."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aioflow import errors
from aioflow.kernels.context import Undo
from aioflow.net.wire.worker_verbs import GraphRan
from aioflow.net.worker.step_table import StepTable
from aioflow.net.worker.worker_state import WorkerStep


class ExchangingShare:
    """The share, from its begin to its answer. It leaves what a share leaves that an asyncio task runs.

    Attributes:
        on_answer: called with the answer, or with the error of the share, unless that is known at once.
    """

    def __init__(self, table: StepTable, worker_step: WorkerStep, number: int, lasts: bool) -> None:
        """A share that has not begun.

        Args:
            table: the steps of the task.
            worker_step: the step.
            number: its number.
            lasts: whether the step lasts after the share has run.
        """
        self.on_answer: Callable[[Any], None] | None = None
        self._table: Final = table
        self._worker_step: Final = worker_step
        self._number: Final = number
        self._lasts: Final = lasts
        self._answer: GraphRan | BaseException | None = None

    def answer_now(self) -> "GraphRan | ExchangingShare":
        """The answer if the share has ended, else the share. Raises the error of the share."""
        answer, self._answer = self._answer, None
        if isinstance(answer, BaseException):
            raise answer
        return answer or self

    def ended(self, outcome: Any) -> None:
        """Take the fetched values of the unit, or its error."""
        answer = self._failed(outcome) if isinstance(outcome, BaseException) else self._ran(outcome)
        if self.on_answer is None:
            self._answer = answer
        else:
            self.on_answer(answer)

    def _ran(self, fetched: Any) -> GraphRan:
        worker_step = self._worker_step
        step, worker_step.step = worker_step.step, None
        assert step is not None
        worker_step.undo = step.common(Undo)
        if not self._lasts:
            self._table.end(self._number, None)
        worker_step.rendezvous.flush()  # before the answer
        return GraphRan(tuple(fetched))

    def _failed(self, error: BaseException) -> BaseException:
        self._worker_step.step = None
        is_error = isinstance(error, Exception)
        self._table.end(self._number, errors.from_exception(error) if is_error else _cancelled())
        return error

    def cancel(self) -> "asyncio.Task[None] | None":
        """End the step on this task. `on_answer` is not called."""
        self.on_answer = _ignore
        self._table.end(self._number, _cancelled())
        return None


def _cancelled() -> errors.CancelledError:
    return errors.CancelledError("the run was cancelled")


def _ignore(answer: Any) -> None:
    """No answer is wanted."""
