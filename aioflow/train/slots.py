"""Slots: variables that an optimizer keeps for a variable, with its shape, device and container."""

from collections.abc import Callable
from typing import Any

from aioflow.graph import scopes
from aioflow.graph.convert import TensorLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.fill import fill, zeros_like
from aioflow.library.variables import Variable


def create_slot(
    primary: Variable, val: TensorLike | Callable[[], TensorLike], name: str, colocate_with_primary: bool = True
) -> Variable:
    """Return a variable named `primary/name` with the initial value `val`, a value or a function that returns one."""
    graph = primary.graph
    home = (primary.op.name,) if colocate_with_primary else ()
    place = {"colocation": home, "devices": ()} if colocate_with_primary else {}
    container = primary.op.attrs["container"]
    with graph.as_default(), scopes.change_scope(graph, name="", controls=(), container=container, **place):
        return Variable(
            val, trainable=False, validate_shape=primary.shape.is_fully_defined(), name=f"{primary.op.name}/{name}"
        )


def create_zeros_slot(primary: Variable, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Variable:
    """Return a variable named `primary/name` with the shape of `primary` and zeros."""
    return create_slot(primary, lambda: filled(primary, 0, dtype), name, colocate_with_primary)


def filled(primary: Variable, value: float, dtype: Any = None) -> Tensor:
    """Return a tensor of that number with the shape of `primary`."""
    number = constant(value, dtype or primary.dtype)
    if primary.shape.is_fully_defined():
        return fill(primary.shape.as_list(), number)
    zeros: Tensor = zeros_like(primary.initialized_value(), number.dtype)
    return zeros + number
