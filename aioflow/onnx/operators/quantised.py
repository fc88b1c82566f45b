"""Integers that stand for real numbers, by a scale and a zero point; products and convolutions of such integers."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math.arithmetic import add, divide, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.rounding import rint
from aioflow.library.arrays import repeat
from aioflow.onnx.call import Call
from aioflow.onnx.operators.casting import converted, saturated
from aioflow.onnx.operators.convolution import convolved, with_bias
from aioflow.onnx.operators.products import product
from aioflow.onnx.operators.values import axis_of, rank_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import DType, float32, float64, int32, uint8


@operator("QuantizeLinear", since=10)
def _(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    dtype = call.dtype("output_dtype", uint8 if zero is None else zero.dtype)
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    steps = divide(cast(x, float32), cast(_spread(scale, x, axis, block), float32))
    offset = None if zero is None else _spread(cast(zero, float32), x, axis, block)
    if dtype.is_floating:
        moved = steps if offset is None else add(steps, offset)
        return converted(moved, dtype, call.flag("saturate", True))
    return quantised(steps, offset, dtype)


def quantised(steps: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """The nearest integers to numbers of steps, counted from the zero point, within the limits of the dtype."""
    whole = rint(steps)
    return saturated(whole if zero is None else add(whole, cast(zero, whole.dtype)), dtype)


def _spread(values: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """One value for all of `x`, one for each place of an axis, or one for each block of an axis, to broadcast."""
    if rank_of(values) == 0 or values.spec.sizes == (1,):
        return reshape(values, [])
    place = axis_of(axis, rank_of(x))
    if rank_of(values) == 1:
        return reshape(values, [-1 if each == place else 1 for each in range(rank_of(x))])
    return repeat(values, block, place)[_within(x, place)]


def _within(x: Tensor, axis: int) -> tuple[slice, ...]:
    size = x.spec.sizes[axis] if x.spec.sizes else None
    return (*[slice(None)] * axis, slice(0, size))


@operator("DequantizeLinear", since=10)
def _(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    number = cast(x, float32)
    if zero is not None:
        number = subtract(number, _spread(cast(zero, float32), x, axis, block))
    dtype = call.dtype("output_dtype", scale.dtype)
    return cast(multiply(number, cast(_spread(scale, x, axis, block), float32)), dtype)


# Products and convolutions: computed as float64, in which sums of products of 8 bits are exact


def _centred(x: Tensor, zero: Tensor | None, axis: int | None = None) -> Tensor:
    """Integers less their zero point, of which there may be one for each place of an axis."""
    number = cast(x, float64)
    if zero is None:
        return number
    offset = cast(zero, float64)
    if rank_of(zero) == 1 and zero.spec.sizes != (1,) and axis is not None:
        offset = reshape(offset, [-1 if each == axis % rank_of(x) else 1 for each in range(rank_of(x))])
    return subtract(number, offset)


@operator("MatMulInteger", since=10)
def _(call: Call, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    return cast(product(_centred(a, a_zero, -2), _centred(b, b_zero, -1)), int32)


@operator("QLinearMatMul", since=10)
def _(
    call: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor,
) -> Tensor:  # fmt: skip
    y = product(_centred(a, a_zero, -2), _centred(b, b_zero, -1))
    rows, columns, whole = (cast(each, float64) for each in (a_scale, b_scale, y_scale))
    if rank_of(a_scale) == 1 and a_scale.spec.sizes != (1,):
        rows = expand_dims(rows, -1)
    return quantised(divide(multiply(multiply(y, rows), columns), whole), y_zero, y_zero.dtype)


@operator("ConvInteger", since=10)
def _(call: Call, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None) -> Tensor:
    return cast(convolved(call, _centred(x, x_zero), _centred(w, w_zero, 0)), int32)


@operator("QLinearConv", since=10)
def _(
    call: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    y = convolved(call, _centred(x, x_zero), _centred(w, w_zero, 0))
    whole = with_bias(y, None if bias is None else cast(bias, float64))
    scale = divide(multiply(cast(x_scale, float64), cast(w_scale, float64)), cast(y_scale, float64))
    if rank_of(w_scale) == 1 and w_scale.spec.sizes != (1,):
        scale = reshape(scale, [-1] + [1] * (rank_of(x) - 2))
    return quantised(multiply(whole, scale), y_zero, y_zero.dtype)
