"""Layers of networks on images stored as integers of 8 bits: sums of products of integers, as exact as these.

An image is three tensors: integers, and the real numbers that the lowest and the highest integer stand for, as
`af.quantize_v2` of mode "MIN_FIRST" makes them. Products are computed as float64, in which sums of products of 8 bits
are exact.
"""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.nn.convolution import conv2d
from aioflow.kernels.nn.pooling import avg_pool, max_pool
from aioflow.library.control import name_scope
from aioflow.library.quantised_numbers import Stored, quantize
from aioflow.tensors.dtypes import DTypeLike, Spec, as_dtype, float32, float64, int8, int32, uint8

_BYTES = frozenset((int8, uint8))


@transactional
def quantized_conv2d(
    input: NumberLike,
    filter: NumberLike,
    min_input: NumberLike,
    max_input: NumberLike,
    min_filter: NumberLike,
    max_filter: NumberLike,
    strides: Sequence[int],
    padding: str,
    out_type: DTypeLike = int32,
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Stored:
    """The convolution of stored images with stored filters, as integers of 32 bits.

    Args:
        input: images [batch, height, width, channels] of 8-bit integers.
        filter: [height, width, channels in, channels out], 8-bit integers.
        min_input: the real number that the lowest integer of `input` stands for.
        max_input: that of the highest integer.
        min_filter: the real number that the lowest integer of `filter` stands for.
        max_filter: that of the highest integer.
        strides: by how much the filter moves, one number per axis.
        padding: "SAME" or "VALID"; images are filled up with what stands for 0.
        out_type: int32.
        dilations: the distance of the elements of a filter, one number per axis.
        name: the name of the operations.

    Returns:
        The integers, and the real numbers that the lowest and the highest integer of 32 bits stand for.

    Examples:
        >>> x = af.quantize_v2(af.ones([1, 2, 2, 1]), 0.0, 1.0, af.quint8, "MIN_FIRST")
        >>> w = af.quantize_v2(af.ones([2, 2, 1, 1]), 0.0, 1.0, af.quint8, "MIN_FIRST")
        >>> y, low, high = af.nn.quantized_conv2d(x[0], w[0], *x[1:], *w[1:], [1, 1, 1, 1], "VALID")
        >>> await session.run(af.to_float(y) * (high / 2.0**31))  # 4 products of 1
        array([[[[4.]]]], dtype=float32)
    """
    if as_dtype(out_type) is not int32:
        raise TypeError(f"the result is int32, not {as_dtype(out_type).name}")
    with name_scope(name, "QuantizedConv2D"):
        x, x_step = _centred(input, min_input, max_input)
        w, w_step = _centred(filter, min_filter, max_filter)
        y = conv2d(x, w, strides=list(strides), padding=padding, dilations=list(dilations))
        step = x_step * w_step
        low, high = (cast(step * float(limit), float32) for limit in (int32.min, int32.max))
        return cast(y, int32), low, high


def _centred(image: NumberLike, low: NumberLike, high: NumberLike) -> tuple[Tensor, Tensor]:
    """Integers less what stands for 0, as float64; and the real number of one step of them."""
    q = _stored(image)
    zero = _integer(0.0, q, low, high)
    limits = cast(convert_to_tensor(low, float32), float64), cast(convert_to_tensor(high, float32), float64)
    return cast(q, float64) - cast(zero, float64), (limits[1] - limits[0]) / float(q.dtype.max - q.dtype.min)


def _stored(image: NumberLike) -> Tensor:
    q = convert_to_tensor(image)
    Spec(q.dtype).only(_BYTES)
    return q


def _integer(number: Any, q: Tensor, low: NumberLike, high: NumberLike) -> Tensor:
    """The integer that stands for a real number in `q`."""
    return quantize(number, low, high, q.dtype, "MIN_FIRST")[0]


@transactional
def quantized_max_pool(
    input: NumberLike,
    min_input: NumberLike,
    max_input: NumberLike,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Stored:
    """The highest integer of each window of stored images, with the limits of the images.

    Args:
        input: images [batch, height, width, channels] of 8-bit integers.
        min_input: the real number that the lowest integer stands for.
        max_input: the real number that the highest integer stands for.
        ksize: the size of the window, one number per axis.
        strides: by how much the window moves, one number per axis.
        padding: "SAME" or "VALID".
        name: the name of the operations.

    Examples:
        >>> image = af.constant([[[[3], [9]]]], af.quint8)
        >>> await session.run(af.nn.quantized_max_pool(image, 0.0, 1.0, [1, 1, 2, 1], [1, 1, 1, 1], "VALID"))
        (array([[[[9]]]], dtype=uint8), np.float32(0.0), np.float32(1.0))
    """
    with name_scope(name, "QuantizedMaxPool"):
        q = _stored(input)
        return max_pool(q, list(ksize), list(strides), padding), *_limits(min_input, max_input)


@transactional
def quantized_avg_pool(
    input: NumberLike,
    min_input: NumberLike,
    max_input: NumberLike,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Stored:
    """The mean of the integers in each window of stored images, cut off to an integer; as `quantized_max_pool`.

    Examples:
        >>> image = af.constant([[[[3], [9]]]], af.quint8)
        >>> await session.run(af.nn.quantized_avg_pool(image, 0.0, 1.0, [1, 1, 2, 1], [1, 1, 1, 1], "VALID"))
        (array([[[[6]]]], dtype=uint8), np.float32(0.0), np.float32(1.0))
    """
    with name_scope(name, "QuantizedAvgPool"):
        q = _stored(input)
        means = avg_pool(cast(q, float32), list(ksize), list(strides), padding)
        return cast(means, q.dtype), *_limits(min_input, max_input)


@transactional
def quantized_relu_x(
    features: NumberLike,
    max_value: NumberLike,
    min_features: NumberLike,
    max_features: NumberLike,
    out_type: DTypeLike = uint8,
    name: str | None = None,
) -> Stored:
    """Stored numbers, but none below 0 and none above `max_value`, with the limits as they were.

    Args:
        features: 8-bit integers.
        max_value: the highest number of the result.
        min_features: the real number that the lowest integer stands for.
        max_features: the real number that the highest integer stands for.
        out_type: the dtype of `features`.
        name: the name of the operations.

    Examples:
        >>> x, low, high = af.quantize_v2([-1.0, 0.5, 2.0], -1.0, 2.0, af.quint8, "MIN_FIRST")
        >>> await session.run(af.nn.quantized_relu_x(x, 1.0, low, high)[0])
        array([ 85, 128, 170], dtype=uint8)
    """
    with name_scope(name, "QuantizedReluX"):
        q = _stored(features)
        if as_dtype(out_type) is not q.dtype:
            raise TypeError(f"out_type is the dtype of the features, {q.dtype.name}, not {as_dtype(out_type).name}")
        least, most = (_integer(number, q, min_features, max_features) for number in (0.0, max_value))
        return maximum(minimum(q, most), least), *_limits(min_features, max_features)


def _limits(low: NumberLike, high: NumberLike) -> tuple[Tensor, Tensor]:
    return convert_to_tensor(low, float32), convert_to_tensor(high, float32)
