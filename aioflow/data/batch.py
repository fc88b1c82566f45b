"""Stages that stack elements and take stacks apart: batch, unbatch.

Large batches are stacked on a thread of the loop's executor.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.calls import Calls
from aioflow.data.elements import (
    is_dataset,
    leaves_of,
    map_leaves,
    size_of,
    spec_of_batch,
    spec_of_row,
    structure_of,
    with_leaves,
)
from aioflow.data.position import Position, as_number, entries
from aioflow.data.stage import Cursor, EndOfData, OneInput, Run, Stage
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import Spec, as_dtype
from aioflow.tensors.object_arrays import make_array

LARGE: Final = 1 << 20
"""Bytes: stacking more would hold the loop too long."""
TOGETHER: Final = 256
"""The most elements that are taken without a turn of the loop."""
_OBJECT: Final = np.dtype(object)


class _BatchCursor(OneInput["Batch"]):
    def __init__(self, stage: "Batch", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._calls: Final = Calls(stage)

    async def _next(self) -> Any:
        elements = await self._elements()
        try:
            if sum(map(size_of, elements)) > LARGE:
                return await self._calls.on_thread(self._stacked, elements)
            return self._stacked(elements)
        except errors.OpError as error:
            raise self.stage.failed(error, self.given) from None

    async def _elements(self) -> list[Any]:
        elements: list[Any] = []
        size = self.stage.size
        try:
            while len(elements) < size:
                elements.append(await self.input.take())
                elements += self.input.take_at_hand(min(size - len(elements), TOGETHER))
        except EndOfData:
            if not elements or self.stage.drop_remainder:
                raise
        return elements

    def _stacked(self, elements: list[Any]) -> Any:
        if len(structures := {structure_of(element) for element in elements}) > 1:
            raise errors.InvalidArgumentError(f"its elements have {len(structures)} different structures")
        rows = [leaves_of(element) for element in elements]
        columns = [self.stage.stack(number, column) for number, column in enumerate(zip(*rows, strict=True))]
        return with_leaves(elements[0], columns)

    async def close(self) -> None:
        """Wait until nothing is stacked, and close the input."""
        await self._calls.settle()
        await super().close()


class Batch(Stage):
    """Elements stacked along a new first axis.

    Attributes:
        size: the number of elements of a batch.
        drop_remainder: whether a last batch of fewer elements is left out.
    """

    name = "batch"
    cursor: ClassVar[type[Cursor[Any]]] = _BatchCursor

    def __init__(self, source: Stage, size: int, drop_remainder: bool) -> None:
        rows = size if drop_remainder else None
        components = [spec and self.batched(number, spec, rows) for number, spec in enumerate(leaves_of(source.spec))]
        super().__init__(with_leaves(source.spec, components), source)
        self.size: Final = size
        self.drop_remainder: Final = drop_remainder

    def cardinality(self) -> float | None:
        """The number of batches."""
        size = self.inputs[0].cardinality()
        if size is None or size == math.inf:
            return size
        return size // self.size if self.drop_remainder else -(-size // self.size)

    def details(self) -> str:
        """The number of elements of a batch."""
        return str(self.size)

    def batched(self, number: int, spec: Spec, rows: int | None) -> Any:
        """Return the dtype and shape of a batch of a component."""
        return spec_of_batch(self.component(number, spec), rows)

    def component(self, number: int, spec: Spec) -> Spec:
        """Return the dtype and shape of a component in a batch."""
        return spec

    def stack(self, number: int, column: Sequence[Any]) -> AnyArray:
        """Return the batch of a component. InvalidArgumentError if dtypes or shapes differ."""
        check_same_dtype(number, column)
        if isinstance(column[0], bytes):
            return make_array(column)
        shapes = {leaf.shape for leaf in column}
        if len(shapes) > 1:
            one, other = sorted(map(list, shapes))[:2]
            raise errors.InvalidArgumentError(
                f"component {number} has elements of shapes {one} and {other}, which make no batch; "
                "padded_batch fills them up"
            )
        return np.stack(column)


def check_same_dtype(number: int, column: Sequence[Any]) -> None:
    """Raise InvalidArgumentError if the values of a component have several dtypes, or are datasets."""
    if is_dataset(column[0]):
        raise errors.InvalidArgumentError(f"component {number} is a dataset; flat_map gives the elements of datasets")
    dtypes = {_OBJECT if isinstance(leaf, bytes) else leaf.dtype for leaf in column}
    if len(dtypes) > 1:
        names = " and ".join(sorted([as_dtype(dtype).name for dtype in dtypes]))
        raise errors.InvalidArgumentError(f"component {number} has elements of {names}, which make no batch")


class _UnbatchCursor(Cursor["Unbatch"]):
    """Its own position is that of the input before the present batch, and the number of rows given of it."""

    def __init__(self, stage: "Unbatch", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        before, row = (None, 0) if self._start is None else entries(self._start, 2)
        self._before: Position = before
        self._row = as_number(row)
        self._rows = 0
        self._batch: Any = None
        self._input: Final = stage.inputs[0].begin(run.at_input(0), self._before)
        self.inputs = (self._input,)

    async def _next(self) -> Any:
        if self._rows == 0 and self._row:  # of a position
            await self._take()
        while self._row >= self._rows:
            self._before, self._row = self._input.position(), 0
            await self._take()
        self._row += 1
        return map_leaves(lambda leaf: leaf[self._row - 1], self._batch)

    async def _take(self) -> None:
        self._batch = await self._input.take()
        lengths = {np.shape(leaf)[:1] for leaf in leaves_of(self._batch)}
        if len(lengths) != 1 or () in lengths:
            found = errors.InvalidArgumentError("its components have no first axis of the same length")
            raise self.stage.failed(found, self._input.given - 1)
        ((self._rows,),) = lengths

    def _position(self) -> Position:
        return [self._before, self._row]


class Unbatch(Stage):
    """The rows of each element."""

    name = "unbatch"
    cursor: ClassVar = _UnbatchCursor

    def __init__(self, source: Stage) -> None:
        super().__init__(map_leaves(lambda spec: spec and spec_of_row(spec), source.spec), source)
