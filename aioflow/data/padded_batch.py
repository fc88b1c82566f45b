"""Batches of elements of different sizes, which are filled up."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.data.batch import Batch, check_same_dtype
from aioflow.data.elements import as_leaf, leaves_of, open_shape, shapes_of
from aioflow.data.stage import Stage
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import Spec, as_dtype
from aioflow.tensors.object_arrays import full_array
from aioflow.tensors.shape import TensorShape


class PaddedBatch(Batch):
    """Elements filled up to one shape, and stacked along a new first axis.

    Args:
        source: the stage before.
        size: the number of elements of a batch.
        shapes: the padded shape of each component; an unknown size is the largest of the batch. None for all unknown.
        values: the value of the padding of each component; None for 0, False or empty text.
        drop_remainder: whether a last batch of fewer elements is left out.
    """

    name = "padded_batch"

    def __init__(self, source: Stage, size: int, shapes: Any, values: Any, drop_remainder: bool) -> None:
        self._shapes: Final = None if shapes is None else [open_shape(shape) for shape in shapes_of(shapes)]
        self._values: Final = [None] if values is None else leaves_of(values)
        super().__init__(source, size, drop_remainder)

    def component(self, number: int, spec: Spec) -> Spec:
        """Return the dtype and shape of a padded component. ValueError if no element has the padded shape."""
        unknown = None if spec.rank is None else [None] * spec.rank
        return spec.with_shape(unknown if self._shapes is None else self._shape(number).merge_with(unknown))

    def _shape(self, number: int) -> TensorShape:
        assert self._shapes is not None
        if number >= len(self._shapes):
            raise ValueError(f"padded_shapes has {len(self._shapes)} shapes, elements have more components")
        return self._shapes[number]

    def stack(self, number: int, column: Sequence[Any]) -> AnyArray:
        """Return the padded batch of a component. InvalidArgumentError if an element does not fit its padded shape."""
        check_same_dtype(number, column)
        sizes = self._sizes(number, [np.shape(leaf) for leaf in column])
        filled = self._padding(number, (len(column), *sizes), column[0])
        for row, leaf in enumerate(column):
            places: tuple[Any, ...] = (row, *map(slice, np.shape(leaf)))
            filled[places] = leaf
        return filled

    def _sizes(self, number: int, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
        """Return the padded shape of a component of a batch."""
        wanted = None if self._shapes is None else self._shape(number).sizes
        ranks = {len(shape) for shape in shapes}
        if len(ranks) > 1 or (wanted is not None and ranks != {len(wanted)}):
            found = ", ".join(map(str, sorted(ranks)))
            rank = "" if wanted is None else f"; the padded shape has rank {len(wanted)}"
            raise errors.InvalidArgumentError(f"component {number} has elements of rank {found}{rank}")
        largest = tuple(map(max, zip(*shapes, strict=True)))
        made = tuple(most if size is None else size for most, size in zip(largest, wanted or largest, strict=True))
        if any(most > size for most, size in zip(largest, made, strict=True)):
            raise errors.InvalidArgumentError(
                f"component {number} has elements of up to {list(largest)}, larger than the padded shape {list(made)}"
            )
        return made

    def _padding(self, number: int, shape: tuple[int, ...], leaf: Any) -> AnyArray:
        dtype = as_dtype(getattr(leaf, "dtype", object))
        value = self._values[0] if len(self._values) == 1 else self._values[number]
        if dtype.np.kind == "O":
            return full_array(shape, b"" if value is None else as_leaf(value))
        return np.full(shape, 0 if value is None else as_leaf(value, dtype), dtype.np)
