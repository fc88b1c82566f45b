"""Blocks of pixels moved into channels or into the batch, and back: each op is undone by the other of its pair.

Both pairs are one reshape, one transpose and one reshape, and each op is the other's gradient.
"""

import math
from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, constant_value, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.nn.activation import Function
from aioflow.tensors.dtypes import Array, Namespace, Sizes, Spec, TensorShape, int32
from aioflow.tensors.object_arrays import full_array

# Into channels


def _image(input: Spec, block_size: int, data_format: str) -> tuple[Sizes, bool]:
    """Batch, height, width and channels, and whether channels are last."""
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(f"data_format is 'NHWC' or 'NCHW', not {data_format!r}")
    if block_size < 2:
        raise ValueError(f"blocks must be larger than 1, not {block_size}")
    sizes = input.with_rank(4, "input").sizes
    assert sizes is not None
    if data_format == "NHWC":
        return sizes, True
    batch, channels, height, width = sizes
    return (batch, height, width, channels), False


def _divided(what: str, size: int | None, by: int) -> int | None:
    if size is not None and size % by:
        raise ValueError(f"{what} {size} is not a multiple of {by}")
    return None if size is None else size // by


def _times(size: int | None, by: int) -> int | None:
    return None if size is None else size * by


def _own(last: bool, batch: Any, height: Any, width: Any, channels: Any) -> TensorShape:
    return TensorShape((batch, height, width, channels) if last else (batch, channels, height, width))


@op
def space_to_depth(input: Spec, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Spec:
    """Each block of `block_size` x `block_size` pixels as one, whose channels are theirs one after the other.

    Examples:
        >>> await session.run(af.space_to_depth([[[[1], [2]], [[3], [4]]]], 2))
        array([[[[1, 2, 3, 4]]]], dtype=int32)
    """
    (batch, height, width, channels), last = _image(input, block_size, data_format)
    height, width = _divided("height", height, block_size), _divided("width", width, block_size)
    return Spec(input.dtype, _own(last, batch, height, width, _times(channels, block_size**2)))


@op
def depth_to_space(input: Spec, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Spec:
    """Each pixel as a block of `block_size` x `block_size`, between which its channels are divided.

    Examples:
        >>> await session.run(af.depth_to_space([[[[1, 2, 3, 4]]]], 2)[0, :, :, 0])
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    (batch, height, width, channels), last = _image(input, block_size, data_format)
    channels = _divided("the number of channels", channels, block_size**2)
    return Spec(input.dtype, _own(last, batch, _times(height, block_size), _times(width, block_size), channels))


space_to_depth.gradient(lambda op, dy: depth_to_space(dy, **op.attrs))
depth_to_space.gradient(lambda op, dy: space_to_depth(dy, **op.attrs))


for _op in (space_to_depth, depth_to_space):
    _op.moves = True


@space_to_depth.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    block, last = node.attrs["block_size"], node.attrs["data_format"] == "NHWC"

    def compute(x: Array) -> Array:
        batch, *image = x.shape
        height, width, channels = image if last else (*image[1:], image[0])
        height, width = _divided("height", height, block), _divided("width", width, block)
        if last:
            parts = x.reshape(batch, height, block, width, block, channels).transpose(0, 1, 3, 2, 4, 5)
            return parts.copy().reshape(batch, height, width, block * block * channels)
        parts = x.reshape(batch, channels, height, block, width, block).transpose(0, 3, 5, 1, 2, 4)
        return parts.copy().reshape(batch, block * block * channels, height, width)

    return compute


@depth_to_space.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    block, last = node.attrs["block_size"], node.attrs["data_format"] == "NHWC"

    def compute(x: Array) -> Array:
        batch, *image = x.shape
        height, width, channels = image if last else (*image[1:], image[0])
        channels = _divided("the number of channels", channels, block * block)
        if last:
            parts = x.reshape(batch, height, width, block, block, channels).transpose(0, 1, 3, 2, 4, 5)
            return parts.copy().reshape(batch, height * block, width * block, channels)
        parts = x.reshape(batch, block, block, channels, height, width).transpose(0, 3, 4, 1, 5, 2)
        return parts.copy().reshape(batch, channels, height * block, width * block)

    return compute


# Into the batch


def _blocks(input: Spec, block_shape: Spec, borders: Spec, what: str) -> tuple[Sizes, Sizes, list[Any]] | None:
    """The sizes, the size of a block, and a pair of borders, per axis; None if not even the number of axes is known."""
    block, flat = known.vector(block_shape, "block_shape"), known.shape(borders, what).sizes
    if block is None and flat is not None:
        block = (None,) * (len(flat) // 2)
    if block is None or input.sizes is None:
        return None
    flat = (None,) * (2 * len(block)) if flat is None else flat
    if len(flat) != 2 * len(block):
        raise ValueError(f"{what} of {len(flat)} numbers are not pairs for {len(block)} axes")
    if any(size is not None and size < 1 for size in block):
        raise ValueError(f"blocks must have sizes of 1 or more, not {list(block)}")
    if len(input.sizes) <= len(block):
        raise ValueError(f"shape {input.shape} has no batch axis and {len(block)} others for blocks {list(block)}")
    return input.sizes, block, list(zip(flat[::2], flat[1::2], strict=True))


def _product(block: Sizes) -> int | None:
    return None if None in block else math.prod(block)  # type: ignore[arg-type]


@op(name="space_to_batch_nd")
def _space_to_batch_nd(input: Spec, block_shape: Ints, paddings: Ints) -> Spec:
    """The pixels at the same place of each block, of `input` padded with zeros (strings with empty ones), as an image.

    `paddings` are two numbers per axis of a block, before and after. The images are in the order of places, and for
    each place in that of the batch.
    """
    found = _blocks(input, block_shape, paddings, "paddings")
    if found is None:
        return Spec(input.dtype)
    sizes, block, pairs = found
    padded = [known.total((size, *pair)) for size, pair in zip(sizes[1:], pairs, strict=False)]
    image = [
        None if over is None else _divided("the padded size", size, over)
        for size, over in zip(padded, block, strict=True)
    ]
    count = _product(block)
    batch = None if count is None else _times(sizes[0], count)
    return Spec(input.dtype, TensorShape((batch, *image, *sizes[len(block) + 1 :])))


@op(name="batch_to_space_nd")
def _batch_to_space_nd(input: Spec, block_shape: Ints, crops: Ints) -> Spec:
    """The parts of images that `space_to_batch_nd` made put together again, without `crops` at the borders."""
    found = _blocks(input, block_shape, crops, "crops")
    if found is None:
        return Spec(input.dtype)
    sizes, block, pairs = found
    whole = [
        None if size is None or over is None else size * over for size, over in zip(sizes[1:], block, strict=False)
    ]
    image = [_cropped(size, pair) for size, pair in zip(whole, pairs, strict=True)]
    count = _product(block)
    batch = None if count is None else _divided("the batch", sizes[0], count)
    return Spec(input.dtype, TensorShape((batch, *image, *sizes[len(block) + 1 :])))


def _cropped(size: int | None, pair: Sequence[int | None]) -> int | None:
    if size is None or None in pair:
        return None
    left: int = size - sum(pair)  # type: ignore[arg-type]
    if left < 0:
        raise ValueError(f"crops {list(pair)} exceed the size {size}")
    return left


@_space_to_batch_nd.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return _batch_to_space_nd(dy, *op.inputs[1:]), None, None


@_batch_to_space_nd.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return _space_to_batch_nd(dy, *op.inputs[1:]), None, None


def _given(x: Array, block: Array, borders: Array) -> tuple[list[int], list[tuple[int, int]]]:
    """The size of a block and the pairs of borders. ValueError if they do not fit."""
    sizes, flat = block.tolist(), borders.tolist()
    if len(flat) != 2 * len(sizes) or x.ndim <= len(sizes) or min(sizes, default=1) < 1 or min(flat, default=0) < 0:
        raise ValueError(f"blocks {sizes} with borders {flat} do not fit shape {list(x.shape)}")
    return sizes, list(zip(flat[::2], flat[1::2], strict=True))


_space_to_batch_nd.moves = _batch_to_space_nd.moves = True


@_space_to_batch_nd.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, block_shape: Array, paddings: Array) -> Array:
    block, pairs = _given(x, block_shape, paddings)
    axes, rest = len(block), x.shape[len(block) + 1 :]
    image = [size + sum(pair) for size, pair in zip(x.shape[1:], pairs, strict=False)]
    image = [_divided("the padded size", size, over) for size, over in zip(image, block, strict=True)]
    sizes = (len(x), *[size * over for size, over in zip(image, block, strict=True)], *rest)
    padded = full_array(sizes, b"") if x.dtype == object else xp.zeros(sizes, x.dtype)
    padded[(slice(None), *[slice(before, -after or None) for before, after in pairs])] = x
    split = padded.reshape(len(x), *[part for pair in zip(image, block, strict=True) for part in pair], *rest)
    order = [*range(2, 2 * axes + 1, 2), 0, *range(1, 2 * axes, 2), *range(2 * axes + 1, split.ndim)]
    return split.transpose(order).copy().reshape(len(x) * math.prod(block), *image, *rest)


@_batch_to_space_nd.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, block_shape: Array, crops: Array) -> Array:
    block, pairs = _given(x, block_shape, crops)
    axes, image, rest = len(block), x.shape[1 : len(block) + 1], x.shape[len(block) + 1 :]
    batch = _divided("the batch", len(x), math.prod(block))
    split = x.reshape(*block, batch, *image, *rest)
    order = [
        axes,
        *[part for axis in range(axes) for part in (axes + 1 + axis, axis)],
        *range(2 * axes + 1, split.ndim),
    ]
    sizes = [size * over for size, over in zip(image, block, strict=True)]
    for size, pair in zip(sizes, pairs, strict=True):
        _cropped(size, pair)
    whole = split.transpose(order).reshape(batch, *sizes, *rest)
    inner = [slice(before, size - after) for size, (before, after) in zip(sizes, pairs, strict=True)]
    return whole[(slice(None), *inner)].copy()


# For users


def _flat(pairs: Any) -> Any:
    """Pairs as one vector."""
    given = constant_value(pairs) if isinstance(pairs, Tensor) else pairs
    if given is None or any(isinstance(pair, Tensor) for pair in given):
        return reshape(pairs, [-1])
    return convert_to_tensor([int(item) for pair in given for item in pair], int32)


@transactional
def space_to_batch_nd(
    input: TensorLike, block_shape: NumberLike, paddings: NumberLike, name: str | None = None
) -> Tensor:
    """The pixels at the same place of each block, of `input` padded with zeros, as an image of their own.

    Args:
        input: images [batch, *sizes, ...], with as many sizes as `block_shape` has elements.
        block_shape: the size of a block along each of these axes.
        paddings: how many zeros are put before and after each of these axes, as pairs.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.space_to_batch_nd([[[1], [2], [3], [4]]], [2], [[0, 0]])[:, :, 0])
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return _space_to_batch_nd(input, block_shape, _flat(paddings), name=name)


@transactional
def batch_to_space_nd(input: TensorLike, block_shape: NumberLike, crops: NumberLike, name: str | None = None) -> Tensor:
    """The inverse of `space_to_batch_nd`; `crops`, pairs of sizes, are removed before and after each axis.

    Examples:
        >>> await session.run(af.batch_to_space_nd([[[1]], [[2]]], [2], [[0, 0]])[0, :, 0])
        array([1, 2], dtype=int32)
    """
    return _batch_to_space_nd(input, block_shape, _flat(crops), name=name)


@transactional
def space_to_batch(
    input: TensorLike,
    paddings: NumberLike,
    block_size: int | None = None,
    name: str | None = None,
    block_shape: NumberLike | None = None,
) -> Tensor:
    """As `space_to_batch_nd`, for square blocks of images [batch, height, width, channels].

    Examples:
        >>> af.space_to_batch([[[[1]], [[2]]]], [[0, 0], [0, 1]], 2).shape
        TensorShape([4, 1, 1, 1])
    """
    block: Any = (block_size, block_size) if block_shape is None else block_shape
    return space_to_batch_nd(input, block, paddings, name)


@transactional
def batch_to_space(
    input: TensorLike,
    crops: NumberLike,
    block_size: int | None = None,
    name: str | None = None,
    block_shape: NumberLike | None = None,
) -> Tensor:
    """As `batch_to_space_nd`, for square blocks of images [batch, height, width, channels].

    Examples:
        >>> af.batch_to_space(af.ones([4, 1, 1, 1]), [[0, 0], [0, 0]], 2).shape
        TensorShape([1, 2, 2, 1])
    """
    block: Any = (block_size, block_size) if block_shape is None else block_shape
    return batch_to_space_nd(input, block, crops, name)
