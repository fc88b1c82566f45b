"""Datasets of the rows of RaggedTensorValues, and of arrays beside them."""

from typing import Any, Final

import numpy as np

from aioflow.data.elements import as_leaf, frozen, spec_of_leaf, spec_of_row
from aioflow.data.sources import Indexed
from aioflow.library.ragged.tensor_value import RaggedTensorValue
from aioflow.tensors.dtypes import Spec, as_shape, spec_of
from aioflow.tensors.nest import sorted_keys


def has_rows(structure: Any) -> bool:
    """Whether there is a RaggedTensorValue in a structure."""
    if isinstance(structure, RaggedTensorValue):
        return True
    items = structure.values() if isinstance(structure, dict) else structure
    return isinstance(structure, (tuple, dict)) and any(map(has_rows, items))


class RaggedSlices(Indexed):
    """The rows of RaggedTensorValues: arrays of different sizes, or RaggedTensorValues of rows of rows.

    ValueError if the values and the arrays have not the same number of rows.
    """

    name = "from_tensor_slices"

    def __init__(self, tensors: Any) -> None:
        self._sources: Final = _each(_converted, tensors)
        counts: set[int | None] = set()
        _each(lambda source: counts.add(_count(source)), self._sources)
        if len(counts) != 1 or None in counts:
            raise ValueError(f"values are sliced into the same number of rows; they have {sorted(map(str, counts))}")
        super().__init__(_each(_spec_of_row, self._sources), counts.pop() or 0)

    def element(self, number: int) -> Any:
        """Return the rows of that number, as views."""
        return _each(lambda source: _row(source, number), self._sources)


def _each(function: Any, structure: Any) -> Any:
    """Apply `function` to the leaves of a structure, of which each RaggedTensorValue is one."""
    if isinstance(structure, dict):
        return {key: _each(function, structure[key]) for key in sorted_keys(structure)}
    if not isinstance(structure, tuple) or isinstance(structure, RaggedTensorValue):
        return function(structure)
    items = [_each(function, item) for item in structure]
    return type(structure)._make(items) if hasattr(structure, "_make") else tuple(items)


def _converted(source: Any) -> Any:
    if not isinstance(source, RaggedTensorValue):
        return as_leaf(source)
    return RaggedTensorValue(_converted(source.values), np.asarray(source.row_splits))


def _count(source: Any) -> int | None:
    if isinstance(source, RaggedTensorValue):
        return len(source.row_splits) - 1
    return len(source) if getattr(source, "ndim", 0) else None


def _spec_of_row(source: Any) -> Any:
    """The dtype and shape of a row, or those of its parts."""
    if not isinstance(source, RaggedTensorValue):
        spec = spec_of_leaf(source)
        return spec and spec_of_row(spec)
    return _spec_of_values(source.values)


def _spec_of_values(values: Any) -> Any:
    if isinstance(values, RaggedTensorValue):
        inner = _spec_of_values(values.values)
        return RaggedTensorValue(inner, Spec(spec_of(values.row_splits).dtype, as_shape([None])))
    spec = spec_of(values)
    return Spec(spec.dtype, as_shape([None]).concatenate(spec.shape[1:]))


def _row(source: Any, number: int) -> Any:
    if not isinstance(source, RaggedTensorValue):
        return frozen(source[number])
    return _part(source.values, int(source.row_splits[number]), int(source.row_splits[number + 1]))


def _part(values: Any, begin: int, end: int) -> Any:
    """The values from `begin` on, and before `end`."""
    if not isinstance(values, RaggedTensorValue):
        return frozen(values[begin:end])
    splits = values.row_splits[begin : end + 1]
    inner = _part(values.values, int(splits[0]), int(splits[-1]))
    return RaggedTensorValue(inner, splits - splits[0])
