"""Convolution of images along one to three axes, and its transpose."""

import dataclasses
from collections.abc import Callable
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.shapes import expand_dims, reshape, squeeze
from aioflow.kernels.nn.activation import bias_add
from aioflow.kernels.nn.convolution import conv2d, conv2d_transpose
from aioflow.kernels.nn.convolution_nd import conv3d, conv3d_transpose
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import rank_of, size_at, stacked
from aioflow.onnx.operators.windows import FORMATS, Windows, windows_of
from aioflow.onnx.registry import operator


@operator("Conv")
def _(call: Call, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    return with_bias(convolved(call, x, weights), bias)


def with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """`y` with a number for each channel, its second axis, added."""
    if bias is None:
        return y
    layout = FORMATS.get(rank_of(y) - 2)
    if layout is None:
        return y + reshape(bias, [1, -1] + [1] * (rank_of(y) - 2))
    return bias_add(y, bias, layout)


def convolved(call: Call, x: Tensor, weights: Tensor) -> Tensor:
    """The convolution of images by weights, without bias."""
    if rank_of(weights) == 3:
        return squeeze(convolved(as_plane(call), expand_dims(x, 2), expand_dims(weights, 2)), [2])
    windows = windows_of(call, x, _kernel(weights))
    groups, channels = call.integer("group", 1), _channels(weights)
    if groups == 1:
        return _convolve(x, weights, windows)
    if channels == 1 and rank_of(weights) == 4 and groups == _channels(x):
        return _by_channel(x, weights, windows, groups)
    pairs = zip(split(x, groups, 1), split(weights, groups, 0), strict=True)
    return concat([_convolve(*pair, windows) for pair in pairs], 1)


def as_plane(call: Call) -> Call:
    """A node on sequences as one on images of height 1."""
    attributes = dict(call.node.attributes)
    for name, first in (("kernel_shape", [1]), ("strides", [1]), ("dilations", [1]), ("output_padding", [0])):
        if name in attributes:
            attributes[name] = first + call.integers(name)
    if "output_shape" in attributes:
        attributes["output_shape"] = [1, *call.integers("output_shape")]
    if "pads" in attributes:
        before, after = call.integers("pads")
        attributes["pads"] = [0, before, 0, after]
    return Call(dataclasses.replace(call.node, attributes=attributes), call.version, call.build)


def _kernel(weights: Tensor) -> list[int]:
    sizes = (weights.spec.sizes or ())[2:]
    if None in sizes or not sizes:
        raise ValueError(f"the size of a window must be known, the weights have shape {weights.shape}")
    return [size for size in sizes if size is not None]


def _channels(tensor: Tensor) -> int | None:
    return None if tensor.spec.sizes is None else tensor.spec.sizes[1]


def _convolve(x: Tensor, weights: Tensor, windows: Windows) -> Tensor:
    axes = rank_of(weights) - 2
    if axes not in FORMATS:
        raise ValueError(f"images have 1 to 3 axes, not {axes}")
    window = transpose(weights, [*range(2, axes + 2), 1, 0])
    function: Callable[..., Tensor] = conv2d if axes == 2 else conv3d
    return function(x, window, windows.strides, windows.padding, data_format=FORMATS[axes], dilations=windows.dilations)


def _by_channel(x: Tensor, weights: Tensor, windows: Windows, channels: int) -> Tensor:
    kernel = _kernel(weights)
    window = transpose(reshape(weights, [channels, -1, *kernel]), [2, 3, 0, 1])
    return depthwise_conv2d_native(x, window, windows.strides, windows.padding, "NCHW", windows.dilations)


# The transpose


@operator("ConvTranspose")
def _(call: Call, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    return with_bias(_transposed(call, x, weights), bias)


def _transposed(call: Call, x: Tensor, weights: Tensor) -> Tensor:
    if rank_of(weights) == 3:
        return squeeze(_transposed(as_plane(call), expand_dims(x, 2), expand_dims(weights, 2)), [2])
    kernel, groups = _kernel(weights), call.integer("group", 1)
    strides = call.integers("strides", [1] * len(kernel))
    dilations = call.integers("dilations", [1] * len(kernel))
    sizes, pads = _large_sizes(call, x, kernel, strides, dilations)
    windows = Windows(kernel, strides, dilations, pads, [0] * len(kernel))
    pairs = zip(split(x, groups, 1), split(weights, groups, 0), strict=True) if groups > 1 else [(x, weights)]
    parts = [_spread(*pair, sizes, windows) for pair in pairs]
    return parts[0] if groups == 1 else concat(parts, 1)


def _large_sizes(
    call: Call, x: Tensor, kernel: list[int], strides: list[int], dilations: list[int]
) -> tuple[list[Any], list[tuple[int, int]]]:
    """The spatial sizes of the result, numbers or tensors, and the padding around it."""
    axes = len(kernel)
    mode, more = call.text("auto_pad", "NOTSET"), call.integers("output_padding", [0] * axes)
    small = [size_at(x, 2 + axis) for axis in range(axes)]
    reach = [(size - 1) * distance + 1 for size, distance in zip(kernel, dilations, strict=True)]
    whole = [(n - 1) * s + (m + r) for s, n, m, r in zip(strides, small, more, reach, strict=True)]
    wanted = call.integers("output_shape", [])[-axes:]
    if wanted and any(isinstance(size, Tensor) for size in small):
        raise ValueError(f"the sizes of images must be known for an output_shape, and their shape is {x.shape}")
    if wanted:
        return wanted, _halves(mode, [size - given for size, given in zip(whole, wanted, strict=True)])
    if mode.startswith("SAME"):
        sizes = [size * stride for size, stride in zip(small, strides, strict=True)]
        return sizes, _halves(mode, [m + r - s for s, m, r in zip(strides, more, reach, strict=True)])
    pads = [0] * 2 * axes if mode == "VALID" else call.integers("pads", [0] * 2 * axes)
    pairs = list(zip(pads[:axes], pads[axes:], strict=True))
    return [size - sum(pair) for size, pair in zip(whole, pairs, strict=True)], pairs


def _halves(mode: str, totals: list[int]) -> list[tuple[int, int]]:
    """The padding before and after each axis, in all as much as is given."""
    halves = [(max(total, 0) // 2, max(total, 0) - max(total, 0) // 2) for total in totals]
    return halves if mode == "SAME_UPPER" else [(after, before) for before, after in halves]


def _spread(x: Tensor, weights: Tensor, sizes: list[Any], windows: Windows) -> Tensor:
    axes = len(sizes)
    window = transpose(weights, [*range(2, axes + 2), 1, 0])
    batch, channels = size_at(x, 0), size_at(weights, 1)
    shape = stacked(batch, channels, *sizes)
    function: Callable[..., Tensor] = conv2d_transpose if axes == 2 else conv3d_transpose
    return function(x, window, shape, windows.strides, windows.padding, FORMATS[axes], dilations=windows.dilations)
