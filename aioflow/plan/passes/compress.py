"""Inserts the nodes that encode and decode lossy transfers between devices [P15 section 5.5].

A tensor marked by `lossy` uses its codec. Other tensors use the codec of the session's Config, which applies only to
float32 and float64, and never to a value that is, or may be, a single number: it might decide or count something.
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
"""Ops that pass on their first input."""


class Compression:
    """The codecs that the Config of a session sets for unmarked edges."""

    def __init__(self, setting: Setting = None, container: str = "") -> None:
        self._codecs = edge_codecs(setting)
        self.container: Final = container
        """The container of the residuals."""

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
    """Return the nodes that encode a value on its device. The output of the last one is sent."""
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
