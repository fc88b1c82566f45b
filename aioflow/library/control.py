"""Scopes for building operations in the default graph, collections, and operations that group others."""

import builtins
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import get_default_graph, same_graph, transactional
from aioflow.graph.composed import Composed
from aioflow.graph.convert import CONVERTERS, TensorLike, convert_to_tensor
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.scopes import DeviceFunction
from aioflow.kernels.array.constants import identity, no_op
from aioflow.library.resource_handle import outside
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import DType
from aioflow.tensors.recursion import check_depth, safe_repr, without_recursion_error

# Scopes


@contextlib.contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: Iterable[Any] | None = None) -> Iterator[str]:
    """Prefix the names of operations built inside with the scope's name, which the block gets with a slash.

    Args:
        name: the scope's name; a name that ends in "/" re-enters that scope. "" leaves all scopes.
        default_name: the name if `name` is None.
        values: the first tensor among them determines the default graph inside.

    Raises:
        ValueError: it cannot be a scope's name, or values are given and no name at all.

    Examples:
        >>> with af.name_scope("layer"):
        ...     x = af.identity(1, name="x")
        >>> x.name
        'layer/x:0'
    """
    chosen = default_name if name is None else name
    if chosen is None and values is not None:
        raise ValueError("a name scope needs a name or a default_name")
    if chosen is not None and not isinstance(chosen, str):
        raise TypeError(f"a name scope's name is text, not {safe_repr(chosen)}")
    graph = same_graph(*(values or ()))
    with graph.as_default(), graph.name_scope(chosen) as scope:
        yield scope


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Build operations outside of all branches and loops, without control dependencies, under the same name scope.

    So an operation that a branch builds once, as the first value of a variable, runs independently of the branch. The
    default graph inside is the one around the branches and loops.

    Examples:
        >>> lifted = []
        >>> def branch():
        ...     with af.init_scope():
        ...         lifted.append(af.constant(2.0))
        ...     return lifted[0] + 1.0
        >>> chosen = af.cond(af.constant(True), branch, lambda: af.constant(0.0))
        >>> await session.run([chosen, lifted[0]])
        [np.float32(3.0), np.float32(2.0)]
    """
    with outside():
        yield


def op_scope(
    values: Iterable[Any] | None, name: str | None, default_name: str | None = None
) -> contextlib.AbstractContextManager[str]:
    """Return `name_scope`, whose arguments it takes in another order.

    Examples:
        >>> with af.op_scope([], None, "layer"):
        ...     x = af.constant(1, name="x")
        >>> x.name
        'layer/x:0'
    """
    return name_scope(name, default_name, values)


def control_dependencies(control_inputs: Iterable[Any] | None) -> contextlib.AbstractContextManager[None]:
    """Make operations built inside run after these; None clears all enclosing blocks.

    Examples:
        >>> state = af.Variable(1)
        >>> with af.control_dependencies([state.initializer]):
        ...     value = af.identity(state)
        >>> await session.run(value)
        np.int32(1)
    """
    return get_default_graph().control_dependencies(control_inputs)


def device(
    device_name_or_function: str | DeviceSpec | DeviceFunction | None,
) -> contextlib.AbstractContextManager[None]:
    """Make operations built inside ask for this device; an inner block refines an outer one, None clears all.

    Examples:
        >>> with af.device("/cpu:0"):
        ...     x = af.constant([1.0]) + 1
        >>> x.device
        '/device:CPU:0'
    """
    return get_default_graph().device(device_name_or_function)


def container(container_name: str) -> contextlib.AbstractContextManager[str]:
    """Put the state of operations built inside into that container.

    Examples:
        >>> with af.container("experiment"):
        ...     shared = af.Variable(1)
        >>> await session.run(shared.initializer)
        >>> await af.reset(["experiment"])
    """
    return get_default_graph().container(container_name)


def colocate_with(op: Any, ignore_existing: bool = False) -> contextlib.AbstractContextManager[None]:
    """Put operations built inside on the device of `op`; with `ignore_existing`, ignore enclosing blocks.

    Examples:
        >>> with af.device("/cpu:0"):
        ...     x = af.constant(1.0)
        >>> with af.colocate_with(x.op):
        ...     y = x + 1.0
    """
    return get_default_graph().colocate_with(op, ignore_existing)


# Collections


def add_to_collection(name: str, value: object) -> None:
    """Append to a collection of the default graph.

    Examples:
        >>> af.add_to_collection("pictures", 1)
        >>> af.get_collection("pictures")
        [1]
    """
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Iterable[str], value: object) -> None:
    """Append to each of several collections of the default graph, once.

    Examples:
        >>> af.add_to_collections(["pictures", "all"], 1)
        >>> af.get_collection("all")
        [1]
    """
    get_default_graph().add_to_collections(names, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """Return a copy of a collection of the default graph; with `scope`, only elements whose names begin so.

    Examples:
        >>> state = af.Variable(1, name="state")
        >>> [variable.name for variable in af.get_collection(af.GraphKeys.GLOBAL_VARIABLES)]
        ['state:0']
    """
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    """Return a collection of the default graph itself.

    Examples:
        >>> af.get_collection_ref("pictures").append(1)
        >>> af.get_collection("pictures")
        [1]
    """
    return get_default_graph().get_collection_ref(key)


# Operations


@transactional
def group(*inputs: Any, name: str | None = None) -> Operation:
    """Return an operation that is done when all `inputs` are: operations, tensors, variables, nested lists of these.

    Examples:
        >>> await session.run(af.group(af.constant(1), af.constant(2)))
    """
    check_depth(inputs)
    operations = list(dict.fromkeys(_operations(inputs)))
    graph = same_graph(*operations)
    with graph.as_default(), graph.control_dependencies(operations):
        return no_op(name=name or "group")


def _operations(values: Iterable[Any]) -> Iterator[Operation]:
    for value in values:
        element = value if isinstance(value, Operation) else getattr(value, "op", None)
        if isinstance(element, Operation):
            yield element
        elif isinstance(value, (list, builtins.tuple)):
            yield from _operations(value)
        elif isinstance(value, dict):
            yield from _operations(value.values())
        else:
            raise TypeError(f"{safe_repr(value)} of type {type(value).__name__} is neither an operation nor a tensor")


@transactional
def tuple(tensors: Iterable[Any], name: str | None = None, control_inputs: Iterable[Any] | None = None) -> list[Any]:
    """Return the same tensors, each available only when all of them and `control_inputs` are done.

    None stays None, operations become operations, and the values of IndexedSlices wait.

    Raises:
        ValueError: there is nothing to wait for.

    Examples:
        >>> await session.run(af.tuple([af.constant(1), af.constant(2)]))
        [np.int32(1), np.int32(2)]
    """
    given = [_element(value) for value in tensors]
    before = list(dict.fromkeys(_operations([*(v for v in given if v is not None), *(control_inputs or ())])))
    if not before:
        raise ValueError("tuple() needs at least one tensor or operation")
    with name_scope(name, "tuple", before):
        gate = group(*sorted(before, key=lambda operation: operation.id))
        return [None if value is None else with_dependencies([gate], value) for value in given]


def _element(value: Any) -> Any:
    kept = value is None or isinstance(value, (Tensor, Operation, IndexedSlices))
    return value if kept else convert_to_tensor(value)


@without_recursion_error
def with_dependencies(dependencies: Sequence[Any], output_tensor: TensorLike, name: str | None = None) -> Any:
    """Return `output_tensor`, available only when `dependencies` are done; for an operation, one done after them.

    Examples:
        >>> state = af.Variable(1)
        >>> await session.run(af.with_dependencies([state.initializer], af.constant(5)))
        np.int32(5)
    """
    graph = same_graph(*_operations(dependencies))
    with graph.as_default(), graph.control_dependencies(_operations(dependencies)):
        if isinstance(output_tensor, Operation):
            return group(output_tensor, name=name)
        if isinstance(output_tensor, IndexedSlices):
            held = identity(output_tensor.values, name=name)
            return IndexedSlices(held, output_tensor.indices, output_tensor.dense_shape)
        return identity(output_tensor, name=name)


# Conversion to tensors


def is_tensor(x: TensorLike) -> bool:
    """Whether it is a tensor, a variable, a SparseTensor, a RaggedTensor or IndexedSlices.

    Examples:
        >>> af.is_tensor(af.constant(1)), af.is_tensor(1)
        (True, False)
    """
    return isinstance(x, (Tensor, Variable, Composed, IndexedSlices))


_Conversion = Callable[..., Any]
_CONSTANTS: Final = (list, builtins.tuple, str, bytes, int, float, complex, np.ndarray, np.generic)
_REGISTERED: Final[dict[type, list[builtins.tuple[int, _Conversion]]]] = {}
"""{class: its functions with their priorities, lowest first}."""


def register_tensor_conversion_function(
    base_type: type | builtins.tuple[type, ...], conversion_func: _Conversion, priority: int = 100
) -> None:
    """Make `convert_to_tensor`, and so every op, accept objects of `base_type`, or of several classes.

    `conversion_func(value, dtype=None, name=None, as_ref=False)` returns a tensor, or NotImplemented to pass the value
    to the next function: functions of lower `priority` come first, then those that were registered earlier.

    Raises:
        TypeError: the arguments are no class and no function, or the class is one of numbers, arrays, lists or texts.

    Examples:
        >>> class Celsius:
        ...     degrees = 20.0
        >>> def degrees(value, dtype=None, name=None, as_ref=False):
        ...     return af.constant(value.degrees)
        >>> af.register_tensor_conversion_function(Celsius, degrees)
        >>> await session.run(af.convert_to_tensor(Celsius()) + 1.0)
        np.float32(21.0)
    """
    kinds = base_type if isinstance(base_type, builtins.tuple) else (base_type,)
    if not kinds or not all(isinstance(kind, type) for kind in kinds):
        raise TypeError(f"base_type is a class or a tuple of classes, not {safe_repr(base_type)}")
    if not callable(conversion_func):
        raise TypeError(f"conversion_func must be callable, not {conversion_func!r}")
    for kind in kinds:
        if issubclass(kind, _CONSTANTS) or (kind in CONVERTERS and kind not in _REGISTERED):
            raise TypeError(f"how {kind.__name__} becomes a tensor cannot be changed")
    for kind in kinds:
        functions = _REGISTERED.setdefault(kind, [])
        functions.append((priority, conversion_func))
        functions.sort(key=lambda entry: entry[0])
        CONVERTERS[kind] = _convert_registered


def _convert_registered(value: Any, dtype: DType | None) -> Tensor:
    found = next(kind for kind in type(value).__mro__ if kind in _REGISTERED)
    for _, function in _REGISTERED[found]:
        made = function(value, dtype=dtype, name=None, as_ref=False)
        if isinstance(made, Tensor):
            return made
        if made is not NotImplemented:
            raise TypeError(f"{function!r} made {made!r} of a {found.__name__}, which is not a tensor")
    raise TypeError(f"no function makes a tensor of {value!r}" + ("" if dtype is None else f" of dtype {dtype.name}"))
