"""Reductions at the end of a chain of element-wise kernels, block by block, with the same bits as over whole arrays.

NumPy adds up more than 128 contiguous numbers as two halves, each of them in the same way. So a sum over all elements
is the sum of partial sums, if the blocks are the halves of halves, and the partial sums are added as NumPy adds halves.
Along the last axis each row is reduced by itself, and any rows can be a block.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.kernels.math.broadcasting import axes_of, counted
from aioflow.plan.passes.flow import Node
from aioflow.tensors.dtypes import Array, Spec, float32, float64

_HALVED: Final = 128
"""NumPy adds up more contiguous numbers than these as two halves."""
_UNROLLED: Final = 8
"""The first half has a multiple of so many numbers."""
_UFUNCS: Final = {"reduce_sum": np.add, "reduce_mean": np.add, "reduce_max": np.maximum, "reduce_min": np.minimum}


class Reduction:
    """A reduction of an array of a known shape.

    Attributes:
        width: the length of a row, which is reduced to one number; None if all elements are.
    """

    def __init__(self, node: Node) -> None:
        """The reduction that this node is; see `is_possible`."""
        spec, (result,) = node.input_specs[0], node.output_specs
        sizes, axes = _sizes(spec), _axes(node)
        self.width: Final[int | None] = None if len(axes) == len(sizes) else sizes[-1]
        self._reduce: Final[Callable[..., Any]] = _UFUNCS[node.definition.name].reduce
        self._count: Final = counted(sizes, axes) if node.definition.name == "reduce_mean" else None
        self._dtype: Final = spec.dtype.np
        self._shape: Final = tuple(_sizes(result))

    def partial(self, count: int) -> Array:
        """An array for the results of so many blocks or rows."""
        return np.empty(count, self._dtype)

    def block(self, values: Array, partial: Array, place: int, start: int) -> None:
        """Reduce the block of that place, which begins at an element, to one number or to one for each row."""
        if self.width is None:
            partial[place] = self._reduce(values)
        else:
            first, rows = start // self.width, values.reshape(-1, self.width)
            self._reduce(rows, 1, None, partial[first : first + len(rows)])

    def result(self, partial: Array, size: int, block: int) -> Any:
        """The result, given the numbers of all blocks or rows of an array of that size."""
        found: Any = _combined(iter(partial), size, block) if self.width is None else partial.reshape(self._shape)
        if self._count is not None:
            found = found / self._count
        return found.reshape(self._shape) if self._shape and self.width is None else found


def _sizes(spec: Spec) -> list[int]:
    """The sizes of a shape that is fully defined."""
    return [int(size or 0) for size in spec.shape.as_list()]


def _axes(node: Node) -> tuple[int, ...]:
    return axes_of(node.attrs["axis"], node.input_specs[0].rank)


def is_possible(node: Node, block: int) -> bool:
    """Whether the node reduces blocks of so many elements: all elements by a sum, or rows along the last axis."""
    name = node.definition.name
    if name not in _UFUNCS or node.input_specs[0].dtype not in (float32, float64):
        return False
    if not node.input_specs[0].shape.is_fully_defined() or not node.input_specs[0].rank:
        return False
    sizes, axes = _sizes(node.input_specs[0]), _axes(node)
    if len(axes) == len(sizes):
        return name in ("reduce_sum", "reduce_mean")  # the sign of an extreme that is 0 depends on the order
    return axes == (len(sizes) - 1,) and 0 < sizes[-1] <= block


def halves(size: int, block: int, begin: int = 0) -> list[tuple[int, int]]:
    """The blocks of at most so many elements, or of 128, whose sums NumPy would add, in order."""
    if size <= max(block, _HALVED):
        return [(begin, begin + size)]
    first = _first_half(size)
    return halves(first, block, begin) + halves(size - first, block, begin + first)


def _first_half(size: int) -> int:
    half = size // 2
    return half - half % _UNROLLED


def _combined(partial: Any, size: int, block: int) -> Any:
    """The sum of the next partial sums, of blocks that have so many elements together."""
    if size <= max(block, _HALVED):
        return next(partial)
    first = _first_half(size)
    return _combined(partial, first, block) + _combined(partial, size - first, block)
