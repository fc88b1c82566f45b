"""Stages that know, check or make the number of elements: assert_cardinality, pad_to_cardinality."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.elements import map_leaves, spec_of_leaf
from aioflow.data.position import Position
from aioflow.data.stage import EndOfData, OneInput, Run, Stage
from aioflow.tensors.dtypes import Spec, bool_
from aioflow.tensors.object_arrays import full_array
from aioflow.tensors.recursion import short_repr
from aioflow.tensors.shape import SCALAR


class _AssertCursor(OneInput["AssertCardinality"]):
    async def _next(self) -> Any:
        try:
            element = await self.input.take()
        except EndOfData:
            if self.given != self.stage.expected:
                raise self._refused(f"it has {self.given}") from None
            raise
        if self.given >= self.stage.expected:
            raise self._refused("it has more")
        return element

    def _refused(self, found: str) -> errors.OpError:
        count = "no end" if self.stage.expected == math.inf else f"{int(self.stage.expected)} elements"
        return self.stage.failed(errors.FailedPreconditionError(f"the dataset is said to have {count}, and {found}"))


class AssertCardinality(Stage):
    """The same elements, whose number is known.

    Attributes:
        expected: the number of elements; infinity if they never end.
    """

    name = "assert_cardinality"
    cursor: ClassVar = _AssertCursor

    def __init__(self, source: Stage, expected: float) -> None:
        super().__init__(source.spec, source)
        self.expected: Final = expected

    def cardinality(self) -> float:
        """The number that it is said to have."""
        return self.expected


class _PadCursor(OneInput["PadToCardinality"]):
    """Its position is that of the input; the elements of the padding need none."""

    def __init__(self, stage: "PadToCardinality", run: Run, position: Position) -> None:
        super().__init__(stage, run, position)
        self._padding: Any = None

    async def _next(self) -> Any:
        try:
            element = await self.input.take()
        except EndOfData:
            if self.given >= self.stage.count:
                raise
            self._padding = self._padding or await self._made_padding()
            return self.stage.marked(self._padding, False)
        if not isinstance(element, dict):
            refused = errors.InvalidArgumentError(f"its elements must be dicts, not {short_repr(element)}")
            raise self.stage.failed(refused, self.given)
        return self.stage.marked(element, True)

    async def _made_padding(self) -> Any:
        """Return an element of zeros. OpError if neither the stage before nor its first element has a known shape."""
        spec = self.stage.inputs[0].spec
        try:
            if spec is None:
                spec = map_leaves(spec_of_leaf, await self._first())
            return map_leaves(_nothing, spec)
        except ValueError as error:
            raise self.stage.failed(error) from error

    async def _first(self) -> Any:
        """Return the first element, made anew: a position holds no elements. ValueError if there is none."""
        source = self.stage.inputs[0].begin(self.run.at_input(0))
        try:
            return await source.take()
        except EndOfData:
            raise ValueError("no element shows the dtypes and shapes of the padding") from None
        finally:
            await source.close()


class PadToCardinality(Stage):
    """Dicts, each with a further entry that says whether it is one of the input, and zeros up to a number of them.

    Attributes:
        count: the number of elements.
    """

    name = "pad_to_cardinality"
    cursor: ClassVar = _PadCursor

    def __init__(self, source: Stage, count: int, key: str) -> None:
        spec = source.spec
        super().__init__({**spec, key: Spec(bool_, SCALAR)} if isinstance(spec, dict) else None, source)
        self.count: Final = count
        self._key: Final = key

    def marked(self, element: Mapping[Any, Any], is_given: bool) -> dict[Any, Any]:
        """Return an element with the entry that says whether it is one of the input."""
        return {**element, self._key: np.bool_(is_given)}

    def cardinality(self) -> float | None:
        """The number of elements: that of the input if it has more."""
        size = self.inputs[0].cardinality()
        return None if size is None else max(size, self.count)

    def details(self) -> str:
        """The number of elements, and the name of the entry."""
        return f"{self.count}, {self._key!r}"


def _nothing(spec: Spec | None) -> Any:
    """Return zeros or empty text like a component. ValueError for a dataset, or if its shape is unknown."""
    if spec is None or not spec.shape.is_fully_defined():
        raise ValueError(f"zeros for padding need a known shape, not {spec}")
    sizes = [size or 0 for size in spec.sizes or ()]
    if spec.dtype.np.kind == "O":
        return full_array(sizes, b"") if spec.rank else b""
    return np.zeros(sizes, spec.dtype.np)[()]
