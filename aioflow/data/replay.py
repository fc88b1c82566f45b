"""Cursors whose position is the number of elements given: they make the elements before it anew, and drop them."""

import abc
from typing import Any, Final

from aioflow.data.position import Position
from aioflow.data.stage import Cursor, Run, S


class ReplayCursor(Cursor[S]):
    """A cursor with a state that no position can hold, since it has elements.

    Attributes:
        input: the cursor of the only input, from its first element on.
        made: the number of elements that it has made, dropped ones too.
    """

    def __init__(self, stage: S, run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self.input: Final = stage.inputs[0].begin(run.at_input(0))
        self.made: int = 0
        self.inputs = (self.input,)

    async def _next(self) -> Any:
        while self.made < self.given:
            await self._repeated(self._counted())
        return await self._counted()

    async def _counted(self) -> Any:
        element = await self._make()
        self.made += 1
        return element

    @abc.abstractmethod
    async def _make(self) -> Any:
        """Return the next element. EndOfData if there is none."""
