"""The inputs that ONNX's definition of an operator asks for."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.onnx.call import Value
from aioflow.onnx.model import Node
from aioflow.onnx.protobuf import package, schema


def check_inputs(node: Node, version: int, inputs: Sequence[Value]) -> None:
    """ValueError if an input is missing, TypeError if a sequence is given for a tensor or a tensor for a sequence."""
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
    kinds = {"sequence" if "seq(" in type else "tensor" for type in formal.types}
    given = "tensor" if isinstance(value, Tensor) else "sequence"
    if given not in kinds:
        raise TypeError(f"its input {formal.name!r} is a {given}, and must be a {kinds.pop()}")
