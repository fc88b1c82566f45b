"""Several executions of one step, one for each device, run at the same time."""

import asyncio
import functools
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from aioflow.executor import Execution, Stands, note_standing
from aioflow.program.program import Outputs
from aioflow.tensors.dtypes import Array
from aioflow.waiting.tasks import begin

Fetched = list[Array]


async def run_together(executions: Sequence[Execution], feeds: Sequence[Outputs], step: Stands) -> list[Fetched]:
    """Run the executions of a step, and return the fetched values of each.

    The first error ends all and is raised when all have ended; so does cancelling.
    """
    group = _Group(executions, feeds)
    try:
        if group.ended is not None:
            await group.ended
        if group.error is None:
            return group.results
        await group.stop()
        raise group.error
    except asyncio.CancelledError as cancelled:
        note_standing(cancelled, step)
        await group.stop()
        raise
    finally:
        group.error = None  # its traceback leads here


class _Group:
    """Executions that end together. Each begins in the caller's task, and gets a Task only if it suspends.

    So an execution whose received values are there, without heavy work, needs no Task. After an error no more begin.

    Attributes:
        results: the fetched values of each.
        ended: done when all are, or one has failed; None if none has suspended.
        error: the error of the first failed execution.
    """

    def __init__(self, executions: Sequence[Execution], feeds: Sequence[Outputs]) -> None:
        self.results: Final[list[Fetched]] = [[] for _ in executions]
        self.ended: asyncio.Future[None] | None = None
        self.error: BaseException | None = None
        self._tasks: Final[list[asyncio.Task[Fetched]]] = []
        self._left = 0
        for number, (execution, given) in enumerate(zip(executions, feeds, strict=True)):
            try:
                self._begin(number, execution.run(given))
            except BaseException as error:
                self._fail(error)
                break

    def _begin(self, number: int, coroutine: Coroutine[Any, Any, Fetched]) -> None:
        try:
            suspended = begin(coroutine)
        except StopIteration as done:
            self.results[number] = done.value
            return
        loop = asyncio.get_running_loop()
        self.ended = self.ended or loop.create_future()
        task = loop.create_task(suspended)
        task.add_done_callback(functools.partial(self._on_done, number))
        self._tasks.append(task)
        self._left += 1

    def _on_done(self, number: int, task: "asyncio.Task[Fetched]") -> None:
        self._left -= 1
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)
            return
        self.results[number] = task.result()
        if not self._left:
            self._end()

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self._end()

    def _end(self) -> None:
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)

    async def stop(self) -> None:
        """Cancel running executions, and wait until all have ended. A cancellation meanwhile is raised afterwards."""
        cancelled = None
        for task in self._tasks:
            task.cancel()
        while left := [task for task in self._tasks if not task.done()]:
            try:
                await asyncio.wait(left)
            except asyncio.CancelledError as error:
                cancelled = error.args  # not the error itself: its traceback leads here
        self._tasks.clear()
        if cancelled is not None:
            raise asyncio.CancelledError(*cancelled)
