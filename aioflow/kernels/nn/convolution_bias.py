"""Convolution and bias in one pass over the images: plans fuse `conv2d` and `bias_add` to it."""

from typing import Any

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.nn import onednn_convolution
from aioflow.kernels.nn.activation import Function, bias_add, bias_add_grad
from aioflow.kernels.nn.convolution import convolved_sizes, image_convolution
from aioflow.tensors.dtypes import Array, Namespace, Spec

_conv2d = image_convolution.forward


@op
def conv2d_with_bias(
    input: T,
    filter: T,
    bias: T,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
) -> Spec:
    """The result of `conv2d` with `bias`, one number per channel, added."""
    convolved: Spec = _conv2d.rule(input, filter, strides, padding, data_format, dilations)
    added: Spec = bias_add.rule(convolved, bias, data_format)
    return added


@conv2d_with_bias.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, window, _ = op.inputs
    dx, dwindow = image_convolution.gradients(x, window, dy, **op.attrs)
    return dx, dwindow, bias_add_grad(dy, op.attrs["data_format"])


@conv2d_with_bias.cost
def _(inputs: Any, outputs: Any, attrs: Any) -> float:
    assert _conv2d.cost_rule is not None
    return _conv2d.cost_rule(inputs, outputs, attrs)


@conv2d_with_bias.kernel(CPU, GPU, fresh=True, binds=True)
def _plain(xp: Namespace, node: NodeView) -> Function:
    numbers, first = CPU if xp.__name__ == "numpy" else GPU, node.attrs["data_format"] == "NCHW"
    chosen = _conv2d.kernel_for(numbers, node.input_specs[:2])
    assert chosen is not None
    convolve = chosen.bind(_conv2d, node, xp)

    def compute(x: Array, window: Array, bias: Array) -> Array:
        y = convolve(x, window)
        if bias.shape != (window.shape[-1],):
            raise ValueError(f"bias of shape {list(bias.shape)} does not fit {window.shape[-1]} channels")
        return xp.add(y, bias[:, None, None] if first else bias, out=y)

    return compute


_optimised = onednn_convolution.Kernels(2, convolved_sizes)
_optimised.declare(conv2d_with_bias, _optimised.forward_with_bias, _plain)
