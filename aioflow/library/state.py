"""Functions of variables: lists of them, initialization, assignment, scattering, and templates that share them."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioflow.graph.building import get_default_graph, graph_to_build_in, transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.op import Op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array import scatter as scatter_kernels
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.select import boolean_mask
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.math.comparison import logical_not
from aioflow.kernels.state import variables as kernels
from aioflow.library.arrays import in_batches
from aioflow.library.control import device, group
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import int32
from aioflow.tensors.recursion import safe_repr

# Lists


def global_variables(scope: str | None = None) -> list[Variable]:
    """Return the default graph's variables that sessions share and checkpoints keep; with `scope`, by name prefix.

    Examples:
        >>> v = af.Variable(1, name="v")
        >>> [each.op.name for each in af.global_variables()]
        ['v']
    """
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Variable]:
    """Return the default graph's variables that each process has for itself and checkpoints omit.

    Examples:
        >>> value, update = af.metrics.mean([1.0])
        >>> [variable.name for variable in af.local_variables()]
        ['mean/total:0', 'mean/count:0']
    """
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """Return the default graph's variables that optimizers change by default.

    Examples:
        >>> weights, step = af.Variable(1.0, name="weights"), af.Variable(0, name="step", trainable=False)
        >>> [variable.name for variable in af.trainable_variables()]
        ['weights:0']
    """
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Variable]:
    """Return the default graph's variables that layers added to the MODEL_VARIABLES collection.

    Examples:
        >>> v = af.Variable(1, name="v", collections=[af.GraphKeys.MODEL_VARIABLES])
        >>> [each.op.name for each in af.model_variables()]
        ['v']
    """
    return get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Variable]:
    """Return the default graph's variables with moving averages.

    Examples:
        >>> v = af.Variable(1.0, name="v")
        >>> update = af.train.ExponentialMovingAverage(0.9).apply([v])
        >>> [each.op.name for each in af.moving_average_variables()]
        ['v']
    """
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


all_variables = global_variables

# Initializing


def variables_initializer(var_list: Iterable[Variable], name: str = "init") -> Operation:
    """Return an operation that gives each of the variables its initial value.

    A run initializes them in the order they were built, so that an initial value may depend on another variable.

    Examples:
        >>> v = af.Variable(3)
        >>> await session.run(af.variables_initializer([v]))
        >>> await session.run(v)
        np.int32(3)
    """
    return group(*[variable.initializer for variable in var_list or ()], name=name)


def global_variables_initializer() -> Operation:
    """Return an operation that gives each global variable of the default graph its initial value.

    Examples:
        >>> counter = af.Variable([1, 2])
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(counter)
        array([1, 2], dtype=int32)
    """
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """Return an operation that gives each local variable of the default graph its initial value.

    Examples:
        >>> v = af.Variable(3, collections=[af.GraphKeys.LOCAL_VARIABLES])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(v)
        np.int32(3)
    """
    return variables_initializer(local_variables())


initialize_variables: Final = variables_initializer
initialize_all_variables: Final = global_variables_initializer
initialize_local_variables = local_variables_initializer


def assert_variables_initialized(var_list: Iterable[Variable] | None = None) -> Operation:
    """Return an operation that raises FailedPreconditionError in the run if one of the variables has no value.

    Checks `var_list`; by default the default graph's global and local variables.

    Examples:
        >>> state = af.Variable(7)
        >>> await session.run(state.initializer)
        >>> await session.run(af.assert_variables_initialized())
    """
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    return group(*[variable.read_value() for variable in variables], name="assert_variables_initialized")


def is_variable_initialized(variable: Variable) -> Tensor:
    """Return whether the variable has a value.

    Examples:
        >>> state = af.Variable(1.0)
        >>> await session.run(af.is_variable_initialized(state))
        np.False_
    """
    return variable.is_initialized()


@transactional
def report_uninitialized_variables(
    var_list: Sequence[Variable] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """Return a vector of strings: the names of the variables without a value.

    Checks `var_list`; by default the default graph's global and local variables.

    Examples:
        >>> state = af.Variable(1.0, name="state")
        >>> await session.run(af.report_uninitialized_variables())
        array([b'state'], dtype=object)
    """
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    if not variables:
        return constant([], dtypes.string, name=name)
    with get_default_graph().name_scope(name) as scope, device("/device:CPU:*"):  # GPUs have no strings
        known = stack([variable.is_initialized() for variable in variables])
        return boolean_mask([variable.op.name for variable in variables], logical_not(known), name=scope)


# Assigning


@transactional
def assign(
    ref: Variable,
    value: TensorLike,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """Assign `value` to the variable. Returns the new value.

    Examples:
        >>> state = af.Variable(1.0)
        >>> await session.run(af.assign(state, 2.0))
        np.float32(2.0)
    """
    return _check_variable(ref).assign(value, name=name)


@transactional
def assign_add(ref: Variable, value: NumberLike, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Add `value` to the variable. Returns the new value.

    Examples:
        >>> state = af.Variable(1.0)
        >>> await session.run(state.initializer)
        >>> await session.run(af.assign_add(state, 2.0))
        np.float32(3.0)
    """
    return _check_variable(ref).assign_add(value, name=name)


@transactional
def assign_sub(ref: Variable, value: NumberLike, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Subtract `value` from the variable. Returns the new value.

    Examples:
        >>> state = af.Variable(5.0)
        >>> await session.run(state.initializer)
        >>> await session.run(af.assign_sub(state, 2.0))
        np.float32(3.0)
    """
    return _check_variable(ref).assign_sub(value, name=name)


def scatter_update(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Set the rows `indices` of the variable to `updates`. Returns its new value.

    Examples:
        >>> table = af.Variable([0, 0, 0])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_update(table, [0, 2], [7, 8]))
        array([7, 0, 8], dtype=int32)
    """
    return _check_variable(ref).scatter(kernels.scatter_update_variable, indices, updates, name)


def scatter_add(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Add `updates` to the rows `indices` of the variable, repeated rows repeatedly. Returns its new value.

    Examples:
        >>> table = af.Variable([1, 1, 1])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_add(table, [0, 0], [7, 8]))
        array([16,  1,  1], dtype=int32)
    """
    return _check_variable(ref).scatter(kernels.scatter_add_variable, indices, updates, name)


def scatter_sub(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Subtract `updates` from the rows `indices` of the variable, repeated rows repeatedly. Returns its new value.

    Examples:
        >>> table = af.Variable([9, 9])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_sub(table, [0], [4]))
        array([5, 9], dtype=int32)
    """
    return _check_variable(ref).scatter(kernels.scatter_sub_variable, indices, updates, name)


def _scatter(op: Op[Tensor], ref: Any, indices: NumberLike, updates: TensorLike, name: str | None) -> Tensor:
    return _check_variable(ref).scatter(op, indices, updates, name)


def _check_variable(ref: Any) -> Variable:
    if not isinstance(ref, Variable):
        raise TypeError(f"only a variable can be assigned, not {safe_repr(ref)}")
    return ref


def assign_mul(ref: Variable, value: TensorLike, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Multiply the variable by `value`. Returns the new value.

    Examples:
        >>> v = af.Variable([1.0, 2.0])
        >>> await session.run(v.initializer)
        >>> await session.run(af.assign_mul(v, [3.0, 3.0]))
        array([3., 6.], dtype=float32)
    """
    return _check_variable(ref).assign_mul(value, name=name)


def count_up_to(ref: Variable, limit: int, name: str | None = None) -> Tensor:
    """Increment the variable, one integer. Returns its former value.

    Raises:
        OutOfRangeError: it has reached `limit`, and stays unchanged.

    Examples:
        >>> state = af.Variable(0)
        >>> await session.run(state.initializer)
        >>> await session.run(af.count_up_to(state, 3))
        np.int32(0)
    """
    graph = graph_to_build_in(ref.graph)
    with graph.as_default(), graph.colocate_with(_check_variable(ref).handle, ignore_existing=True):
        return scatter_kernels.count_up_to_variable(ref.handle, limit, name=name)


def scatter_mul(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Multiply the rows `indices` of the variable by `updates`, repeated rows repeatedly. Returns its new value.

    Examples:
        >>> table = af.Variable([2, 3])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_mul(table, [0], [10]))
        array([20,  3], dtype=int32)
    """
    return _scatter(scatter_kernels.scatter_mul_variable, ref, indices, updates, name)


def scatter_div(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Divide the rows `indices` of the variable by `updates`, repeated rows repeatedly. Returns its new value.

    Examples:
        >>> v = af.Variable([2.0, 4.0])
        >>> await session.run(v.initializer)
        >>> await session.run(af.scatter_div(v, [1], [2.0]))
        array([2., 2.], dtype=float32)
    """
    return _scatter(scatter_kernels.scatter_div_variable, ref, indices, updates, name)


def scatter_min(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Set the rows `indices` of the variable to the minimum of them and `updates`. Returns its new value.

    Examples:
        >>> table = af.Variable([1, 9])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_min(table, [0, 1], [4, 4]))
        array([1, 4], dtype=int32)
    """
    return _scatter(scatter_kernels.scatter_min_variable, ref, indices, updates, name)


def scatter_max(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Set the rows `indices` of the variable to the maximum of them and `updates`. Returns its new value.

    Examples:
        >>> table = af.Variable([1, 9])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_max(table, [0, 1], [4, 4]))
        array([4, 9], dtype=int32)
    """
    return _scatter(scatter_kernels.scatter_max_variable, ref, indices, updates, name)


def scatter_nd_update(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Set the elements at the positions along the last axis of `indices` to `updates`. Returns the new value.

    Examples:
        >>> table = af.Variable([[0, 0], [0, 0]])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_nd_update(table, [[0, 1]], [7]))
        array([[0, 7],
               [0, 0]], dtype=int32)
    """
    return _scatter(scatter_kernels.scatter_nd_update_variable, ref, indices, updates, name)


def scatter_nd_add(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Add `updates` to the elements at the positions along the last axis of `indices`. Returns the new value.

    Examples:
        >>> table = af.Variable([[1, 1], [1, 1]])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_nd_add(table, [[0, 1]], [7]))
        array([[1, 8],
               [1, 1]], dtype=int32)
    """
    return _scatter(scatter_kernels.scatter_nd_add_variable, ref, indices, updates, name)


def scatter_nd_sub(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Subtract `updates` from the elements at the positions along the last axis of `indices`. Returns the new value.

    Examples:
        >>> table = af.Variable([[1, 1]])
        >>> await session.run(table.initializer)
        >>> await session.run(af.scatter_nd_sub(table, [[0, 1]], [7]))
        array([[ 1, -6]], dtype=int32)
    """
    return _scatter(scatter_kernels.scatter_nd_sub_variable, ref, indices, updates, name)


@transactional
def batch_scatter_update(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Set the rows `indices`, in each batch along all but their last axis, to `updates`. Returns the new value.

    `indices` has the axes of the batch and then one of rows; `updates` its shape and then a row's.

    Examples:
        >>> table = af.Variable([[1, 2], [3, 4]])
        >>> await session.run(table.initializer)
        >>> await session.run(af.batch_scatter_update(table, [[0], [1]], [[7], [8]]))
        array([[7, 2],
               [3, 8]], dtype=int32)
    """
    rows = convert_to_tensor(indices, preferred_dtype=int32)
    rank = rows.spec.rank
    if not rank:
        raise ValueError(f"indices have batch axes and one of rows, their shape is {rows.shape}")
    return scatter_nd_update(ref, in_batches(expand_dims(rows, -1), rank - 1), updates, use_locking, name)
