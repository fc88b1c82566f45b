"""Variables of TensorFlow 1: an output of dtype `float_ref` stands for the variable, and for its value where one reads.

A variable of TensorFlow 2, of dtype `resource`, is a handle of aioflow as it is.
"""

import dataclasses
from typing import TypeAlias

from aioflow.graph.building import get_default_graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state.variables import read_variable


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """A variable, as ops that change it take it.

    Attributes:
        handle: the handle of the variable.
        value: the value of a read: the result of the change that it comes from; None for a read of its own.
        after: the change that a read of its own follows, if it has no result.
    """

    handle: Tensor
    value: Tensor | None = None
    after: Operation | None = None

    @property
    def operation(self) -> Operation:
        """The operation that gives it."""
        return self.after or (self.handle if self.value is None else self.value).op


Value: TypeAlias = Tensor | Reference | None
"""An output of a node; None for one that aioflow does not make."""


def value_of(found: Value) -> Tensor | None:
    """Return the tensor that an op reads."""
    if not isinstance(found, Reference):
        return found
    if found.value is not None:
        return found.value
    if found.after is None:
        return read_variable(found.handle)
    with get_default_graph().control_dependencies([found.after]):
        return read_variable(found.handle)


def handle_of(found: Value) -> Tensor:
    """Return the handle that an op changes. TypeError if it is no variable."""
    handle = found.handle if isinstance(found, Reference) else found
    if handle is None:
        raise TypeError("a variable is needed here")
    return handle
