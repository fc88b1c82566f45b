"""Computes on images with channels last what the graph computes with channels first.

All kernels of the CPU are fastest with channels last. A node with data_format="NCHW" becomes one with "NHWC" between
two transposes. A result with channels first then has a twin, the same with channels last. A node that treats all axes
alike takes the twins of its inputs, and its result has a twin, too; so only the first and the last transpose of a
network are left, which are views. Fetched values keep their layout.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aioflow.graph.op import REGISTRY
from aioflow.kernels.nn.channel_shuffle import channel_shuffle
from aioflow.kernels.nn.windows import FORMATS
from aioflow.plan.passes.flow import Flow, Node, Replacement, Value, in_blocks, rewrite
from aioflow.tensors.dtypes import normalise_axis

TO_LAST: Final = (0, 2, 3, 1)
"""The axes of images with channels first, in the order of those with channels last."""
TO_FIRST: Final = (0, 3, 1, 2)
_PLANE_TO_LAST: Final = (1, 2, 0)
_SWAP: Final = (0, 2, 1, 3, 4)
"""Swap groups of channels and places in the groups, where channels are first."""
_LAST, _FIRST = FORMATS[2]
_PER_AXIS: Final = ("ksize", "strides", "dilations", "padding")
"""Attributes that have a value for each axis, or are a word."""


class _Images(NamedTuple):
    """Which inputs and outputs of an op are images, and which input has their sizes."""

    inputs: tuple[int, ...] = (0,)
    outputs: tuple[int, ...] = (0,)
    sizes: int | None = None


_FORMATTED: Final[Mapping[str, _Images]] = {
    "conv2d": _Images(),
    "conv2d_backprop_input": _Images((2,), sizes=0),
    "conv2d_backprop_filter": _Images((0, 2), ()),
    "depthwise_conv2d_native": _Images(),
    "depthwise_conv2d_native_backprop_input": _Images((2,), sizes=0),
    "depthwise_conv2d_native_backprop_filter": _Images((0, 2), ()),
    "max_pool": _Images(),
    "max_pool_grad": _Images((0, 1, 2)),
    "avg_pool": _Images(),
    "avg_pool_grad": _Images((1,), sizes=0),
    "bias_add": _Images(),
    "bias_add_grad": _Images((0,), ()),
    "fused_batch_norm": _Images(),
    "fused_batch_norm_grad": _Images((0, 1)),
}
"""The ops with an attribute data_format."""
_REDUCTIONS: Final = frozenset({"reduce_mean", "reduce_sum", "reduce_max", "reduce_min"})


def channels_last(flow: Flow) -> Flow:
    """Return the flow with channels last on the way, in the blocks of branches and loops, too."""
    flow = in_blocks(flow, channels_last)
    if not any(node.attrs.get("data_format") == _FIRST and node.definition.name in _FORMATTED for node in flow.nodes):
        return flow
    return rewrite(flow, _Layout().visit)


class _Layout:
    """The rewriting of one flow. `twins` has the value with channels last for values with channels first."""

    def __init__(self) -> None:
        self._twins: dict[Value, Value] = {}

    def visit(self, node: Node) -> Replacement:
        """The node with channels last, if it can be, and its results as the graph has them."""
        name = node.definition.name
        if name in _FORMATTED:
            return self._formatted(node, _FORMATTED[name]) if node.attrs["data_format"] == _FIRST else node
        if name == "transpose":
            return self._transposed(node)
        if name == "reshape":
            return self._shuffled(node)
        if not any(value in self._twins for value in node.inputs) or node.controls:
            return node
        if node.definition.elementwise:
            return self._elementwise(node)
        if name in ("concat", "split"):
            return self._along_axis(node)
        return self._reduced(node) if name in _REDUCTIONS else node

    # Values

    def _last(self, value: Value) -> Value:
        """The images with channels last."""
        if value not in self._twins:
            self._twins[value] = _permuted(value, TO_LAST, "channels_last")
        return self._twins[value]

    def _results(self, node: Node, images: Sequence[int]) -> Replacement:
        """The results of a node with channels last, as the graph has them."""
        if not images:
            return node
        values = [Value(node, index) for index in range(len(node.output_specs))]
        for index in images:
            last = values[index]
            values[index] = _permuted(last, TO_FIRST, "channels_first")
            self._twins[values[index]] = last
        return tuple(values)

    # Nodes

    def _formatted(self, node: Node, images: _Images) -> Replacement:
        if any(node.inputs[place].spec.rank != len(TO_LAST) for place in images.inputs):
            return node
        inputs = list(node.inputs)
        if images.sizes is not None:
            sizes = node.constant(images.sizes)
            if sizes is None or len(sizes) != len(TO_LAST):
                return node
            made = inputs[images.sizes].node.as_constant(0, sizes[list(TO_LAST)], ())
            made.name = f"{node.name}.sizes_last"
            inputs[images.sizes] = Value(made, 0)
        for place in images.inputs:
            inputs[place] = self._last(inputs[place])
        return self._results(_changed(node, inputs, _attributes(node.attrs)), images.outputs)

    def _transposed(self, node: Node) -> Replacement:
        """A transpose between the layouts, which twins make superfluous."""
        perm, value = node.attrs["perm"], node.inputs[0]
        if perm is None or node.controls or node.attrs["conjugate"]:
            return node
        if tuple(perm) == TO_LAST and value in self._twins:
            return (self._twins[value],)
        if tuple(perm) == TO_FIRST:
            self._twins[Value(node, 0)] = value
        return node

    def _elementwise(self, node: Node) -> Replacement:
        given = [self._broadcast(value) for value in node.inputs]
        inputs = [value for value in given if value is not None]
        if len(inputs) < len(given) or any(spec.rank != len(TO_LAST) for spec in node.output_specs):
            return node
        return self._results(_changed(node, inputs, node.attrs), range(len(node.output_specs)))

    def _broadcast(self, value: Value) -> Value | None:
        """An operand as it is broadcast to images with channels last; None if it cannot be."""
        rank = value.spec.rank
        if rank == len(TO_LAST):
            return self._last(value)
        if rank == len(TO_LAST) - 1:
            if value not in self._twins:
                self._twins[value] = _permuted(value, _PLANE_TO_LAST, "channels_last")
            return self._twins[value]
        return value if rank == 0 else None

    def _along_axis(self, node: Node) -> Replacement:
        if any(spec.rank != len(TO_LAST) for spec in node.output_specs):
            return node
        axis = TO_LAST.index(normalise_axis(node.attrs["axis"], len(TO_LAST)))
        inputs = [self._last(value) for value in node.inputs]
        return self._results(_changed(node, inputs, {**node.attrs, "axis": axis}), range(len(node.output_specs)))

    def _reduced(self, node: Node) -> Replacement:
        """A reduction of height and width, whose result is a column for each image unless it keeps its axes."""
        axes = node.attrs["axis"]
        places = (axes,) if isinstance(axes, int) else axes
        if places is None or node.inputs[0].spec.rank != len(TO_LAST):
            return node
        if {normalise_axis(place, len(TO_LAST)) for place in places} != {2, 3}:
            return node
        made = _changed(node, [self._last(node.inputs[0])], {**node.attrs, "axis": (1, 2)})
        return self._results(made, (0,) if node.attrs["keepdims"] else ())

    def _shuffled(self, node: Node) -> Replacement:
        """The last reshape of a shuffle of channels: they are seen as groups, and groups and places are swapped."""
        swap = node.inputs[0].node
        if swap.definition.name != "transpose" or swap.attrs["perm"] is None or tuple(swap.attrs["perm"]) != _SWAP:
            return node
        split, whole = swap.inputs[0].node, node.output_specs[0].sizes
        if split.definition.name != "reshape" or whole is None or len(whole) != 4 or node.controls or swap.controls:
            return node
        source = split.inputs[0]
        if source not in self._twins or split.controls:
            return node
        (_, groups, each, *image), sizes = split.output_specs[0].sizes or (None,) * 5, source.spec.sizes or ()
        if groups is None or each is None or None in sizes[1:] or sizes[1:] != whole[1:]:
            return node
        if [groups * each, *image] != [*sizes[1:]]:
            return node
        return self._results(_shuffle(node, self._twins[source], groups), (0,))


def _shuffle(node: Node, images: Value, groups: int) -> Node:
    """The shuffle of the channels, which are last."""
    attrs = {"groups": groups}
    specs = channel_shuffle.infer([images.spec], attrs)
    return Node(node.operation, channel_shuffle, node.name, (images,), (), attrs, specs)


def _permuted(value: Value, perm: tuple[int, ...], what: str) -> Value:
    node, attrs = value.node, {"perm": perm, "conjugate": False}
    transpose = REGISTRY["transpose"]
    name = f"{node.name}.{value.index}.{what}"
    return Value(Node(node.operation, transpose, name, (value,), (), attrs, transpose.infer([value.spec], attrs)), 0)


def _changed(node: Node, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> Node:
    """The node with other inputs and attributes."""
    attributes = dict(attrs)
    specs = node.definition.infer([value.spec for value in inputs], attributes)
    return Node(node.operation, node.definition, node.name, tuple(inputs), node.controls, attributes, specs)


def _attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with a value for each axis in the order of the axes with channels last."""
    changed = {
        name: tuple([attrs[name][place] for place in TO_LAST])
        for name in _PER_AXIS
        if name in attrs and not isinstance(attrs[name], str)
    }
    return {**attrs, **changed, "data_format": _LAST}
