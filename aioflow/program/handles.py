"""Handles in a program.

A program is assembled without the objects of a session, so that all sessions of a graph can share it. A `Handle` stands
for each object, such as the state of a variable, and linking replaces it.
"""

from collections.abc import Mapping
from typing import Any, Final

from aioflow import errors
from aioflow.graph.operation import describe_line
from aioflow.kernels.context import Context
from aioflow.program.fuse import Bound


class Handle:
    """Stands for the object of a session that a node without inputs finds by its name."""

    __slots__ = ("_bound",)

    def __init__(self, bound: Bound) -> None:
        self._bound: Final = bound

    def find(self, context: Context) -> Any:
        """The object in the containers of a session, made if it is missing. An error names the line of the handle."""
        bound = self._bound
        try:
            return bound.call(context) if bound.kernel.context else bound.call()
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
