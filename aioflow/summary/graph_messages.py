"""Graphs as messages, which TensorBoard shows."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from aioflow.files.dtype_numbers import NUMBERS
from aioflow.files.message_wire import content, number
from aioflow.graph.operation import Operation
from aioflow.graph.subgraph import Body
from aioflow.kernels.data.node_messages import AttrValue, NodeDef, TensorShapeProto
from aioflow.tensors.dtypes import DType, Spec, TensorShape

_PRODUCER: Final = 22
"""The version of the format."""
_LONGEST: Final = 200
"""The most characters of an attribute's text."""


def to_graph_def(operations: Iterable[Operation]) -> bytes:
    """Return the operations as a GraphDef. The operations of a branch or loop are in a scope named after it."""
    nodes = [_node(operation, prefix) for operation, prefix in _with_bodies(operations, "")]
    return b"".join([content(1, node.SerializeToString()) for node in nodes]) + content(4, number(1, _PRODUCER))


def _with_bodies(operations: Iterable[Operation], prefix: str) -> Iterator[tuple[Operation, str]]:
    """Yield all operations and those in their bodies, each with the prefix of its name."""
    for operation in operations:
        yield operation, prefix
        for name, value in operation.attrs.items():
            if isinstance(value, Body):
                yield from _with_bodies(value.graph.get_operations(), f"{prefix}{operation.name}/{name}/")


def _node(operation: Operation, prefix: str) -> NodeDef:
    reads = [f"{prefix}{tensor.op.name}" + (f":{tensor.index}" if tensor.index else "") for tensor in operation.inputs]
    after = [f"^{prefix}{control.name}" for control in operation.control_inputs]
    shapes = AttrValue.ListValue(shape=[_shape(output.spec.shape) for output in operation.outputs])
    attributes = {name: _attribute(value) for name, value in operation.attrs.items() if not isinstance(value, Body)}
    attributes["_output_shapes"] = AttrValue(list=shapes)
    if operation.outputs:
        attributes["T"] = AttrValue(type=NUMBERS[operation.outputs[0].dtype])
    return NodeDef(
        name=prefix + operation.name, op=operation.type, input=[*reads, *after], device=operation.device,
        attr=attributes,
    )  # fmt: skip


def _shape(shape: TensorShape) -> TensorShapeProto:
    if shape.ndims is None:
        return TensorShapeProto(unknown_rank=True)
    sizes = [-1 if size is None else size for size in shape.as_list()]
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size) for size in sizes])


def _attribute(value: Any) -> AttrValue:
    """Return an attribute as its own kind if the format has it, else as text."""
    match value:
        case bool():
            return AttrValue(b=value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return AttrValue(i=value)
        case float():
            return AttrValue(f=value)
        case DType():
            return AttrValue(type=NUMBERS[value])
        case TensorShape():
            return AttrValue(shape=_shape(value))
        case np.ndarray():
            return AttrValue(s=f"{value.dtype.name} {list(value.shape)}".encode())
        case str() | bytes():
            return AttrValue(s=value.encode() if isinstance(value, str) else value)
        case Spec():
            return AttrValue(s=str(value).encode())
    return AttrValue(s=repr(value)[:_LONGEST].encode())
