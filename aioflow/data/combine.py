"""Stages of several iterations: zip, concatenate, repeat."""

import math
from typing import Any, ClassVar, Final

from aioflow.data.elements import map_leaves
from aioflow.data.position import Position, as_number, entries
from aioflow.data.stage import Cursor, EndOfData, Run, Stage


class _ZipCursor(Cursor["Zip"]):
    def __init__(self, stage: "Zip", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        inputs = stage.inputs
        places = [None] * len(inputs) if self._start is None else entries(self._start, len(inputs))
        self.inputs = [
            each.begin(run.at_input(number), place)
            for number, (each, place) in enumerate(zip(inputs, places, strict=True))
        ]

    async def _next(self) -> Any:
        elements = iter([await cursor.take() for cursor in self.inputs])
        return map_leaves(lambda _: next(elements), self.stage.structure)

    def _position(self) -> Position:
        return [cursor.position() for cursor in self.inputs]


class Zip(Stage):
    """Structures with an element of each input, until the first of them ends.

    Args:
        structure: a structure with the number of an input at each leaf.
    """

    name = "zip"
    cursor: ClassVar = _ZipCursor

    def __init__(self, structure: Any, inputs: list[Stage]) -> None:
        super().__init__(map_leaves(lambda number: inputs[number].spec, structure), *inputs)
        self.structure: Final = structure

    def cardinality(self) -> float | None:
        """The number of elements of the shortest input."""
        sizes = [each.cardinality() for each in self.inputs]
        known = [size for size in sizes if size is not None]
        return min(known) if len(known) == len(sizes) else None


class _SequenceCursor(Cursor[Stage]):
    """A cursor of one iteration after the other; its own position is the number of the present one and its position."""

    def __init__(self, stage: Stage, run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        number, place = (0, None) if self._start is None else entries(self._start, 2)
        self._number = as_number(number)
        if self._has(self._number):
            self._go_to(self._number, place)

    def _has(self, number: int) -> bool:
        raise NotImplementedError

    def _begin(self, number: int, position: Position) -> Cursor[Any]:
        raise NotImplementedError

    def _go_to(self, number: int, position: Position = None) -> None:
        self._number = number
        self.inputs = [self._begin(number, position)]

    async def _next(self) -> Any:
        while self.inputs:
            (current,) = self.inputs
            try:
                return await current.take()
            except EndOfData:
                await current.close()
            if not self._has(self._number + 1) or not self._goes_on_after(current):
                break
            self._go_to(self._number + 1)
        raise EndOfData

    def _goes_on_after(self, ended: Cursor[Any]) -> bool:
        return True

    def _at_hand(self, most: int) -> list[Any]:
        return self.inputs[0].take_at_hand(most) if self.inputs else []

    def _position(self) -> Position:
        return [self._number, self.inputs[0].position() if self.inputs else None]


class _ConcatenateCursor(_SequenceCursor):
    def _has(self, number: int) -> bool:
        return number < len(self.stage.inputs)

    def _begin(self, number: int, position: Position) -> Cursor[Any]:
        return self.stage.inputs[number].begin(self.run.at_input(number), position)


class Concatenate(Stage):
    """The elements of one input after the other."""

    name = "concatenate"
    cursor: ClassVar = _ConcatenateCursor

    def cardinality(self) -> float | None:
        """The number of elements of both inputs."""
        sizes = [each.cardinality() for each in self.inputs]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) or math.inf in known else None


class _RepeatCursor(_SequenceCursor):
    def _has(self, number: int) -> bool:
        assert isinstance(self.stage, Repeat)
        return self.stage.count < 0 or number < self.stage.count

    def _begin(self, number: int, position: Position) -> Cursor[Any]:
        return self.stage.inputs[0].begin(self.run.at_input(0).in_epoch(number), position)

    def _goes_on_after(self, ended: Cursor[Any]) -> bool:
        return ended.given > 0  # an empty input would be repeated without an end


class Repeat(Stage):
    """Gives all elements a number of times; for ever if the number is negative."""

    name = "repeat"
    cursor: ClassVar = _RepeatCursor

    def __init__(self, source: Stage, count: int) -> None:
        super().__init__(source.spec, source)
        self.count: Final = count

    def cardinality(self) -> float | None:
        """The number of elements of all times; infinity if it has some for ever, or may have."""
        size = self.inputs[0].cardinality()
        if size == 0 or self.count == 0:
            return 0
        return math.inf if self.count < 0 else None if size is None else size * self.count

    def details(self) -> str:
        """The number of times."""
        return str(self.count)
