"""Tensors stored as integers of few bits with the limits of their numbers beside them, and operations on them."""

from collections.abc import Sequence
from typing import Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.math import quantisation as kernels
from aioflow.kernels.math.quantised_rounding import quantize_and_dequantize as rounded
from aioflow.kernels.math.reduction import reduce_max, reduce_min
from aioflow.tensors.dtypes import DTypeLike, as_dtype, float32

_ROUND_MODES: Final = ("HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN")
Stored = tuple[Tensor, Tensor, Tensor]
"""Integers, and the real numbers that the lowest and the highest integer of the dtype stand for."""


@transactional
def quantize(
    input: NumberLike,
    min_range: NumberLike,
    max_range: NumberLike,
    T: DTypeLike,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Stored:
    """The integers of dtype `T` that store `input`, and the limits of the numbers that they can store.

    Args:
        input: float32 numbers; those beyond the limits are stored as the nearest limit, NaN as 0.
        min_range: the lower limit, a scalar; a vector with one for each place of `axis` if this is given.
        max_range: the upper limit.
        T: int8, int16, int32, uint8 or uint16; qint8 and its like are other names for these.
        mode: "MIN_COMBINED": from the lowest integer for the lower limit to the highest for the upper limit;
            "MIN_FIRST": the same, but 0 is stored exactly; "SCALED": multiples of one step, 0 as 0.
        round_mode: "HALF_AWAY_FROM_ZERO", or for "SCALED" also "HALF_TO_EVEN".
        name: the name of the operation.
        narrow_range: whether "SCALED" leaves out the lowest integer.
        axis: the axis along which limits differ.
        ensure_minimum_range: how far apart the limits are at least, of the greater of 1 and their sizes.

    Returns:
        The integers, and the limits moved so that 0 lies between them; pass all three to `dequantize`.

    Examples:
        >>> await session.run(af.quantization.quantize([-1.0, 0.0, 0.5, 2.0], -1.0, 2.0, af.quint8))
        (array([  0,  85, 128, 255], dtype=uint8), np.float32(-1.0), np.float32(2.0))
    """
    if round_mode not in _ROUND_MODES:
        raise ValueError(f"round_mode is one of {', '.join(_ROUND_MODES)}, not {round_mode!r}")
    x, half_to_even = convert_to_tensor(input, float32), round_mode == "HALF_TO_EVEN"
    q, low, high = kernels.quantize(
        x, min_range, max_range, as_dtype(T), mode, half_to_even, narrow_range, axis, ensure_minimum_range, name=name
    )
    return q, low, high


def quantize_v2(
    input: NumberLike,
    min_range: NumberLike,
    max_range: NumberLike,
    T: DTypeLike,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Stored:
    """As `quantize`, with arguments in another order.

    Examples:
        >>> await session.run(af.quantize_v2([0.0, 2.0], -2.0, 2.0, af.qint8, "SCALED")[0])
        array([  0, 127], dtype=int8)
    """
    return quantize(input, min_range, max_range, T, mode, round_mode, name, narrow_range, axis, ensure_minimum_range)


@transactional
def dequantize(
    input: NumberLike,
    min_range: NumberLike,
    max_range: NumberLike,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: DTypeLike = float32,
) -> Tensor:
    """The numbers that integers stand for, by the limits and the mode that `quantize` stored them with.

    `dtype`, float32 or bfloat16, is the dtype of the numbers.

    Examples:
        >>> q, low, high = af.quantization.quantize([-1.0, 0.0, 0.5, 2.0], -1.0, 2.0, af.quint8)
        >>> await session.run(af.quantization.dequantize(q, low, high))
        array([-1.        ,  0.        ,  0.50588235,  2.        ], dtype=float32)
    """
    q = convert_to_tensor(input)
    return kernels.dequantize(q, min_range, max_range, mode, narrow_range, axis, as_dtype(dtype), name=name)


@transactional
def quantize_and_dequantize(
    input: NumberLike,
    input_min: NumberLike,
    input_max: NumberLike,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """`input` rounded to multiples of a step that integers store, as `quantize` of mode "SCALED" and back would.

    The gradient is that of the identity.

    Args:
        input: floating numbers.
        input_min: the lower limit of stored numbers, if `range_given`; by default the lowest element.
        input_max: the upper limit.
        signed_input: whether the integers have a sign; if not, numbers below 0 become 0.
        num_bits: the number of bits of an integer, with the sign.
        range_given: whether the limits are given.
        round_mode: "HALF_TO_EVEN" or "HALF_UP".
        name: the name of the operation.
        narrow_range: whether the lowest integer of those with a sign is left out.
        axis: the axis along which the limits differ; limits are vectors then.

    Examples:
        >>> found = af.quantization.quantize_and_dequantize([-0.9, 0.4, 3.0], -1.0, 1.0, num_bits=3, range_given=True)
        >>> await session.run(found)
        array([-1.       ,  0.33333334,  1.       ], dtype=float32)
    """
    return _rounded(
        input, input_min, input_max, signed_input, num_bits, range_given, round_mode, narrow_range, axis, True, name
    )


@transactional
def quantize_and_dequantize_v2(
    input: NumberLike,
    input_min: NumberLike,
    input_max: NumberLike,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """As `quantize_and_dequantize`, with a gradient of 0 for elements outside of given limits.

    Examples:
        >>> x = af.constant([0.4, 3.0])
        >>> found = af.quantization.quantize_and_dequantize_v2(x, -1.0, 1.0, range_given=True)
        >>> await session.run(af.gradients(found, x)[0])
        array([1., 0.], dtype=float32)
    """
    return _rounded(
        input, input_min, input_max, signed_input, num_bits, range_given, round_mode, narrow_range, axis, False, name
    )


def _rounded(
    input: NumberLike,
    low: NumberLike,
    high: NumberLike,
    signed: bool,
    bits: int,
    given: bool,
    round_mode: str,
    narrow: bool,
    axis: int | None,
    passes_all: bool,
    name: str | None,
) -> Tensor:
    x = convert_to_tensor(input)
    if axis is not None and not given:  # of the limits only the dtype counts
        low = high = reduce_max(x, [each for each in range(x.shape.ndims or 0) if each != x.spec.axis(axis)])
    return rounded(x, low, high, signed, bits, given, round_mode, narrow, axis, passes_all, name=name)


@transactional
def quantized_concat(
    concat_dim: int,
    values: Sequence[NumberLike],
    input_mins: Sequence[NumberLike],
    input_maxes: Sequence[NumberLike],
    name: str | None = None,
) -> Stored:
    """Stored tensors joined along an axis: their integers made anew for the lowest and the highest of their limits.

    Examples:
        >>> a, b = af.quantize_v2([1.0], 0.0, 3.0, af.quint8), af.quantize_v2([-2.0], -2.0, 1.0, af.quint8)
        >>> await session.run(af.quantization.quantized_concat(0, *zip(a, b)))
        (array([153,   0], dtype=uint8), np.float32(-2.0), np.float32(3.0))
    """
    if not len(values) == len(input_mins) == len(input_maxes) > 0:
        raise ValueError(f"{len(values)} values have {len(input_mins)} lower and {len(input_maxes)} upper limits")
    tensors = [convert_to_tensor(value) for value in values]
    limits = zip(input_mins, input_maxes, strict=True)
    parts = [dequantize(tensor, *each, "MIN_FIRST") for tensor, each in zip(tensors, limits, strict=True)]
    low, high = reduce_min(list(input_mins)), reduce_max(list(input_maxes))
    return quantize(concat(parts, concat_dim), low, high, tensors[0].dtype, "MIN_FIRST", name=name)
