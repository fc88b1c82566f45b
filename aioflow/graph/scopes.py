"""The scopes in which operations are built: default graph, names, devices, control inputs.

Scopes are context variables, so two tasks or threads that build graphs at the same time never see each other's scopes.
A task inherits the scopes in which it was created; a thread starts with none.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.recursion import safe_repr

G = TypeVar("G")

VALID_NAME: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/-]*")
_VALID_SCOPE: Final = re.compile(r"[A-Za-z0-9_.\\/-]*")

DeviceFunction = Callable[[Operation], str]


@dataclasses.dataclass(frozen=True, slots=True)
class ControlBlock:
    """One `control_dependencies` block: its control inputs, and the ids of the operations built inside."""

    operations: tuple[Operation, ...]
    inside: set[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """The scope settings for the next operation of one graph."""

    name: str = ""
    controls: tuple[ControlBlock, ...] = ()
    devices: tuple[str | DeviceFunction, ...] = ()
    container: str = ""
    colocation: tuple[str, ...] = ()
    gradient_overrides: Mapping[str, str] = dataclasses.field(default_factory=dict)
    origin: Operation | None = None
    """The forward operation whose gradient is being built."""


OUTSIDE: Final = Scope()
_scopes: ContextVar[Mapping[Hashable, Scope]] = ContextVar("aioflow_scopes", default={})  # noqa: B039 (never mutated)
innermost_graph: ContextVar[Any] = ContextVar("aioflow_default_graph", default=None)


def scope_of(graph: Hashable) -> Scope:
    """Return the scope settings for the next operation of `graph` in this task."""
    return _scopes.get().get(graph, OUTSIDE)


@contextlib.contextmanager
def change_scope(graph: Hashable, **changes: Any) -> Iterator[Scope]:
    """Change these fields of the scope of `graph` inside the block."""
    scope = dataclasses.replace(scope_of(graph), **changes)
    token = _scopes.set({**_scopes.get(), graph: scope})
    try:
        yield scope
    finally:
        _scopes.reset(token)


@contextlib.contextmanager
def default_graph(graph: G) -> Iterator[G]:
    """Make `graph` the default graph of this task inside the block."""
    token = innermost_graph.set(graph)
    try:
        yield graph
    finally:
        innermost_graph.reset(token)


def reenters_scope(name: str) -> bool:
    """Whether the name ends with a slash and so re-enters an existing scope. TypeError if it is not text."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a name scope must be text, not {safe_repr(name)}")
    return name.endswith("/")


def check_scope_name(name: str, outer: str) -> None:
    """Raise ValueError if `name` cannot be a name scope inside `outer`."""
    valid = _VALID_SCOPE if outer else VALID_NAME
    if valid.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a valid scope name: letters, digits and _ . \\ - / only")


def control_inputs(blocks: tuple[ControlBlock, ...], inputs: tuple[Tensor, ...]) -> tuple[Operation, ...]:
    """Return the control inputs of the blocks, except of blocks in which one of the inputs was built."""
    made_by = {tensor.op.id for tensor in inputs}
    wanted = (op for block in blocks if made_by.isdisjoint(block.inside) for op in block.operations)
    return tuple([op for op in dict.fromkeys(wanted) if op.id not in made_by])
