"""Shared parts of the kernels of special functions: they compute in float64, with a formula per region of the inputs.

All of them run on the CPU only. Narrower floats are computed in float64 and rounded once.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.kernels.families import CPU, costs
from aioflow.tensors.dtypes import Array, Namespace

Function = Callable[..., Array]
FORMULAS: Final[dict[str, Function]] = {}
"""{name of an op: its function of flat float64 arrays}"""
_BLOCK: Final = 1024
_SERIES_BELOW: Final = 0.4
_ARTANH: Final = tuple(2 / k for k in range(23, 1, -2))
_EXP: Final = tuple(1 / math.factorial(k) for k in range(14, 1, -1))


def special(made: Op[Any], per_element: float) -> Callable[[Function], Function]:
    """Declare the kernel from a function of flat float64 arrays of one length, and the cost of an element.

    The inputs are broadcast together; the op's attributes are passed by keyword.
    """

    def declare(function: Function) -> Function:
        @made.kernel(CPU, fresh=True, binds=True)
        def _(xp: Namespace, node: NodeView) -> Function:
            compute, dtype = functools.partial(function, **node.attrs), node.output_specs[0].dtype.np

            def call(*inputs: Array) -> Array:
                arrays = np.broadcast_arrays(*inputs) if len(inputs) > 1 else inputs
                result = compute(*[np.ravel(array).astype(np.float64) for array in arrays])
                return result.astype(dtype, copy=False).reshape(arrays[0].shape)

            return call

        costs(made, per_element)
        FORMULAS[made.name] = function
        return function

    return declare


def pieces(choices: Sequence[tuple[Array, Function]], *inputs: Array) -> Array:
    """Applies each function where its mask is true; NaN where no mask is. At most one mask may be true.

    A formula that is written down, not computed, has a `by_region` of its own.
    """
    by_region = getattr(inputs[0], "by_region", None)
    if by_region is not None:
        chosen: Array = by_region(choices, *inputs)
        return chosen
    result = np.full(inputs[0].shape, np.nan)
    for mask, function in choices:
        if mask.all():
            return function(*inputs)
        if mask.any():
            result[mask] = function(*[values[mask] for values in inputs])
    return result


def polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial of these coefficients, the highest power first."""
    result = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        result *= x
        result += coefficient
    return result


def chebyshev(coefficients: Sequence[float], x: Array) -> Array:
    """The sum of c[k] T_k(x), by Clenshaw's recurrence, for x from -1 to 1."""
    twice = 2 * x
    later, latest = np.zeros_like(x), np.zeros_like(x)
    for coefficient in coefficients[:0:-1]:
        latest, later = twice * latest - later + coefficient, latest
    return x * latest - later + coefficients[0]


def log1p_less(x: Array) -> Array:
    """log(1 + x) - x, exact also near x = 0."""
    small = np.abs(x) < _SERIES_BELOW
    return pieces([(small, _log1p_less), (~small, lambda x: np.log1p(x) - x)], x)


def _log1p_less(x: Array) -> Array:
    """With r = x / (2 + x), log(1 + x) is 2 artanh(r) = 2r + 2r^3 (1/3 + r^2/5 + ...), and 2r - x is -r x."""
    r = x / (2 + x)
    square = r * r
    return r * (square * polynomial(_ARTANH, square) - x)


def expm1_less(x: Array) -> Array:
    """exp(x) - 1 - x, exact also near x = 0."""
    small = np.abs(x) < 0.5
    series = (small, lambda x: polynomial(_EXP, x) * x * x)
    return pieces([series, (~small, lambda x: np.expm1(x) - x)], x)


@functools.cache
def _rule(count: int) -> tuple[Array, Array]:
    """Gauss and Legendre's places and weights for integrals from 0 to 1."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return (places + 1) / 2, weights / 2


def integral(integrand: Function, length: Array, *inputs: Array, places: int = 48) -> Array:
    """The integral of `integrand(s, *inputs)` for s from 0 to `length`, which must be smooth: Gauss and Legendre's."""
    at, weights = _rule(places)
    result = np.empty_like(length)
    for start in range(0, len(length), _BLOCK):
        part = slice(start, start + _BLOCK)
        columns = [values[part, None] for values in inputs]
        result[part] = np.vecdot(integrand(length[part, None] * at, *columns), weights)  # each row by itself
    return result * length
