"""Which values cross from device to device in a lossy form, and the nodes that make it and undo it [P15 section 5.5].

A tensor marked by `lossy` goes in the form it was marked with. All others go as the session's Config says, which leaves
alone whatever might decide or count something: all but float32 and float64, and what is, or may be, a single number.
"""

from collections.abc import Mapping
from typing import Final

from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.op import REGISTRY
from aioflow.kernels.control.lossy import LOSSY
from aioflow.plan.passes.flow import Node, Value
from aioflow.tensors.codecs import Codec, edge_codecs

Setting = str | Mapping[str, str] | None
"""A codec for all edges between devices, or one for those between `devices` of one task and one between `workers`."""
_HANDS_ON: Final = frozenset({"identity", "switch", "enter"})
"""What only hands on its first input."""


class Compression:
    """What a session's Config says of edges that nothing else is said of."""

    def __init__(self, setting: Setting = None, container: str = "") -> None:
        self._codecs = edge_codecs(setting)
        self.container: Final = container
        """Where it is kept what was left out."""

    def codec_for(self, value: Value, source: str, target: str) -> Codec | None:
        """The form in which the value goes from one device to another, both named in full; None: as it is."""
        if value.spec.dtype not in LOSSY:
            return None
        marked = _mark(value)
        if marked is not None:
            return marked
        decides = value.spec.rank in (None, 0)
        return None if decides else self._codecs.get("devices" if same_task(source, target) else "workers")


def _mark(value: Value) -> Codec | None:
    node = value.node
    while node.definition.name in _HANDS_ON:
        node = node.inputs[0].node
    return Codec.parse(node.attrs["codec"]) if node.definition.name == "lossy" else None


def same_task(source: str, target: str) -> bool:
    """Whether two devices, named in full, are of one task."""
    a, b = DeviceSpec.from_string(source), DeviceSpec.from_string(target)
    return (a.job, a.replica, a.task) == (b.job, b.replica, b.task)


def encoding(value: Value, codec: Codec, source: str, container: str) -> list[Node]:
    """The nodes that make that form of a value on its device; the last one's output is what is sent, to whomever."""
    name = f"{_name(value)} as {codec}"
    if codec.name != "top_k":
        return [_node(value, "lossy_encode", name, (value,), codec=str(codec))]
    attrs = {"container": container, "shared_name": f"{name} on {source}"}
    handle = _node(value, "lossy_residual", f"{name}, left out", (), **attrs)
    return [handle, _node(value, "lossy_encode_top_k", name, (value, Value(handle, 0)), keep=codec.keep)]


def decoding(received: Value, value: Value, codec: Codec, source: str, target: str) -> Node:
    """The node whose output stands for the value where its form was received."""
    name = f"{_name(value)} of {codec} on {target}"
    attrs = {"dtype": value.spec.dtype, "shape": value.spec.shape, "edge": f"{_name(value)} from {source} to {target}"}
    return _node(value, "lossy_decode", name, (received,), codec=str(codec), **attrs)


def _name(value: Value) -> str:
    return f"{value.node.name}:{value.index}"


def _node(value: Value, op: str, name: str, inputs: tuple[Value, ...], **attrs: object) -> Node:
    definition = REGISTRY[op]
    specs = definition.infer([each.spec for each in inputs], attrs)
    return Node(value.node.operation, definition, name, inputs, (), attrs, specs)
