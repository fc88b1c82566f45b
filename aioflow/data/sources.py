"""Datasets from values in memory: one element, the rows of arrays, ranges of integers."""

import math
import sys
from typing import Any, ClassVar, Final

import numpy as np

from aioflow.data.elements import as_element, frozen, leaves_of, map_leaves, size_of, spec_of_leaf, spec_of_row
from aioflow.data.position import Position
from aioflow.data.stage import Cursor, EndOfData, Run, Stage, Turns
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, Spec, int64
from aioflow.tensors.shape import SCALAR


class _IndexedCursor(Cursor["Indexed"]):
    def __init__(self, stage: "Indexed", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._turns: Final = Turns()

    async def _next(self) -> Any:
        if self.given >= self.stage.count:
            raise EndOfData
        await self._turns.turn()
        return self.stage.element(self.given)

    def _at_hand(self, most: int) -> list[Any]:
        end = min(self.given + most, self.stage.count)
        return [self.stage.element(number) for number in range(self.given, end)]


class Indexed(Stage):
    """A stage without inputs, whose elements are known by their numbers.

    Attributes:
        count: the number of its elements.
    """

    cursor: ClassVar = _IndexedCursor

    def __init__(self, spec: Any, count: int, line: str | None = None) -> None:
        super().__init__(spec, line=line)
        self.count: Final = count

    def cardinality(self) -> float:
        """The number of its elements."""
        return self.count

    def element(self, number: int) -> Any:
        """Return the element of that number."""
        raise NotImplementedError

    def details(self) -> str:
        """The number of elements."""
        return str(self.count)


class Values(Indexed):
    """Elements that are there, and cannot be changed through what is given."""

    name = "from_tensors"

    def __init__(self, elements: list[Any], line: str | None = None, spec: Any = None) -> None:
        super().__init__(map_leaves(spec_of_leaf, elements[0]) if spec is None else spec, len(elements), line)
        self._elements: Final = elements

    def element(self, number: int) -> Any:
        """Return the element."""
        return map_leaves(frozen, self._elements[number])


class Slices(Indexed):
    """The rows of arrays, which are not copied and cannot be changed through an element.

    ValueError if the arrays have no rows, or not the same number of them.
    """

    name = "from_tensor_slices"

    def __init__(self, tensors: Any) -> None:
        self._arrays: Final = map_leaves(_read_only, as_element(tensors))
        arrays = leaves_of(self._arrays)
        lengths = {array.shape[:1] for array in arrays}
        if len(lengths) != 1 or () in lengths:
            shapes = ", ".join(str(list(array.shape)) for array in arrays)
            raise ValueError(f"arrays are sliced along a first axis of the same length; their shapes are {shapes}")
        super().__init__(map_leaves(spec_of_row, map_leaves(spec_of_leaf, self._arrays)), len(arrays[0]))

    @property
    def bytes_of_row(self) -> int:
        """The bytes of an element."""
        return size_of(self._arrays) // max(1, self.count)

    def batch(self, numbers: list[int]) -> Any:
        """Return new arrays of the rows with these numbers."""
        return map_leaves(lambda array: array[numbers], self._arrays)

    def element(self, number: int) -> Any:
        """Return a view of a row, or a scalar."""
        return map_leaves(lambda array: array[number], self._arrays)


class Counter(Indexed):
    """The integers `start`, `start + step` and so on without an end."""

    name = "counter"

    def __init__(self, start: int, step: int, dtype: DType = int64) -> None:
        super().__init__(Spec(dtype, SCALAR), sys.maxsize)
        self._kind: Final = dtype.np.type
        self._start: Final = start
        self._step: Final = step

    def element(self, number: int) -> Any:
        """Return the integer."""
        return self._kind(self._start + self._step * number)

    def cardinality(self) -> float:
        """It has no end."""
        return math.inf

    def details(self) -> str:
        """The first integer, and the step."""
        return f"{self._start}, {self._step}"


class Range(Indexed):
    """The integers of a range, as int64."""

    name = "range"

    def __init__(self, *args: int) -> None:
        self._range: Final = range(*args)
        super().__init__(Spec(int64, SCALAR), len(self._range))

    def element(self, number: int) -> Any:
        """Return the integer."""
        return np.int64(self._range[number])


def _read_only(array: Any) -> AnyArray:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
