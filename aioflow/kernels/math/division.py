"""Division that keeps 0 / 0 finite or truncates, TensorFlow's `div`, and the logarithm of the logistic function."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, SLOW, binary, costs, product
from aioflow.kernels.math.arithmetic import floordiv, truediv
from aioflow.kernels.math.comparison import greater, not_equal
from aioflow.kernels.math.elementwise import negative
from aioflow.kernels.math.no_nan import div_no_nan, except_at_0, one_if, scaled, xdivy
from aioflow.kernels.nn.activation import softplus
from aioflow.tensors.dtypes import COMPLEX, FLOAT, INTEGER, Array, DType, Namespace


def _xlogy_gradient(z: Tensor, x: Tensor, y: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
    positive = not_equal(y, 0) if y.dtype.is_complex else greater(y, 0)
    return scaled(dz, xlogy(one_if(x, positive), y)), scaled(dz, xdivy(x, y))


xlogy: Final = binary(
    "xlogy",
    _xlogy_gradient,
    """x log(y), and 0 where x is 0, even if y is negative or NaN.

    Examples:
        >>> await session.run(af.xlogy([0.0, 1.0], [0.0, 1.0]))
        array([0., 0.], dtype=float32)
    """,
    FLOAT,
    COMPLEX,
    kernel="",
)
except_at_0(xlogy, 0, lambda xp, x, y, out: product(xp, x, xp.log(y), out))
divide_no_nan: Final = div_no_nan
costs(xlogy, SLOW)


def _xlog1py_gradient(z: Tensor, x: Tensor, y: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
    inside = not_equal(y, -1) if y.dtype.is_complex else greater(y, -1)
    return scaled(dz, xlog1py(one_if(x, inside), y)), scaled(dz, xdivy(x, 1 + y))


xlog1py: Final = binary(
    "xlog1py",
    _xlog1py_gradient,
    """x log(1 + y), exact also near y = 0; and 0 where x is 0, even if y is below -1 or NaN.

    Examples:
        >>> await session.run(af.math.xlog1py([0.0, 2.0], [-1.0, 0.0]))
        array([0., 0.], dtype=float32)
    """,
    FLOAT,
    COMPLEX,
    kernel="",
)
except_at_0(xlog1py, 0, lambda xp, x, y, out: product(xp, x, xp.log1p(y), out))
costs(xlog1py, SLOW)


@transactional
def reciprocal_no_nan(x: NumberLike, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0.

    Examples:
        >>> await session.run(af.reciprocal_no_nan([0.0, 2.0]))
        array([0. , 0.5], dtype=float32)
    """
    value = convert_to_tensor(x)
    return div_no_nan(1, value, name=name or "reciprocal_no_nan")


# Fractions cut off

_JUMPS = "it is piecewise constant"

truncatediv: Final = binary(
    "truncatediv", _JUMPS,
    """x / y, the fraction cut off, as C divides. Raises InvalidArgumentError where integers are divided by zero.

    Examples:
        >>> await session.run(af.truncatediv([7, -7], 2))
        array([ 3, -3], dtype=int32)
    """,
    FLOAT, INTEGER, kernel="",
)  # fmt: skip
truncatemod: Final = binary(
    "truncatemod", lambda z, x, y, dz: (dz, scaled(-dz, truncatediv(x, y))),
    """The remainder of `truncatediv`: x - truncatediv(x, y) * y, with the sign of x, as C's %.  Raises
    InvalidArgumentError where integers are divided by zero.

    Examples:
        >>> await session.run(af.truncatemod([7, -7], 3))
        array([ 1, -1], dtype=int32)
    """,
    FLOAT, INTEGER, kernel="",
)  # fmt: skip


def _refuse_zero(xp: Namespace, dtype: DType, y: Array) -> None:
    if dtype.is_integer and xp is np and not y.all():
        raise errors.InvalidArgumentError("integer division by zero")


@truncatediv.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    dtype = node.output_specs[0].dtype
    if not dtype.is_integer:
        return lambda x, y: xp.trunc(x / y)

    def divided(x: Array, y: Array) -> Array:
        _refuse_zero(xp, dtype, y)
        return (x - xp.fmod(x, y)) // y

    return divided


@truncatemod.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    dtype = node.output_specs[0].dtype
    if not dtype.is_integer:
        return xp.fmod  # type: ignore[no-any-return]

    def rest(x: Array, y: Array) -> Array:
        _refuse_zero(xp, dtype, y)
        return xp.fmod(x, y)

    return rest


floor_div: Final = floordiv


@transactional
@dispatching
def div(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The quotient as in Python 2: of integers the greatest whole number not above x / y.

    Examples:
        >>> await session.run(af.div([7, -7], 2))
        array([ 3, -4], dtype=int32)
    """
    given: Any = next((v for v in (x, y) if isinstance(getattr(v, "dtype", None), DType)), None)
    first = convert_to_tensor(x, None if given is None else given.dtype)
    made = floordiv if first.dtype.is_integer else truediv
    return made(first, y, name=name or "div")


OPERATORS.update(xlogy=xlogy)


@transactional
@dispatching
def log_sigmoid(x: NumberLike, name: str | None = None) -> Tensor:
    """log(1 / (1 + exp(-x))), without overflow: x far below 0, near 0 far above.

    Examples:
        >>> await session.run(af.log_sigmoid([0.0, -100.0]))
        array([  -0.6931472, -100.       ], dtype=float32)
    """
    value = convert_to_tensor(x)
    return negative(softplus(-value), name=name or "log_sigmoid")
