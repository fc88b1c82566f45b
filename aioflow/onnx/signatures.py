"""The inputs that ONNX's definition of an operator asks for."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.onnx.call import Value
from aioflow.onnx.model import Node
from aioflow.onnx.optional_value import OptionalValue
from aioflow.onnx.protobuf import package, schema


def check_inputs(node: Node, version: int, inputs: Sequence[Value]) -> None:
    """ValueError if an input is missing, TypeError if a value is of another kind: tensor, sequence or optional."""
    found = schema(node.domain, node.type, version)
    formals = [] if found is None else found.inputs
    for place, formal in enumerate(formals):
        value = inputs[place] if place < len(inputs) else None
        single = formal.option == package().defs.OpSchema.FormalParameterOption.Single
        if single and not (place < len(node.inputs) and node.inputs[place]):
            raise ValueError(f"its input {formal.name!r} is missing")
        if value is not None:
            _check_kind(formal, value)


def _check_kind(formal: Any, value: Value) -> None:
    kinds = {kind for type in formal.types for kind in _kinds(type)}
    optional = isinstance(value, OptionalValue)
    given = "a tensor" if isinstance(value, Tensor) else "an optional" if optional else "a sequence"
    if given.split()[1] not in kinds:
        raise TypeError(f"its input {formal.name!r} must be a {' or '.join(sorted(kinds))}, and {given} is given")


def _kinds(type: str) -> Sequence[str]:
    """The kinds of values that a type of ONNX has; an optional may be known to have its value."""
    inner = "sequence" if "seq(" in type else "tensor"
    return (inner, "optional") if type.startswith("optional(") else (inner,)
