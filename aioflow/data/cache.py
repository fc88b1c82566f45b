"""Elements that are made once and kept, in memory or in a file."""

from typing import Any, ClassVar, Final

from aioflow.data.cache_file import FileCache
from aioflow.data.elements import frozen, map_leaves
from aioflow.data.position import Position, as_number
from aioflow.data.stage import Cursor, EndOfData, OneToOne, Run, Stage, Turns
from aioflow.files.filesystem import Path, as_name


class _MemoryCursor(Cursor["MemoryCache"]):
    """Its own position is the entropy with which the elements were made.

    A cursor at a position makes the elements before it again, if the stage does not keep elements of that entropy.
    """

    def __init__(self, stage: "MemoryCache", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        made_with, kept = stage.kept or (run.entropy, None)
        self._entropy: Final = made_with if self._start is None else as_number(self._start)
        self._turns: Final = Turns()
        self._elements: list[Any] = []
        if kept is not None and made_with == self._entropy:
            self._elements = kept
        else:
            self.inputs = (stage.inputs[0].begin(run.at_input(0).once(self._entropy)),)

    async def _next(self) -> Any:
        await self._turns.turn()
        while self.inputs and len(self._elements) < self.given:
            self._elements.append(await self._repeated(self._made()))
        if self.inputs and len(self._elements) == self.given:
            try:
                self._elements.append(await self._made())
            except EndOfData:
                self.stage.kept = self._entropy, self._elements
                raise
        if self.given >= len(self._elements):
            raise EndOfData
        return self._elements[self.given]

    async def _made(self) -> Any:
        return map_leaves(frozen, await self.inputs[0].take())

    def _position(self) -> Position:
        return self._entropy


class MemoryCache(OneToOne):
    """The same elements, which the first complete iteration keeps.

    Attributes:
        kept: the entropy of an iteration, and all its elements; None until one was complete.
    """

    name = "cache"
    cursor: ClassVar = _MemoryCursor

    def __init__(self, source: Stage) -> None:
        super().__init__(source.spec, source)
        self.kept: tuple[int, list[Any]] | None = None


def cached(source: Stage, filename: Path) -> Stage:
    """Return a stage that keeps the elements in a file; in memory if it has no name."""
    return FileCache(source, as_name(filename)) if filename else MemoryCache(source)
