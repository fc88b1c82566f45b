"""Real numbers stored as integers of few bits, with the limits of the real numbers beside them; and back.

Three modes say which real number an integer stands for:

    MIN_COMBINED  the lowest integer is the lower limit, the highest the upper limit
    MIN_FIRST     the same with steps of whole multiples, so that 0 is stored exactly
    SCALED        a multiple of one step: 0 is stored as 0, and the limits are about symmetric

Integers of 8 and 16 bits are computed in float32, those of 32 bits in float64.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.kernels.families import CPU, GPU
from aioflow.tensors.dtypes import QUANTIZED_DTYPES, Array, DType, Namespace, Spec, bfloat16, float32

_MODES: Final = ("MIN_COMBINED", "MIN_FIRST", "SCALED")
_REAL: Final = frozenset((float32,))
_STORED: Final = frozenset((float32, bfloat16))


@dataclasses.dataclass(frozen=True)
class Store:
    """The integers that store real numbers, and how these are found.

    Attributes:
        dtype: the dtype of the integers.
        mode: which real number an integer stands for.
        narrow: whether the lowest integer is left out; for SCALED alone.
    """

    dtype: DType
    mode: str
    narrow: bool

    @property
    def lowest(self) -> int:
        """The lowest integer in use."""
        return int(self.dtype.min) + (self.narrow and self.mode == "SCALED")

    @property
    def highest(self) -> int:
        """The highest integer in use."""
        return int(self.dtype.max)

    @property
    def computes(self) -> type[np.floating[Any]]:
        """The type of the numbers in between."""
        return np.float32 if self.dtype.size < 4 else np.float64

    def steps(self, xp: Namespace, low: Array, high: Array) -> Array:
        """How many steps of the integers a real number of 1 has."""
        if self.mode != "SCALED":
            return self._count() / (high - low)
        with np.errstate(divide="ignore"):
            above = xp.where(high > 0, self.highest / high, np.inf)
            below = xp.where(low < 0, self.lowest / low, np.inf) if self.lowest < 0 else np.inf
        return xp.minimum(above, below).astype(low.dtype)

    def _count(self) -> int:
        return self.highest - self.lowest

    def size(self, xp: Namespace, low: Array, high: Array) -> Array:
        """The real number of one step of the integers."""
        if self.mode != "SCALED":
            return (high - low) / self._count()
        above = high / self.highest
        return xp.maximum(above, low / self.lowest) if self.lowest < 0 else above


@op
def quantize(
    input: T, min_range: T, max_range: T, dtype: DType, mode: str, half_to_even: bool, narrow_range: bool,
    axis: int | None, ensure_minimum_range: float,
) -> tuple[Spec, Spec, Spec]:  # fmt: skip
    """The integers of `dtype` that store `input`, and the limits that the lowest and the highest of these stand for."""
    _check(input.only(_REAL), min_range, max_range, Spec(dtype), mode, axis)
    if half_to_even and mode != "SCALED":
        raise ValueError(f"round_mode HALF_TO_EVEN is for mode SCALED, not for {mode}")
    if not ensure_minimum_range > 0:
        raise ValueError(f"ensure_minimum_range must be above 0, not {ensure_minimum_range}")
    return input.with_dtype(dtype), min_range, min_range


@op
def dequantize(
    input: Spec, min_range: T, max_range: T, mode: str, narrow_range: bool, axis: int | None, dtype: DType
) -> Spec:
    """The real numbers that `input` stores, of which the lowest and the highest possible are the limits."""
    _check(input, min_range.only(_REAL), max_range, input, mode, axis)
    if dtype not in _STORED:
        raise TypeError(f"the result is float32 or bfloat16, not {dtype.name}")
    return input.with_dtype(dtype)


def _check(x: Spec, low: Spec, high: Spec, stored: Spec, mode: str, axis: int | None) -> None:
    stored.only(QUANTIZED_DTYPES)
    if mode not in _MODES:
        raise ValueError(f"mode is one of {', '.join(_MODES)}, not {mode!r}")
    check_limits(x, low, high, axis)


def check_limits(x: Spec, low: Spec, high: Spec, axis: int | None) -> None:
    """ValueError unless the limits are scalars, or vectors with one for each place of `axis`."""
    low.same_dtype(high)
    for each, what in ((low, "the lower limit"), (high, "the upper limit")):
        each.with_rank(0 if axis is None else 1, what)
    if axis is not None and x.rank is not None:
        size = x.shape[x.axis(axis)]
        for each in (low, high):
            if not each.shape.is_compatible_with([size]):
                raise ValueError(f"limits of shape {each.shape} do not fit axis {axis} of shape {x.shape}")


quantize.no_gradient("integers do not vary smoothly; fake_quant_with_min_max_vars has a gradient")
dequantize.no_gradient("integers do not vary smoothly")


def _store(node: NodeView, dtype: DType) -> Store:
    return Store(dtype, node.attrs["mode"], node.attrs["narrow_range"])


def spread(limits: Array, rank: int, axis: int | None) -> Array:
    """Limits in the shape that broadcasts along `axis` of an array of that rank."""
    return limits if axis is None else limits.reshape([-1 if each == axis % rank else 1 for each in range(rank)])


def check_order(xp: Namespace, low: Array, high: Array, least: str, greatest: str) -> None:
    """Raise ValueError if limits of these names are out of order. A GPU would have to wait, so only a CPU checks."""
    if xp is np and (low > high).any():
        raise ValueError(f"{least} is above {greatest}: {low} and {high}")


@quantize.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., tuple[Array, Array, Array]]:
    store, axis = _store(node, node.output_specs[0].dtype), node.attrs["axis"]
    least, even = node.attrs["ensure_minimum_range"], node.attrs["half_to_even"]
    nearest = xp.rint if even else functools.partial(half_away, xp)

    def stored(x: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
        low, high = _widened(xp, low, high, least)
        if store.mode == "SCALED":
            low, high = _symmetric(xp, store, low, high)
        first, last = (spread(each.astype(store.computes), x.ndim, axis) for each in (low, high))
        return _integers(xp, store, xp.clip(x, first, last), first, last, nearest), low, high

    return stored


def _widened(xp: Namespace, low: Array, high: Array, least: float) -> tuple[Array, Array]:
    """The limits made to include 0, and as far apart as `least` of the greater of them and of 1."""
    check_order(xp, low, high, "min_range", "max_range")
    below = xp.minimum(low, 0).astype(low.dtype)
    apart = xp.maximum(1, xp.maximum(abs(low), abs(high))) * low.dtype.type(least)
    return below, xp.maximum(0, xp.maximum(high, below + apart)).astype(low.dtype)


def _symmetric(xp: Namespace, store: Store, low: Array, high: Array) -> tuple[Array, Array]:
    """The real numbers that the lowest and the highest integer stand for."""
    steps = store.steps(xp, low, high)
    return (store.lowest / steps).astype(low.dtype), (store.highest / steps).astype(low.dtype)


def _integers(
    xp: Namespace, store: Store, x: Array, low: Array, high: Array, nearest: Callable[[Array], Array]
) -> Array:
    steps = store.steps(xp, low, high)
    if store.mode == "SCALED":
        y = nearest(x * steps)
    elif store.mode == "MIN_FIRST":
        y = nearest(x * steps) - nearest(low * steps) + store.lowest
    else:
        y = nearest((x - low) * steps - (_half(store) if store.lowest else 0))
    with np.errstate(invalid="ignore"):
        return xp.clip(xp.where(xp.isnan(y), 0, y), store.lowest, store.highest).astype(store.dtype.np)


def _half(store: Store) -> int:
    """Half of the number of integers: what lies between an integer from 0 on and the same with a sign."""
    return (store.highest - store.lowest + 1) // 2


def half_away(xp: Namespace, x: Array) -> Array:
    """The nearest whole numbers, the one farther from 0 of two."""
    whole = xp.trunc(x)
    return whole + xp.sign(x) * (abs(x - whole) >= 0.5)


@dequantize.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    store, axis = _store(node, node.input_specs[0].dtype), node.attrs["axis"]
    dtype = node.output_specs[0].dtype.np

    def real(x: Array, low: Array, high: Array) -> Array:
        check_order(xp, low, high, "min_range", "max_range")
        first, last = (spread(each.astype(store.computes), x.ndim, axis) for each in (low, high))
        number, size = x.astype(store.computes), store.size(xp, first, last)
        if store.mode == "SCALED":
            return (number * size).astype(dtype)
        if store.mode == "MIN_FIRST":
            first = half_away(xp, first / size) * size
        return ((number - store.lowest) * size + first).astype(dtype)

    return real
