"""Operators that are defined by nodes: by a model's own functions, or by ONNX's definition of the operator."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.onnx.model import Function, GraphBody, Node, Reference
from aioflow.onnx.protobuf import newest_version, package, schema
from aioflow.onnx.reading import Reader
from aioflow.onnx.storage import Storage
from aioflow.onnx.tensors import NUMBERS


def has_definition(domain: str, type: str, version: int) -> bool:
    """Whether ONNX defines the operator by nodes."""
    found = schema(domain, type, version)
    return found is not None and (found.has_function or found.has_context_dependent_function)


def definition(node: Node, version: int, inputs: Sequence[Any]) -> Function:
    """ONNX's own definition of the node's operator, which may depend on its attributes and on dtypes."""
    found = schema(node.domain, node.type, version)
    reader = Reader(Storage())
    message = package().FunctionProto()
    if found.has_function:
        message.CopyFrom(found.function_body)
    else:
        text = found.get_context_dependent_function_with_opset_version(
            _version_of_definition(found, version),
            _message(node).SerializeToString(),
            [_type(value).SerializeToString() for value in inputs],
        )
        if not text:
            raise errors.UnimplementedError(f"ONNX does not define {node.operator} by nodes for these inputs")
        message.ParseFromString(text)
    function = reader.function(message)
    newest = {"": newest_version("") or version}
    opsets = function.opsets if "" in function.opsets else {**newest, **function.opsets}
    return dataclasses.replace(function, attributes={**function.attributes, **_defaults(found)}, opsets=opsets)


def _version_of_definition(found: Any, version: int) -> int:
    """The newest version up to that of the model in which ONNX states a definition that depends on inputs.

    The definition holds until the next one, but the package gives it for exactly its own version.
    """
    return max([each for each in found.context_dependent_function_opset_versions if each <= version], default=version)


def _defaults(found: Any) -> dict[str, Any]:
    reader = Reader(Storage())
    return {
        name: reader.attribute(each.default_value) if each.default_value.type else None
        for name, each in found.attributes.items()
    }


def _message(node: Node) -> Any:
    """The node as a message again."""
    helper = package().helper
    message = helper.make_node(node.type, node.inputs, node.outputs, node.name, domain=node.domain)
    for name, value in node.attributes.items():
        message.attribute.append(helper.make_attribute(name, _given(value)))
    return message


def _given(value: Any) -> Any:
    if isinstance(value, GraphBody):
        return value.message
    return package().numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _type(value: Any) -> Any:
    helper = package().helper
    if not isinstance(value, Tensor):
        return package().TypeProto()
    sizes = value.spec.sizes
    return helper.make_tensor_type_proto(NUMBERS[value.dtype], None if sizes is None else list(sizes))


def bound(nodes: Sequence[Node], attributes: Mapping[str, Any]) -> list[Node]:
    """The nodes of a function with the values of its attributes; an attribute without a value is left out."""
    return [dataclasses.replace(node, attributes=dict(_bound(node.attributes, attributes))) for node in nodes]


def _bound(own: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in own.items():
        if isinstance(value, GraphBody):
            yield name, dataclasses.replace(value, nodes=bound(value.nodes, given))
        elif not isinstance(value, Reference):
            yield name, value
        elif given.get(value.name) is not None:
            yield name, given[value.name]
