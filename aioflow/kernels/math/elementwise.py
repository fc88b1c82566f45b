"""Functions of one tensor, element by element: signs, powers, exponentials, circular and hyperbolic functions."""

import functools
from typing import Final

from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.select import masked, select
from aioflow.kernels.families import (
    CPU,
    GPU,
    NARROW,
    SLOW,
    broadcast_gradient,
    costs,
    elementwise,
    keeps_zeros,
    product,
    ufunc,
)
from aioflow.kernels.math import onednn_elementwise
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.kernels.math.complex import conj, real
from aioflow.kernels.math.no_nan import divided, scaled
from aioflow.tensors.dtypes import COMPLEX, FLOAT, NUMERIC, Array, Namespace, Spec

negative: Final = elementwise(
    "negative",
    lambda y, x, dy: -dy,
    """-x.

    Examples:
        >>> await session.run(af.negative([1, -2]))
        array([-1,  2], dtype=int32)
    """,
    NUMERIC,
)
square: Final = elementwise(
    "square",
    lambda y, x, dy: dy * conj(x * 2),
    """x times x.

    Examples:
        >>> await session.run(af.square([2, -3]))
        array([4, 9], dtype=int32)
    """,
    NUMERIC,
)
square.kernel(CPU, out=True, only=COMPLEX, priority=1)(lambda xp, x, out=None: product(xp, x, x, out))


def _sign_gradient(y: Tensor, x: Tensor, dy: Tensor) -> Tensor:
    """0 for reals; the sign of a complex number rotates by the part of dy perpendicular to y."""
    if not x.dtype.is_complex:
        return OPERATORS["zeros_like"](x)
    moves = not_equal(x, 0)
    across = masked(dy - y * cast(real(conj(y) * dy), x.dtype), moves)
    return across / select(moves, cast(abs(x), x.dtype), 1)


sign: Final = elementwise(
    "sign",
    _sign_gradient,
    """-1, 0 or 1 as x is negative, zero or positive; of a complex number x / |x|.

    Examples:
        >>> await session.run(af.sign([-3.0, 0.0, 2.0]))
        array([-1.,  0.,  1.], dtype=float32)
    """,
    NUMERIC,
)


@op(elementwise=True)
def abs(x: Spec) -> Spec:
    """The distance of x from 0; of a complex number its modulus, which is real.

    Examples:
        >>> await session.run(af.abs([-1.5, 2.0]))
        array([1.5, 2. ], dtype=float32)
    """
    return x.only(NUMERIC).with_dtype(x.dtype.real)


@abs.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    x = op.inputs[0]
    return cast(dy, x.dtype) * sign(x)


ufunc(abs, "absolute")

# Roots and reciprocals

reciprocal: Final = elementwise(
    "reciprocal",
    lambda y, x, dy: divided(divided(-dy, x), x),
    """1 / x.

    Examples:
        >>> await session.run(af.reciprocal([2.0, 4.0]))
        array([0.5 , 0.25], dtype=float32)
    """,
)
sqrt: Final = elementwise(
    "sqrt",
    lambda y, x, dy: divided(dy * 0.5, y),
    """The square root of x; NaN for a negative number.

    Examples:
        >>> await session.run(af.sqrt([4.0, 9.0]))
        array([2., 3.], dtype=float32)
    """,
)
rsqrt: Final = elementwise(
    "rsqrt",
    lambda y, x, dy: scaled(divided(dy * -0.5, x), y),
    """1 / sqrt(x).

    Examples:
        >>> await session.run(af.rsqrt([4.0, 16.0]))
        array([0.5 , 0.25], dtype=float32)
    """,
    kernel="",
)


@rsqrt.kernel(CPU, GPU, out=True)
def _(xp: Namespace, x: Array, out: Array | None = None) -> Array:
    root = xp.sqrt(x, out=out)
    return xp.reciprocal(root, out=root if root.ndim else out)


# Exponentials and logarithms

exp: Final = elementwise(
    "exp",
    lambda y, x, dy: scaled(dy, y),
    """e to the power of x.

    Examples:
        >>> await session.run(af.exp([0.0, 1.0]))
        array([1.      , 2.718282], dtype=float32)
    """,
    slow=True,
)
expm1: Final = elementwise(
    "expm1",
    lambda y, x, dy: scaled(dy, exp(x)),
    """exp(x) - 1, exact also near x = 0.

    Examples:
        >>> await session.run(af.expm1([0.0, 1e-10]))
        array([0.e+00, 1.e-10], dtype=float32)
    """,
    slow=True,
)
log: Final = elementwise(
    "log",
    lambda y, x, dy: divided(dy, x),
    """The natural logarithm of x; -inf at 0, NaN below.

    Examples:
        >>> await session.run(af.log([1.0, 10.0, 0.0]))
        array([0.       , 2.3025851,      -inf], dtype=float32)
    """,
    slow=True,
)
log1p: Final = elementwise(
    "log1p",
    lambda y, x, dy: divided(dy, x + 1),
    """log(1 + x), exact also near x = 0.

    Examples:
        >>> await session.run(af.log1p([0.0, 1e-10]))
        array([0.e+00, 1.e-10], dtype=float32)
    """,
    slow=True,
)

# Circular functions

sin: Final = elementwise(
    "sin",
    lambda y, x, dy: dy * conj(OPERATORS["cos"](x)),
    """The sine of x radians.

    Examples:
        >>> await session.run(af.sin([0.0, 1.0]))
        array([0.      , 0.841471], dtype=float32)
    """,
    slow=True,
)
cos: Final = elementwise(
    "cos",
    lambda y, x, dy: -dy * conj(sin(x)),
    """The cosine of x radians.

    Examples:
        >>> await session.run(af.cos([0.0, 1.0]))
        array([1.       , 0.5403023], dtype=float32)
    """,
    slow=True,
)
tan: Final = elementwise(
    "tan",
    lambda y, x, dy: dy * conj(y * y + 1),
    """The tangent of x radians.

    Examples:
        >>> await session.run(af.tan([0.0, 1.0]))
        array([0.       , 1.5574077], dtype=float32)
    """,
    slow=True,
)
asin: Final = elementwise(
    "asin",
    lambda y, x, dy: divided(dy, sqrt((1 - x) * (1 + x))),
    """The angle in radians, between -pi/2 and pi/2, whose sine is x; NaN outside [-1, 1].

    Examples:
        >>> await session.run(af.asin([0.0, 1.0]))
        array([0.       , 1.5707964], dtype=float32)
    """,
    kernel="arcsin",
    slow=True,
)
acos: Final = elementwise(
    "acos",
    lambda y, x, dy: divided(-dy, sqrt((1 - x) * (1 + x))),
    """The angle in radians, between 0 and pi, whose cosine is x; NaN outside [-1, 1].

    Examples:
        >>> await session.run(af.acos([1.0, 0.0]))
        array([0.       , 1.5707964], dtype=float32)
    """,
    kernel="arccos",
    slow=True,
)
atan: Final = elementwise(
    "atan",
    lambda y, x, dy: dy / conj(x * x + 1),
    """The angle in radians, between -pi/2 and pi/2, whose tangent is x.

    Examples:
        >>> await session.run(af.atan([0.0, 1.0]))
        array([0.       , 0.7853982], dtype=float32)
    """,
    kernel="arctan",
    slow=True,
)


@op(elementwise=True)
def atan2(y: T, x: T) -> Spec:
    """The angle in radians, between -pi and pi, from the positive x axis to the point (x, y).

    Examples:
        >>> await session.run(af.atan2([1.0, -1.0], [1.0, -1.0]))
        array([ 0.7853982, -2.3561945], dtype=float32)
    """
    return Spec(y.only(FLOAT).same_dtype(x).dtype, y.broadcast(x))


def _atan2_gradient(z: Tensor, y: Tensor, x: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
    turned = divided(dz, x * x + y * y)
    return turned * x, -turned * y


broadcast_gradient(atan2, _atan2_gradient)
ufunc(atan2, "arctan2")
costs(atan2, SLOW)

# Hyperbolic functions

sinh: Final = elementwise(
    "sinh",
    lambda y, x, dy: scaled(dy, OPERATORS["cosh"](x)),
    """The hyperbolic sine of x.

    Examples:
        >>> await session.run(af.sinh([0.0, 1.0]))
        array([0.       , 1.1752012], dtype=float32)
    """,
    slow=True,
)
cosh: Final = elementwise(
    "cosh",
    lambda y, x, dy: scaled(dy, sinh(x)),
    """The hyperbolic cosine of x.

    Examples:
        >>> await session.run(af.cosh([0.0, 1.0]))
        array([1.       , 1.5430806], dtype=float32)
    """,
    slow=True,
)
tanh: Final = elementwise(
    "tanh",
    lambda y, x, dy: dy * conj(1 - y * y),
    """The hyperbolic tangent of x: 0 at 0, flattening out towards -1 and 1.

    Examples:
        >>> await session.run(af.tanh([0.0, 1.0]))
        array([0.       , 0.7615942], dtype=float32)
    """,
    slow=True,
)
asinh: Final = elementwise(
    "asinh",
    lambda y, x, dy: dy * conj(rsqrt(x * x + 1)),
    """The number whose hyperbolic sine is x.

    Examples:
        >>> await session.run(af.asinh([0.0, 1.0]))
        array([0.       , 0.8813736], dtype=float32)
    """,
    kernel="arcsinh",
    slow=True,
)
acosh: Final = elementwise(
    "acosh",
    lambda y, x, dy: divided(dy, sinh(y)),
    """The number, not negative, whose hyperbolic cosine is x; NaN below 1.

    Examples:
        >>> await session.run(af.acosh([1.0, 2.0]))
        array([0.      , 1.316958], dtype=float32)
    """,
    kernel="arccosh",
    slow=True,
)
atanh: Final = elementwise(
    "atanh",
    lambda y, x, dy: divided(dy, (1 - x) * (1 + x)),
    """The number whose hyperbolic tangent is x; NaN outside [-1, 1].

    Examples:
        >>> await session.run(af.atanh([0.0, 0.5]))
        array([0.        , 0.54930615], dtype=float32)
    """,
    kernel="arctanh",
    slow=True,
)
sigmoid: Final = elementwise(
    "sigmoid",
    lambda y, x, dy: dy * conj(y * (1 - y)),
    """1 / (1 + exp(-x)): 1/2 at 0, flattening out towards 0 and 1, never NaN for a number.

    It is 0 where exp(-x) overflows: below -88.7 for float32.

    Examples:
        >>> await session.run(af.sigmoid([0.0, 2.0]))
        array([0.5     , 0.880797], dtype=float32)
    """,
    kernel="",
    slow=True,
)


def _logistic(xp: Namespace, x: Array, out: Array | None = None) -> Array:
    y = xp.negative(x, out=out)
    into = y if y.ndim else out
    y = xp.add(xp.exp(y, out=into), 1, out=into)
    return xp.reciprocal(y, out=into)


sigmoid.kernel(CPU, GPU, out=True)(_logistic)
onednn_elementwise.declare(sigmoid, lambda xp: functools.partial(_logistic, xp))


@sigmoid.kernel(CPU, GPU, fresh=True, only=NARROW, priority=1)
def _(xp: Namespace, x: Array) -> Array:
    return _logistic(xp, x.astype(xp.float32)).astype(x.dtype)


@sigmoid.kernel(CPU, GPU, fresh=True, only=COMPLEX, priority=1)
def _(xp: Namespace, x: Array) -> Array:
    return xp.tanh(x * 0.5) * 0.5 + 0.5


keeps_zeros(abs, negative, sign, sqrt, square, tanh)
__all__ = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "exp", "expm1",
           "log", "log1p", "negative", "reciprocal", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
           "square", "tan", "tanh"]  # fmt: skip

OPERATORS.update({name: globals()[name] for name in __all__})
