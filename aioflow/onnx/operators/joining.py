"""Tensors joined, split, repeated and padded."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Tensor
from aioflow.kernels import known
from aioflow.kernels.array import concat as joining
from aioflow.kernels.array.arrays import tile, transpose
from aioflow.kernels.array.constants import constant, ones_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.scatter import tensor_scatter_update
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math.arithmetic import add, floordiv, floormod, maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.onnx.call import Call
from aioflow.onnx.operators.size_limits import after_size_check, check_known_sizes
from aioflow.onnx.operators.values import (
    axes_of,
    axis_of,
    from_front,
    known_ints,
    length_of,
    rank_of,
    scalar,
    size_at,
    sizes_of,
    stacked,
)
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import bool_, int64


@operator("Concat")
def _(call: Call, *inputs: Tensor) -> Tensor:
    return joining.concat(inputs, axis_of(call.integer("axis", 1), rank_of(inputs[0])))


@operator("Split")
def _(call: Call, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    axis = axis_of(call.integer("axis", 0), rank_of(x))
    given = call.integers("split") if call.has("split") else known_ints(sizes)
    if given is None and sizes is not None:
        return tuple(joining.split(x, sizes, axis, num=call.outputs))
    count = call.integer("num_outputs", call.outputs)
    if given is None and x.spec.sizes is not None and x.spec.sizes[axis] is None:
        return tuple(_split_open(x, axis, count) if call.has("num_outputs") else joining.split(x, count, axis))
    return tuple(joining.split(x, given or even_sizes(x, axis, count), axis))


def _split_open(x: Tensor, axis: int, count: int) -> list[Tensor]:
    """The parts of an axis whose size only the run knows: equal ones, but for the last, which may be smaller."""
    known.pieces(_positive(count))
    size, zero = sizes_of(x)[axis], constant(0, int64)
    each = floordiv(size + constant(count - 1, int64), constant(count, int64))
    starts = number_range(constant(count, int64)) * each
    return joining.split(x, minimum(maximum(size - starts, zero), each), axis, num=count)


def even_sizes(x: Tensor, axis: int, count: int) -> list[int]:
    """The sizes of `count` parts along an axis: equal ones, but for the last, which may be smaller."""
    size = None if x.spec.sizes is None else x.spec.sizes[axis]
    if size is None:
        raise ValueError(f"axis {axis} is split evenly, so that its size must be known when the graph is built")
    each = -(-size // _positive(count))
    return [max(min(each, size - index * each), 0) for index in range(known.pieces(count))]


def _positive(count: int) -> int:
    """The number of parts. ValueError below 1."""
    if count < 1:
        raise ValueError(f"an axis cannot be split into {count} parts")
    return count


@operator("Tile", since=6)
def _(call: Call, x: Tensor, repeats: Tensor) -> Tensor:
    return tile(x, repeats)


# Blocks of pixels and groups of channels


@operator("DepthToSpace")
def _(call: Call, x: Tensor) -> Tensor:
    """Each group of channels as a block of pixels. A place in the block is the first or the last part of a number."""
    size, (batch, channels, height, width) = _block_size(call), _sizes(x)
    depth = channels // (size * size)
    if call.text("mode", "DCR") == "CRD":
        parts = transpose(reshape(x, stacked(batch, depth, size, size, height, width)), [0, 1, 4, 2, 5, 3])
    else:
        parts = transpose(reshape(x, stacked(batch, size, size, depth, height, width)), [0, 3, 4, 1, 5, 2])
    return reshape(parts, stacked(batch, depth, height * size, width * size))


@operator("SpaceToDepth")
def _(call: Call, x: Tensor) -> Tensor:
    size, (batch, channels, height, width) = _block_size(call), _sizes(x)
    rows, columns = height // size, width // size
    order = [0, 1, 3, 5, 2, 4] if call.text("mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    parts = transpose(reshape(x, stacked(batch, channels, rows, size, columns, size)), order)
    return reshape(parts, stacked(batch, channels * size * size, rows, columns))


def _block_size(call: Call) -> int:
    size = call.integer("blocksize")
    if size < 1:
        raise ValueError(f"the attribute 'blocksize' must be at least 1, not {size}")
    return size


def _sizes(x: Tensor) -> list[Any]:
    """Batch, channels, height and width: numbers, or tensors where only the run knows them."""
    if rank_of(x) != 4:
        raise ValueError(f"images have 4 axes, their shape is {x.shape}")
    return [size_at(x, axis) for axis in range(4)]


# Pads


@operator("Pad", since=11)
def _(call: Call, x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None) -> Tensor:
    return padded(x, _pairs(pads, axes, rank_of(x)), call.text("mode", "constant"), value)


@operator("Pad")
def _(call: Call, x: Tensor) -> Tensor:
    pads = constant(call.integers("pads"), int64)
    value = constant(call.number("value", 0.0), x.dtype)
    return padded(x, _pairs(pads, None, rank_of(x)), call.text("mode", "constant"), value)


def _pairs(pads: Tensor, axes: Tensor | None, rank: int) -> Tensor:
    """How much comes before and after each axis: [rank, 2]. A constant, if the graph knows all."""
    sizes, given = known_ints(pads), [*range(rank)] if axes is None else known_ints(axes)
    if sizes is not None and given is not None:
        found = np.zeros([rank, 2], np.int64)
        found[axes_of(given, rank)] = np.reshape(sizes, [2, len(given)]).T
        return constant(found)
    pairs = transpose(reshape(cast(pads, int64), [2, rank if axes is None else length_of(axes)]))
    if axes is None:
        return pairs
    places = from_front(cast(axes, int64), rank) if given is None else constant(axes_of(given, rank), int64)
    return tensor_scatter_update(constant([[0, 0]] * rank, int64), expand_dims(places, 1), pairs)


def padded(x: Tensor, pairs: Tensor, mode: str, value: Tensor | None = None) -> Tensor:
    """`x` with pairs of numbers of elements put before and after each axis; negative ones take elements off."""
    if mode == "constant":
        return _with_constant(x, pairs, value)
    for axis, row in enumerate(_checked_rows(x, pairs)):
        x = gather(x, _sources(row, size_at(x, axis), mode), axis=axis)
    return x


def _checked_rows(x: Tensor, pairs: Tensor) -> Sequence[Sequence[int] | Tensor]:
    """The pair of each axis, after a check of the sizes that they lead to."""
    known = known_ints(pairs)
    if known is None:
        checked = after_size_check(pairs, add(sizes_of(x), reduce_sum(pairs, 1)), x.dtype)
        return [checked[axis] for axis in range(rank_of(x))]
    rows = [known[place : place + 2] for place in range(0, len(known), 2)]
    check_known_sizes([(size or 0) + sum(row) for size, row in zip(x.spec.sizes or (), rows, strict=True)], x.dtype)
    return rows


def _with_constant(x: Tensor, pairs: Tensor, value: Tensor | None) -> Tensor:
    known, given = known_ints(pairs), None if value is None else constant_value(value)
    whole = known is not None and min(known, default=0) >= 0
    inner, grown = (x, pairs) if whole else (_cropped(x, pairs), maximum(pairs, constant(0, int64)))
    if value is None or given is not None:
        return pad(inner, grown, constant_values=0 if given is None else given.reshape(()))
    return select(pad(ones_like(inner, bool_), grown), pad(inner, grown), scalar(value))


def _cropped(x: Tensor, pairs: Tensor) -> Tensor:
    """`x` without the elements that negative numbers take off."""
    cut = minimum(pairs, constant(0, int64))
    parts = [slice(-cut[axis, 0], size_at(x, axis) + cut[axis, 1]) for axis in range(rank_of(x))]
    return x[tuple(parts)]


def _sources(pair: Sequence[int] | Tensor, size: int | Tensor, mode: str) -> Tensor:
    """For each place of a padded axis the element that it repeats."""
    count = size if isinstance(size, Tensor) else constant(size, int64)
    zero, one = constant(0, int64), constant(1, int64)
    places = number_range(-pair[0], size + pair[1], dtype=int64)
    if mode == "edge":
        return minimum(maximum(places, zero), count - one)
    if mode == "wrap":
        return floormod(places, count)
    if mode != "reflect":
        raise ValueError(f"mode is constant, reflect, edge or wrap, not {mode!r}")
    period = maximum((count - one) * constant(2, int64), one)
    place = floormod(places, period)
    return minimum(place, period - place)
