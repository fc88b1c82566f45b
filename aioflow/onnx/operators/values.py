"""What functions of operators ask of their inputs: values known when the graph is built, ranks, sizes, axes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, less
from aioflow.kernels.math.reduction import reduce_any
from aioflow.library.branches import cond
from aioflow.onnx.tensors import MOST_AXES
from aioflow.tensors.dtypes import int64, string


def known_ints(tensor: Tensor | None) -> list[int] | None:
    """The integers of a vector or scalar, if they are known when the graph is built."""
    value = None if tensor is None else constant_value(tensor)
    return None if value is None else [int(item) for item in np.ravel(value)]


def known_number(tensor: Tensor | None) -> Any:
    """The only element of a tensor as Python's number, if it is one and known when the graph is built."""
    value = None if tensor is None or tensor.dtype is string else constant_value(tensor)
    return None if value is None or np.size(value) != 1 else np.ravel(value)[0].item()


def rank_of(tensor: Tensor) -> int:
    """The number of axes. ValueError if it is not known."""
    if tensor.spec.rank is None:
        raise ValueError(f"the rank of {tensor.name!r} must be known when the graph is built")
    return int(tensor.spec.rank)


def length_of(tensor: Tensor) -> int:
    """The number of elements of a vector of axes or sizes. ValueError if it is not known, or too large."""
    size = tensor.spec.sizes[0] if tensor.spec.sizes else None
    if size is None:
        raise ValueError(f"the length of {tensor.name!r} must be known when the graph is built")
    if size > MOST_AXES:
        raise ValueError(f"{tensor.name!r} has {size} numbers for axes, of which a tensor has at most {MOST_AXES}")
    return int(size)


def size_at(tensor: Tensor, axis: int) -> Any:
    """The size of one axis: a number if it is known, else a scalar tensor."""
    size = None if tensor.spec.sizes is None else tensor.spec.sizes[axis]
    return sizes_of(tensor)[axis] if size is None else size


def stacked(*sizes: int | Tensor) -> Any:
    """Sizes as a shape: a list of numbers, or a vector if one of them is a tensor."""
    if not any(isinstance(size, Tensor) for size in sizes):
        return list(sizes)
    return stack([size if isinstance(size, Tensor) else constant(size, int64) for size in sizes])


def sizes_of(tensor: Tensor) -> Tensor:
    """The sizes of all axes, as a vector of int64."""
    return shape(tensor, out_type=int64)


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front. ValueError if there is no such axis."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not one of {rank}")
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """The axes counted from the front."""
    return [axis_of(axis, rank) for axis in axes]


def from_front(indices: Tensor, size: Any) -> Tensor:
    """Indices of which negative ones count from the end of an axis, counted from the front."""
    value = constant_value(indices)
    if value is not None and (np.size(value) == 0 or value.min() >= 0):
        return indices
    whole = cast(size, indices.dtype) if isinstance(size, Tensor) else constant(size, indices.dtype)
    return select(less(indices, constant(0, indices.dtype)), add(indices, whole), indices)


def scalar(tensor: Tensor) -> Tensor:
    """The only element of a tensor, as a tensor of rank 0."""
    return tensor if tensor.spec.rank == 0 else reshape(tensor, [])


def axis_mask(axes: Tensor, rank: int) -> Tensor:
    """For each of `rank` axes whether a vector of axes, known only in the run, names it."""
    places = number_range(constant(rank, int64))
    named = from_front(cast(axes, int64), rank)
    return reduce_any(equal(expand_dims(places, 1), expand_dims(named, 0)), 1)


def along_axis(axis: Tensor, rank: int, build: Callable[[int], Tensor]) -> Tensor:
    """What `build` makes for one axis, which may be known only in the run: then each axis gets a branch."""
    given = known_number(axis)
    if given is not None:
        return build(axis_of(given, rank))
    place = from_front(cast(scalar(axis), int64), rank)

    def branches(first: int) -> Tensor:
        if first == rank - 1:
            return build(first)
        result: Tensor = cond(equal(place, constant(first, int64)), lambda: build(first), lambda: branches(first + 1))
        return result

    return branches(0)
