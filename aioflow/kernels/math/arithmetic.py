"""Arithmetic of two tensors, element by element, with NumPy's broadcasting."""

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import constant_value
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.select import masked, select
from aioflow.kernels.families import CPU, GPU, binary, broadcast_gradient, costs, elements, product, ufunc
from aioflow.kernels.math.comparison import greater, greater_equal, less_equal, logical_not, not_equal
from aioflow.kernels.math.complex import conj
from aioflow.kernels.math.elementwise import log
from aioflow.kernels.math.no_nan import divided, multiply_no_nan, scaled
from aioflow.tensors.as_array import first_leaf
from aioflow.tensors.dtypes import (
    COMPLEX,
    FLOAT,
    INTEGER,
    NUMERIC,
    STRING,
    Array,
    DType,
    Namespace,
    Spec,
    float32,
    float64,
    string,
)
from aioflow.tensors.object_arrays import apply_ufunc

_add = binary("add", lambda z, x, y, dz: (dz, dz), "x + y.", NUMERIC, commutative=True, known=operator.add)
subtract: Final = binary(
    "subtract",
    lambda z, x, y, dz: (dz, -dz),
    """x - y.

    Examples:
        >>> await session.run(af.subtract([5, 7], [1, 2]))
        array([4, 5], dtype=int32)
    """,
    NUMERIC,
    known=operator.sub,
)
multiply: Final = binary(
    "multiply",
    lambda z, x, y, dz: (dz * conj(y), dz * conj(x)),
    """x times y.

    Examples:
        >>> await session.run(af.multiply([1, 2], [3, 4]))
        array([3, 8], dtype=int32)
    """,
    NUMERIC,
    commutative=True,
    known=operator.mul,
)
multiply.kernel(CPU, out=True, only=COMPLEX, priority=1)(product)


@op
def string_add(x: Spec, y: Spec) -> Spec:
    """The texts of x, each followed by that of y."""
    return x.only(STRING).same_dtype(y).with_shape(x.broadcast(y))


string_add.no_gradient("texts have no derivative")


@string_add.kernel(CPU)
def _(xp: Namespace, x: Array, y: Array) -> Array:
    return apply_ufunc(np.add, object, x, y)


@dispatching
def add(*args: Any, **kwargs: Any) -> Tensor:
    """The sum of x and y; of texts y after x.

    Examples:
        >>> await session.run(af.add([1, 2], 3))
        array([4, 5], dtype=int32)
    """
    operands = (*args[:2], kwargs.get("x"), kwargs.get("y"))
    return (string_add if any(map(_is_text, operands)) else _add)(*args, **kwargs)


add.__signature__ = inspect.signature(lambda x, y, name=None: None)  # type: ignore[attr-defined]


def _is_text(value: Any) -> bool:
    value, _ = first_leaf(value)
    dtype = getattr(value, "dtype", None)
    return isinstance(value, (str, bytes)) if dtype is None else dtype is string or getattr(dtype, "kind", "-") in "SUO"


# Division


@op(elementwise=True)
def divide(x: T, y: T) -> Spec:
    """`x` divided by y; integers as floats: of 8 and 16 bits as float32, wider ones as float64.

    Examples:
        >>> await session.run(af.divide([7, 8], 2))
        array([3.5, 4. ])
    """
    return Spec(_quotient_dtype(x.only(NUMERIC).same_dtype(y).dtype), x.broadcast(y))


def _quotient_dtype(dtype: DType) -> DType:
    if dtype not in INTEGER:
        return dtype
    return float32 if dtype.size <= 2 else float64


def _divide_gradient(z: Tensor, x: Tensor, y: Tensor, dz: Tensor) -> tuple[Tensor | None, Tensor | None]:
    if x.dtype.is_integer:
        return None, None
    divisor = constant_value(y)
    dx = divided(dz, y) if divisor is None or not divisor.all() else dz / conj(y)
    return dx, -scaled(dx, z)


broadcast_gradient(divide, _divide_gradient)
ufunc(divide, "true_divide")


@divide.kernel(CPU, GPU, out=True, binds=True, only=INTEGER, priority=1)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    dtype = node.output_specs[0].dtype.np
    return lambda x, y, out=None: xp.true_divide(x, y, out=out, dtype=dtype)


truediv = divide

floordiv: Final = binary(
    "floordiv", "it is piecewise constant",
    """The greatest whole number not above x / y. Raises InvalidArgumentError where integers are divided by zero.

    Floats follow NumPy's `//`: NaN for an infinite x, -1 for a finite x over an infinite y of the other sign, where
    TensorFlow gives x / y and -0; infinite for a y of 0 unless x is 0. The smallest integer by -1 is itself.

    Examples:
        >>> await session.run(af.floordiv([7, -7], 2))
        array([ 3, -4], dtype=int32)
    """,
    FLOAT, INTEGER, kernel="floor_divide", known=operator.floordiv,
)  # fmt: skip
mod: Final = binary(
    "mod", lambda z, x, y, dz: (dz, scaled(-dz, floordiv(x, y))),
    """The remainder of `floordiv`: x - floordiv(x, y) * y, with the sign of y, as Python's %.  For floats: NaN for an
    infinite x or a y of 0; x, or y where their signs differ, for an infinite y.

    Examples:
        >>> await session.run(af.floormod([7, -7], 3))
        array([1, 2], dtype=int32)
    """,
    FLOAT, INTEGER, kernel="remainder", known=operator.mod,
)  # fmt: skip
floormod = mod


def _refuse_zero(made: Op[Tensor], name: str) -> None:
    """On the CPU, where looking at the values costs little, integers are not divided by zero."""

    @made.kernel(CPU, out=True, binds=True, only=INTEGER, priority=1)
    def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
        function, divisor = getattr(xp, name), node.constant(1)
        if divisor is not None and divisor.all():
            return function  # type: ignore[no-any-return]

        def checked(x: Array, y: Array, out: Array | None = None) -> Array:
            if not y.all():
                raise errors.InvalidArgumentError("integer division by zero")
            return function(x, y, out=out)

        return checked


_refuse_zero(floordiv, "floor_divide")
_refuse_zero(mod, "remainder")


# Powers


def _power_gradient(z: Tensor, x: Tensor, y: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
    exponent = constant_value(y)
    if exponent is None or exponent.ndim:
        dx = scaled(dz, multiply_no_nan(x ** (y - 1), y))
    else:
        dx = _fixed_power_gradient(x, y, exponent, dz)
    return dx, scaled(dz, z * _log_or_zero(x))


def _fixed_power_gradient(x: Tensor, y: Tensor, exponent: Any, dz: Tensor) -> Tensor:
    """Without x ** 0 and x ** 1, and without 0 * x ** -1, which is NaN at 0."""
    if exponent == 0:
        return OPERATORS["zeros_like"](dz)
    if exponent == 1:
        return dz
    return dz * conj(y * x) if exponent == 2 else scaled(dz, y * x ** (exponent - 1))


def _log_or_zero(x: Tensor) -> Tensor:
    """log(x) where it is defined, 0 elsewhere: there the power does not depend on y smoothly."""
    return log(select(not_equal(x, 0) if x.dtype.is_complex else greater(x, 0), x, 1))


pow: Final = binary(
    "pow", _power_gradient,
    """x to the power of y. Raises InvalidArgumentError for an integer to a negative power.

    Examples:
        >>> await session.run(af.pow([2, 3], [3, 2]))
        array([8, 9], dtype=int32)
    """,
    NUMERIC, kernel="power", slow=True,
)  # fmt: skip


@pow.kernel(CPU, GPU, out=True, binds=True, only=FLOAT, priority=1)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    exponent = node.constant(1)
    cheaper = {2.0: xp.square, 0.5: xp.sqrt, -1.0: xp.reciprocal}
    function = cheaper.get(float(exponent)) if exponent is not None and exponent.ndim == 0 else None
    return xp.power if function is None else lambda x, y, out=None: function(x, out=out)


# The greater and the smaller one

maximum: Final = binary(
    "maximum", lambda z, x, y, dz: _to_chosen(greater_equal(x, y), dz),
    """The greater of x and y; NaN if either is. The gradient goes to the greater one, to x if they are equal.

    Examples:
        >>> await session.run(af.maximum([1, 5], 3))
        array([3, 5], dtype=int32)
    """,
    FLOAT, INTEGER, commutative=True, known=max,
)  # fmt: skip
minimum: Final = binary(
    "minimum", lambda z, x, y, dz: _to_chosen(less_equal(x, y), dz),
    """The smaller of x and y; NaN if either is. The gradient goes to the smaller one, to x if they are equal.

    Examples:
        >>> await session.run(af.minimum([1, 5], 3))
        array([1, 3], dtype=int32)
    """,
    FLOAT, INTEGER, commutative=True, known=min,
)  # fmt: skip


def _to_chosen(first: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
    return masked(dz, first), masked(dz, logical_not(first))


def _squared_difference_gradient(z: Tensor, x: Tensor, y: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
    dx = (dz + conj(dz)) * (x - y)
    return dx, -dx


squared_difference: Final = binary(
    "squared_difference",
    _squared_difference_gradient,
    """|x - y| squared.

    Examples:
        >>> await session.run(af.squared_difference([1.0, 5.0], [2.0, 2.0]))
        array([1., 9.], dtype=float32)
    """,
    NUMERIC,
    kernel="",
    commutative=True,
)


@squared_difference.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    is_complex = node.output_specs[0].dtype.is_complex

    def squared(x: Array, y: Array, out: Array | None = None) -> Array:
        difference = xp.subtract(x, y, out=out)
        return _square_modulus(xp, difference) if is_complex else _square(xp, difference, out)

    return squared


def _square(xp: Namespace, difference: Array, out: Array | None) -> Array:
    return xp.square(difference, out=difference if difference.ndim else out)


def _square_modulus(xp: Namespace, difference: Array) -> Array:
    result = xp.asarray(difference)
    result.real, result.imag = xp.square(result.real) + xp.square(result.imag), 0
    return result


costs(squared_difference, 2.0)


# Sums of many


@op
def add_n(inputs: Sequence[T]) -> Spec:
    """The sum of all inputs, which have one shape: no broadcasting.

    Examples:
        >>> await session.run(af.add_n([[1, 2], [3, 4], [5, 6]]))
        array([ 9, 12], dtype=int32)
    """
    if not inputs:
        raise ValueError("at least one tensor is needed")
    first, *rest = inputs
    first.only(NUMERIC).same_dtype(*rest)
    shape = first.shape
    for spec in rest:
        merged = shape.merge_with(spec.shape)
        shape = next((known for known in (shape, spec.shape) if known == merged), merged)
    return Spec(first.dtype, shape)


@add_n.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, ...]:
    return (dy,) * len(op.inputs)


@add_n.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Sequence[Array]], Array]:
    if len(node.input_specs) == 1:
        return lambda values: +values[0]
    shapes = [spec.shape for spec in node.input_specs]
    return _total if all(s is shapes[0] or s.is_fully_defined() for s in shapes) else _checked_total


def _total(values: Sequence[Array]) -> Array:
    first, second, *rest = values
    result = first + second
    for value in rest:
        result += value
    return result


def _checked_total(values: Sequence[Array]) -> Array:
    shape = values[0].shape
    if any(value.shape != shape for value in values):
        raise errors.InvalidArgumentError(f"the shapes differ: {', '.join(str(list(v.shape)) for v in values)}")
    return _total(values)


@add_n.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return (len(inputs) - 1) * elements(outputs[0])


OPERATORS.update(
    add=add, subtract=subtract, multiply=multiply, divide=divide, truediv=divide, floordiv=floordiv, mod=mod, pow=pow,
    maximum=maximum, minimum=minimum, squared_difference=squared_difference, add_n=add_n,
)  # fmt: skip
