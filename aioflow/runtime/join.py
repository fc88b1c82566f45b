"""Several executions of one step, one for each device, run at the same time."""

import asyncio
import functools
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, Final

from aioflow.executor import Execution, Stands, marked, note_standing
from aioflow.program.program import Outputs
from aioflow.tensors.dtypes import Array

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
    """Executions that end together. Each is begun here and gets a Task only if it suspends.

    So those that find all that they receive, and compute nothing heavy, need none. After an error no more are begun.

    Attributes:
        results: what each has fetched.
        ended: done when all are, or one has failed; None if none has suspended.
        error: what the first that failed failed with.
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
            waiting_on = marked(coroutine.send(None), False)
        except StopIteration as done:
            self.results[number] = done.value
            return
        loop = asyncio.get_running_loop()
        self.ended = self.ended or loop.create_future()
        task = loop.create_task(_Begun(coroutine, waiting_on))
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
        """Cancel what still runs, and return when nothing does. A cancellation that comes meanwhile is raised then."""
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


class _Begun(Coroutine[Any, Any, Fetched]):
    """A coroutine that was begun by hand and has suspended, for a Task to carry on.

    Cancelling reaches it even before the Task's first turn, when a coroutine still to be begun would never know.
    """

    __slots__ = ("_coroutine", "_fresh", "_waiting_on")

    def __init__(self, coroutine: Coroutine[Any, Any, Fetched], waiting_on: "asyncio.Future[Any] | None") -> None:
        self._coroutine: Final = coroutine
        self._waiting_on = waiting_on
        self._fresh = True

    def send(self, value: Any) -> Any:
        """What it waits for next."""
        if self._fresh:
            return self._first()
        return self._coroutine.send(value)

    def throw(self, error: Any, *rest: Any) -> Any:
        """The same. Before the first turn, what it waits for is cancelled instead, as Task.cancel does later."""
        try:
            if self._fresh:
                waiting_on = self._first()
                if waiting_on is not None and waiting_on.cancel():
                    return waiting_on
            return self._coroutine.throw(error, *rest)
        finally:
            del error, rest  # its traceback leads here

    def close(self) -> None:
        """It ends here."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Fetched]:
        """What a Coroutine must have; Tasks do not use it."""
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """What there is to see of a coroutine, as where it stands."""
        return getattr(self._coroutine, name)

    def _first(self) -> "asyncio.Future[Any] | None":
        waiting_on, self._waiting_on, self._fresh = self._waiting_on, None, False
        return marked(waiting_on, True)
