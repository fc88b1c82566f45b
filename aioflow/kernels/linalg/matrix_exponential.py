"""The exponential of matrices, one matrix or a batch of them in the last two axes."""

from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU
from aioflow.kernels.linalg.matrices import adjoint, check_square, cubic, square
from aioflow.tensors.dtypes import Array, Namespace, Spec

_PADE: Final = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
"""Coefficients of the numerator of the approximation of degree 13 [Higham 2005]."""
_RADIUS: Final = 5.371920351148152
"""The 1-norm up to which that is exact in float64; greater matrices are halved first, and the result squared."""


@op
def matrix_exponential(input: Spec) -> Spec:
    """1 + x + x^2 / 2 + x^3 / 6 + ..., with powers of square matrices."""
    return square(input)


@matrix_exponential.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    """The upper right block of the exponential of [[x, d], [0, x]] is the derivative of exp(x) along d."""
    x = adjoint(op.inputs[0])
    known = None if x.spec.sizes is None else x.spec.sizes[-1]
    size = OPERATORS["shape"](x)[-1] if known is None else known
    concat = OPERATORS["concat"]
    above, below = concat([x, dy], -1), concat([OPERATORS["zeros_like"](x), x], -1)
    return matrix_exponential(concat([above, below], -2))[..., :size, size:]


cubic(matrix_exponential, 20.0)


@matrix_exponential.kernel(CPU, fresh=True)  # how often it is halved depends on values
def _(xp: Namespace, x: Array) -> Array:
    check_square(x)
    norm = float(xp.abs(x).sum(-2).max(initial=0))
    if not np.isfinite(norm):
        raise errors.InvalidArgumentError("a matrix has elements that are not finite")
    halvings = max(0, int(np.ceil(np.log2(norm / _RADIUS)))) if norm else 0
    result = _approximated(xp, x / 2**halvings)
    for _ in range(halvings):
        result = result @ result
    return result


def _approximated(xp: Namespace, x: Array) -> Array:
    """(even - odd)^-1 (even + odd), the even and the odd powers of x of a polynomial."""
    one = xp.eye(x.shape[-1], dtype=x.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2

    def powers(first: int) -> Any:
        c = _PADE[first::2]
        high = x6 @ (c[6] * x6 + c[5] * x4 + c[4] * x2)
        return high + c[3] * x6 + c[2] * x4 + c[1] * x2 + c[0] * one

    odd, even = x @ powers(1), powers(0)
    return xp.linalg.solve(even - odd, even + odd)


expm = matrix_exponential
