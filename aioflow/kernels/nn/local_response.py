"""Local response normalization [Krizhevsky 2012]: divides each channel by a power of its neighbours' energy."""

import functools
from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.families import SLOW, costs
from aioflow.kernels.math.arithmetic import pow
from aioflow.kernels.math.elementwise import square
from aioflow.kernels.nn import onednn_local_response
from aioflow.kernels.nn.activation import Function, wide
from aioflow.tensors.dtypes import FLOAT, Array, Namespace, Spec


@functools.lru_cache(maxsize=32)
def _band(channels: int, radius: int, dtype: Any) -> Array:
    """The matrix that sums, for each channel, those up to `radius` away."""
    places = np.arange(channels)
    made = (abs(places[:, None] - places) <= radius).astype(dtype)
    made.flags.writeable = False
    return made


def _summed(xp: Namespace, x: Array, radius: int) -> Array:
    return xp.matmul(x, xp.asarray(_band(x.shape[-1], radius, x.dtype)))


def _channels(input: Spec, radius: int) -> Spec:
    if input.rank == 0 or radius < 0:
        raise ValueError(
            f"it needs a depth_radius of at least 0 and an axis of channels, not {radius} and shape {input.shape}"
        )
    return input.only(FLOAT)


@op
def neighbour_sum(input: Spec, depth_radius: int) -> Spec:
    """For each element of the last axis, the sum of those up to `depth_radius` away."""
    return _channels(input, depth_radius)


@neighbour_sum.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return neighbour_sum(dy, op.attrs["depth_radius"])


@wide(neighbour_sum)
def _(xp: Namespace, node: NodeView) -> Function:
    radius = node.attrs["depth_radius"]
    return lambda x: _summed(xp, x, radius)


@op
def local_response_normalization(
    input: Spec, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Spec:
    """`input` / (bias + alpha * s) ** beta, where s sums the squares of the channels up to `depth_radius` away.

    Channels are the last axis.

    Examples:
        >>> await session.run(af.nn.local_response_normalization(af.ones([1, 1, 1, 3]), depth_radius=1)[0, 0, 0])
        array([0.57735026, 0.5       , 0.57735026], dtype=float32)
    """
    return _channels(input, depth_radius)


@local_response_normalization.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    radius, bias, alpha, beta = (op.attrs[name] for name in ("depth_radius", "bias", "alpha", "beta"))
    x, y = op.inputs[0], op.output
    base = neighbour_sum(square(x), radius) * alpha + bias
    dx: Tensor = dy * pow(base, -beta) - x * neighbour_sum(dy * y / base, radius) * (2 * alpha * beta)
    return dx


@wide(local_response_normalization)
def _normalised(xp: Namespace, node: NodeView) -> Function:
    radius, bias, alpha, beta = (node.attrs[name] for name in ("depth_radius", "bias", "alpha", "beta"))

    def compute(x: Array) -> Array:
        base = _summed(xp, x * x, radius)
        base *= alpha
        base += bias
        return x / _power(xp, base, beta)

    return compute


onednn_local_response.declare(local_response_normalization, _normalised)


def _power(xp: Namespace, x: Array, exponent: float) -> Array:
    """A power of numbers that may be overwritten; square roots are ten times as fast as the general one."""
    if exponent == 0.5:
        return xp.sqrt(x, out=x)
    if exponent == 0.75:
        root = xp.sqrt(x)
        return root * xp.sqrt(root)
    return xp.power(x, exponent, out=x)


costs(neighbour_sum, SLOW)
costs(local_response_normalization, 2 * SLOW)

lrn = local_response_normalization
