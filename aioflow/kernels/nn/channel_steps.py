"""Steps that each take a few numbers for each channel, in one op, for numbers that stay the same from run to run.

Plans make it of normalisation with given statistics, products, sums and a rectifier. All of it is one factor and one
summand for each channel, kept for as long as the numbers are the same arrays. The kernel holds these arrays, and a held
value of a variable never changes. oneDNN computes large images; NumPy computes a block at a time, which stays in the
cache.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any, Final

import numpy as np

from aioflow.devices.onednn import library
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.kernels.families import CPU, GPU, elements
from aioflow.kernels.nn import onednn_channel_steps
from aioflow.kernels.nn.activation import Function, held
from aioflow.tensors.dtypes import Array, DType, Namespace, Spec, float32, float64

TAKES: Final = {"add": 1, "multiply": 1, "normalise": 4, "sum": 1, "relu": 0}
"""The steps, and how many inputs each takes.

`add` and `multiply` take a number for each channel; `normalise` takes scale, offset, mean and variance; `sum`, which
only follows a convolution, takes images of the same shape.
"""


WIDE: Final[frozenset[DType]] = frozenset({float32, float64})
"""The dtypes for which plans merge steps."""
BLOCK: Final = 256 << 10
"""Bytes that are computed at a time."""


def check_steps(steps: Sequence[str], count: int) -> None:
    """ValueError unless the steps take that many inputs."""
    if count != sum(TAKES[step] for step in steps):
        raise ValueError(f"the steps {', '.join(steps) or 'none'} do not take {count} inputs")


@op
def channel_steps(input: T, others: Sequence[T], steps: Sequence[str], epsilons: Sequence[float]) -> Spec:
    """`input` with channels last after the steps, which take `others` in order.

    `epsilons` has a number for each step that normalises.
    """
    check_steps(steps, len(others))
    return input.only(WIDE)


channel_steps.no_gradient("a plan makes it of operations that have gradients")


@channel_steps.cost
def _(inputs: Any, outputs: Any, attrs: Any) -> float:
    return 2 * elements(outputs[0])


@channel_steps.kernel(GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    steps, epsilons = node.attrs["steps"], node.attrs["epsilons"]
    return lambda x, others: stepped(xp, x, others, steps, epsilons)


@channel_steps.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return _Kernel(node)


class _Kernel:
    """The kernel of one node. `_kept` are arrays, and the factor and the summand that they make."""

    def __init__(self, node: NodeView) -> None:
        self._steps, self._epsilons = node.attrs["steps"], node.attrs["epsilons"]
        self._dtype = node.output_specs[0].dtype.np
        self._rectify = held(np, node.output_specs[0].dtype) if "relu" in self._steps else None
        self._lib = library() if node.output_specs[0].dtype is float32 else None
        self._kept: tuple[Sequence[Array], Array, Array] | None = None

    def __call__(self, x: Array, others: Sequence[Array]) -> Array:
        """`x` after the steps."""
        y = np.empty(x.shape, self._dtype)
        if not x.size:
            return y
        kept = self._kept
        if kept is None or not unchanged(kept[0], others):
            pair = folded(self._steps, self._epsilons, others, x.shape[-1])
            kept = self._kept = others, pair[0].astype(self._dtype), pair[1].astype(self._dtype)
        self._compute(x.reshape(-1, x.shape[-1]), y.reshape(-1, x.shape[-1]), *kept[1:])
        return y

    def _compute(self, x: Array, y: Array, factor: Array, summand: Array) -> None:
        if self._lib is not None and onednn_channel_steps.scale(self._lib, x, factor, summand, y):
            if self._rectify is not None:
                self._rectify(y, out=y)
            return
        step = max(1, BLOCK // (x.shape[-1] * x.itemsize))
        for first in range(0, len(x), step):
            self._compute_block(x[first : first + step], y[first : first + step], factor, summand)

    def _compute_block(self, x: Array, y: Array, factor: Array, summand: Array) -> None:
        np.multiply(x, factor, out=y)
        np.add(y, summand, out=y)
        if self._rectify is not None:
            self._rectify(y, out=y)


def folded(
    steps: Sequence[str], epsilons: Sequence[float], vectors: Sequence[Array], channels: int
) -> tuple[Array, Array]:
    """The steps for each channel as one factor and one summand, in float64."""
    factor, summand = np.ones(channels), np.zeros(channels)
    left, small = [vector.reshape(-1).astype(np.float64) for vector in vectors], list(epsilons)
    for step in steps:
        if step == "add":
            summand = summand + left.pop(0)
        elif step == "multiply":
            times = left.pop(0)
            factor, summand = factor * times, summand * times
        elif step == "normalise":
            scale, offset, mean, variance = (left.pop(0) for _ in range(4))
            times = scale / np.sqrt(variance + small.pop(0))
            factor, summand = factor * times, (summand - mean) * times + offset
    return factor, summand


def unchanged(before: Sequence[Array], now: Sequence[Array]) -> bool:
    """Whether these are the same arrays, or the same views of the same arrays, which a holder keeps from changing."""
    return all(map(is_, before, now)) or all(map(_same, before, now))


def _same(a: Array, b: Array) -> bool:
    if a is b:
        return True
    views = a.base is not None and a.base is b.base and a.shape == b.shape and a.strides == b.strides
    return views and a.__array_interface__["data"] == b.__array_interface__["data"]


def stepped(xp: Namespace, y: Array, others: Sequence[Array], steps: Sequence[str], epsilons: Sequence[float]) -> Array:
    """`y` after the steps, one by one."""
    left, small = list(others), list(epsilons)
    for step in steps:
        taken = [left.pop(0) for _ in range(TAKES[step])]
        y = _STEPS[step](xp, y, *taken, *([small.pop(0)] if step == "normalise" else ()))
    return y


def _normalise(
    xp: Namespace, y: Array, scale: Array, offset: Array, mean: Array, variance: Array, epsilon: float
) -> Array:
    factor = scale / xp.sqrt(variance + np.float32(epsilon))
    return y * factor + (offset - mean * factor)


_STEPS: Final[dict[str, Function]] = {
    "add": lambda xp, y, vector: y + vector.reshape(-1),
    "multiply": lambda xp, y, vector: y * vector.reshape(-1),
    "normalise": _normalise,
    "sum": lambda xp, y, images: y + images,
    "relu": lambda xp, y: xp.maximum(y, y.dtype.type(0)),
}
