"""Merges neighbours that one optimised kernel computes together: a convolution and its bias."""

from collections import Counter

from aioflow.devices import onednn
from aioflow.kernels.nn.convolution_bias import conv2d_with_bias
from aioflow.plan.passes.flow import Flow, Node, Replacement, Value, rewrite
from aioflow.tensors.dtypes import float32


def contract(flow: Flow) -> Flow:
    """Return the flow with such neighbours merged, if no other node reads the value between them."""
    if not any(node.definition.name == "conv2d" for node in flow.nodes) or not onednn.available():
        return flow
    reads = Counter([*flow.fetches, *[value for node in flow.nodes for value in node.inputs]])
    chosen = {node.name for node in flow.nodes if _adds_bias(node) and reads[node.inputs[0]] == 1}
    return rewrite(flow, lambda node: _contracted(node) if node.name in chosen else node) if chosen else flow


def _adds_bias(node: Node) -> bool:
    """Whether it adds a number to each channel of a convolution, on the same device, and both are free to move."""
    if node.definition.name not in ("bias_add", "add") or node.controls:
        return False
    images, bias = node.inputs
    made = images.node
    if made.definition.name != "conv2d" or made.controls or images.spec.dtype is not float32:
        return False
    if made.operation.device != node.operation.device:
        return False
    layout = made.attrs["data_format"]
    if node.definition.name == "bias_add":
        return bool(layout == (node.attrs["data_format"] or "NHWC"))
    return layout == "NHWC" and _per_channel(images, bias)


def _per_channel(images: Value, bias: Value) -> bool:
    sizes = images.spec.sizes
    return bias.spec.rank == 1 and sizes is not None and sizes[-1] is not None and bias.spec.sizes == (sizes[-1],)


def _contracted(node: Node) -> Replacement:
    images, bias = node.inputs
    made, inputs = images.node, (*images.node.inputs, bias)
    return Node(node.operation, conv2d_with_bias, node.name, inputs, (), made.attrs, node.output_specs)
