"""Numbers rounded to the steps that an integer of few bits has within limits: networks train on what will be stored.

The steps divide the range from `min` to `max` evenly, and the range is moved by less than a step so that 0 is one of
them. The gradient is that of clipping: rounding is taken for the identity.
"""

from collections.abc import Callable

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import select
from aioflow.kernels.families import CPU, GPU, sum_to_operand
from aioflow.kernels.math.comparison import greater, less, logical_or
from aioflow.kernels.math.quantisation import check_order
from aioflow.tensors.dtypes import Array, Namespace, Spec, float32, float64

_REAL = frozenset((float32, float64))
BITS = range(2, 17)
"""The numbers of bits that stored integers may have."""


@op
def fake_quant(inputs: T, min: T, max: T, num_bits: int = 8, narrow_range: bool = False) -> Spec:
    """`inputs` rounded to the 2 ** num_bits steps from `min` to `max`, one less if `narrow_range`.

    `min` and `max` are numbers, or vectors with one for each place of the last axis.
    """
    _check(inputs, min, max, num_bits)
    return inputs


@op
def fake_quant_limits(min: T, max: T, num_bits: int = 8, narrow_range: bool = False) -> tuple[Spec, Spec]:
    """The least and the greatest step of `fake_quant`: `min` and `max`, moved so that 0 is a step."""
    _check(min, min, max, num_bits)
    return min, min


def _check(inputs: Spec, low: Spec, high: Spec, bits: int) -> None:
    inputs.only(_REAL).same_dtype(low, high)
    if bits not in BITS:
        raise ValueError(f"num_bits is from {BITS.start} to {BITS.stop - 1}, not {bits}")
    if not low.shape.is_compatible_with(high.shape):
        raise ValueError(f"min of shape {low.shape} and max of shape {high.shape} differ")
    if low.rank in (0, None) or inputs.rank is None:
        return
    low.with_rank(1, "min")
    if inputs.rank == 0 or not low.shape.is_compatible_with(inputs.shape[-1:]):
        raise ValueError(f"limits of shape {low.shape} do not fit the last axis of inputs of shape {inputs.shape}")


@fake_quant.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    x, low, high = op.inputs
    return fake_quant_gradients(dy, x, low, high, op.attrs["num_bits"], op.attrs["narrow_range"])


fake_quant_limits.no_gradient("the limits move in steps; fake_quant gives them their gradients")


def fake_quant_gradients(
    dy: Tensor, x: Tensor, low: Tensor, high: Tensor, num_bits: int, narrow_range: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The gradients with respect to `x` and the limits: an element beyond a limit gives its own to that."""
    least, greatest = fake_quant_limits(low, high, num_bits, narrow_range)
    below, above, nothing = less(x, least), greater(x, greatest), zeros_like(dy)
    return (
        select(logical_or(below, above), nothing, dy),
        sum_to_operand(low, select(below, dy, nothing)),
        sum_to_operand(high, select(above, dy, nothing)),
    )


@fake_quant.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    bits, narrow = node.attrs["num_bits"], node.attrs["narrow_range"]

    def rounded(x: Array, low: Array, high: Array) -> Array:
        least, greatest, step = _limits(xp, low, high, bits, narrow)
        y = xp.clip(x, least, greatest)
        y -= least
        with np.errstate(divide="ignore", invalid="ignore"):
            y *= 1 / step
            y += x.dtype.type(0.5)
            y = xp.floor(y, out=y if y.ndim else None)
            return xp.where(step == 0, x.dtype.type(0), y * step + least)

    return rounded


@fake_quant_limits.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., tuple[Array, Array]]:
    bits, narrow = node.attrs["num_bits"], node.attrs["narrow_range"]
    return lambda low, high: _limits(xp, low, high, bits, narrow)[:2]


def _limits(xp: Namespace, low: Array, high: Array, bits: int, narrow: bool) -> tuple[Array, Array, Array]:
    """The least step, the greatest, and the distance of two."""
    check_order(xp, low, high, "min", "max")
    first, last = low.dtype.type(narrow), low.dtype.type(2**bits - 1)
    step = (high - low) / (last - first)
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = xp.where(step == 0, first, first - low / step)  # the step that stands for 0
    whole = xp.floor(zero)
    zero = xp.clip(whole + (zero - whole >= 0.5), first, last)
    return (first - zero) * step, (last - zero) * step, step
