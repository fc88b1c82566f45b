"""The graph: operations in the order they were built, and the scopes in which they are built.

A graph only grows. Adding is thread-safe and transactional: if a construction raises, the graph is unchanged.
"""

import contextlib
import functools
import itertools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from aioflow.graph import scopes
from aioflow.graph.device_spec import DeviceSpec, check_device
from aioflow.graph.memo import Memo
from aioflow.graph.operation import Attrs, Operation, Tensor, items_of, user_line
from aioflow.graph.scopes import ControlBlock, DeviceFunction, Scope, scope_of
from aioflow.lazy import Registry
from aioflow.tensors.dtypes import Spec
from aioflow.tensors.recursion import safe_repr

P = ParamSpec("P")
R = TypeVar("R")

_BUILT_AT: Final = "\n  built at: "


class Definition(Protocol):
    """The part of an op that a graph uses; see `op.Op`."""

    name: str


METHODS: Final[Registry[Callable[..., Any]]] = Registry("aioflow.graph")
"""{method name: function} for methods of Graph that later modules implement; these fill it at import."""

_graph_ids = itertools.count()


class Graph:
    """A computation, described by operations in the order they were built.

    Any number of tasks and threads may add to it and run it at the same time. `planning_work` is an estimate of the
    time to plan it; `marks` counts the calls of `prevent_feeding` and `prevent_fetching`; `memo` has what planning has
    found out about calls.

    Examples:
        >>> graph = af.Graph()
        >>> with graph.as_default():
        ...     total = af.add(1, 2, name="total")
        >>> [operation.name for operation in graph.get_operations()]
        ['constant', 'constant_1', 'total']
    """

    def __init__(self) -> None:
        self.key: Final[int] = next(_graph_ids)
        self.seed: int | None = None
        self._operations: list[Operation] = []
        self.planning_work: int = 0
        self.memo: Final = Memo()
        self._by_name: dict[str, Operation] = {}
        self._used: dict[str, int] = {}
        self._collections: dict[str, list[Any]] = {}
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()
        self.marks: int = 0
        self._lock = threading.RLock()
        self._journals: list[list[Callable[[], object]]] = []
        self._finalized = False

    # Reading

    @property
    def version(self) -> int:
        """The number of operations, which grows with every addition."""
        return len(self._operations)

    @property
    def finalized(self) -> bool:
        """Whether `finalize` was called."""
        return self._finalized

    def get_operations(self) -> list[Operation]:
        """Return all operations in the order they were built."""
        return list(self._operations)

    def get_operation_by_name(self, name: str) -> Operation:
        """Return the operation of that name. KeyError if there is none."""
        element = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(element, Operation)
        return element

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor `op:index`. KeyError if there is none, ValueError if the name has another form."""
        element = self.as_graph_element(name, allow_operation=False)
        assert isinstance(element, Tensor)
        return element

    def as_graph_element(
        self, value: object, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """Return the tensor or operation for `value`: an element, a name, or an object with `_as_graph_element`.

        Raises:
            KeyError: the graph has no such name.
            ValueError: the element belongs to another graph, or a name is malformed.
            TypeError: the value stands for neither, or for the kind that is not allowed.
        """
        stands_for = getattr(value, "_as_graph_element", None)
        element = stands_for() if stands_for is not None else value
        if isinstance(element, (str, bytes)):
            name = element if isinstance(element, str) else element.decode()
            return self._by_text(name, allow_tensor, allow_operation)
        if not isinstance(element, (Tensor, Operation)):
            raise TypeError(f"{safe_repr(value)} of type {type(value).__name__} is neither a tensor nor an operation")
        if element.graph is not self or (element.op if isinstance(element, Tensor) else element).id < 0:
            inside = element.graph is not self and element.graph.root is self
            mend = ": it is inside a branch or loop, which must return it" if inside else ""
            raise ValueError(f"{element!r} is not an element of this graph{mend}")
        if not (allow_tensor if isinstance(element, Tensor) else allow_operation):
            wanted = "an operation" if isinstance(element, Tensor) else "a tensor"
            raise TypeError(f"{element!r} is not {wanted}")
        return element

    def _by_text(self, name: str, allow_tensor: bool, allow_operation: bool) -> Tensor | Operation:
        operation, colon, index = name.partition(":")
        found = self._by_name.get(operation)
        if not colon and not allow_operation:
            raise ValueError(f"{name!r} names an operation; a tensor's name is '{name}:0'")
        if colon and not allow_tensor:
            raise ValueError(f"{name!r} names a tensor; its operation's name is {operation!r}")
        if found is None:
            raise KeyError(f"the graph has no operation {operation!r}" + (f" (asked for {name!r})" if colon else ""))
        if not colon:
            return found
        if not index.isdecimal():
            raise ValueError(f"{name!r} is not a tensor's name; write op:index")
        if int(index) >= len(found.outputs):
            raise KeyError(f"{operation!r} has {len(found.outputs)} outputs; there is no {name!r}")
        return found.outputs[int(index)]

    # Adding

    def add(
        self, definition: Definition, inputs: tuple[Tensor, ...], attrs: Attrs, specs: Sequence[Spec], name: str | None
    ) -> Operation:
        """Append an operation in the current scope. A `name` that ends in "/" is used unchanged, without the slash."""
        scope = scope_of(self)
        with self.transaction() if scope.devices else self._lock:
            self._check_open(name or definition.name)
            for tensor in inputs:
                if tensor.op.id < 0:
                    raise ValueError(f"{tensor!r} was built in a block that failed: it is not in the graph")
            full = self._full_name(scope, name or definition.name)
            controls = scopes.control_inputs(scope.controls, inputs) if scope.controls else ()
            override = scope.gradient_overrides.get(definition.name)
            place = scope.container, scope.colocation
            operation = Operation(
                self, definition, full, inputs, attrs, specs, controls, *place, scope.origin, override
            )
            if scope.devices:
                operation.device = _device(scope.devices, operation)
            self._append(operation, scope)
            return operation

    def _full_name(self, scope: Scope, name: str) -> str:
        exact = name[-1:] == "/"
        full = name[:-1] if exact else f"{scope.name}/{name}" if scope.name else name
        if scopes.VALID_NAME.fullmatch(full) is None:
            raise ValueError(f"{name!r} is not a valid operation name: letters, digits and _ . \\ - / only")
        if not exact or full in self._by_name:
            return self._unique(full)
        if full.lower() not in self._used:
            self._use(full.lower(), 1)
        return full

    def _append(self, operation: Operation, scope: Scope) -> None:
        operation.id = len(self._operations)
        self._operations.append(operation)
        self.planning_work += operation.planning_work
        self._by_name[operation.name] = operation
        for tensor in operation.inputs:
            tensor._consumers.append(operation)
        for block in scope.controls:
            block.inside.add(operation.id)
        if self._journals:
            self._journals[-1].append(functools.partial(self._remove, operation, scope))

    def _remove(self, operation: Operation, scope: Scope) -> None:
        self._operations.pop()
        self.planning_work -= operation.planning_work
        del self._by_name[operation.name]
        for tensor in operation.inputs:
            tensor._consumers.pop()
        for block in scope.controls:
            block.inside.discard(operation.id)
        operation.id = -1

    @property
    def root(self) -> "Graph":
        """The outermost graph around a branch or loop; any other graph itself."""
        return self

    def next_seed(self) -> int:
        """Return a default seed for the next random operation built here."""
        return self.version

    def sees(self, graph: "Graph") -> bool:
        """Whether operations here may use tensors of `graph`: it is this graph, or one around this branch or loop."""
        return graph is self

    def adopt(self, tensor: Tensor) -> Tensor:
        """Return `tensor` as an input for operations here. ValueError if it belongs to another graph."""
        if tensor.graph is not self:
            inside = tensor.graph.root is not tensor.graph
            mend = ": it is inside a branch or loop, which must return it" if inside else ""
            raise ValueError(f"{tensor!r} belongs to another graph{mend}")
        return tensor

    def extend(self, operation: Operation, attrs: Attrs, specs: Sequence[Spec]) -> tuple[Tensor, ...]:
        """Add outputs to an operation, with the attributes that describe them. Its other outputs stay unchanged."""
        had, made_before = operation.attrs, operation.outputs
        start = len(made_before)
        made = tuple([Tensor(operation, start + index, spec) for index, spec in enumerate(specs)])
        operation.attrs, operation.outputs = attrs, (*made_before, *made)

        def undo() -> None:
            operation.attrs, operation.outputs = had, made_before

        self.on_failure(undo)
        return made

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Inside the block no other thread can add operations; if the block raises, its additions are undone."""
        with self._lock:
            journal: list[Callable[[], object]] = []
            self._journals.append(journal)
            try:
                yield
            except BaseException:
                for undo in reversed(journal):
                    undo()
                raise
            finally:
                self._journals.pop()
            if self._journals:
                self._journals[-1].extend(journal)

    def on_failure(self, undo: Callable[[], object]) -> None:
        """Call `undo` if the current transaction fails; without a transaction, do nothing."""
        with self._lock:
            if self._journals:
                self._journals[-1].append(undo)

    def finalize(self) -> None:
        """Forbid additions: from now on they raise RuntimeError."""
        self._finalized = True

    def _check_open(self, adding: str = "") -> None:
        if self._finalized:
            line = user_line()
            place = "" if line is None else f"{_BUILT_AT}{line[0]}:{line[1]} in {line[2]}"
            what = f"{adding!r} cannot be added: " if adding else ""
            raise RuntimeError(f"{what}the graph is finalized; build everything before finalize(){place}")

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return `name` in the current scope, with `_1`, `_2` and so on if it is taken. Case is ignored."""
        scope = scope_of(self).name
        return self._unique(f"{scope}/{name}" if scope else name, mark_as_used)

    def _unique(self, full: str, mark_as_used: bool = True) -> str:
        with self._lock:
            unique, key = full, full.lower()
            count = self._used.get(key, 0)
            if count:
                while (unique := f"{full}_{count}").lower() in self._used:
                    count += 1
            if mark_as_used:
                self._use(key, count + 1)
                if unique is not full:
                    self._use(unique.lower(), 1)
            return unique

    def _use(self, key: str, count: int) -> None:
        if self._journals:
            before = self._used.get(key)
            put_back = functools.partial(self._used.__setitem__, key, before or 0)
            self._journals[-1].append(put_back if before else functools.partial(self._used.pop, key, None))
        self._used[key] = count

    # Scopes

    def as_default(self) -> contextlib.AbstractContextManager["Graph"]:
        """Make the graph the default of this task inside the block."""
        return scopes.default_graph(self)

    def get_name_scope(self) -> str:
        """Return the current name scope, without a slash at its end."""
        return scope_of(self).name

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefix the names of operations built inside with a scope name, which the block receives with a slash.

        A name that ends in "/" re-enters that scope; None or "" leaves all scopes.
        """
        if not name:
            full = ""
        else:
            again = scopes.reenters_scope(name)
            scopes.check_scope_name(name, "" if again else scope_of(self).name)
            full = name[:-1] if again else self.unique_name(name)
        with scopes.change_scope(self, name=full):
            yield full + "/" if full else ""

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Iterator[None]:
        """Run operations built inside after these; None clears the control inputs of outer blocks."""
        if control_inputs is None:
            with scopes.change_scope(self, controls=()):
                yield
            return
        elements = [self.as_graph_element(value) for value in items_of("control_inputs", control_inputs)]
        operations = tuple(dict.fromkeys(e.op if isinstance(e, Tensor) else e for e in elements))
        block = ControlBlock(operations, set())
        with scopes.change_scope(self, controls=(*scope_of(self).controls, block)):
            yield

    @contextlib.contextmanager
    def device(self, device: "str | DeviceSpec | DeviceFunction | None") -> Iterator[None]:
        """Request a device for operations built inside. An inner block refines an outer one; None clears all."""
        entry = str(device) if isinstance(device, DeviceSpec) else device
        check_device(entry)
        with scopes.change_scope(self, devices=() if entry is None else (*scope_of(self).devices, entry)):
            yield

    @contextlib.contextmanager
    def container(self, container: str) -> Iterator[str]:
        """Keep the state of operations built inside in that container; "" means the session's own."""
        if container and scopes.VALID_NAME.fullmatch(container) is None:
            raise ValueError(f"{container!r} is not a valid container name: letters, digits and _ . - / only")
        with scopes.change_scope(self, container=container):
            yield container

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Place operations built inside on the device of `op`, and ignore outer device scopes.

        With `ignore_existing`, colocation requests of outer blocks are dropped; `op` may then be None for no request.
        """
        outer = () if ignore_existing else scope_of(self).colocation
        names = outer if op is None and ignore_existing else (*outer, *self._colocation_of(op))
        with scopes.change_scope(self, colocation=tuple(dict.fromkeys(names)), devices=()):
            yield

    def _colocation_of(self, op: Any) -> tuple[str, ...]:
        element = self.as_graph_element(op)
        operation = element.op if isinstance(element, Tensor) else element
        return operation.colocation or (operation.name,)

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Use registered gradients for operations built inside: {op type: name of the gradient}.

        TypeError if `op_type_map` is no dict from strings to strings.
        """
        if not isinstance(op_type_map, dict) or not all(
            isinstance(s, str) for pair in op_type_map.items() for s in pair
        ):
            raise TypeError(f"op_type_map is a dict from op types to names of gradients, not {safe_repr(op_type_map)}")
        merged = {**scope_of(self).gradient_overrides, **op_type_map}
        with scopes.change_scope(self, gradient_overrides=merged):
            yield

    # Collections and marks

    def add_to_collection(self, name: str, value: object) -> None:
        """Append `value` to a named list of the graph."""
        with self._lock:
            self._check_open()
            self._collections.setdefault(name, []).append(value)
            self.on_failure(self._collections[name].pop)

    def add_to_collections(self, names: Iterable[str], value: object) -> None:
        """Append `value` once to each of several named lists."""
        for name in dict.fromkeys([names] if isinstance(names, str) else names):
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """Return a copy of a named list.

        `scope`, a regular expression, selects items whose name it matches at the start.
        """
        values = list(self._collections.get(name, ()))
        if scope is None:
            return values
        return [value for value in values if hasattr(value, "name") and re.match(scope, value.name)]

    def get_collection_ref(self, name: str) -> list[Any]:
        """Return the named list itself."""
        return self._collections.setdefault(name, [])

    def clear_collection(self, name: str) -> None:
        """Empty a named list."""
        with self._lock:
            self._check_open()
            self.on_failure(functools.partial(self._collections.__setitem__, name, self._collections.pop(name, [])))

    def get_all_collection_keys(self) -> list[str]:
        """Return the names of all lists that are not empty."""
        return [name for name, values in self._collections.items() if values]

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Make feeding the tensor an error."""
        self._unfeedable.add(tensor)
        self.marks += 1
        self.on_failure(functools.partial(self._unfeedable.discard, tensor))

    def is_feedable(self, tensor: Tensor) -> bool:
        """Whether the tensor may be fed."""
        return tensor not in self._unfeedable

    def prevent_fetching(self, operation: Operation) -> None:
        """Make fetching the operation an error."""
        self._unfetchable.add(operation)
        self.marks += 1
        self.on_failure(functools.partial(self._unfetchable.discard, operation))

    def is_fetchable(self, element: Tensor | Operation) -> bool:
        """Whether the element may be fetched."""
        return (element.op if isinstance(element, Tensor) else element) not in self._unfetchable

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Any],
        dtypes: Sequence[Any] | None = None,
        input_types: Sequence[Any] | None = None,
        name: str | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> Operation:
        """Add an operation, given the name of its op, as `matmul`; `aioflow ops` lists these.

        Args:
            op_type: the name of the op.
            inputs: its inputs, lists of tensors one after another.
            dtypes: the dtypes of its outputs, to be checked.
            input_types: the dtypes of its inputs, to be checked.
            name: the name of the operation; by default that of the op.
            attrs: its attributes, as plain values; those with a default may be missing.

        Raises:
            ValueError, TypeError: there is no such op, or its inputs or attributes do not fit it.
        """
        made: Operation = METHODS["create_op"](self, op_type, inputs, dtypes, input_types, name, attrs)
        return made

    def as_graph_def(self, from_version: int = 0) -> Any:
        """Return the graph as a `GraphDef`, to store or send: its operations from number `from_version` on."""
        return METHODS["as_graph_def"](self, from_version)

    def __repr__(self) -> str:
        return f"<af.Graph of {self.version} operations>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.scopes import graph_html

        return graph_html(self)


def _device(stack: "Sequence[str | DeviceFunction]", operation: Operation) -> str:
    """Merge the device scopes from outer to inner. A function is called with the operation and refines it too."""
    spec = DeviceSpec()
    for entry in stack:
        if not isinstance(entry, str):
            operation.device = str(spec)
            entry = entry(operation) or ""
        spec = spec.make_merged_spec(DeviceSpec.from_string(str(entry)))
    return str(spec)
