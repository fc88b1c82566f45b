"""A convolution and the steps after it in one node, mostly for weights that stay the same from run to run.

Plans make it of neighbours. The steps for each channel become part of the filter and of one bias, the sum with other
images and the rectifier part of the convolution, so the images are written once.

The rectifier within it gives NaN for -inf, where `relu` by itself gives 0: see `onednn_fused_convolution`.
"""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import REGISTRY, Op, T, op
from aioflow.graph.operation import Tensor
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.nn import onednn_fused_convolution
from aioflow.kernels.nn.activation import Function
from aioflow.kernels.nn.channel_steps import WIDE, check_steps, stepped
from aioflow.tensors.dtypes import Array, DeviceKind, Namespace, Spec


@op
def fused_conv2d(
    input: T,
    filter: T,
    others: Sequence[T],
    steps: Sequence[str],
    epsilons: Sequence[float],
    convolution: str,
    groups: int,
    strides: Any,
    padding: Any,
    dilations: Any,
    filter_axes: Any = None,
    kept: bool = True,
    blocked: bool = False,
) -> Spec:
    """`convolution` of `input` with channels last, and then the steps, which take `others` in order.

    `filter_axes` are the axes of `filter` in the order in which `convolution` takes them; None if that is theirs.
    `kept` says that `filter` and the numbers for each channel stay the same for as long as they are the same arrays.
    `blocked` says that nodes on the same images are its neighbours, which oneDNN computes in blocks of channels.
    `groups` divides the channels of `input` and the outputs of `filter`; each group is convolved alone. `epsilons` has
    a number for each step that normalises.
    """
    check_steps(steps, len(others))
    input.only(WIDE)
    part = input.with_rank(4, "input") if groups == 1 else _group(input, groups)
    window = _turned(filter, filter_axes)
    convolved: Spec = REGISTRY[convolution].rule(part, window, strides, padding, "NHWC", dilations)
    return convolved


def _turned(filter: Spec, axes: Sequence[int] | None) -> Spec:
    """The filter with its axes in that order."""
    if axes is None:
        return filter
    sizes = filter.with_rank(len(axes), "filter").sizes or ()
    return filter.with_shape(tuple([sizes[axis] for axis in axes]))


def _group(input: Spec, groups: int) -> Spec:
    """One group of the channels. ValueError if they cannot be divided so."""
    *image, channels = input.with_rank(4, "input").sizes or ()
    if channels is not None and channels % groups:
        raise ValueError(f"{channels} channels cannot be divided into {groups} groups")
    return input.with_shape((*image, None if channels is None else channels // groups))


fused_conv2d.no_gradient("a plan makes it of operations that have gradients")


@fused_conv2d.cost
def _(inputs: Any, outputs: Any, attrs: Any) -> float:
    rule = REGISTRY[attrs["convolution"]].cost_rule
    assert rule is not None
    return rule([inputs[0], _turned(inputs[1], attrs["filter_axes"])], outputs, attrs)


@fused_conv2d.kernel(CPU, GPU, fresh=True, binds=True)
def _plain(xp: Namespace, node: NodeView) -> Function:
    convolve, axes = _convolution(xp, node), node.attrs["filter_axes"]
    steps, epsilons = node.attrs["steps"], node.attrs["epsilons"]

    def compute(x: Array, window: Array, others: Sequence[Array]) -> Array:
        turned = window if axes is None else window.transpose(axes)
        return stepped(xp, convolve(x, turned), others, steps, epsilons)

    return compute


class _Convolution:
    """The node as one that only convolves."""

    def __init__(self, node: NodeView) -> None:
        window = _turned(node.input_specs[1], node.attrs["filter_axes"])
        self.name, self.output_specs, self.input_specs = node.name, node.output_specs, (node.input_specs[0], window)
        names = ("strides", "padding", "dilations")
        self.attrs = {**{name: node.attrs[name] for name in names}, "data_format": "NHWC"}
        self.constant = node.constant


def _convolution(xp: Namespace, node: NodeView) -> Function:
    one, groups = _one_group(xp, node), node.attrs["groups"]
    if groups == 1:
        return one

    def compute(x: Array, window: Array) -> Array:
        pairs = zip(xp.split(x, groups, -1), xp.split(window, groups, -1), strict=True)
        return xp.concatenate([one(*pair) for pair in pairs], -1)

    return compute


def _one_group(xp: Namespace, node: NodeView) -> Function:
    made: Op[Tensor] = REGISTRY[node.attrs["convolution"]]
    kind = DeviceKind.CPU if xp.__name__ == "numpy" else DeviceKind.GPU
    alone = _Convolution(node)
    chosen = made.kernel_for(kind, alone.input_specs)
    assert chosen is not None
    return chosen.bind(made, alone, xp)


onednn_fused_convolution.declare(fused_conv2d, _plain)
