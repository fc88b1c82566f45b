"""Products and quotients that are 0 where one operand is 0, even where the other is infinite or NaN.

A gradient rule multiplies the incoming gradient by the derivative. The derivative of sqrt at 0 is infinite, and that of
log below 0 is undefined. A mask after the op, like `where(x > 0, sqrt(x), 0)`, makes the incoming gradient 0 there, and
0 times infinity is NaN. So the rules of ops with poles use `scaled` and `divided`, which keep the 0.

On the CPU the kernels compute first, then search the result for NaN: without a NaN no 0 was lost.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, binary
from aioflow.kernels.math.comparison import logical_or, not_equal
from aioflow.kernels.math.complex import conj
from aioflow.tensors.dtypes import COMPLEX, FLOAT, Array, Namespace

Pair = tuple[Tensor, Tensor]


def scaled(dy: Tensor, slope: Tensor) -> Tensor:
    """`dy` times the conjugate of the derivative `slope`; 0 where dy is 0."""
    return multiply_no_nan(conj(slope), dy)


def divided(dy: Tensor, divisor: Tensor) -> Tensor:
    """`dy` divided by the conjugate of `divisor`; 0 where dy is 0."""
    return xdivy(dy, conj(divisor))


def one_if(x: Tensor, defined: Tensor) -> Tensor:
    """1 where x is not 0 or the factor of x is `defined`, 0 elsewhere."""
    return OPERATORS["cast"](logical_or(not_equal(x, 0), defined), x.dtype)


def _multiply_no_nan_gradient(z: Tensor, x: Tensor, y: Tensor, dz: Tensor) -> Pair:
    return scaled(dz, y), scaled(dz, x)


def _div_no_nan_gradient(z: Tensor, x: Tensor, y: Tensor, dz: Tensor) -> Pair:
    dx = div_no_nan(dz, conj(y))
    return dx, -scaled(dx, z)


def _xdivy_gradient(z: Tensor, x: Tensor, y: Tensor, dz: Tensor) -> Pair:
    return divided(dz * one_if(x, not_equal(y, 0)), y), scaled(dz, xdivy(xdivy(-x, y), y))


multiply_no_nan: Final = binary(
    "multiply_no_nan", _multiply_no_nan_gradient, """x times y, and 0 where y is 0, even if x is infinite or NaN.

    Examples:
        >>> await session.run(af.multiply_no_nan([float("inf"), 2.0], [0.0, 4.0]))
        array([0., 8.], dtype=float32)
    """,
    FLOAT, COMPLEX, kernel="",
)  # fmt: skip
div_no_nan: Final = binary(
    "div_no_nan",
    _div_no_nan_gradient,
    """x / y, and 0 where y is 0, for every x.

    Examples:
        >>> await session.run(af.div_no_nan([1.0, 2.0], [0.0, 4.0]))
        array([0. , 0.5], dtype=float32)
    """,
    FLOAT,
    COMPLEX,
    kernel="",
)
xdivy: Final = binary(
    "xdivy",
    _xdivy_gradient,
    """x / y, and 0 where x is 0, even if y is 0, infinite or NaN.

    Examples:
        >>> await session.run(af.xdivy([0.0, 3.0], [0.0, 2.0]))
        array([0. , 1.5], dtype=float32)
    """,
    FLOAT,
    COMPLEX,
    kernel="",
)


def except_at_0(made: Op[Tensor], which: int, function: Callable[[Namespace, Array, Array], Array]) -> None:
    """Declare the kernel: `function`, and 0 where the input `which` is 0."""

    @made.kernel(CPU, GPU, fresh=True)
    def _(xp: Namespace, x: Array, y: Array) -> Array:
        result = function(xp, x, y)
        return xp.where((x, y)[which] == 0, xp.zeros((), result.dtype), result)


def _mended(made: Op[Tensor], which: int, name: str, scalar: str) -> None:
    """Declare the kernel of the CPU: one ufunc, and 0 where it gives NaN though the operand `which` is 0."""

    @made.kernel(CPU, out=True, binds=True, priority=1, scalar=scalar)
    def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
        function, vdot = getattr(np, name), np.vdot

        def compute(x: Array, y: Array, out: Array | None = None) -> Array:
            tested = y if which else x
            zero = tested == 0 if out is not None and np.may_share_memory(out, tested) else None
            result = function(x, y, out=out)
            found = vdot(result, result)  # the fastest sum in which a NaN shows
            if found == found:
                return result
            return _with_zeros(result, tested == 0 if zero is None else zero)

        return compute


def _with_zeros(result: Array, zero: Array) -> Array:
    """`result` with 0 where `zero` is true; changed in place, unless it is a scalar."""
    if not result.ndim:
        return np.where(zero, result.dtype.type(0), result)
    np.copyto(result, 0, where=zero)
    return result


except_at_0(multiply_no_nan, 1, lambda xp, x, y: x * y)
except_at_0(xdivy, 0, lambda xp, x, y: x / y)
except_at_0(div_no_nan, 1, lambda xp, x, y: x / y)
_mended(multiply_no_nan, 1, "multiply", "{0} * {1} if {1} or {0} - {0} == 0 else {type}(0)")
_mended(xdivy, 0, "true_divide", "{0} / {1} if {0} or {1} == {1} and {1} else {type}(0)")


@div_no_nan.kernel(CPU, out=True, binds=True, priority=1, scalar="{0} / {1} if {1} else {type}(0)")
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    def compute(x: Array, y: Array, out: Array | None = None) -> Array:
        zero = y == 0
        result = np.true_divide(x, y, out=out)
        return _with_zeros(result, zero) if zero.any() else result

    return compute


OPERATORS.update(div_no_nan=div_no_nan, multiply_no_nan=multiply_no_nan, xdivy=xdivy)
