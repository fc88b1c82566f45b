"""Makes one convolution in groups of a split of channels, a convolution of each piece, and their concatenation."""

from collections import Counter
from collections.abc import Sequence

from aioflow.devices import onednn
from aioflow.kernels.nn.fused_convolution import fused_conv2d
from aioflow.plan.passes.flow import Flow, Node, Replacement, Value, rewrite
from aioflow.tensors.dtypes import float32, normalise_axis


def group(flow: Flow) -> Flow:
    """Return the flow with such nodes merged, for images of float32 with channels last."""
    if not any(node.definition.name == "split" for node in flow.nodes) or not onednn.available():
        return flow
    reads = Counter([*flow.fetches, *[value for node in flow.nodes for value in node.inputs]])
    chosen = {node.name for node in flow.nodes if _joins_groups(node, reads) and not node.controls}
    return rewrite(flow, lambda node: _merged(node) if node.name in chosen else node) if chosen else flow


def _joins_groups(node: Node, reads: Counter[Value]) -> bool:
    if node.definition.name != "concat" or node.output_specs[0].rank != 4:
        return False
    if normalise_axis(node.attrs["axis"], 4) != 3 or not all(_is_alone(value, node, reads) for value in node.inputs):
        return False
    images, filters = ([value.node.inputs[place] for value in node.inputs] for place in (0, 1))
    pieces = [value.node.inputs[0] for value in filters if value.node.definition.name == "transpose"]
    turns = [value.node.attrs["perm"] for value in filters if value.node.definition.name == "transpose"]
    return (
        all(value.node.attrs == node.inputs[0].node.attrs for value in node.inputs)
        and _is_split(images, 3)
        and len(pieces) == len(filters)
        and all(turn is not None and tuple(turn) == (2, 3, 1, 0) for turn in turns)
        and _is_split(pieces, 0)
    )


def _is_alone(value: Value, node: Node, reads: Counter[Value]) -> bool:
    """Whether it is a convolution that nothing else reads or waits for."""
    made = value.node
    convolves = made.definition.name == "conv2d" and made.attrs["data_format"] == "NHWC"
    same_place = made.operation.device == node.operation.device
    return convolves and reads[value] == 1 and not made.controls and same_place and value.spec.dtype is float32


def _is_split(values: Sequence[Value], axis: int) -> bool:
    """Whether these are all pieces of a split along that axis, in order."""
    made = values[0].node
    if made.definition.name != "split" or made.controls or made.output_specs[0].rank is None:
        return False
    whole = list(values) == [Value(made, index) for index in range(len(made.output_specs))]
    return whole and normalise_axis(made.attrs["axis"], made.output_specs[0].rank) == axis


def _merged(node: Node) -> Replacement:
    first = node.inputs[0].node
    images, turned = first.inputs[0].node.inputs[0], first.inputs[1].node
    attrs = {name: first.attrs[name] for name in ("strides", "padding", "dilations")}
    attrs |= {
        "convolution": "conv2d",
        "groups": len(node.inputs),
        "steps": (),
        "epsilons": (),
        "kept": False,
        "blocked": False,
    }
    attrs["filter_axes"] = tuple(turned.attrs["perm"])
    inputs = images, turned.inputs[0].node.inputs[0]
    return Node(node.operation, fused_conv2d, node.name, inputs, (), attrs, node.output_specs)
