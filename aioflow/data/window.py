"""Windows: datasets of neighbouring elements."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final

from aioflow.data.elements import leaves_of, map_leaves, with_leaves
from aioflow.data.position import Position, as_number, entries
from aioflow.data.sources import Values
from aioflow.data.stage import Cursor, EndOfData, Run, Stage


class _WindowCursor(Cursor["Window"]):
    """Its own position: that of the input before the oldest element it holds, and how many elements it drops next."""

    def __init__(self, stage: "Window", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        place, drop = (None, 0) if self._start is None else entries(self._start, 2)
        self._input: Final = stage.inputs[0].begin(run.at_input(0), place)
        self._held: list[tuple[Position, Any]] = []
        self._drop = as_number(drop)
        self.inputs = (self._input,)

    async def _next(self) -> Any:
        try:
            while self._drop:
                await self._input.take()
                self._drop -= 1
            while len(self._held) < self.stage.span:
                before = self._input.position()
                self._held.append((before, await self._input.take()))
        except EndOfData:
            pass
        elements = [element for _, element in self._held[: self.stage.span : self.stage.stride]]
        if not elements or (self.stage.drop_remainder and len(elements) < self.stage.size):
            raise EndOfData
        self._drop = max(0, self.stage.shift - len(self._held))
        del self._held[: self.stage.shift]
        return self.stage.window(elements)

    def _position(self) -> Position:
        return [self._held[0][0] if self._held else self._input.position(), self._drop]

    def buffered(self) -> tuple[int, int]:
        """The elements that it holds for the next window, and the most of them."""
        return len(self._held), self.stage.span


class Window(Stage):
    """Structures like an element, which have datasets of the components of neighbouring elements.

    Attributes:
        size: the number of elements of a window.
        shift: the number of elements between the beginnings of two windows.
        stride: the distance between two elements of a window.
        drop_remainder: whether windows of fewer elements are left out.
        span: the distance from the first element of a window to behind its last one.

    Args:
        dataset: makes a dataset of its last stage.
    """

    name = "window"
    cursor: ClassVar = _WindowCursor

    def __init__(
        self,
        source: Stage,
        size: int,
        shift: int,
        stride: int,
        drop_remainder: bool,
        dataset: Callable[[Stage], Any],
    ) -> None:
        super().__init__(map_leaves(lambda spec: None, source.spec), source)
        self.size: Final = size
        self.shift: Final = shift
        self.stride: Final = stride
        self.drop_remainder: Final = drop_remainder
        self.span: Final = (size - 1) * stride + 1
        self._dataset: Final = dataset

    def cardinality(self) -> float | None:
        """The number of windows."""
        size = self.inputs[0].cardinality()
        if size is None or size == math.inf:
            return size
        beginnings = size - self.span + 1 if self.drop_remainder else size
        return max(0, -(-beginnings // self.shift))

    def window(self, elements: list[Any]) -> Any:
        """Return the window of these elements."""
        columns = zip(*map(leaves_of, elements), strict=True)
        return with_leaves(elements[0], [self._dataset(Values(list(column), self.line)) for column in columns])

    def details(self) -> str:
        """Its numbers."""
        return f"{self.size}, {self.shift}, {self.stride}"
