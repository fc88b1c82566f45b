"""How arithmetic, products and reductions are written."""

from typing import Final

import numpy as np

from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import EXPORTERS, Export, Exporter, exporter, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import bool_, float8_e8m0fnu, int32, int64

_SAME: Final = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor",
    "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "elu": "Elu", "ensure_shape": "Identity", "equal": "Equal",
    "erf": "Erf", "exp": "Exp", "floor": "Floor", "gelu_erf": "Gelu", "greater": "Greater",
    "greater_equal": "GreaterOrEqual", "identity": "Identity", "invert": "BitwiseNot", "is_inf": "IsInf",
    "is_nan": "IsNaN", "less": "Less", "less_equal": "LessOrEqual", "log": "Log", "logical_and": "And",
    "logical_not": "Not", "logical_or": "Or", "logical_xor": "Xor", "matrix_determinant": "Det", "maximum": "Max",
    "minimum": "Min", "multiply": "Mul", "negative": "Neg", "placeholder_with_default": "Identity", "pow": "Pow",
    "prevent_gradient": "Identity", "reciprocal": "Reciprocal", "relu": "Relu", "rint": "Round", "round": "Round",
    "select": "Where", "selu": "Selu", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh",
    "softplus": "Softplus", "softsign": "Softsign", "sqrt": "Sqrt", "stop_gradient": "Identity", "subtract": "Sub",
    "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
"""Operations that ONNX has just so."""
_REDUCTIONS: Final = {
    "reduce_euclidean_norm": "ReduceL2", "reduce_logsumexp": "ReduceLogSumExp", "reduce_max": "ReduceMax",
    "reduce_mean": "ReduceMean",
    "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd", "reduce_sum": "ReduceSum",
}  # fmt: skip


def _same(type: str) -> Exporter:
    return lambda export, op: export.add(type, *export.names(op))


EXPORTERS.update({name: _same(type) for name, type in _SAME.items()})


@exporter("divide")
def _(export: Export, op: Operation) -> str:
    """ONNX divides integers without fractions, so they become floats before."""
    names, dtype = export.names(op), op.outputs[0].dtype
    if op.inputs[0].dtype is not dtype:
        names = [export.add("Cast", name, to=NUMBERS[dtype]) for name in names]
    return export.add("Div", *names)


@exporter("mod")
def _(export: Export, op: Operation) -> str:
    """The rest has the sign of the divisor: ONNX has such a rest for integers alone."""
    x, y = export.names(op)
    if not op.inputs[0].dtype.is_floating:
        return export.add("Mod", x, y)
    rest, turns = _rest(export, op)
    return export.add("Where", turns, export.add("Add", rest, y), rest)


def _rest(export: Export, op: Operation) -> tuple[str, str]:
    """The rest of floats with the sign of the dividend, and whether the divisor has the other sign."""
    x, y = export.names(op)
    rest, zero = export.add("Mod", x, y, fmod=1), export.initial(op.inputs[0].dtype.np.type(0))
    signs = [export.add("Less", each, zero) for each in (rest, y)]
    something = export.add("Not", export.add("Equal", rest, zero))
    return rest, export.add("And", something, export.add("Xor", *signs))


@exporter("truncatediv")
def _(export: Export, op: Operation) -> str:
    quotient = export.add("Div", *export.names(op))
    if not op.inputs[0].dtype.is_floating:
        return quotient
    return export.add("Mul", export.add("Sign", quotient), export.add("Floor", export.add("Abs", quotient)))


@exporter("truncatemod")
def _(export: Export, op: Operation) -> str:
    return export.add("Mod", *export.names(op), fmod=1)


@exporter("floordiv")
def _(export: Export, op: Operation) -> str:
    """ONNX cuts quotients of integers off: the two kinds of rests differ by a divisor where that is too much."""
    x, y = export.names(op)
    if op.inputs[0].dtype.is_floating:
        return _floor_of_floats(export, op)
    cut_off, below = export.add("Mod", x, y, fmod=1), export.add("Mod", x, y)
    more = export.add("Div", export.add("Sub", below, cut_off), y)
    return export.add("Sub", export.add("Div", x, y), more)


def _floor_of_floats(export: Export, op: Operation) -> str:
    """The rounded quotient may be a whole number that the exact one is below: the rest decides."""
    dtype, (x, y) = op.inputs[0].dtype, export.names(op)
    rest, turns = _rest(export, op)
    whole = export.add("Round", export.add("Div", export.add("Sub", x, rest), y))
    below = export.add("Sub", whole, export.add("Cast", turns, to=NUMBERS[dtype]))
    by_zero = export.add("Equal", y, export.initial(dtype.np.type(0)))
    return export.add("Where", by_zero, export.add("Div", x, y), below)


@exporter("cumsum")
def _(export: Export, op: Operation) -> str:
    axis = export.initial(np.int64(op.attrs["axis"]))
    order = {key: int(op.attrs[key]) for key in ("exclusive", "reverse")}
    return export.add("CumSum", *export.names(op), axis, **order)


@exporter("not_equal")
def _(export: Export, op: Operation) -> str:
    return export.add("Not", export.add("Equal", *export.names(op)))


@exporter("is_finite")
def _(export: Export, op: Operation) -> str:
    (x,) = export.names(op)
    return export.add("Not", export.add("Or", export.add("IsInf", x), export.add("IsNaN", x)))


@exporter("log1p")
def _(export: Export, op: Operation) -> str:
    """The logarithm of u = 1 + x, corrected by what the sum loses: log(u) · x / (u - 1); x itself where u is 1."""
    (x,), one = export.names(op), export.initial(op.inputs[0].dtype.np.type(1))
    u = export.add("Add", x, one)
    kept, plain = export.add("Sub", u, one), export.add("Log", u)
    corrected = export.add("Mul", plain, export.add("Div", x, kept))
    near = export.add("Where", export.add("Equal", u, one), x, corrected)
    return export.add("Where", export.add("Equal", kept, x), plain, near)


@exporter("expm1")
def _(export: Export, op: Operation) -> str:
    """tanh(x / 2) · (exp(x) + 1), which loses nothing near 0."""
    (x,), dtype = export.names(op), op.inputs[0].dtype.np.type
    half = export.add("Tanh", export.add("Mul", x, export.initial(dtype(0.5))))
    return export.add("Mul", half, export.add("Add", export.add("Exp", x), export.initial(dtype(1))))


@exporter("square")
def _(export: Export, op: Operation) -> str:
    return export.add("Mul", *export.names(op) * 2)


@exporter("squared_difference")
def _(export: Export, op: Operation) -> str:
    return export.add("Mul", *[export.add("Sub", *export.names(op))] * 2)


@exporter("div_no_nan")
def _(export: Export, op: Operation) -> str:
    return _unless_zero(export, op, "Div")


@exporter("multiply_no_nan")
def _(export: Export, op: Operation) -> str:
    return _unless_zero(export, op, "Mul")


def _unless_zero(export: Export, op: Operation, type: str) -> str:
    """The result, and 0 where the second operand is 0."""
    (x, y), zero = export.names(op), export.initial(op.inputs[0].dtype.np.type(0))
    return export.add("Where", export.add("Equal", y, zero), zero, export.add(type, x, y))


@exporter("l2_loss")
def _(export: Export, op: Operation) -> str:
    half = export.initial(op.inputs[0].dtype.np.type(0.5))
    return export.add("Mul", half, export.add("ReduceSumSquare", *export.names(op), keepdims=0))


@exporter("rsqrt")
def _(export: Export, op: Operation) -> str:
    return export.add("Reciprocal", export.add("Sqrt", *export.names(op)))


def _shifted(direction: str) -> Exporter:
    def export_shift(export: Export, op: Operation) -> str:
        if op.inputs[0].dtype.min < 0:
            raise ValueError(f"ONNX shifts the bits of unsigned integers, not of {op.inputs[0].dtype.name}")
        return export.add("BitShift", *export.names(op), direction=direction)

    return export_shift


EXPORTERS.update(left_shift=_shifted("LEFT"), right_shift=_shifted("RIGHT"))


@exporter("add_n")
def _(export: Export, op: Operation) -> str:
    return export.add("Sum", *export.names(op))


@exporter("cast")
@exporter("cast_narrow")
def _(export: Export, op: Operation) -> str:
    """ONNX bounds 8-bit floats, unless it is told not to."""
    dtype = op.outputs[0].dtype
    if dtype is float8_e8m0fnu:
        raise ValueError("ONNX rounds to powers of two in another way")
    unbounded = {"saturate": 0} if dtype.is_floating and dtype.size == 1 else {}
    return export.add("Cast", *export.names(op), to=NUMBERS[dtype], **unbounded)


@exporter("relu6")
def _(export: Export, op: Operation) -> str:
    dtype = op.inputs[0].dtype.np.type
    return export.add("Clip", *export.names(op), export.initial(dtype(0)), export.initial(dtype(6)))


@exporter("gelu_tanh")
def _(export: Export, op: Operation) -> str:
    return export.add("Gelu", *export.names(op), approximate="tanh")


@exporter("leaky_relu")
def _(export: Export, op: Operation) -> str:
    return export.add("LeakyRelu", *export.names(op), alpha=op.attrs["alpha"])


def _softmax(type: str) -> Exporter:
    return lambda export, op: export.add(type, *export.names(op), axis=op.attrs["axis"])


EXPORTERS.update(softmax=_softmax("Softmax"), log_softmax=_softmax("LogSoftmax"))


@exporter("matmul")
def _(export: Export, op: Operation) -> str:
    a, b = [turned_side(export, op, side, name) for side, name in zip("ab", export.names(op), strict=True)]
    return export.add("MatMul", a, b)


def turned_side(export: Export, op: Operation, side: str, name: str) -> str:
    """One side of a product, transposed if the operation says so."""
    turned = op.attrs[f"transpose_{side}"] or op.attrs[f"adjoint_{side}"]
    return export.add("Transpose", name, perm=_swapped(op.inputs["ab".index(side)])) if turned else name


def _swapped(tensor: Tensor) -> list[int]:
    rank = rank_of(tensor)
    return [*range(rank - 2), rank - 1, rank - 2]


# Reductions


def _reduced(type: str) -> Exporter:
    return lambda export, op: _reduction(export, op, type, export.name(op.inputs[0]))


def _reduction(export: Export, op: Operation, type: str, x: str) -> str:
    axis = op.attrs["axis"]
    axes = [] if axis is None else [export.integers([axis] if isinstance(axis, int) else axis)]
    return export.add(type, x, *axes, keepdims=int(bool(op.attrs["keepdims"])), noop_with_empty_axes=int(bool(axes)))


EXPORTERS.update({name: _reduced(type) for name, type in _REDUCTIONS.items()})


@exporter("count_nonzero")
def _(export: Export, op: Operation) -> str:
    zero = export.initial(op.inputs[0].dtype.np.type(0))
    something = export.add("Not", export.add("Equal", *export.names(op), zero))
    return _reduction(export, op, "ReduceSum", export.add("Cast", something, to=NUMBERS[op.outputs[0].dtype]))


@exporter("reduce_all")
def _(export: Export, op: Operation) -> str:
    return _all(export, op, export.name(op.inputs[0]))


@exporter("reduce_any")
def _(export: Export, op: Operation) -> str:
    """Not all are false. The greatest number would not do: that of none is not 0."""
    return export.add("Not", _all(export, op, export.add("Not", *export.names(op))))


def _all(export: Export, op: Operation, flags: str) -> str:
    """ONNX has the least of numbers for it."""
    numbers = export.add("Cast", flags, to=NUMBERS[int32])
    return export.add("Cast", _reduction(export, op, "ReduceMin", numbers), to=NUMBERS[bool_])


def _placed(type: str) -> Exporter:
    def export_place(export: Export, op: Operation) -> str:
        place = export.add(type, *export.names(op), axis=op.attrs["axis"] or 0, keepdims=0)
        dtype = op.outputs[0].dtype
        return place if dtype is int64 else export.add("Cast", place, to=NUMBERS[dtype])

    return export_place


EXPORTERS.update(argmax=_placed("ArgMax"), argmin=_placed("ArgMin"))
