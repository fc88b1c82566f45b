"""Quantises and dequantises at once: rounds numbers to the multiples of a step that integers of few bits can store."""

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.math.comparison import greater_equal, less_equal, logical_and
from aioflow.kernels.math.quantisation import check_limits, check_order, spread
from aioflow.tensors.dtypes import Array, Namespace, Spec, float16, float32, float64

_REAL: Final = frozenset((float16, float32, float64))
BITS: Final = range(1, 63)
ROUND_MODES: Final = ("HALF_TO_EVEN", "HALF_UP")


@op
def quantize_and_dequantize(
    input: T, input_min: T, input_max: T, signed_input: bool = True, num_bits: int = 8, range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN", narrow_range: bool = False, axis: int | None = None, passes_all: bool = True,
) -> Spec:  # fmt: skip
    """`input` rounded to multiples of a step that integers of `num_bits` bits store, and clipped to these.

    The limits are those of the elements unless `range_given`. The gradient is that of the identity; it is 0 outside of
    given limits unless `passes_all`.
    """
    check_limits(input.only(_REAL).same_dtype(input_min), input_min, input_max, axis)
    if num_bits not in BITS or num_bits < 1 + signed_input:
        raise ValueError(f"num_bits is from {1 + signed_input} to {BITS.stop - 1}, not {num_bits}")
    if round_mode not in ROUND_MODES:
        raise ValueError(f"round_mode is one of {', '.join(ROUND_MODES)}, not {round_mode!r}")
    return input


@quantize_and_dequantize.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    if op.attrs["passes_all"] or not op.attrs["range_given"]:
        return dy, None, None
    x, low, high = op.inputs
    if (axis := op.attrs["axis"]) is not None and x.spec.rank is not None:
        sizes = [-1 if each == axis % x.spec.rank else 1 for each in range(x.spec.rank)]
        low, high = reshape(low, sizes), reshape(high, sizes)
    inside = logical_and(greater_equal(x, low), less_equal(x, high))
    return select(inside, dy, zeros_like(dy)), None, None


@quantize_and_dequantize.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    attrs, axis = node.attrs, node.attrs["axis"]
    lowest, highest = _integers(attrs["num_bits"], attrs["signed_input"], attrs["narrow_range"])
    given, nearest = (
        attrs["range_given"],
        xp.rint if attrs["round_mode"] == "HALF_TO_EVEN" else functools.partial(_half_up, xp),
    )

    def rounded(x: Array, low: Array, high: Array) -> Array:
        if not given:
            low, high = _extremes(xp, x, axis)
        else:
            check_order(xp, low, high, "input_min", "input_max")
        steps = spread(_steps(xp, low, high, lowest, highest), x.ndim, axis).astype(x.dtype)
        with np.errstate(invalid="ignore"):
            inside = xp.clip(x, x.dtype.type(lowest) / steps, x.dtype.type(highest) / steps)
            return xp.where(xp.isinf(steps), x.dtype.type(0), nearest(inside * steps) / steps)

    return rounded


def _integers(bits: int, signed: bool, narrow: bool) -> tuple[int, int]:
    """The lowest and the highest integer."""
    return (-(1 << (bits - 1)) + narrow, (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _half_up(xp: Namespace, x: Array) -> Any:
    return xp.floor(x + x.dtype.type(0.5))


def _extremes(xp: Namespace, x: Array, axis: int | None) -> tuple[Array, Array]:
    others = None if axis is None else tuple([each for each in range(x.ndim) if each != axis % x.ndim])
    if not x.size:
        sizes = () if axis is None else (x.shape[axis],)
        return xp.zeros(sizes, x.dtype), xp.zeros(sizes, x.dtype)
    return x.min(axis=others), x.max(axis=others)


def _steps(xp: Namespace, low: Array, high: Array, lowest: int, highest: int) -> Array:
    """How many steps a number of 1 has: as many as both limits allow."""
    with np.errstate(divide="ignore", over="ignore"):
        above = xp.where(high > 0, highest / high, np.inf)
        below = xp.where(low < 0, lowest / low, np.inf) if lowest < 0 else np.inf
    return xp.minimum(above, below)
