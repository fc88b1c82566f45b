"""The gradients of ops, as TensorFlow's graphs of trainings have them."""

from typing import Any

from aioflow.autodiff.gradients import gradients
from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import fill
from aioflow.kernels.array.ranges import range as range_of
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims, size, squeeze
from aioflow.kernels.array.slicing import strided_slice
from aioflow.kernels.math.arithmetic import add_n, maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.nn.activation import bias_add_grad, leaky_relu_grad
from aioflow.kernels.nn.convolution import conv2d_backprop_filter
from aioflow.tensorflow_files.call import Call, known_list
from aioflow.tensorflow_files.operators.arrays import strided_masks
from aioflow.tensorflow_files.operators.networks import padding, windows
from aioflow.tensorflow_files.registry import Build, operator, same

same("ReluGrad=relu_grad Relu6Grad=relu6_grad EluGrad=elu_grad SeluGrad=selu_grad SoftplusGrad=softplus_grad")


@operator("LeakyReluGrad")
def _(call: Call, gradients: Tensor, features: Tensor) -> Tensor:
    return leaky_relu_grad(gradients, features, call.number("alpha", 0.2), name=call.name)


@operator("TanhGrad")
def _(call: Call, y: Tensor, dy: Tensor) -> Tensor:
    return dy * (1 - y * y)


@operator("SigmoidGrad")
def _(call: Call, y: Tensor, dy: Tensor) -> Tensor:
    return dy * y * (1 - y)


@operator("SqrtGrad")
def _(call: Call, y: Tensor, dy: Tensor) -> Tensor:
    return dy * 0.5 / y


@operator("RsqrtGrad")
def _(call: Call, y: Tensor, dy: Tensor) -> Tensor:
    return dy * -0.5 * (y * y * y)


@operator("InvGrad", "ReciprocalGrad")
def _(call: Call, y: Tensor, dy: Tensor) -> Tensor:
    return -dy * y * y


# Layers of networks


@operator("BiasAddGrad")
def _(call: Call, gradients: Tensor) -> Tensor:
    return bias_add_grad(gradients, call.text("data_format", "NHWC"), name=call.name)


@operator("Conv2DBackpropFilter")
def _(call: Call, images: Tensor, sizes: Tensor, gradients: Tensor) -> Tensor:
    return conv2d_backprop_filter(images, sizes, gradients, **windows(call))


def _pooling(name: str) -> Build:
    def build(call: Call, *inputs: Tensor) -> Tensor:
        numbers = call.integers("ksize"), call.integers("strides"), padding(call)
        made: Tensor = REGISTRY[name](*inputs, *numbers, call.text("data_format", "NHWC"), name=call.name)
        return made

    return build


operator("MaxPoolGrad")(_pooling("max_pool_grad"))
operator("AvgPoolGrad")(_pooling("avg_pool_grad"))


# Shapes


@operator("BroadcastGradientArgs", results="r0 r1")
def _(call: Call, s0: Tensor, s1: Tensor) -> tuple[Tensor, Tensor]:
    return _repeated(s0, s1), _repeated(s1, s0)


def _repeated(own: Tensor, other: Tensor) -> Tensor:
    """The axes along which a tensor of one shape is repeated beside another: where its size is 1, or missing."""
    missing = maximum(size(other) - size(own), 0)
    ones = fill(expand_dims(missing, 0), cast(1, own.dtype))
    return cast(squeeze(where(equal(concat([ones, own], 0), 1)), [1]), own.dtype)


@operator("StridedSliceGrad")
def _(call: Call, sizes: Tensor, begin: Tensor, end: Tensor, strides: Tensor, dy: Tensor) -> Tensor | None:
    x = fill(sizes, cast(0, dy.dtype))
    y = strided_slice(x, begin, end, known_list(strides, "strides"), **strided_masks(call), name=None)
    (found,) = gradients(y, [x], [dy])
    return found if isinstance(found, Tensor) else None


@operator("ConcatOffset", results="offset*")
def _(call: Call, axis: Tensor, *shapes: Tensor) -> tuple[Any, ...]:
    """Where each of several tensors begins in the one that they are joined to."""
    along = cast(equal(range_of(size(shapes[0])), axis), shapes[0].dtype)
    begins = [along * 0, *[along * add_n(shapes[:count]) for count in range(1, len(shapes))]]
    return tuple(begins)
