"""Normalisation of images by the statistics of channels, of instances, or of neighbouring channels."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.arithmetic import add, divide, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.division import divide_no_nan
from aioflow.kernels.math.elementwise import abs, rsqrt, sqrt, square
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.nn.layer_norm import layer_norm
from aioflow.kernels.nn.local_response import local_response_normalization
from aioflow.kernels.nn.normalisation import fused_batch_norm
from aioflow.library.nn_functions import moments
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import axis_of, rank_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float32


@operator("BatchNormalization")
def _(
    call: Call, x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    epsilon = call.number("epsilon", 1e-5)
    if not call.flag("training_mode"):
        return _stretched(x, scale, offset, mean, variance, epsilon)
    batch_mean, batch_variance = moments(x, [axis for axis in range(rank_of(x)) if axis != 1])
    keep = call.number("momentum", 0.9)
    running = [
        add(multiply(before, keep), multiply(cast(now, before.dtype), 1 - keep))
        for before, now in ((mean, batch_mean), (variance, batch_variance))
    ]
    return _stretched(x, scale, offset, batch_mean, batch_variance, epsilon), running[0], running[1]


def _stretched(x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, epsilon: float) -> Tensor:
    """`x` less the mean, divided by the deviation, with scale and offset: for each channel, the second axis."""
    same = {each.dtype for each in (scale, offset, mean, variance)} == {float32}
    if x.dtype is float32 and rank_of(x) == 4 and same:
        return fused_batch_norm(x, scale, offset, mean, variance, epsilon, "NCHW", is_training=False)[0]
    wide = float32 if x.dtype.size < 4 else x.dtype
    factor = divide(cast(scale, wide), sqrt(add(cast(variance, wide), epsilon)))
    shift = subtract(cast(offset, wide), multiply(cast(mean, wide), factor))
    return cast(add(multiply(cast(x, wide), by_channel(factor, x)), by_channel(shift, x)), x.dtype)


def by_channel(vector: Tensor, x: Tensor) -> Tensor:
    """A number for each channel, in a shape that broadcasts to that of images."""
    return reshape(vector, [-1] + [1] * (rank_of(x) - 2)) if rank_of(x) > 2 else vector


@operator("InstanceNormalization", since=6)
def _(call: Call, x: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    mean, variance = moments(x, list(range(2, rank_of(x))), keepdims=True)
    normal = divide(subtract(x, mean), sqrt(add(variance, call.number("epsilon", 1e-5))))
    return add(multiply(normal, by_channel(scale, x)), by_channel(offset, x))


@operator("LayerNormalization", since=17)
def _(call: Call, x: Tensor, scale: Tensor, offset: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`x` normalised over the axes from one on; the mean, and 1 divided by the deviation."""
    axis, epsilon = axis_of(call.integer("axis", -1), rank_of(x)), call.number("epsilon", 1e-5)
    wide = cast(x, float32) if call.integer("stash_type", 1) == 1 and x.dtype.size < 4 else x
    if wide is x and scale.shape == x.shape[axis:] and scale.shape.is_fully_defined():
        y, mean, variance = layer_norm(x, scale, zeros_like(scale) if offset is None else offset, epsilon)
        return y, mean, rsqrt(add(variance, epsilon))
    mean, variance = moments(wide, list(range(axis, rank_of(x))), keepdims=True)
    inverse = rsqrt(add(variance, epsilon))
    y = multiply(cast(multiply(subtract(wide, mean), inverse), x.dtype), scale)
    return y if offset is None else add(y, offset), mean, inverse


@operator("LRN")
def _(call: Call, x: Tensor) -> Tensor:
    size = call.integer("size")
    if size % 2 == 0:
        raise ValueError(f"the number of channels that a channel is compared with must be odd, not {size}")
    last = [0, *range(2, rank_of(x)), 1]
    back = [0, rank_of(x) - 1, *range(1, rank_of(x) - 1)]
    alpha, beta, bias = call.number("alpha", 1e-4), call.number("beta", 0.75), call.number("bias", 1.0)
    return transpose(local_response_normalization(transpose(x, last), size // 2, bias, alpha / size, beta), back)


@operator("LpNormalization")
def _(call: Call, x: Tensor) -> Tensor:
    axis = axis_of(call.integer("axis", -1), rank_of(x))
    if call.integer("p", 2) == 1:
        return divide_no_nan(x, reduce_sum(abs(x), axis, True))
    return divide_no_nan(x, sqrt(reduce_sum(square(x), axis, True)))
