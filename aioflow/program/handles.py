"""Handles in a program.

A program is assembled without the objects of a session, so that all sessions of a graph can share it. A `Handle` stands
for each object, such as the state of a variable, and linking replaces it.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any, Final

from aioflow import errors
from aioflow.devices.memory import account_results
from aioflow.graph.kernel import Kernel
from aioflow.graph.operation import describe_line
from aioflow.kernels.context import Context
from aioflow.plan.allocation import guarded
from aioflow.plan.passes.flow import Node
from aioflow.plan.passes.liveness import shares_memory
from aioflow.program.fuse import Bound


class Handle(abc.ABC):
    """Stands for an object of a session."""

    __slots__ = ()

    @abc.abstractmethod
    def find(self, context: Context) -> Any:
        """The object of the session of this context."""


class AccountedKernel(Handle):
    """Stands for a kernel bound to a node, on a device whose ledger is charged for the results."""

    __slots__ = ("_call", "_kernel", "_node")

    def __init__(self, call: Callable[..., Any], kernel: Kernel, node: Node) -> None:
        self._call: Final = call
        self._kernel: Final = kernel
        self._node: Final = node

    def find(self, context: Context) -> Callable[..., Any]:
        """The kernel, charging the ledger of the context's device."""
        ledger = context.device.accounts
        assert ledger is not None
        call = guarded(self._call, self._node, self._kernel, ledger)
        if shares_memory(self._node):
            return call
        return account_results(call, ledger, self._node, asynchronous=self._kernel.asynchronous)


class ValueHandle(Handle):
    """Stands for the result of a node without inputs, such as the state that it finds by its name."""

    __slots__ = ("_bound",)

    def __init__(self, bound: Bound) -> None:
        self._bound: Final = bound

    def find(self, context: Context) -> Any:
        """The result in a session: state is made if it is missing. An error names the line of the node."""
        bound = self._bound
        try:
            call = bound.call.find(context) if isinstance(bound.call, Handle) else bound.call
            return call(context) if bound.kernel.context else call()
        except errors.OpError as error:
            node, device = bound.node, context.device
            raise error.at(
                node.name, node.definition.name, line=describe_line(node.operation),
                device=None if device is None else device.name, shapes=(),
            ) from None  # fmt: skip


Objects = Mapping[Handle, Any]
"""The objects of a session by their handles."""


def resolved(value: Any, objects: Objects) -> Any:
    """The object of a handle; any other value as it is."""
    return objects[value] if isinstance(value, Handle) else value
