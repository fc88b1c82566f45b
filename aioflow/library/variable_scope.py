"""Variables by name: `get_variable` creates a variable or finds an existing one, depending on the variable scope."""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal

from aioflow.graph.building import get_default_graph, same_graph
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor, describe_line
from aioflow.library import initializers
from aioflow.library.partitioned_variables import PartitionedVariable, get_parts
from aioflow.library.partitioners import Partitioner
from aioflow.library.variables import Constraint, Variable, VariableAggregation, VariableSynchronization
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, as_dtype, as_shape
from aioflow.tensors.recursion import safe_repr

AUTO_REUSE: Final = "AUTO_REUSE"
"""`reuse=af.AUTO_REUSE`: existing variables are found, missing ones are created."""
Reuse = bool | Literal["AUTO_REUSE"] | None
Initializer = Callable[..., TensorLike]
"""(shape, dtype=) -> an initial value."""
Regularizer = Callable[[Any], Any]


@dataclasses.dataclass(slots=True)
class VariableScope:
    """A prefix for names, and defaults for the arguments of `get_variable`.

    `reuse` is true if variables must exist, AUTO_REUSE if they may exist; else they must not exist.

    Examples:
        >>> with af.variable_scope("layer") as scope:
        ...     print(scope.name)
        layer
    """

    name: str = ""
    reuse: Reuse = False
    initializer: Any = None
    regularizer: Regularizer | None = None
    custom_getter: Callable[..., Any] | None = None
    dtype: DType = dtypes.float32
    constraint: Constraint | None = None
    partitioner: Partitioner | None = None
    original_name_scope: str = ""
    caching_device: Any = None
    use_resource: bool | None = None

    def reuse_variables(self) -> None:
        """From here on, only find variables."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Set the default initializer."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Regularizer | None) -> None:
        """Set the default regularizer."""
        self.regularizer = regularizer

    def set_dtype(self, dtype: DTypeLike) -> None:
        """Set the default dtype."""
        self.dtype = as_dtype(dtype)

    def set_partitioner(self, partitioner: Partitioner | None) -> None:
        """Set the default partitioner."""
        self.partitioner = partitioner

    def set_custom_getter(self, custom_getter: Callable[..., Any] | None) -> None:
        """Set the function that `get_variable` calls instead."""
        self.custom_getter = custom_getter

    def set_caching_device(self, caching_device: Any) -> None:
        """Set the default caching device, which has no effect on a variable."""
        self.caching_device = caching_device

    def set_use_resource(self, use_resource: bool | None) -> None:
        """Set the default of `use_resource`, which has no effect on a variable."""
        self.use_resource = use_resource

    def get_collection(self, name: str) -> list[Any]:
        """Return the items of a collection of the graph whose names are under this scope."""
        return self._under(name)

    def global_variables(self) -> list[Variable]:
        """Return the graph's global variables under this scope."""
        return self._under(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Variable]:
        """Return the graph's local variables under this scope."""
        return self._under(GraphKeys.LOCAL_VARIABLES)

    def trainable_variables(self) -> list[Variable]:
        """Return the graph's trainable variables under this scope."""
        return self._under(GraphKeys.TRAINABLE_VARIABLES)

    def _under(self, key: str) -> list[Any]:
        return get_default_graph().root.get_collection(key, self.name + "/" if self.name else None)


@dataclasses.dataclass(slots=True)
class _Store:
    """A graph's variables by name, the number of times that each variable scope was opened, and the outermost scope."""

    variables: dict[str, Variable] = dataclasses.field(default_factory=dict)
    in_parts: dict[str, PartitionedVariable] = dataclasses.field(default_factory=dict)
    opened: dict[str, int] = dataclasses.field(default_factory=dict)
    outermost: VariableScope = dataclasses.field(default_factory=VariableScope)

    def unique(self, name: str) -> str:
        """Return `name`, with `_1`, `_2` … if a scope of that name was opened before."""
        if not self.opened.get(name):
            return name
        index = 1
        while self.opened.get(f"{name}_{index}"):
            index += 1
        return f"{name}_{index}"

    def keep_whole(self, graph: Graph, name: str, whole: PartitionedVariable) -> PartitionedVariable:
        """Return `whole`, which a scope that reuses finds by its name."""
        if name not in self.in_parts:
            self.in_parts[name] = whole
            graph.on_failure(lambda: self.in_parts.pop(name))
        return whole

    def close(self, name: str, before: dict[str, int] | None) -> None:
        """Leave a scope: default names in it restart; those of a scope re-entered as an object continue as `before`."""
        kept = self.opened if before is None else before
        under = f"{name}/"
        self.opened = {each: n for each, n in kept.items() if before is not None or not each.startswith(under)}


_STORE: Final = "__variable_store"
_current: ContextVar[Mapping[Graph, VariableScope]] = ContextVar("aioflow_variable_scope", default={})  # noqa: B039 (never mutated)


def _store(graph: Graph) -> _Store:
    kept = graph.get_collection_ref(_STORE)
    if not kept:
        kept.append(_Store())
    store: _Store = kept[0]
    return store


def get_variable_scope() -> VariableScope:
    """Return the present variable scope, in the default graph.

    A setting made on it holds from here on to its end; on the scope around all others, for the whole graph.

    Examples:
        >>> with af.variable_scope("layer"):
        ...     print(af.get_variable_scope().name)
        layer
    """
    return _scope_of(get_default_graph().root)


def _scope_of(graph: Graph) -> VariableScope:
    found = _current.get().get(graph)
    return _store(graph).outermost if found is None else found


@contextlib.contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Iterable[Any] | None = None,
    initializer: Any = None,
    regularizer: Regularizer | None = None,
    caching_device: Any = None,
    partitioner: Partitioner | None = None,
    custom_getter: Callable[..., Any] | None = None,
    reuse: Reuse = None,
    dtype: DTypeLike | None = None,
    use_resource: bool | None = None,
    constraint: Constraint | None = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Inside the block, `get_variable` puts the scope's name before a variable's, and uses these defaults.

    A name is appended to that of the enclosing scope; a scope object is re-entered; for None, `default_name` is made
    unique. Missing arguments come from the enclosing scope, or from the object; `reuse` cannot be undone inside.
    Operations built inside are in a name scope of the same name. `use_resource` and `caching_device` have no effect.

    Raises:
        ValueError: `reuse` is none of True, False, None and AUTO_REUSE, or is true for a scope with a default name.

    Examples:
        >>> with af.variable_scope("layer"):
        ...     bias = af.get_variable("bias", [3])
        >>> bias.name
        'layer/bias:0'
    """
    if name_or_scope is None and default_name is None:
        raise TypeError("variable_scope() needs a name, a scope or a default_name")
    if reuse not in (True, False, None, AUTO_REUSE):
        raise ValueError(f"reuse is True, False, None or af.AUTO_REUSE, not {safe_repr(reuse)}")
    if name_or_scope is None and reuse:
        raise ValueError("a scope with a default_name is new, so that no variable in it can be reused; give it a name")
    graph = same_graph(*(values or ()))
    root = graph.root
    around, store = _scope_of(root), _store(root)
    base, name, label = _resolve_scope(name_or_scope, default_name, around, store)
    scope = dataclasses.replace(base, name=name)
    scope.reuse = reuse or base.reuse or around.reuse
    scope.initializer = base.initializer if initializer is None else initializer
    scope.regularizer = base.regularizer if regularizer is None else regularizer
    scope.constraint = base.constraint if constraint is None else constraint
    scope.partitioner = base.partitioner if partitioner is None else partitioner
    scope.custom_getter = _nest_getters(custom_getter, base.custom_getter)
    scope.dtype = base.dtype if dtype is None else as_dtype(dtype)
    scope.caching_device = base.caching_device if caching_device is None else caching_device
    scope.use_resource = base.use_resource if use_resource is None else use_resource
    _count(root, store, name)
    with contextlib.ExitStack() as stack:
        if default_name is not None or values is not None:
            stack.enter_context(graph.as_default())
        if auxiliary_name_scope and label:
            entered = stack.enter_context(graph.name_scope(label))
            scope.original_name_scope = entered if isinstance(name_or_scope, str | None) else base.original_name_scope
        token = _current.set({**_current.get(), root: scope})
        before = None if isinstance(name_or_scope, str) or name_or_scope is None else dict(store.opened)
        try:
            yield scope
        finally:
            _current.reset(token)
            store.close(name, before)


def _resolve_scope(
    given: str | VariableScope | None, default_name: str | None, around: VariableScope, store: _Store
) -> tuple[VariableScope, str, str]:
    """Return the scope that the new one copies, the name of the new one, and the name of its name scope."""
    if isinstance(given, VariableScope):
        return given, given.name, given.name.rpartition("/")[2]
    prefix = around.name + "/" if around.name else ""
    if given is None:
        return around, store.unique(prefix + (default_name or "")), default_name or ""
    return around, prefix + given if given else around.name, given


def _count(graph: Graph, store: _Store, name: str) -> None:
    before = store.opened.get(name, 0)
    store.opened[name] = before + 1
    graph.on_failure(lambda: store.opened.update({name: before}))


def _nest_getters(inner: Callable[..., Any] | None, outer: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a custom getter that calls `inner`, whose getter is `outer`."""
    if inner is None or outer is None:
        return inner or outer
    first, second = inner, outer
    return lambda getter, *args, **kwargs: first(lambda *a, **k: second(getter, *a, **k), *args, **kwargs)


def get_variable(
    name: str,
    shape: ShapeLike = None,
    dtype: DTypeLike | None = None,
    initializer: Any = None,
    regularizer: Regularizer | None = None,
    trainable: bool | None = None,
    collections: Iterable[str] | None = None,
    caching_device: Any = None,
    partitioner: Partitioner | None = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Callable[..., Any] | None = None,
    constraint: Constraint | None = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Variable:
    """Return the variable of that name in the present variable scope: a new one, or an existing one if it reuses.

    Args:
        name: the name of the variable; the scope's name is prefixed, name scopes are not.
        shape: its shape; not for an initializer that is a value.
        dtype: its dtype; the scope's by default, which is float32.
        initializer: a function (shape, dtype=) of its initial value, or that value; by default the scope's, else
            Glorot's uniform one for floats and zeros for integers and bools.
        regularizer: a function of the variable, whose result is added to REGULARIZATION_LOSSES.
        trainable: whether optimizers change it.
        collections: the graph's collections it joins; GLOBAL_VARIABLES by default.
        caching_device: see Variable.
        partitioner: a function (shape, dtype) that returns into how many parts each axis is cut: the result is then a
            PartitionedVariable. By default the scope's. A scalar is never cut.
        validate_shape: whether its shape is fixed.
        use_resource: for compatibility, like `synchronization` and `aggregation`: see Variable.
        custom_getter: called instead, also of the scope's, with the true getter as its first argument.
        constraint: see Variable.
        synchronization: see `use_resource`.
        aggregation: see `use_resource`.

    Raises:
        ValueError: it exists and the scope does not reuse, it is missing, or it has another shape or dtype.

    Examples:
        >>> weights = af.get_variable("weights", [2, 2], initializer=af.ones_initializer())
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(weights)
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    if custom_getter is not None and not callable(custom_getter):
        raise ValueError(f"a custom_getter is a function of a getter and a name, not {safe_repr(custom_getter)}")
    graph = get_default_graph().root
    scope = _scope_of(graph)
    getter = scope.custom_getter if custom_getter is None else custom_getter
    options = {
        "shape": shape,
        "dtype": dtype if dtype is not None else _dtype_of(initializer) or scope.dtype,
        "initializer": scope.initializer if initializer is None else initializer,
        "regularizer": scope.regularizer if regularizer is None else regularizer,
        "trainable": trainable,
        "collections": collections,
        "caching_device": scope.caching_device if caching_device is None else caching_device,
        "validate_shape": validate_shape,
        "constraint": scope.constraint if constraint is None else constraint,
        "partitioner": scope.partitioner if partitioner is None else partitioner,
        "use_resource": scope.use_resource if use_resource is None else use_resource,
        "synchronization": synchronization,
        "aggregation": aggregation,
        "reuse": scope.reuse,
    }
    full = "/".join(filter(None, (scope.name, name)))
    made: Variable = _get(full, **options) if getter is None else getter(_get, name=full, **options)
    return made


def _dtype_of(initializer: Any) -> DType | None:
    """Return the dtype of an initializer that is a value."""
    dtype = getattr(initializer, "dtype", None)
    return None if dtype is None or callable(initializer) else as_dtype(dtype)


def _get(
    name: str,
    shape: ShapeLike = None,
    dtype: Any = dtypes.float32,
    initializer: Any = None,
    regularizer: Regularizer | None = None,
    trainable: bool | None = None,
    collections: Iterable[str] | None = None,
    validate_shape: bool = True,
    constraint: Constraint | None = None,
    partitioner: Partitioner | None = None,
    reuse: Reuse = None,
    caching_device: Any = None,
    use_resource: bool | None = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    graph = get_default_graph().root
    whole = _store(graph).in_parts.get(name) if reuse is True and partitioner is None else None
    if whole is not None:
        return _check_found(whole, reuse, shape, as_dtype(dtype))
    if partitioner is not None and as_shape(shape).rank != 0:
        whole = get_parts(
            _get, name, shape, as_dtype(dtype), initializer, partitioner, regularizer=regularizer, trainable=trainable,
            collections=collections, reuse=reuse, validate_shape=validate_shape, constraint=constraint,
            synchronization=synchronization, aggregation=aggregation,
        )  # fmt: skip
        return _store(graph).keep_whole(graph, name, whole)
    found = _store(graph).variables.get(name)
    if found is not None:
        return _check_found(found, reuse, shape, as_dtype(dtype))
    if reuse is True:
        raise ValueError(
            f"variable {name!r} does not exist, or was not made by get_variable(); did you mean reuse=af.AUTO_REUSE?"
        )
    first = _first_value(name, initializer, shape, as_dtype(dtype))
    with get_default_graph().name_scope(None):
        made = Variable(
            first, trainable, collections, validate_shape, caching_device, name, None, dtype, None, None, constraint,
            use_resource, synchronization, aggregation,
        )  # fmt: skip
    variables = _store(graph).variables
    variables[name] = made
    graph.on_failure(lambda: variables.pop(name))
    _regularize(graph, made, regularizer)
    return made


def _check_found(variable: Any, reuse: Reuse, shape: ShapeLike, dtype: DType) -> Any:
    if not reuse:
        raise ValueError(
            f"variable {variable.op.name!r} exists already; did you mean reuse=True or reuse=af.AUTO_REUSE in the "
            f"variable scope?\n  built at: {describe_line(variable.op)}"
        )
    name, wanted = variable.name.removesuffix(":0"), as_shape(shape)
    if not variable.shape.is_compatible_with(wanted):
        raise ValueError(f"variable {name!r} has shape {variable.shape}, but {wanted} is requested")
    if variable.dtype is not dtype:
        raise ValueError(f"variable {name!r} has dtype {variable.dtype.name}, but {dtype.name} is requested")
    return variable


def _first_value(name: str, initializer: Any, shape: ShapeLike, dtype: DType) -> Any:
    """Return a function without arguments that returns the initial value."""
    if initializer is not None and not callable(initializer):
        if shape is not None:
            raise ValueError(f"variable {name!r}: the initializer is a value, which has a shape; leave out shape=")
        if isinstance(initializer, Tensor | Variable) and initializer.dtype is not dtype:
            wrong = f"its initializer has dtype {initializer.dtype.name}, not {dtype.name}"
            raise ValueError(f"variable {name!r}: {wrong}; use af.cast")
        return lambda: convert_to_tensor(initializer, dtype)
    if shape is None and initializer is not None and _takes_nothing(initializer):
        return lambda: convert_to_tensor(initializer(), dtype)
    sizes = as_shape(shape)
    if not sizes.is_fully_defined():
        raise ValueError(f"the shape of a new variable must be known: {safe_repr(name)} has {sizes}")
    make = initializers.default_for(dtype) if initializer is None else initializer
    make = make() if isinstance(make, type) else make
    return lambda: make(sizes.as_list(), dtype=dtype)


def _takes_nothing(initializer: Callable[..., Any]) -> bool:
    """Whether it is a function that can be called without arguments, and so knows the shape itself."""
    if isinstance(initializer, type):
        return False
    parameters = inspect.signature(initializer).parameters.values()
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def _regularize(graph: Graph, variable: Variable, regularizer: Regularizer | None) -> None:
    if regularizer is None:
        return
    with graph.name_scope(variable.op.name + "/regularizer/"):
        loss = regularizer(variable)
    if loss is not None:
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


def get_local_variable(
    name: str,
    shape: ShapeLike = None,
    dtype: DTypeLike | None = None,
    initializer: Any = None,
    regularizer: Regularizer | None = None,
    trainable: bool | None = False,
    collections: Iterable[str] | None = None,
    *options: Any,
    **named: Any,
) -> Variable:
    """Return `get_variable` for a variable that each process has for itself and that is not trained.

    Examples:
        >>> count = af.get_local_variable("count", [], initializer=af.zeros_initializer())
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(count)
        np.float32(0.0)
    """
    keys = [GraphKeys.LOCAL_VARIABLES, *(collections or ())]
    return get_variable(name, shape, dtype, initializer, regularizer, False, keys, *options, **named)


def variable_op_scope(
    values: Iterable[Any] | None,
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Regularizer | None = None,
    caching_device: Any = None,
    partitioner: Partitioner | None = None,
    custom_getter: Callable[..., Any] | None = None,
    reuse: Reuse = None,
    dtype: DTypeLike | None = None,
    use_resource: bool | None = None,
    constraint: Constraint | None = None,
) -> contextlib.AbstractContextManager[VariableScope]:
    """Return `variable_scope`, whose arguments it takes in another order.

    Examples:
        >>> with af.variable_op_scope([], None, "layer"):
        ...     v = af.get_variable("w", [1])
        >>> v.name
        'layer/w:0'
    """
    return variable_scope(
        name_or_scope, default_name, values, initializer, regularizer, caching_device, partitioner, custom_getter,
        reuse, dtype, use_resource, constraint,
    )  # fmt: skip


def no_regularizer(_: TensorLike) -> None:
    """Return None: as a scope's regularizer it adds no loss, even if the enclosing scope has a regularizer.

    Examples:
        >>> with af.variable_scope("layer", regularizer=lambda weights: af.reduce_sum(weights * weights)):
        ...     v = af.get_variable("bias", [2], regularizer=af.no_regularizer)
        >>> af.get_collection(af.GraphKeys.REGULARIZATION_LOSSES)
        []
    """
