"""Variables: a handle in a graph, the initializer, reads and updates.

A Variable is used like a tensor. Each use reads it at the place where it is built, so that in a step it sees the
updates built before it and none built after it.
"""

import contextlib
import enum
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Never, TypeVar, overload

from aioflow.graph import scopes
from aioflow.graph.building import get_default_graph, graph_to_build_in, same_graph
from aioflow.graph.convert import CONVERTERS, NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.default_session import Runner, current_session
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.op import Op
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.graph.operators import Operand
from aioflow.kernels.array import scatter as scatter_kernels
from aioflow.kernels.state import variables as kernels
from aioflow.library.variable_rows import RowUpdates
from aioflow.name_hints import refuse
from aioflow.tensors.dtypes import DType, DTypeLike
from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import UNKNOWN, ShapeLike, TensorShape, as_shape

Constraint = Callable[[Any], TensorLike]
"""(variable) -> its value after an update by an optimizer."""


class PartOf(NamedTuple):
    """The place of a variable that is a part of a larger one.

    Attributes:
        name: the name of the whole.
        shape: the shape of the whole.
        begin: where the part begins, on each axis.
    """

    name: str
    shape: tuple[int, ...]
    begin: tuple[int, ...]


Creator = Callable[..., Any]
"""(next_creator, **arguments of Variable) -> a variable."""
_creators: ContextVar[tuple[Creator, ...]] = ContextVar("aioflow_variable_creators", default=())


E = TypeVar("E", bound=enum.Enum)


class VariableSynchronization(enum.Enum):
    """For compatibility: a variable has no copies to synchronize.

    Examples:
        >>> af.VariableSynchronization.ON_READ
        <VariableSynchronization.ON_READ: 3>
    """

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """For compatibility: a variable has no copies whose updates are combined.

    Examples:
        >>> af.VariableAggregation.MEAN
        <VariableAggregation.MEAN: 2>
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


class _Created(type):
    """Calls the creators of the scopes around for each new variable."""

    if not TYPE_CHECKING:  # a type checker sees the parameters of Variable

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            creators = _creators.get()
            if not creators or kwargs.get("variable_def") is not None:
                return super().__call__(*args, **kwargs)
            given = inspect.signature(cls).bind(*args, **kwargs)
            given.apply_defaults()
            token = _creators.set(creators[:-1])
            try:
                return creators[-1](cls, **given.arguments)
            finally:
                _creators.reset(token)

        @property
        def __signature__(cls) -> inspect.Signature:
            """The parameters of the class."""
            own = inspect.signature(cls.__init__)
            return own.replace(parameters=[*own.parameters.values()][1:])


@contextlib.contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """Inside the block, `variable_creator(next_creator, **arguments)` makes each variable, also in `get_variable`.

    It may change the arguments, which are those of `Variable`, and calls `next_creator(**arguments)`, which calls the
    creator of the block around, or makes the variable.

    Examples:
        >>> def frozen(next_creator, **arguments):
        ...     return next_creator(**{**arguments, "trainable": False})
        >>> with af.variable_creator_scope(frozen):
        ...     weight = af.get_variable("weight", [2])
        >>> weight.trainable, af.trainable_variables()
        (False, [])
    """
    if not callable(variable_creator):
        raise TypeError(f"a creator of variables is a function, not {safe_repr(variable_creator)}")
    token = _creators.set((*_creators.get(), variable_creator))
    try:
        yield
    finally:
        _creators.reset(token)


class Variable(RowUpdates, Operand, metaclass=_Created):
    """A value that outlives the runs of a session: weights, counters, slots.

    Its handle is the operation `name`; operations under `name/` compute its initial value, assign it and read it. It
    has no value until its `initializer` has run; reading it before raises FailedPreconditionError.

    Args:
        initial_value: a tensor, a value that can be converted to one, or a function without arguments that returns one.
        trainable: whether optimizers change it by default.
        collections: the graph's collections it joins; GLOBAL_VARIABLES by default.
        validate_shape: whether its shape is fixed, and so must be known; else any value can be assigned.
        caching_device: for compatibility: a value crosses to a device at most once per step anyway.
        name: its name; `Variable` by default.
        variable_def: a result of `to_proto`: the variable whose operations are in the graph already. Excludes the rest.
        dtype: its dtype; that of the initial value by default.
        expected_shape: a shape the initial value must have.
        import_scope: the scope that `variable_def`'s operations were imported under.
        constraint: returns the value to hold after an optimizer's update, for example a clipped one.
        use_resource: for compatibility: every variable is one value with one handle.
        synchronization: for compatibility; a variable with ON_READ is not trainable.
        aggregation: for compatibility.
        shape: the shape that all its values have, of which the initial value may know more; by default that of the
            initial value. `None` for sizes, or `TensorShape(None)`, lets them change.

    Raises:
        ValueError: there is no initial value, its shape is unknown, the name is invalid, or a variable with ON_READ is
            to be trainable.
        TypeError: the initial value has another dtype.

    Examples:
        >>> counter = af.Variable(0, name="counter")
        >>> await session.run(counter.initializer)
        >>> await session.run(counter.assign_add(5))
        np.int32(5)
    """

    handle: Tensor
    initializer: Operation
    trainable: bool
    part_of: PartOf | None = None

    def __init__(
        self,
        initial_value: TensorLike | Callable[[], TensorLike] | None = None,
        trainable: bool | None = None,
        collections: Iterable[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: dict[str, Any] | None = None,
        dtype: DTypeLike | None = None,
        expected_shape: ShapeLike = None,
        import_scope: str | None = None,
        constraint: Constraint | None = None,
        use_resource: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: ShapeLike = None,
    ) -> None:
        if constraint is not None and not callable(constraint):
            raise ValueError(f"a constraint must be a function of the variable, not {safe_repr(constraint)}")
        self.constraint: Final = constraint
        self.synchronization: Final = _member(VariableSynchronization, synchronization)
        self.aggregation: Final = _member(VariableAggregation, aggregation)
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("initial_value and variable_def exclude each other")
            self._find(get_default_graph(), variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("a variable needs an initial_value: a tensor, an array, numbers, or a function of these")
        self.trainable = _is_trainable(trainable, self.synchronization)
        inner = same_graph(initial_value)
        graph = inner.root  # a variable outlives the branch or loop that creates it
        keys = _collections(collections, self.trainable)
        names = scopes.change_scope(graph, name=scopes.scope_of(inner).name)
        with graph.transaction(), graph.as_default(), names, graph.control_dependencies(None):
            with graph.name_scope(name or "Variable") as scope:
                held = None if shape is None else as_shape(shape)
                self._build(graph, scope, initial_value, dtype, as_shape(expected_shape), validate_shape, held)
            graph.add_to_collections(keys, self)

    def _build(
        self, graph: Graph, scope: str, initial_value: Any, dtype: Any, expected: TensorShape, validate: bool,
        held: TensorShape | None,
    ) -> None:  # fmt: skip
        with scopes.change_scope(graph, colocation=(scope[:-1],), devices=()):
            given = initial_value() if callable(initial_value) else initial_value
            value = convert_to_tensor(given, dtype, name="initial_value")
        for wanted in (expected, UNKNOWN if held is None else held):
            if not value.shape.is_compatible_with(wanted):
                raise ValueError(f"the initial value of {scope[:-1]!r} has shape {value.shape}, not {wanted}")
        if held is None:
            held = value.shape if validate else UNKNOWN
            if validate and not held.is_fully_defined():
                raise ValueError(
                    f"the initial value of {scope[:-1]!r} has shape {value.shape}, which must be known: give another, "
                    "or shape=, or validate_shape=False"
                )
        container = scopes.scope_of(graph).container
        self._initial_value = value
        self.handle = kernels.variable(value.dtype, held, container, name=scope)
        with self._at_home():
            self.initializer = kernels.assign_variable(self.handle, value, name="assign").op
            self._snapshot = kernels.read_variable(self.handle, name="read")

    # Attributes

    @property
    def name(self) -> str:
        """The name of its handle: `weights:0`."""
        return self.handle.name

    @property
    def op(self) -> Operation:
        """The operation that is its handle."""
        return self.handle.op

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.handle.graph

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return kernels.held(self.handle.spec).dtype

    @property
    def shape(self) -> TensorShape:
        """The known part of its shape."""
        return kernels.held(self.handle.spec).shape

    @property
    def device(self) -> str:
        """The requested device, possibly in part, or an empty string."""
        return self.handle.device

    @property
    def initial_value(self) -> Tensor:
        """The value that the initializer assigns."""
        return self._initial_value

    def get_shape(self) -> TensorShape:
        """Return the known part of its shape."""
        return self.shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Check that its shape may be `shape`. ValueError if it may not."""
        self.shape.merge_with(as_shape(shape))

    # Reading

    def value(self) -> Tensor:
        """Return its value at this place: after the updates built so far, before those built later."""
        with self._at_home():
            return kernels.read_variable(self.handle)

    def read_value(self) -> Tensor:
        """Return its value at this place: after the updates built so far, before those built later."""
        return self.value()

    def initialized_value(self) -> Tensor:
        """Return its value, or its initial value while it has none; use it to initialize another variable."""
        with self._at_home():
            return kernels.read_variable_or(self.handle, self._initial_value)

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return whether it has a value."""
        with self._building():
            return kernels.is_variable_initialized(self.handle, name=name)

    def sparse_read(self, indices: NumberLike, name: str | None = None) -> Tensor:
        """Return only its rows `indices`; the gradient is IndexedSlices."""
        with self._building():
            return kernels.gather_variable(self.handle, indices, name=name)

    async def eval(self, feeds: Mapping[Any, Any] | None = None, **wrong: Never) -> Any:
        """Return its value in the default session. ValueError if there is none."""
        if wrong:
            refuse("eval", wrong)
        return await current_session().run(self._snapshot, feeds)

    # Updating

    @overload
    def assign(
        self, value: TensorLike, use_locking: bool = False, name: str | None = None, read_value: Literal[True] = True
    ) -> Tensor: ...
    @overload
    def assign(
        self, value: TensorLike, use_locking: bool = False, name: str | None = None, *, read_value: Literal[False]
    ) -> Operation: ...
    def assign(
        self, value: TensorLike, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Tensor | Operation:
        """Assign `value`. Returns the new value, or the operation if `read_value` is false. Every update is atomic."""
        return self._update(kernels.assign_variable, value, name, read_value)

    @overload
    def assign_add(
        self, delta: NumberLike, use_locking: bool = False, name: str | None = None, read_value: Literal[True] = True
    ) -> Tensor: ...
    @overload
    def assign_add(
        self, delta: NumberLike, use_locking: bool = False, name: str | None = None, *, read_value: Literal[False]
    ) -> Operation: ...
    def assign_add(
        self, delta: NumberLike, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Tensor | Operation:
        """Add `delta`, which has the variable's shape or is one number. See `assign`."""
        return self._update(kernels.assign_add_variable, delta, name, read_value)

    @overload
    def assign_sub(
        self, delta: NumberLike, use_locking: bool = False, name: str | None = None, read_value: Literal[True] = True
    ) -> Tensor: ...
    @overload
    def assign_sub(
        self, delta: NumberLike, use_locking: bool = False, name: str | None = None, *, read_value: Literal[False]
    ) -> Operation: ...
    def assign_sub(
        self, delta: NumberLike, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Tensor | Operation:
        """Subtract `delta`. See `assign`."""
        return self._update(kernels.assign_sub_variable, delta, name, read_value)

    @overload
    def assign_mul(
        self, factor: TensorLike, use_locking: bool = False, name: str | None = None, read_value: Literal[True] = True
    ) -> Tensor: ...
    @overload
    def assign_mul(
        self, factor: TensorLike, use_locking: bool = False, name: str | None = None, *, read_value: Literal[False]
    ) -> Operation: ...
    def assign_mul(
        self, factor: TensorLike, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Tensor | Operation:
        """Multiply by `factor`. See `assign`."""
        return self._update(kernels.assign_mul_variable, factor, name, read_value)

    def _update(self, op: Op[Tensor], value: TensorLike, name: str | None, read: bool) -> Tensor | Operation:
        with self._building():
            result = op(self.handle, convert_to_tensor(value, self.dtype), name=name)
        return result if read else result.op

    def scatter(self, op: Op[Tensor], indices: NumberLike, updates: TensorLike, name: str | None = None) -> Tensor:
        """Return the new value, after one of the kernels' scatter ops on its rows `indices`."""
        with self._building():
            return op(self.handle, indices, convert_to_tensor(updates, self.dtype), name=name)

    async def load(self, value: TensorLike, session: Runner | None = None) -> None:
        """Assign the array `value` in that session, by default the default one. Adds nothing to the graph."""
        session = session or current_session()
        await session.run(self.initializer, {self.initializer.inputs[1]: value})

    def begin_with(self, value: Tensor, initializer: Operation) -> None:
        """Take another initial value, and the operation that assigns it, if the present transaction does not fail."""
        had = self._initial_value, self.initializer
        self._initial_value, self.initializer = value, initializer

        def undo() -> None:
            self._initial_value, self.initializer = had

        self.graph.on_failure(undo)

    def count_up_to(self, limit: int) -> Tensor:
        """Increment it, one integer, and return its former value. OutOfRangeError, and no change, at `limit`."""
        with self._building():
            return scatter_kernels.count_up_to_variable(self.handle, limit)

    # Scopes of its operations

    @contextlib.contextmanager
    def _building(self) -> Iterator[None]:
        graph = graph_to_build_in(self.graph)
        with graph.transaction(), graph.as_default(), self._at_home():
            yield

    def _at_home(self) -> contextlib.AbstractContextManager[None]:
        """Build operations on the variable's device; enclosing device scopes do not count."""
        graph = graph_to_build_in(self.graph)
        scope = scopes.scope_of(graph)
        if scope.devices or scope.colocation:
            return graph.colocate_with(self.handle, ignore_existing=True)
        return contextlib.nullcontext()

    # As plain data

    def to_proto(self, export_scope: str | None = None) -> dict[str, Any] | None:
        """Return the names of its parts, for `variable_def`. None if it lies outside `export_scope`."""
        prefix = export_scope.rstrip("/") + "/" if export_scope else ""
        if not self.name.startswith(prefix):
            return None
        parts = {
            "variable_name": self.name,
            "initial_value_name": self._initial_value.name,
            "initializer_name": self.initializer.name,
            "snapshot_name": self._snapshot.name,
        }
        whole = {} if self.part_of is None else {"part_of": self.part_of._asdict()}
        named = {key: name.removeprefix(prefix) for key, name in parts.items()}
        return {**named, "trainable": self.trainable, **whole}

    @staticmethod
    def from_proto(variable_def: dict[str, Any], import_scope: str | None = None) -> "Variable":
        """Return the variable of `to_proto`; its operations are in the default graph. KeyError if they are not."""
        return Variable(variable_def=variable_def, import_scope=import_scope)

    def _find(self, graph: Graph, parts: dict[str, Any], import_scope: str | None) -> None:
        prefix = import_scope.rstrip("/") + "/" if import_scope else ""
        self.handle = graph.get_tensor_by_name(prefix + parts["variable_name"])
        self._initial_value = graph.get_tensor_by_name(prefix + parts["initial_value_name"])
        self.initializer = graph.get_operation_by_name(prefix + parts["initializer_name"])
        self._snapshot = graph.get_tensor_by_name(prefix + parts["snapshot_name"])
        self.trainable = parts["trainable"]
        kernels.held(self.handle.spec)
        if (whole := parts.get("part_of")) is not None:
            self.part_of = PartOf(str(whole["name"]), tuple(map(int, whole["shape"])), tuple(map(int, whole["begin"])))

    # As a tensor

    def _as_graph_element(self) -> Tensor:
        return self._snapshot

    def __bool__(self) -> bool:
        return bool(self._snapshot)

    if not TYPE_CHECKING:  # a type checker reports missing attributes

        def __iter__(self) -> Iterator[Tensor]:
            return iter(self._snapshot)

    def __repr__(self) -> str:
        return f"<af.Variable {self.name!r} {kernels.held(self.handle.spec)}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.state import variable_html

        return variable_html(self, describe_line(self.op))


def _member(kind: type[E], value: object) -> E:
    if not isinstance(value, (kind, int)):
        raise TypeError(f"a member of af.{kind.__name__} is needed, not {safe_repr(value)}")
    return kind(value)


def _is_trainable(given: bool | None, synchronization: VariableSynchronization) -> bool:
    on_read = synchronization is VariableSynchronization.ON_READ
    if on_read and given:
        raise ValueError("a variable with synchronization ON_READ cannot be trainable; leave out trainable=True")
    return given is not False and not on_read


def _collections(given: Iterable[str] | None, trainable: bool) -> list[str]:
    if isinstance(given, str):
        raise ValueError(f"collections must be a list of names, not {given!r}")
    keys = [GraphKeys.GLOBAL_VARIABLES] if given is None else list(given)
    return [*keys, GraphKeys.TRAINABLE_VARIABLES] if trainable else keys


CONVERTERS[Variable] = lambda variable, dtype: variable.value()
