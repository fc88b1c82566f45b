"""Gelu, x times the probability that a normal number is smaller, and its approximation by tanh, in one op each.

As formulas they are up to nine ops over large arrays, and twice as many in their gradients.
"""

import functools
import math
from typing import Final

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.families import CPU, SLOW, costs
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.elementwise import exp, tanh
from aioflow.kernels.math.error_functions import erf_of
from aioflow.kernels.nn import onednn_gelu
from aioflow.kernels.nn.activation import activation, activation_grad, wide
from aioflow.kernels.nn.onednn_gelu import FAR
from aioflow.tensors.dtypes import FLOAT, Array, Namespace

CUBE: Final = 0.044715
"""The factor of x * x * x in the approximation."""
SCALE: Final = math.sqrt(2 / math.pi)
_DENSITY: Final = 1 / math.sqrt(2 * math.pi)
"""The density of normal numbers at 0."""
_FLAT: Final = 10.0
"""The input from which on the tanh of `gelu_tanh` is 1 in any dtype."""

gelu_tanh_grad: Final = activation_grad("gelu_tanh_grad", "The gradient of `gelu_tanh`, from its input.")
gelu_tanh: Final = activation(
    "gelu_tanh",
    lambda y, x, dy: gelu_tanh_grad(dy, x),
    "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), close to `gelu_erf`.",
    FLOAT,
)
gelu_erf_grad: Final = activation_grad(
    "gelu_erf_grad", "The gradient of `gelu_erf`, from its input. On the CPU alone, as `erf`."
)
gelu_erf: Final = activation(
    "gelu_erf",
    lambda y, x, dy: gelu_erf_grad(dy, x),
    "0.5 * x * (1 + erf(x / sqrt(2))). On the CPU alone, as `erf`.",
    FLOAT,
)


# Kernels


def _tanh_part(xp: Namespace, x: Array) -> Array:
    """tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))."""
    bent = x * x
    bent *= CUBE
    bent += 1
    bent *= x
    bent *= SCALE
    return xp.tanh(bent, out=bent if bent.ndim else None)


def _by_tanh(xp: Namespace, x: Array, out: Array | None = None) -> Array:
    inner = _tanh_part(xp, x)
    inner += 1
    return xp.multiply(x * 0.5, inner, out=out)


def _tanh_slope(xp: Namespace, dy: Array, x: Array, out: Array | None = None) -> Array:
    x = xp.clip(x, -FAR, FAR)
    inner, steep = _tanh_part(xp, x), x * x
    steep *= 3 * CUBE * SCALE
    steep += SCALE
    steep *= x
    steep *= 1 - inner * inner
    steep += inner
    steep += 1
    steep *= 0.5
    return xp.multiply(dy, steep, out=out)


def _by_erf(xp: Namespace, x: Array, out: Array | None = None) -> Array:
    inner = erf_of(xp, x * math.sqrt(0.5))
    inner += 1
    return xp.multiply(x * 0.5, inner, out=out)


def _erf_slope(xp: Namespace, dy: Array, x: Array, out: Array | None = None) -> Array:
    x = xp.clip(x, -FAR, FAR)
    inner = erf_of(xp, x * math.sqrt(0.5))
    inner += 1
    inner *= 0.5
    inner += x * xp.exp(x * x * -0.5) * _DENSITY
    return xp.multiply(dy, inner, out=out)


wide(gelu_tanh, out=True)(lambda xp, node: functools.partial(_by_tanh, xp))
wide(gelu_tanh_grad, out=True)(lambda xp, node: functools.partial(_tanh_slope, xp))
wide(gelu_erf, CPU, out=True)(lambda xp, node: functools.partial(_by_erf, xp))
wide(gelu_erf_grad, CPU, out=True)(lambda xp, node: functools.partial(_erf_slope, xp))
for _op, _function, _formula in (
    (gelu_tanh, onednn_gelu.BY_TANH, _by_tanh),
    (gelu_tanh_grad, onednn_gelu.BY_TANH, _tanh_slope),
    (gelu_erf, onednn_gelu.BY_ERF, _by_erf),
    (gelu_erf_grad, onednn_gelu.BY_ERF, _erf_slope),
):
    _plain = functools.partial(functools.partial, _formula)
    onednn_gelu.declare(_op, _function, _plain, backward=_op.name.endswith("_grad"))
    costs(_op, 2 * SLOW)


# Gradients of the gradients


@gelu_tanh_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, Tensor]:
    """The second derivative is (1 - t^2) * (u' + x * (u'' / 2 - t * u'^2)).

    Here u is sqrt(2 / pi) * (x + 0.044715 * x^3), and t its tanh.
    """
    dy, x = op.inputs
    near = maximum(minimum(x, _FLAT), -_FLAT)
    square = near * near
    inner = tanh((square * CUBE + 1) * near * SCALE)
    steep = (square * (3 * CUBE) + 1) * SCALE
    bend = (1 - inner * inner) * (steep + near * (near * (3 * CUBE * SCALE) - inner * steep * steep))
    return gelu_tanh_grad(dz, x), dz * dy * bend


@gelu_erf_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, Tensor]:
    """The second derivative is the density of normal numbers at x, times 2 - x^2."""
    dy, x = op.inputs
    square = minimum(x * x, FAR * FAR)
    return gelu_erf_grad(dz, x), dz * dy * exp(square * -0.5) * (2 - square) * _DENSITY
