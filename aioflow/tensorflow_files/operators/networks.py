"""Products of matrices, convolution, pooling, normalisation, losses, and sizes of images."""

from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.image.resize import resize_area, resize_bicubic, resize_bilinear, resize_nearest_neighbor
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.products import einsum
from aioflow.kernels.nn.activation import bias_add, leaky_relu
from aioflow.kernels.nn.convolution import conv2d, conv2d_backprop_input
from aioflow.kernels.nn.convolution_nd import conv3d
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.kernels.nn.local_response import lrn
from aioflow.kernels.nn.normalisation import fused_batch_norm
from aioflow.kernels.nn.pooling import avg_pool, avg_pool3d, max_pool, max_pool3d
from aioflow.tensorflow_files.call import Call
from aioflow.tensorflow_files.registry import Build, operator, same

same("Cholesky=cholesky MatrixDeterminant=matrix_determinant")


@operator("MatMul")
def _(call: Call, a: Tensor, b: Tensor) -> Tensor:
    return matmul(a, b, call.flag("transpose_a", False), call.flag("transpose_b", False), name=call.name)


@operator("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _(call: Call, a: Tensor, b: Tensor) -> Tensor:
    adjoint = {"adjoint_a": call.flag("adj_x", False), "adjoint_b": call.flag("adj_y", False)}
    return matmul(a, b, **adjoint, name=call.name)


@operator("Einsum")
def _(call: Call, *inputs: Tensor) -> Tensor:
    return einsum(call.text("equation"), *inputs, name=call.name)


@operator("BiasAdd")
def _(call: Call, value: Tensor, bias: Tensor) -> Tensor:
    return bias_add(value, bias, call.text("data_format", "NHWC"), name=call.name)


@operator("BiasAddV1")
def _(call: Call, value: Tensor, bias: Tensor) -> Tensor:
    return bias_add(value, bias, name=call.name)


@operator("LeakyRelu")
def _(call: Call, features: Tensor) -> Tensor:
    return leaky_relu(features, call.number("alpha", 0.2), name=call.name)


# Windows


def padding(call: Call) -> Any:
    """SAME, VALID, or the numbers of pixels before and after each axis."""
    given = call.text("padding")
    pairs = call.integers("explicit_paddings", [])
    return [pairs[i : i + 2] for i in range(0, len(pairs), 2)] if given == "EXPLICIT" else given


def windows(call: Call, axes: int = 2) -> dict[str, Any]:
    """The arguments that all convolutions have."""
    layout = "NHWC" if axes == 2 else "NDHWC"
    return {
        "strides": call.integers("strides"), "padding": padding(call), "name": call.name,
        "data_format": call.text("data_format", layout), "dilations": call.integers("dilations", [1] * (axes + 2)),
    }  # fmt: skip


@operator("Conv2D")
def _(call: Call, images: Tensor, weights: Tensor) -> Tensor:
    return conv2d(images, weights, **windows(call))


@operator("Conv3D")
def _(call: Call, images: Tensor, weights: Tensor) -> Tensor:
    return conv3d(images, weights, **windows(call, 3))


@operator("DepthwiseConv2dNative")
def _(call: Call, images: Tensor, weights: Tensor) -> Tensor:
    return depthwise_conv2d_native(images, weights, **windows(call))


@operator("Conv2DBackpropInput")
def _(call: Call, sizes: Tensor, weights: Tensor, images: Tensor) -> Tensor:
    return conv2d_backprop_input(sizes, weights, images, **windows(call))


def _pooling(pool: Any, layout: str) -> Build:
    def build(call: Call, images: Tensor) -> Tensor:
        windows = call.integers("ksize"), call.integers("strides"), padding(call)
        made: Tensor = pool(images, *windows, data_format=call.text("data_format", layout), name=call.name)
        return made

    return build


operator("MaxPool")(_pooling(max_pool, "NHWC"))
operator("AvgPool")(_pooling(avg_pool, "NHWC"))
operator("MaxPool3D")(_pooling(max_pool3d, "NDHWC"))
operator("AvgPool3D")(_pooling(avg_pool3d, "NDHWC"))


@operator(
    "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3",
    results="y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3",
)  # fmt: skip
def _(
    call: Call, x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor
) -> tuple[Tensor | None, ...]:
    training = call.flag("is_training", True)
    layout, epsilon = call.text("data_format", "NHWC"), call.number("epsilon", 0.0001)
    before = (None, None) if training else (mean, variance)
    made = fused_batch_norm(x, scale, offset, before[0], before[1], epsilon, layout, training)
    return *made, None, None, None


@operator("LRN")
def _(call: Call, x: Tensor) -> Tensor:
    numbers = call.number("bias", 1.0), call.number("alpha", 1.0), call.number("beta", 0.5)
    return lrn(x, call.integer("depth_radius", 5), *numbers, name=call.name)


# Losses

same("SoftmaxCrossEntropyWithLogits=softmax_cross_entropy_with_logits")
same("SparseSoftmaxCrossEntropyWithLogits=sparse_softmax_cross_entropy_with_logits")


# Sizes of images


def _resize(function: Any) -> Build:
    def build(call: Call, images: Tensor, size: Tensor) -> Tensor:
        corners = call.flag("align_corners", False), call.flag("half_pixel_centers", False)
        made: Tensor = function(images, size, align_corners=corners[0], half_pixel_centers=corners[1], name=call.name)
        return made

    return build


operator("ResizeBilinear")(_resize(resize_bilinear))
operator("ResizeNearestNeighbor")(_resize(resize_nearest_neighbor))
operator("ResizeBicubic")(_resize(resize_bicubic))


@operator("ResizeArea")
def _(call: Call, images: Tensor, size: Tensor) -> Tensor:
    return resize_area(images, size, call.flag("align_corners", False), name=call.name)
