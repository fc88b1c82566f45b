"""A function of each element, several of which are computed at a time."""

import asyncio
from typing import Any, ClassVar, Final

from aioflow import errors
from aioflow.data.ahead import Ahead
from aioflow.data.calls import Calls, UserFunction
from aioflow.data.position import Position
from aioflow.data.stage import OneInput, OneToOne, Run, Stage
from aioflow.data.transform import FunctionStage
from aioflow.waiting.tasks import OwnedTasks

Made = tuple[Any, errors.OpError | None]
"""An element, or the error of making it: a task that nobody awaits must not fail."""


class _ParallelMapCursor(OneInput["ParallelMap"]):
    """Each call comes with the position of the input after its element."""

    def __init__(self, stage: "ParallelMap", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._after: Position = self.input.position()
        self._name: Final = f"{stage.name} at {stage.line}"
        self._calls: Final = Calls(stage, stage.most)
        self._tasks: Final = OwnedTasks()
        self._ahead: Final = Ahead(self._name, self._start_call, stage.most)

    async def _start_call(self) -> tuple[asyncio.Task[Made], Position]:
        number, element = self.input.given, await self.input.take()
        return self._tasks.start(self._call(number, element), self._name), self.input.position()

    async def _call(self, number: int, element: Any) -> Made:
        try:
            return await self._calls.element(self.stage.function, number, element), None
        except errors.OpError as error:
            return None, error

    async def _next(self) -> Any:
        while True:
            call, after = await self._ahead.take()
            element, error = await call
            if error is None:
                self._after = after
                return element
            if not self.run.leaves_out(error):
                raise error

    def _position(self) -> Position:
        return self._after

    def waits_for(self) -> str:
        """Its calls; the input if there are none."""
        return f"{self._calls.count} calls of its function" if self._calls.count else super().waits_for()

    def buffered(self) -> tuple[int, int]:
        """The elements that are computed or were, and the most of them."""
        return self._ahead.size, self._ahead.limit

    async def close(self) -> None:
        """End the tasks and calls, and close the input."""
        await self._ahead.close()
        await self._tasks.stop()
        await self._calls.settle()
        await super().close()


class ParallelMap(FunctionStage, OneToOne):
    """A function of each element, in the order of the elements.

    Attributes:
        most: the most calls at a time, and the most elements that are computed and not taken.
    """

    name = "map"
    cursor: ClassVar = _ParallelMapCursor

    def __init__(self, source: Stage, function: UserFunction, most: int, spec: Any = None) -> None:
        super().__init__(source, function, spec)
        self.most: Final = most
