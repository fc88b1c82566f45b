"""Shapes: axes put in and taken out, other sizes of the same elements, and shapes as data."""

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.kernels.array import shapes
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant, fill
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.select import boolean_mask, select
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, logical_not
from aioflow.kernels.math.cumulative import cumsum
from aioflow.kernels.math.reduction import reduce_prod
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import (
    axes_of,
    axis_mask,
    axis_of,
    known_ints,
    length_of,
    rank_of,
    sizes_of,
)
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float32, int64


@operator("Shape")
def _(call: Call, x: Tensor) -> Tensor:
    start, end = call.integer("start", 0), call.get("end")
    whole = sizes_of(x)
    return whole if start == 0 and end is None else whole[start:end]


@operator("Size")
def _(call: Call, x: Tensor) -> Tensor:
    return shapes.size(x, out_type=int64)


@operator("Reshape")
def _(call: Call, x: Tensor, shape: Tensor) -> Tensor:
    return reshape(x, _new_sizes(x, shape, call.flag("allowzero")))


def _new_sizes(x: Tensor, shape: Tensor, zero_is_size: bool) -> Tensor:
    """The shape with the sizes of `x` in the place of zeros, unless a zero is a size."""
    known = known_ints(shape)
    if zero_is_size or (known is not None and 0 not in known):
        return shape
    count, mine = length_of(shape), sizes_of(x)
    if known is not None:
        return concat([mine[i : i + 1] if size == 0 else [size] for i, size in enumerate(known)], 0)
    if rank_of(x) < count:
        mine = concat([mine, constant(np.zeros(count - rank_of(x), np.int64))], 0)
    return select(equal(shape, constant(0, int64)), mine[:count], shape)


@operator("Flatten")
def _(call: Call, x: Tensor) -> Tensor:
    axis, rank = call.integer("axis", 1), rank_of(x)
    return flattened(x, axis if axis == rank else axis_of(axis, rank))


def flattened(x: Tensor, axis: int) -> Tensor:
    """`x` as a matrix: its axes before `axis` become one, and the others."""
    whole = sizes_of(x)
    return reshape(x, concat([reshape(reduce_prod(part), [1]) for part in (whole[:axis], whole[axis:])], 0))


@operator("Squeeze", since=13)
def _(call: Call, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return shapes.squeeze(x) if axes is None else squeezed(x, axes)


@operator("Squeeze")
def _(call: Call, x: Tensor) -> Tensor:
    return shapes.squeeze(x, call.integers("axes", []) or None)


def squeezed(x: Tensor, axes: Tensor) -> Tensor:
    """`x` without axes of size 1 that may be known only in the run."""
    given = known_ints(axes)
    if given is not None:
        return shapes.squeeze(x, given) if given else x
    rank = rank_of(x)
    kept = boolean_mask(sizes_of(x), logical_not(axis_mask(axes, rank)))
    kept.set_shape([rank - length_of(axes)])
    return reshape(x, kept)


@operator("Unsqueeze", since=13)
def _(call: Call, x: Tensor, axes: Tensor) -> Tensor:
    given = known_ints(axes)
    return _with_axes_of_the_run(x, axes) if given is None else with_axes(x, given)


@operator("Unsqueeze")
def _(call: Call, x: Tensor) -> Tensor:
    return with_axes(x, call.integers("axes"))


def with_axes(x: Tensor, axes: list[int]) -> Tensor:
    """`x` with axes of size 1 put in; the numbers are places in the result."""
    for axis in sorted(axes_of(axes, rank_of(x) + len(axes))):
        x = shapes.expand_dims(x, axis)
    return x


def _with_axes_of_the_run(x: Tensor, axes: Tensor) -> Tensor:
    rank = rank_of(x) + length_of(axes)
    mask = axis_mask(axes, rank)
    one = constant(1, int64)
    if not rank_of(x):
        return reshape(x, constant(np.ones(rank, np.int64)))
    place = maximum(cumsum(cast(logical_not(mask), int64)) - one, constant(0, int64))
    return reshape(x, select(mask, one, gather(sizes_of(x), place)))


@operator("Transpose")
def _(call: Call, x: Tensor) -> Tensor:
    return transpose(x, call.integers("perm") if call.has("perm") else None)


@operator("Expand", since=8)
def _(call: Call, x: Tensor, shape: Tensor) -> Tensor:
    return shapes.broadcast_to(x, common_shape(sizes_of(x), shape))


def common_shape(mine: Tensor, wanted: Tensor) -> Tensor:
    """The shape that both broadcast to."""
    count = max(length_of(mine), length_of(wanted))
    one = constant(1, int64)
    longer = [_after_ones(shape, count - length_of(shape)) for shape in (mine, wanted)]
    return select(equal(longer[0], one), longer[1], longer[0])


def _after_ones(shape: Tensor, count: int) -> Tensor:
    return concat([constant(np.ones(count, np.int64)), shape], 0) if count else shape


@operator("Constant")
def _(call: Call) -> Tensor:
    kinds = ("float", "floats", "int", "ints", "string", "strings")
    for name in ("value", "sparse_value", *[f"value_{kind}" for kind in kinds]):
        if call.has(name):
            value = call.get(name)
            dtype = float32 if "float" in name else int64 if "int" in name else None
            return constant(value, dtype)
    raise ValueError("a constant has no value that aioflow reads")


@operator("ConstantOfShape", since=9)
def _(call: Call, shape: Tensor) -> Tensor:
    value = call.get("value")
    element = np.float32(0) if value is None else value.reshape(-1)[0]
    return fill(shape, constant(element)) if length_of(shape) else constant(element)
