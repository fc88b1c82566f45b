"""Reductions in chains of element-wise kernels, and their gradients, with the same bits as over whole arrays.

NumPy adds up more than 128 contiguous numbers as two halves, each of them in the same way. So a sum over all elements
is the sum of partial sums, if the blocks are the halves of halves, and the partial sums are added as NumPy adds halves.
Along the last axis each row is reduced by itself, and any rows can be a block.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.kernels.math.broadcasting import axes_of, counted
from aioflow.plan.passes.flow import Node
from aioflow.tensors.dtypes import Array, TensorShape, float32, float64

_HALVED: Final = 128
"""NumPy adds up more contiguous numbers than these as two halves."""
_UNROLLED: Final = 8
"""The first half has a multiple of so many numbers."""
_UFUNCS: Final = {"reduce_sum": np.add, "reduce_mean": np.add, "reduce_max": np.maximum, "reduce_min": np.minimum}


class Total:
    """A reduction of all elements of an array of a known shape to one number."""

    def __init__(self, node: Node) -> None:
        """The reduction that this node is; see `reduces_all`."""
        spec, (result,) = node.input_specs[0], node.output_specs
        self._reduce: Final[Callable[..., Any]] = _UFUNCS[node.definition.name].reduce
        self._count: Final = _count(node)
        self._dtype: Final = spec.dtype.np
        self._shape: Final = result.sizes

    def partial(self, count: int) -> Array:
        """An array for the results of `count` blocks."""
        return np.empty(count, self._dtype)

    def block(self, values: Array, partial: Array, place: int) -> None:
        """Reduce the block of that place."""
        partial[place] = self._reduce(values)

    def result(self, partial: Array, size: int, block: int) -> Any:
        """The result, given the numbers of all blocks of an array of that size."""
        found: Any = _combined(iter(partial), size, block)
        if self._count is not None:
            found = found / self._count
        return found.reshape(self._shape) if self._shape else found


def by_rows(node: Node) -> Callable[..., Array]:
    """The function of a node that reduces rows: from rows, and an array of one column to write to, to that array."""
    reduce, count = _UFUNCS[node.definition.name].reduce, _count(node)

    def reduced(rows: Array, out: Array) -> Array:
        reduce(rows, 1, None, out.reshape(-1))
        return out if count is None else np.divide(out, count, out)

    return reduced


def spread(node: Node) -> Callable[..., Array]:
    """The function of a node that spreads a number, or one for each row, over the elements of `out`."""
    count = counted(sizes_of(node.output_specs[0].shape) or (), node.attrs["axis"]) if node.attrs["mean"] else None

    def repeated(x: Array, shape: Array, out: Array) -> Array:
        np.copyto(out, x if count is None else x / count)
        return out

    return repeated


def _count(node: Node) -> int | None:
    """The number by which a mean divides the sum."""
    is_mean = node.definition.name == "reduce_mean"
    return counted(sizes_of(node.input_specs[0].shape) or (), _axes(node)) if is_mean else None


def sizes_of(shape: TensorShape) -> list[int] | None:
    """The sizes of a shape if it is fully defined."""
    return [int(size or 0) for size in shape.as_list()] if shape.is_fully_defined() else None


def _axes(node: Node) -> tuple[int, ...]:
    return axes_of(node.attrs["axis"], node.input_specs[0].rank)


def reduces_rows(node: Node) -> bool:
    """Whether the node reduces the rows of a matrix, or of a stack of them, to a number each."""
    rank = (node.input_specs[0].rank or 0) if node.input_specs else 0
    return _is_known(node) and rank > 1 and _axes(node) == (rank - 1,)


def reduces_all(node: Node) -> bool:
    """Whether the node reduces all elements, in a way that blocks do not change.

    The sign of an extreme that is 0 depends on the order.
    """
    return _is_known(node) and len(_axes(node)) == node.input_specs[0].rank and _UFUNCS[node.definition.name] is np.add


def _is_known(node: Node) -> bool:
    """Whether it reduces floats of a known shape."""
    spec = node.input_specs[0] if node.definition.name in _UFUNCS else None
    return spec is not None and spec.dtype in (float32, float64) and spec.shape.is_fully_defined() and bool(spec.rank)


def spreads(node: Node) -> bool:
    """Whether the node repeats floats for all elements, or for those of the last axis."""
    if node.definition.name != "spread" or not node.output_specs[0].shape.is_fully_defined():
        return False
    return node.output_specs[0].dtype in (float32, float64) and (node.input_specs[0].rank == 0 or spreads_rows(node))


def spreads_rows(node: Node) -> bool:
    """Whether the node repeats one number for each row."""
    rank = node.output_specs[0].rank or 0
    return rank > 1 and axes_of(node.attrs["axis"], rank) == (rank - 1,)


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
