"""Whether what was sent unasked has come: asked of several steps at a time, for in a step nobody waits for that."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from aioflow import errors
from aioflow.net.outbox import Tasks
from aioflow.net.worker_verbs import Pushed

TOGETHER: Final = 0.002
"""Seconds in which questions are gathered."""


class _Question(NamedTuple):
    step: int
    values: int
    answer: "asyncio.Future[None]"


class Receipts:
    """What one task asks the others."""

    def __init__(self, tasks: Tasks, begin: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Nothing is asked yet.

        Args:
            tasks: how they are reached.
            begin: makes a task that ends before the worker does.
        """
        self._tasks: Final = tasks
        self._begin: Final = begin
        self._open: Final[dict[str, list[_Question]]] = {}

    async def of(self, task: str, step: int, count: int) -> None:
        """Return when so many values of the step have come there.

        UnavailableError if some did not, for a connection was lost with them on it, or if the task is lost.
        """
        loop = asyncio.get_running_loop()
        if task not in self._open:
            self._open[task] = []
            loop.call_later(TOGETHER, self._ask, task)
        question = _Question(step, count, loop.create_future())
        self._open[task].append(question)
        await question.answer

    def _ask(self, task: str) -> None:
        wanted = [question for question in self._open.pop(task) if not question.answer.done()]
        if wanted:
            self._begin(self._asked(task, wanted))

    async def _asked(self, task: str, questions: list[_Question]) -> None:
        steps, counts, _ = zip(*questions, strict=True)
        try:
            peer = await self._tasks.of(task)
            lost = set((await peer.request(Pushed(steps, counts))).lost)
        except errors.OpError as error:
            for question in questions:
                if not question.answer.done():
                    question.answer.set_exception(error)
            return
        for step, values, answer in questions:
            if answer.done():
                continue
            if step in lost:
                text = f"of {values} values not all have come to {task}: a connection was lost with them"
                answer.set_exception(errors.UnavailableError(text, task=task))
            else:
                answer.set_result(None)


__all__ = ["TOGETHER", "Receipts"]
