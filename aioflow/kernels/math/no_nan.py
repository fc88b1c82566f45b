"""Products and quotients that are 0 where one operand is 0, even where the other is infinite or NaN.

A gradient rule multiplies the incoming gradient by the derivative. The derivative of sqrt at 0 is infinite, and that of
log below 0 is undefined. A mask after the op, like `where(x > 0, sqrt(x), 0)`, makes the incoming gradient 0 there, and
0 times infinity is NaN. So the rules of ops with poles use `scaled` and `divided`, which keep the 0.

On the CPU the kernels compute first, then multiply the bits of the result, as integers, by 0 or 1. That takes the same
time for all values, and gives an element the same bits whichever others lie in its array or block: 0 times a negative
number is 0, never -0.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, binary, product
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


def except_at_0(made: Op[Tensor], which: int, function: Callable[..., Array], scalar: str | None = None) -> None:
    """Declare the kernels: `function(xp, x, y, out)`, and 0 where the input `which` is 0."""

    @made.kernel(GPU, fresh=True)
    def _(xp: Namespace, x: Array, y: Array) -> Array:
        result = function(xp, x, y, None)
        return xp.where((x, y)[which] == 0, xp.zeros((), result.dtype), result)

    @made.kernel(CPU, out=True, binds=True, scalar=scalar)
    def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
        size, multiply = node.output_specs[0].dtype.size, np.multiply
        is_wide, word = size > 8, np.dtype(f"i{min(size, 8)}")

        def compute(x: Array, y: Array, out: Array | None = None) -> Array:
            kept = (y if which else x).astype(bool)  # found first, since the result may be written over that input
            result = np.asarray(function(np, x, y, out))
            for part in (result.real, result.imag) if is_wide else (result,):
                bits = part.view(word)
                multiply(bits, kept, out=bits)
            return result

        return compute


def _quotient(xp: Namespace, x: Array, y: Array, out: Array | None) -> Array:
    return xp.true_divide(x, y, out=out)


except_at_0(multiply_no_nan, 1, product, "{0} * {1} if {1} else {type}(0)")
except_at_0(div_no_nan, 1, _quotient, "{0} / {1} if {1} else {type}(0)")
except_at_0(xdivy, 0, _quotient, "{0} / {1} if {0} else {type}(0)")
OPERATORS.update(div_no_nan=div_no_nan, multiply_no_nan=multiply_no_nan, xdivy=xdivy)
