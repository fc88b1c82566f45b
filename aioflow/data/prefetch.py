"""Elements that a task takes before they are asked for."""

from typing import Any, ClassVar, Final

from aioflow.data.ahead import Ahead
from aioflow.data.position import Position
from aioflow.data.stage import OneInput, OneToOne, Run, Stage


class PrefetchCursor(OneInput["Prefetch"]):
    """A cursor whose elements come with the position of the input after each of them."""

    def __init__(self, stage: "Prefetch", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._after: Position = self.input.position()
        self._ahead: Final = Ahead(f"{stage.name} at {stage.line}", self._take, stage.size)

    async def _take(self) -> tuple[Any, Position]:
        return await self.input.take(), self.input.position()

    async def _next(self) -> Any:
        element, self._after = await self._ahead.take()
        return element

    def _position(self) -> Position:
        return self._after

    def buffered(self) -> tuple[int, int]:
        """The elements that were taken ahead, and the most of them."""
        return self._ahead.size, self._ahead.limit

    async def close(self) -> None:
        """End the task, and close the input."""
        await self._ahead.close()
        await super().close()


class Prefetch(OneToOne):
    """The same elements, of which a task takes some ahead.

    Attributes:
        size: the most elements that are taken ahead.
    """

    name = "prefetch"
    cursor: ClassVar = PrefetchCursor

    def __init__(self, source: Stage, size: int, line: str | None = None) -> None:
        super().__init__(source.spec, source, line=line)
        self.size: Final = size
