"""Batches of the rows of arrays, in their order or shuffled: rows are chosen by numbers, and copied all at a time.

They are the batches that `batch` would stack row by row, with the same order of a shuffle.
"""

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from aioflow.data.batch import LARGE, Batch
from aioflow.data.calls import Calls
from aioflow.data.position import Position
from aioflow.data.shuffle import Shuffle, shuffled
from aioflow.data.sources import Slices
from aioflow.data.stage import Cursor, EndOfData, Run, Stage, Turns


class _RowBatchCursor(Cursor["RowBatch"]):
    """A cursor at a position draws the numbers before it again."""

    def __init__(self, stage: "RowBatch", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)
        self._turns: Final = Turns()
        self._numbers: Final = stage.numbers(run)
        self._drawn = 0

    async def _next(self) -> Any:
        while self._drawn < self.given:
            await self._draw()
        numbers = await self._draw()
        if not numbers or (len(numbers) < self.stage.size and self.stage.drop_remainder):
            raise EndOfData
        rows = self.stage.rows
        if rows.bytes_of_row * len(numbers) > LARGE:
            return await self._calls.on_thread(rows.batch, numbers)
        return rows.batch(numbers)

    async def _draw(self) -> list[int]:
        await self._turns.turn()
        self._drawn += 1
        return list(itertools.islice(self._numbers, self.stage.size))

    async def close(self) -> None:
        """Wait until no rows are copied."""
        await self._calls.settle()


class RowBatch(Batch):
    """Rows of arrays stacked along a new first axis.

    Attributes:
        rows: the stage of the rows.
    """

    cursor: ClassVar = _RowBatchCursor

    def __init__(self, source: Slices | Shuffle, rows: Slices, size: int, drop_remainder: bool) -> None:
        super().__init__(source, size, drop_remainder)
        self.rows: Final = rows

    def numbers(self, run: Run) -> Iterator[int]:
        """Return the numbers of the rows in the order of one iteration."""
        numbers = range(self.rows.count)
        (source,) = self.inputs
        return shuffled(numbers, source, run.at_input(0)) if isinstance(source, Shuffle) else iter(numbers)


def batched(source: Stage, size: int, drop_remainder: bool) -> Batch:
    """Return a stage of batches: of rows if the source has the rows of arrays, in their order or shuffled."""
    rows = source.inputs[0] if isinstance(source, Shuffle) else source
    if isinstance(rows, Slices) and isinstance(source, (Slices, Shuffle)):
        return RowBatch(source, rows, size, drop_remainder)
    return Batch(source, size, drop_remainder)
