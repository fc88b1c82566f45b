"""Critical sections: parts of a graph that run in one step at a time."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from aioflow.graph import scopes
from aioflow.graph.building import get_default_graph, graph_to_build_in, transactional
from aioflow.graph.composed import Composed
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.graph.subgraph import bodies_of, outermost_source
from aioflow.kernels.state import variables
from aioflow.kernels.state.variables import variable
from aioflow.library.control import with_dependencies
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors import dtypes, nest

EXECUTIONS: Final = "critical_section_executions"
"""The graph's collection of executions of sections."""


@dataclasses.dataclass(frozen=True, slots=True)
class Execution:
    """One execution: its section, the variables that it uses, and whether it wants exclusive use of them."""

    section: str
    resources: frozenset[Operation]
    exclusive: bool


class CriticalSection:
    """A lock for operations of a graph: of all steps of all sessions that share it, one runs at a time.

        section = af.CriticalSection()
        count = section.execute(lambda: counter.assign_add(1))

    Waiting for the lock uses no thread; waiters get the lock in order. It is released when the result of `fn` is done,
    and also if the step fails, times out or is cancelled. Within a step, executions of one section run in the order
    they were built.

    Args:
        name: the name of the section; `CriticalSection` by default.
        shared_name: sections of this name share one lock, in sessions that share their container.
        critical_section_def: for compatibility; must be None.
        import_scope: for compatibility.

    Examples:
        >>> state = af.Variable(0)
        >>> await session.run(state.initializer)
        >>> section = af.CriticalSection()
        >>> await session.run(section.execute(lambda: state.assign_add(1)))
        np.int32(1)
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if critical_section_def is not None:
            raise ValueError("a CriticalSection is made by name, not from a critical_section_def")
        graph = get_default_graph()
        container, chosen = scopes.scope_of(graph).container, name or "CriticalSection"
        with graph.transaction(), graph.control_dependencies(None), graph.name_scope(chosen) as scope:
            self._handle: Final = variable(dtypes.bool_, dtypes.SCALAR, container, shared_name or "", name=scope)

    @property
    def name(self) -> str:
        """The name of the operation that is its handle."""
        return self._handle.op.name

    @property
    def graph(self) -> Graph:
        """The graph of the section."""
        return self._handle.graph

    def execute(self, fn: Callable[[], Any], exclusive_resource_access: bool = True, name: str | None = None) -> Any:
        """Return the result of `fn()`, computed by operations that run while the lock is held.

        `fn` is called once, now, and builds the operations. Tensors from outside that it uses are computed before the
        lock is acquired. Reads of variables in it see the updates of earlier holders of the lock.

        Args:
            fn: returns a tensor, an operation, or a nested structure of these.
            exclusive_resource_access: whether it is an error if operations under another section use the same
                variables.
            name: the name scope of the operations.

        Raises:
            ValueError: `fn` executes this section again, or another section with its shared name; it returns nothing;
                or it uses variables to which another section has exclusive access. The graph is unchanged.
        """
        if not callable(fn):
            raise TypeError(f"fn must be a function without arguments, not {fn!r}")
        with graph_to_build_in(self.graph).as_default():
            return _execute(self._handle, fn, exclusive_resource_access, name or "critical_section_execute")

    def __repr__(self) -> str:
        return f"<af.CriticalSection {self.name!r}>"


@transactional
def _execute(handle: Tensor, fn: Callable[[], Any], exclusive: bool, name: str) -> Any:
    graph = graph_to_build_in(handle.graph)
    with graph.name_scope(name):
        with graph.colocate_with(handle, ignore_existing=True):
            ticket = variables.variable_lock_ticket(handle, handle.op.attrs["container"], name="ticket")
            keep = variables.keep_variable_lock(ticket, name="keep")  # built, and so begun, before the lock is acquired
            lock = variables.acquire_variable_lock(handle, ticket, name="acquire")
        before = graph.version
        with graph.control_dependencies([lock]):
            result = nest.map_structure(_element, fn())
        body = graph.get_operations()[before:]
        _arguments_first(lock, body)
        _check_resources(handle, body, exclusive)
        leaves = [leaf for leaf in nest.flatten(result) if leaf is not None]
        if not leaves:
            raise ValueError("fn returned None: it must return the tensors and operations to run")
        with graph.colocate_with(handle, ignore_existing=True), graph.control_dependencies(leaves):
            release = variables.release_variable_lock(handle, ticket, name="release")
        return nest.map_structure(lambda leaf: _after([release, keep], leaf), result)


def _arguments_first(lock: Operation, body: Sequence[Operation]) -> None:
    """Acquire the lock after the inputs of the body are available, since computing them may need the lock itself."""
    inside = {lock, *body}
    needed = [source for op in body for source in (*[tensor.op for tensor in op.inputs], *op.control_inputs)]
    outside = [source for source in needed if source not in inside and source.type != "variable"]
    lock.control_inputs = tuple(dict.fromkeys([*lock.control_inputs, *outside]))


def _check_resources(handle: Tensor, body: Sequence[Operation], exclusive: bool) -> None:
    """Raise ValueError for a section inside itself, and for shared variables if a section wants exclusive access."""
    inner = next((held for held in _acquired_locks(body) if _lock_of(held) == _lock_of(handle)), None)
    if inner is not None:
        other = "" if inner.op is outermost_source(handle).op else f", by {inner.op.name!r}, which shares its lock"
        raise ValueError(f"critical section {handle.op.name!r} is executed inside itself{other}: it would never end")
    used = frozenset([tensor.op for op in body for tensor in op.inputs if tensor.op.type == "variable"])
    mine = handle.op.attrs["shared_name"] or handle.op.name
    for other in handle.graph.get_collection(EXECUTIONS):
        shared = sorted(op.name for op in used & other.resources)
        if shared and other.section != mine and (exclusive or other.exclusive):
            raise ValueError(
                f"critical sections {mine!r} and {other.section!r} both use {', '.join(shared)}: execute both with "
                "exclusive_resource_access=False if that is intended"
            )
    handle.graph.add_to_collection(EXECUTIONS, Execution(mine, used, exclusive))


def _acquired_locks(operations: Sequence[Operation]) -> Iterator[Tensor]:
    """Yield the handles of the locks that these operations acquire, also inside branches and loops."""
    for op in operations:
        if op.type == "acquire_variable_lock":
            yield outermost_source(op.inputs[0])
        for body in bodies_of(op):
            given = {made: op.inputs[place] for made, place in zip(body.arguments, body.takes, strict=True)}
            for handle in _acquired_locks(body.graph.get_operations()):
                yield outermost_source(given.get(handle, handle))


def _lock_of(handle: Tensor) -> tuple[str, str]:
    """Return the container and the name that identify a lock in a session."""
    made = outermost_source(handle).op
    return made.attrs["container"], made.attrs["shared_name"] or made.name


# Structures


def _element(value: Any) -> Any:
    kept = value is None or isinstance(value, (Tensor, Operation, IndexedSlices, Composed))
    return value if kept else convert_to_tensor(value)


def _after(dependencies: Sequence[Operation], leaf: Any) -> Any:
    if leaf is None:
        return None
    if isinstance(leaf, SparseTensor):
        return SparseTensor(leaf.indices, with_dependencies(dependencies, leaf.values), leaf.dense_shape)
    if isinstance(leaf, RaggedTensor):
        return leaf.with_flat_values(with_dependencies(dependencies, leaf.flat_values))
    return with_dependencies(dependencies, leaf)
