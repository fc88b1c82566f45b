"""Merges nodes on images that one kernel computes together, where nothing else reads between them.

With weights that stay the same, steps for each channel, a sum with other images and a rectifier join a convolution;
else a bias alone does. A normalisation, the steps for each channel after it and a rectifier become one node, too.
Weights stay the same if they are constants, or are read from variables that the flow does not change, or are views of
such.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from aioflow.devices import onednn
from aioflow.kernels.nn.channel_steps import TAKES, channel_steps
from aioflow.kernels.nn.convolution import conv2d_with_bias
from aioflow.kernels.nn.fused_convolution import fused_conv2d
from aioflow.plan.passes.flow import Flow, Node, Replacement, Value, rewrite
from aioflow.tensors.dtypes import float32

_CONVOLUTIONS: Final = frozenset({"conv2d", "depthwise_conv2d_native", "fused_conv2d"})
_FIRST: Final = _CONVOLUTIONS | {"fused_batch_norm"}
_VIEWS: Final = frozenset({"transpose", "reshape", "expand_dims", "squeeze", "split", "identity"})
"""Ops whose result is the same view of the same array in each run."""
_SAME_ORDER: Final = _VIEWS - {"split"}
"""Those that leave the elements of a vector in order."""
_CONVOLVE, _NORMALISE = "convolve", "normalise alone"
"""The first steps of a chain."""
_SUMS: Final[Mapping[str, str]] = {"bias_add": "add", "add": "add", "multiply": "multiply"}
"""The step that a node with a number for each channel is."""


def contract(flow: Flow) -> Flow:
    """Return the flow with such neighbours merged."""
    if not any(node.definition.name in _FIRST for node in flow.nodes) or not onednn.available():
        return flow
    steps = _Steps(flow)
    found = {node.name: step for node in flow.nodes if (step := steps.step(node)) is not None}
    return rewrite(flow, lambda node: _merged(node, *found[node.name]) if node.name in found else node)


class _Steps:
    """Finds the steps after the convolutions of a flow, each after those before it."""

    def __init__(self, flow: Flow) -> None:
        self._reads = Counter([*flow.fetches, *[value for node in flow.nodes for value in node.inputs]])
        self._targets = frozenset(flow.targets)
        self._still = _still(flow)
        self._chains: dict[Node, tuple[str, ...]] = {}
        """The steps up to each node that nothing follows as yet."""

    def step(self, node: Node) -> tuple[str, int] | None:
        """The step that the node is, and which input is the convolved images; None if it is none."""
        name = node.definition.name
        if name in _CONVOLUTIONS:
            if self._is_still(node.inputs[1]) and _is_last(node) and node.inputs[0].spec.dtype is float32:
                self._chains[node] = (_CONVOLVE,)
                return _CONVOLVE, 0
            return None
        for place in range(min(len(node.inputs), 2)):
            found = self._step_of(node, place)
            if found is not None:
                return found, place
        if name == "fused_batch_norm" and not node.controls and self._normalises(node):
            self._chains[node] = (_NORMALISE,)
            return _NORMALISE, 0
        return None

    def _step_of(self, node: Node, place: int) -> str | None:
        images = node.inputs[place]
        if not self._is_free(node, images):
            return None
        chain = self._chains.get(images.node)
        if chain is None:
            return "bias" if images.node.definition.name == "conv2d" and place == 0 and _adds_bias(node) else None
        step = self._next(node, place, chain)
        if step is not None:
            self._chains[node] = (*chain, step)
            del self._chains[images.node]
        return step

    def _is_free(self, node: Node, images: Value) -> bool:
        """Whether both may become one node: nothing else reads between them, or waits for one of them."""
        made = images.node
        alone = self._reads[images] == 1 and images.index == 0 and made not in self._targets
        return alone and not node.controls and not made.controls and made.operation.device == node.operation.device

    def _next(self, node: Node, place: int, chain: tuple[str, ...]) -> str | None:
        name = node.definition.name
        if "relu" in chain:
            return None
        if name == "relu":
            return "relu"
        if "sum" in chain:
            return None
        others = [value for at, value in enumerate(node.inputs) if at != place]
        if name == "fused_batch_norm":
            return "normalise" if self._normalises(node) else None
        if name in _SUMS and _per_channel(node, node.inputs[place], others[0]) and self._is_still(others[0]):
            return _SUMS[name]
        if name != "add" or chain[0] != _CONVOLVE or others[0] == node.inputs[place]:
            return None
        return "sum" if others[0].spec.sizes == node.inputs[place].spec.sizes else None

    def _normalises(self, node: Node) -> bool:
        """Whether it normalises with given numbers that stay the same, and only its images are read."""
        unread = not any(self._reads[Value(node, index)] for index in range(1, len(node.output_specs)))
        given = unread and not node.attrs["is_training"] and node.inputs[0].spec.dtype is float32
        images, *vectors = node.inputs
        fit = all(vector.spec.rank == 1 and _per_channel(node, images, vector) for vector in vectors)
        return given and fit and _is_last(node) and all(map(self._is_still, vectors))

    def _is_still(self, value: Value) -> bool:
        return value.node in self._still


def _still(flow: Flow) -> set[Node]:
    """The nodes whose values are the same arrays, or the same views of such, from run to run.

    None in a flow that computes gradients of filters: such weights change, though another step may change them.
    """
    if any(node.definition.name.endswith("_backprop_filter") for node in flow.nodes):
        return set()
    changed = {value.node for node in flow.nodes if node.has_effect for value in node.inputs}
    found: set[Node] = set()
    for node in flow.nodes:
        name = node.definition.name
        reads = name == "read_variable" and node.inputs[0].node not in changed
        views = name in _VIEWS and all(value.node in found for value in node.inputs)
        if name == "constant" or reads or views:
            found.add(node)
    return found


def _is_last(node: Node) -> bool:
    return bool(node.attrs.get("data_format", "NHWC") == "NHWC")


def _adds_bias(node: Node) -> bool:
    """Whether it adds a number to each channel of a convolution."""
    if node.definition.name not in ("bias_add", "add"):
        return False
    images, bias = node.inputs
    if images.spec.dtype is not float32:
        return False
    layout = images.node.attrs["data_format"]
    if node.definition.name == "bias_add":
        return bool(layout == (node.attrs["data_format"] or "NHWC"))
    return layout == "NHWC" and bias.spec.rank == 1 and _per_channel(node, images, bias)


def _per_channel(node: Node, images: Value, vector: Value) -> bool:
    """Whether the vector has a number for each channel, and is broadcast to images with channels last."""
    sizes, channels = vector.spec.sizes, (images.spec.sizes or (None,))[-1]
    if node.definition.name == "bias_add" and node.attrs["data_format"] not in (None, "NHWC"):
        return False
    if not sizes or channels is None or len(sizes) > 4:
        return False
    return sizes == (*[1] * (len(sizes) - 1), channels)


def _merged(node: Node, step: str, place: int) -> Replacement:
    if step == _CONVOLVE:
        return _convolving(node)
    if step == _NORMALISE:
        attrs: dict[str, Any] = {"steps": ("normalise",), "epsilons": (node.attrs["epsilon"],)}
        return Node(node.operation, channel_steps, node.name, node.inputs, (), attrs, node.output_specs[:1])
    made = node.inputs[place].node
    others = [value for at, value in enumerate(node.inputs) if at != place]
    if step == "bias":
        inputs = (*made.inputs, *others)
        return Node(node.operation, conv2d_with_bias, node.name, inputs, (), made.attrs, node.output_specs)
    attrs = {**made.attrs, "steps": (*made.attrs["steps"], step)}
    if step == "normalise":
        attrs["epsilons"] = (*attrs["epsilons"], node.attrs["epsilon"])
    taken = others[: TAKES[step]] if step == "sum" else map(_vector, others[: TAKES[step]])
    inputs = (*made.inputs, *taken)
    return Node(node.operation, made.definition, node.name, inputs, (), attrs, node.output_specs[:1])


def _convolving(node: Node) -> Node:
    """A convolution with kept weights, without steps as yet."""
    attrs: dict[str, Any]
    if node.definition is fused_conv2d:
        attrs = {**node.attrs, "kept": True}
        return Node(node.operation, fused_conv2d, node.name, node.inputs, node.controls, attrs, node.output_specs)
    attrs = {name: node.attrs[name] for name in ("strides", "padding", "dilations")}
    attrs |= {
        "convolution": node.definition.name,
        "groups": 1,
        "steps": (),
        "epsilons": (),
        "kept": True,
        "blocked": False,
    }
    images, filter = node.inputs
    turned = _turned(filter)
    attrs["filter_axes"], source = (None, filter) if turned is None else turned
    return Node(node.operation, fused_conv2d, node.name, (images, source), node.controls, attrs, node.output_specs)


def _turned(filter: Value) -> tuple[tuple[int, ...], Value] | None:
    """The order of axes and the filter of which this is the transpose; None if it is none."""
    view = filter.node
    if view.definition.name != "transpose" or view.attrs["perm"] is None or view.controls or view.attrs["conjugate"]:
        return None
    return tuple(view.attrs["perm"]), view.inputs[0]


def _vector(value: Value) -> Value:
    """The vector that a view with a number for each channel shows, which is one array from run to run."""
    source = value
    while source.node.definition.name in _SAME_ORDER and not source.node.controls and _is_column(source):
        source = source.node.inputs[0]
    return source if source.spec.rank == 1 else value


def _is_column(value: Value) -> bool:
    """Whether one axis at most is longer than 1."""
    return sum(size != 1 for size in value.spec.sizes or (None, None)) <= 1
