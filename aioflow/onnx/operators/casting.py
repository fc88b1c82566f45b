"""Conversions between dtypes."""

from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.select import select
from aioflow.kernels.math.arithmetic import add, maximum, minimum
from aioflow.kernels.math.casting import bitcast, cast, saturate_cast
from aioflow.kernels.math.comparison import bitwise_and, equal, less
from aioflow.kernels.math.elementwise import abs as abs_
from aioflow.kernels.text.strings import as_string, string_to_number
from aioflow.onnx.call import Call
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import (
    NARROW,
    DType,
    float4_e2m1fn,
    float8_e8m0fnu,
    float32,
    float64,
    int32,
    int64,
    string,
    uint8,
)


@operator("Cast")
def _(call: Call, x: Tensor) -> Tensor:
    return converted(x, call.dtype("to"), call.flag("saturate", True), call.text("round_mode", "up"))


@operator("CastLike", since=15)
def _(call: Call, x: Tensor, like: Tensor) -> Tensor:
    return converted(x, like.dtype, call.flag("saturate", True), call.text("round_mode", "up"))


def converted(x: Tensor, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """`x` with that dtype: numbers are written to strings and read from them, and `saturate` bounds 8-bit floats.

    `round_mode` says how powers of two are found.
    """
    if x.dtype is dtype:
        return x
    if x.dtype in NARROW:
        return converted(cast(x, float32 if x.dtype.is_floating else int32), dtype, saturate, round_mode)
    if dtype is string:
        return as_string(
            cast(x, float32) if x.dtype.size < 4 and x.dtype.is_floating else x, shortest=x.dtype.is_floating
        )
    if x.dtype is string:
        if dtype.is_bool:
            return equal(x, "1")
        return cast(string_to_number(x, float64 if dtype.is_floating else int64), dtype)
    if dtype is float8_e8m0fnu:
        return cast(_power(cast(x, float32), saturate, round_mode), dtype)
    if dtype.is_floating and dtype.size == 1 and dtype is not float4_e2m1fn and saturate and x.dtype.is_floating:
        return saturated(x, dtype)
    return cast(x, dtype)


def saturated(x: Tensor, dtype: DType) -> Tensor:
    """`x` with that dtype; beyond its limits the nearest limit."""
    if dtype not in NARROW:
        return saturate_cast(x, dtype)
    low, high = (constant(float(limit), x.dtype) for limit in (dtype.min, dtype.max))
    return cast(minimum(maximum(x, low), high), dtype)


_FRACTION: Final = (1 << 23) - 1
"""The bits of a float32 that are its fraction."""
_INFINITE: Final = 0xFF << 23
"""Infinity as bits."""


def _power(x: Tensor, saturate: bool, round_mode: str) -> Tensor:
    """The powers of two next to the sizes of float32s, not less than 2^-127; infinity and NaN as infinity."""
    bits = bitcast(abs_(x), int32)
    half = select(less(bits, _FRACTION + 1), constant(_FRACTION // 2, int32), constant(_FRACTION // 2 + 1, int32))
    more = {"up": constant(_FRACTION, int32), "down": constant(0, int32), "nearest": half}[round_mode]
    found = bitwise_and(add(minimum(bits, constant(_INFINITE - 1, int32)), more), constant(_INFINITE, int32))
    bounded = minimum(found, constant(_INFINITE - _FRACTION - 1, int32)) if saturate else found
    power = bitcast(select(less(bits, _INFINITE), bounded, constant(_INFINITE, int32)), float32)
    return maximum(power, constant(2.0**-127, float32))


@operator("BitCast", since=26)
def _(call: Call, x: Tensor) -> Tensor:
    wanted = call.dtype("to")
    bits = cast(x, uint8) if x.dtype.is_bool else x
    return cast(bitcast(bits, uint8), wanted) if wanted.is_bool else bitcast(bits, wanted)
