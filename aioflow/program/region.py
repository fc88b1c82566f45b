"""A region: many nodes compiled into one coroutine."""

import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from aioflow.program.error_location import Finder, Found, Place, Placer
from aioflow.program.handles import Handle, Objects


class InnerRegion(Protocol):
    """A region that another one awaits."""

    @property
    def begin(self) -> Callable[..., Any]:
        """(context, *inputs) -> a coroutine of the outputs."""

    @property
    def is_linked(self) -> bool:
        """Whether it needs no object of a session."""

    def linked(self, objects: Objects) -> "InnerRegion":
        """The same code with the objects of a session."""

    def find(self, error: BaseException) -> Found | None:
        """Which node an error came from."""

    def computes(self, coroutine: Any) -> Place | None:
        """The node that a coroutine of it computes now."""


class Region(NamedTuple):
    """Compiled nodes.

    Attributes:
        begin: (context, *inputs) -> a coroutine of the outputs.
        find: which node an error came from.
        computes: finds the node that a coroutine of it computes now.
        handles: the names in its source that stand for objects of a session. It runs after it is linked with them.
        inner: the regions in it, by their names.
    """

    begin: Callable[..., Any]
    find: Finder
    computes: Placer
    handles: Mapping[str, Handle]
    inner: Mapping[str, InnerRegion]

    @property
    def is_linked(self) -> bool:
        """Whether it needs no object of a session."""
        return not self.handles and all(region.is_linked for region in self.inner.values())

    def linked(self, objects: Objects) -> "Region":
        """The same code with the objects of a session."""
        if self.is_linked:
            return self
        own = {name: objects[handle] for name, handle in self.handles.items()}
        own |= {name: region.linked(objects).begin for name, region in self.inner.items()}
        begin = self.begin
        return self._replace(begin=types.FunctionType(begin.__code__, {**begin.__globals__, **own}))
