"""One tensor or operation of a graph."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aioflow.notebook.card import card, facts, lines, more
from aioflow.notebook.markup import Markup, joined
from aioflow.notebook.scopes import names
from aioflow.tensors.recursion import short_repr

if TYPE_CHECKING:
    from aioflow.graph.operation import Operation, Tensor

_MOST: Final = 20
"""Inputs, results or attributes that are shown."""


def tensor_html(tensor: "Tensor", line: str) -> str:
    """A tensor, its operation, and the operations that take it.

    Args:
        tensor: the tensor.
        line: the user's line that built it.
    """
    rows = [
        ("dtype", tensor.dtype.name),
        ("shape", str(tensor.shape)),
        ("result of", f"{tensor.op.name} ({tensor.op.type})"),
        ("taken by", names(operation.name for operation in tensor.consumers())),
        ("device", tensor.device),
        ("built at", line),
    ]
    return card(tensor.name, facts(rows), note="Tensor")


def operation_html(operation: "Operation", line: str) -> str:
    """An operation, its inputs, results and attributes.

    Args:
        operation: the operation.
        line: the user's line that built it.
    """
    rows = [
        ("type", operation.type),
        ("inputs", _tensors(operation.inputs)),
        ("runs after", names(each.name for each in operation.control_inputs)),
        ("results", _tensors(operation.outputs)),
        ("attributes", lines([f"{name} = {short_repr(value)}" for name, value in operation.attrs.items()][:_MOST])),
        ("device", operation.device),
        ("built at", line),
    ]
    return card(operation.name, facts(rows), note="Operation")


def _tensors(tensors: "Sequence[Tensor]") -> Markup:
    """Tensors with their dtypes and shapes, below each other."""
    shown = [f"{tensor.name}  {tensor.spec}" for tensor in tensors[:_MOST]]
    return joined([lines(shown), more(len(tensors) - _MOST, "tensors")])
