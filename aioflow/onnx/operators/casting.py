"""Conversions between dtypes."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import bitcast, cast, saturate_cast
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.text.strings import as_string, string_to_number
from aioflow.onnx.call import Call
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import DType, float8_e4m3fn, float8_e5m2, float32, float64, int64, string, uint8

_NARROW = (float8_e4m3fn, float8_e5m2)


@operator("Cast")
def _(call: Call, x: Tensor) -> Tensor:
    return converted(x, call.dtype("to"), call.flag("saturate", True))


@operator("CastLike", since=15)
def _(call: Call, x: Tensor, like: Tensor) -> Tensor:
    return converted(x, like.dtype, call.flag("saturate", True))


def converted(x: Tensor, dtype: DType, saturate: bool = True) -> Tensor:
    """`x` with that dtype: numbers are written to strings and read from them, and `saturate` bounds 8-bit floats."""
    if x.dtype is dtype:
        return x
    if dtype is string:
        return as_string(cast(x, float32) if x.dtype.size < 4 and x.dtype.is_floating else x, shortest=True)
    if x.dtype is string:
        if dtype.is_bool:
            return equal(x, "1")
        return cast(string_to_number(x, float64 if dtype.is_floating else int64), dtype)
    if dtype in _NARROW and saturate and x.dtype.is_floating:
        return saturate_cast(x, dtype)
    return cast(x, dtype)


@operator("BitCast", since=26)
def _(call: Call, x: Tensor) -> Tensor:
    wanted = call.dtype("to")
    bits = cast(x, uint8) if x.dtype.is_bool else x
    return cast(bitcast(bits, uint8), wanted) if wanted.is_bool else bitcast(bits, wanted)
