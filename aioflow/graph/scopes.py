"""What surrounds the building of an operation: default graph, default session, names, devices, control inputs.

Everything here lives in context variables, so that two tasks or two threads that build graphs at the same time never
see each other's scopes. A task inherits the scopes it was created in; a thread starts with none.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from aioflow.tensors.recursion import shown

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph
    from aioflow.graph.operation import Operation

VALID_NAME: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/-]*")
_VALID_SCOPE: Final = re.compile(r"[A-Za-z0-9_.\\/-]*")

DeviceFunction = Callable[["Operation"], str]


@dataclasses.dataclass(frozen=True, slots=True)
class Controls:
    """One `control_dependencies` block: what it waits for, and the ids of operations built inside, which imply it."""

    operations: "tuple[Operation, ...]"
    inside: set[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of the next operation of one graph."""

    name: str = ""
    controls: tuple[Controls, ...] = ()
    devices: "tuple[str | DeviceFunction, ...]" = ()
    container: str = ""
    colocation: tuple[str, ...] = ()
    gradient_overrides: Mapping[str, str] = dataclasses.field(default_factory=dict)
    origin: "Operation | None" = None
    """The forward operation whose gradient is being built."""


class Runner(Protocol):
    """What `Tensor.eval` and `Operation.run` need of a session."""

    async def run(self, fetches: Any, feeds: Any = None) -> Any:
        """Compute the fetches."""


OUTSIDE: Final = Scope()
_scopes: ContextVar[Mapping["Graph", Scope]] = ContextVar("aioflow_scopes", default={})  # noqa: B039 (never mutated)
innermost_graph: ContextVar["Graph | None"] = ContextVar("aioflow_default_graph", default=None)
default_session: ContextVar[Runner | None] = ContextVar("aioflow_default_session", default=None)


def scope_of(graph: "Graph") -> Scope:
    """The surroundings of the next operation of `graph` in this task."""
    return _scopes.get().get(graph, OUTSIDE)


@contextlib.contextmanager
def changed(graph: "Graph", **changes: Any) -> Iterator[Scope]:
    """Inside the block, `graph`'s scope has these fields."""
    scope = dataclasses.replace(scope_of(graph), **changes)
    token = _scopes.set({**_scopes.get(), graph: scope})
    try:
        yield scope
    finally:
        _scopes.reset(token)


@contextlib.contextmanager
def default_graph(graph: "Graph") -> "Iterator[Graph]":
    """Inside the block, `graph` is the default graph of this task."""
    token = innermost_graph.set(graph)
    try:
        yield graph
    finally:
        innermost_graph.reset(token)


def current_session() -> Runner:
    """The innermost session that this task has entered or made its default. ValueError if there is none."""
    session = default_session.get()
    if session is None:
        raise ValueError(
            "no default session: use `async with af.Session()` or `with session.as_default():` around this, or call "
            "session.run(...)"
        )
    return session


def enter_session(session: Runner, outer: Runner | None) -> Runner | None:
    """Make it the default session of this task. Returns the former one; `outer` if it is the default already."""
    before = default_session.get()
    default_session.set(session)
    return outer if before is session else before


def leave_session(session: Runner, outer: Runner | None) -> None:
    """Make `outer` the default session again, unless `session` is not the default.

    Sessions may be left in any order and task.
    """
    if default_session.get() is session:
        default_session.set(outer)


def enters_again(name: str) -> bool:
    """Whether the name re-enters an existing scope: it ends with a slash. TypeError if it is no text."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a name scope must be text, not {shown(name)}")
    return name.endswith("/")


def check_scope_name(name: str, outer: str) -> None:
    """ValueError if `name` cannot be a name scope inside `outer`."""
    valid = _VALID_SCOPE if outer else VALID_NAME
    if valid.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a valid scope name: letters, digits and _ . \\ - / only")
