"""Arithmetic, comparison and logic, element by element."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.select import select
from aioflow.kernels.math import (
    arithmetic,
    comparison,
    cumulative,
    division,
    elementwise,
    error_functions,
    rounding,
)
from aioflow.kernels.math.casting import cast
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import along_axis, known_number, rank_of, scalar
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float32, float64

UNARY: dict[str, Callable[..., Tensor]] = {
    "Abs": elementwise.abs, "Acos": elementwise.acos, "Acosh": elementwise.acosh, "Asin": elementwise.asin,
    "Asinh": elementwise.asinh, "Atan": elementwise.atan, "Atanh": elementwise.atanh, "BitwiseNot": comparison.invert,
    "Ceil": rounding.ceil, "Cos": elementwise.cos, "Cosh": elementwise.cosh, "Erf": error_functions.erf,
    "Exp": elementwise.exp, "Floor": rounding.floor, "IsNaN": rounding.is_nan, "Log": elementwise.log,
    "Reciprocal": elementwise.reciprocal,
    "Round": rounding.rint, "Sigmoid": elementwise.sigmoid, "Sign": elementwise.sign, "Sin": elementwise.sin,
    "Sinh": elementwise.sinh, "Sqrt": elementwise.sqrt, "Tan": elementwise.tan, "Tanh": elementwise.tanh,
}  # fmt: skip
BINARY: dict[str, Callable[..., Tensor]] = {
    "Add": arithmetic.add, "BitwiseAnd": comparison.bitwise_and, "BitwiseOr": comparison.bitwise_or,
    "BitwiseXor": comparison.bitwise_xor, "Mul": arithmetic.multiply, "Sub": arithmetic.subtract,
}  # fmt: skip
DECISIONS: dict[str, tuple[Callable[..., Tensor], Callable[..., Any]]] = {
    "And": (comparison.logical_and, np.logical_and),
    "Equal": (comparison.equal, np.equal),
    "Greater": (comparison.greater, np.greater),
    "GreaterOrEqual": (comparison.greater_equal, np.greater_equal),
    "Less": (comparison.less, np.less),
    "LessOrEqual": (comparison.less_equal, np.less_equal),
    "Not": (comparison.logical_not, np.logical_not),
    "Or": (comparison.logical_or, np.logical_or),
    "Xor": (comparison.logical_xor, np.logical_xor),
}
"""Operators by which models decide about ranks and sizes: an operation, and its function of known numbers."""


def _declare(type: str, function: Callable[..., Tensor]) -> None:
    operator(type)(lambda call, *inputs: function(*inputs))


for _type, _function in {**UNARY, **BINARY}.items():
    _declare(_type, _function)


def _declare_decision(type: str, function: Callable[..., Tensor], of_known: Callable[..., Any]) -> None:
    @operator(type)
    def _(call: Call, *inputs: Tensor) -> Tensor:
        known = [known_number(each) if each.spec.rank == 0 else None for each in inputs]
        return function(*inputs) if None in known else constant(bool(of_known(*known)))


for _type, (_function, _of_known) in DECISIONS.items():
    _declare_decision(_type, _function, _of_known)


@operator("Neg")
def _(call: Call, x: Tensor) -> Tensor:
    """-x; of integers a difference, whose value is known when the graph is built if that of x is."""
    return arithmetic.subtract(constant(0, x.dtype), x) if x.dtype.is_integer else elementwise.negative(x)


@operator("Div")
def _(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return division.truncatediv(x, y) if x.dtype.is_integer else arithmetic.divide(x, y)


@operator("Mod")
def _(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return division.truncatemod(x, y) if call.flag("fmod") else arithmetic.floormod(x, y)


@operator("Pow")
def _(call: Call, x: Tensor, y: Tensor) -> Tensor:
    if y.dtype is x.dtype:
        return arithmetic.pow(x, y)
    if x.dtype.is_floating:
        return arithmetic.pow(x, cast(y, x.dtype))
    wide = float64 if x.dtype.size > 2 or y.dtype is float64 else float32
    return cast(arithmetic.pow(cast(x, wide), cast(y, wide)), x.dtype)


@operator("BitShift", since=11)
def _(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return (comparison.left_shift if call.text("direction") == "LEFT" else comparison.right_shift)(x, y)


def _folded(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda call, *inputs: functools.reduce(function, inputs)


operator("Max")(_folded(arithmetic.maximum))
operator("Min")(_folded(arithmetic.minimum))
operator("Sum")(_folded(arithmetic.add))


@operator("Mean")
def _(call: Call, *inputs: Tensor) -> Tensor:
    return arithmetic.divide(functools.reduce(arithmetic.add, inputs), constant(len(inputs), inputs[0].dtype))


@operator("Clip", since=11)
def _(call: Call, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    raised = x if low is None else arithmetic.maximum(x, scalar(low))
    return raised if high is None else arithmetic.minimum(raised, scalar(high))


@operator("Clip")
def _(call: Call, x: Tensor) -> Tensor:
    raised = arithmetic.maximum(x, call.number("min")) if call.has("min") else x
    return arithmetic.minimum(raised, call.number("max")) if call.has("max") else raised


@operator("IsInf", since=10)
def _(call: Call, x: Tensor) -> Tensor:
    found = rounding.is_inf(x)
    zero = constant(0, x.dtype)
    if not call.flag("detect_negative", True):
        found = comparison.logical_and(found, comparison.greater(x, zero))
    if not call.flag("detect_positive", True):
        found = comparison.logical_and(found, comparison.less(x, zero))
    return found


def _running(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def rule(call: Call, x: Tensor, axis: Tensor) -> Tensor:
        exclusive, reverse = call.flag("exclusive"), call.flag("reverse")
        return along_axis(axis, rank_of(x), lambda place: function(x, place, exclusive, reverse))

    return rule


operator("CumSum", since=11)(_running(cumulative.cumsum))
operator("CumProd", since=26)(_running(cumulative.cumprod))


@operator("Where", since=9)
def _(call: Call, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return select(condition, x, y)
