"""Pooling: the highest element, the mean or the norm of each window, or of whole images."""

import dataclasses
import itertools
import math
from collections.abc import Callable

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant, ones_like
from aioflow.kernels.array.gather import gather, scatter_nd, unravel_index
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.shapes import expand_dims, reshape, squeeze
from aioflow.kernels.math.arithmetic import add, divide, maximum, multiply, pow
from aioflow.kernels.math.cumulative import cumprod
from aioflow.kernels.math.elementwise import abs
from aioflow.kernels.math.reduction import argmax, reduce_max, reduce_mean, reduce_prod, reduce_sum
from aioflow.kernels.nn.pooling import avg_pool, avg_pool3d, max_pool, max_pool3d
from aioflow.onnx.call import Call
from aioflow.onnx.operators.convolution import as_plane
from aioflow.onnx.operators.values import rank_of, sizes_of
from aioflow.onnx.operators.windows import FORMATS, Windows, folded, part_of, taps, windows_of, without_empty
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import int64

Pool = Callable[[Call, Tensor], Tensor]


def _of_images(call: Call, x: Tensor, pool: Pool) -> Tensor:
    """The pooling of images; sequences are images of height 1."""
    if rank_of(x) == 3:
        return squeeze(pool(as_plane(call), expand_dims(x, 2)), [2])
    return pool(call, x)


def _lowest(x: Tensor) -> float:
    return -math.inf if x.dtype.is_floating else int(x.dtype.min)


@operator("MaxPool")
def _(call: Call, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    highest = _of_images(call, x, _highest)
    return (highest, _of_images(call, x, _places)) if call.wants(1) else highest


def _highest(call: Call, x: Tensor) -> Tensor:
    windows = windows_of(call, x, call.integers("kernel_shape"))
    if windows.dilated:
        return folded(x, windows, maximum, _lowest(x))
    function, layout = (max_pool, "NCHW") if rank_of(x) == 4 else (max_pool3d, FORMATS[3])
    highest = function(x, windows.kernel, windows.strides, windows.padding, data_format=layout)
    return without_empty(highest, x, windows)


def _places(call: Call, x: Tensor) -> Tensor:
    """Where each highest element lies among all elements of `x`, counted along rows or along columns."""
    windows = windows_of(call, x, call.integers("kernel_shape"))
    numbers = _numbers(x, call.flag("storage_order"))
    values = _under_windows(pad(x, windows.numbers, constant_values=_lowest(x)), windows)
    places = _under_windows(pad(numbers, windows.numbers, constant_values=0), windows)
    best = argmax(stack(values, rank_of(x)), rank_of(x))
    return gather(stack(places, rank_of(x)), best, axis=rank_of(x), batch_dims=rank_of(x))


def _numbers(x: Tensor, by_columns: bool) -> Tensor:
    """The numbers of all elements of `x`, in its shape."""
    sizes, rank = sizes_of(x), rank_of(x)
    line = number_range(reduce_prod(sizes))
    if not by_columns:
        return reshape(line, sizes)
    order = [0, 1, *range(rank - 1, 1, -1)]
    return transpose(reshape(line, gather(sizes, constant(order))), order)


def _under_windows(x: Tensor, windows: Windows) -> list[Tensor]:
    """For each element of the windows the elements of padded images under it."""
    taps(math.prod(windows.kernel))
    found = []
    for places in itertools.product(*map(range, windows.kernel)):
        part = x
        for axis, tap in enumerate(places):
            part = part_of(part, windows, axis, tap)
        found.append(part)
    return found


@operator("MaxUnpool", since=9)
def _(call: Call, x: Tensor, places: Tensor, shape: Tensor | None = None) -> Tensor:
    """`x` at its places in images of zeros, whose size is that of `shape`; else the least that has such places."""
    least = constant(_unpooled(call, x), int64)
    whole = least if shape is None else shape
    flat = scatter_nd(
        reshape(_moved(places, least, whole), [-1, 1]), reshape(x, [-1]), reshape(reduce_prod(whole), [1])
    )
    return reshape(flat, whole)


def _moved(places: Tensor, least: Tensor, whole: Tensor) -> Tensor:
    """Places counted in images of one size, in images of another."""
    if whole is least:
        return places
    position = transpose(unravel_index(reshape(places, [-1]), least))
    return reduce_sum(multiply(position, cumprod(whole, exclusive=True, reverse=True)), -1)


def _unpooled(call: Call, x: Tensor) -> list[int]:
    kernel = call.integers("kernel_shape")
    strides, pads = call.integers("strides", [1] * len(kernel)), call.integers("pads", [0] * 2 * len(kernel))
    if not x.shape.is_fully_defined():
        raise ValueError(f"images are put in larger ones only if their shape is known, and it is {x.shape}")
    batch, channels, *small = [int(size or 0) for size in x.shape.as_list()]
    sizes = [
        (size - 1) * stride - before - after + window
        for size, stride, before, after, window in zip(
            small, strides, pads[: len(kernel)], pads[len(kernel) :], kernel, strict=True
        )
    ]
    return [batch, channels, *sizes]


# Means and norms


@operator("AveragePool")
def _(call: Call, x: Tensor) -> Tensor:
    return _of_images(call, x, _mean)


def _mean(call: Call, x: Tensor) -> Tensor:
    windows = windows_of(call, x, call.integers("kernel_shape"))
    return without_empty(_mean_of(windows, x, call.flag("count_include_pad")), x, windows)


def _mean_of(windows: Windows, x: Tensor, with_pads: bool) -> Tensor:
    if with_pads:
        without = dataclasses.replace(windows, extra=[0] * len(windows.extra))
        x, windows = pad(x, without.numbers), dataclasses.replace(windows, pads=[(0, 0)] * len(windows.kernel))
    if windows.dilated:
        return divide(folded(x, windows, add, 0), folded(ones_like(x), windows, add, 0))
    function, layout = (avg_pool, "NCHW") if rank_of(x) == 4 else (avg_pool3d, FORMATS[3])
    return function(x, windows.kernel, windows.strides, windows.padding, data_format=layout)


@operator("LpPool")
def _(call: Call, x: Tensor) -> Tensor:
    return _of_images(call, x, _norm)


def _norm(call: Call, x: Tensor) -> Tensor:
    windows, order = windows_of(call, x, call.integers("kernel_shape")), float(call.integer("p", 2))
    return pow(folded(pow(abs(x), order), windows, add, 0), 1 / order)


# Whole images


def _axes(x: Tensor) -> list[int]:
    return list(range(2, rank_of(x)))


@operator("GlobalAveragePool")
def _(call: Call, x: Tensor) -> Tensor:
    return reduce_mean(x, _axes(x), True)


@operator("GlobalMaxPool")
def _(call: Call, x: Tensor) -> Tensor:
    return reduce_max(x, _axes(x), True)


@operator("GlobalLpPool")
def _(call: Call, x: Tensor) -> Tensor:
    order = float(call.integer("p", 2))
    return pow(reduce_sum(pow(abs(x), order), _axes(x), True), 1 / order)
