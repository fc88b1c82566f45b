"""What users do with variables: list them, initialize them, assign them by function."""

from collections.abc import Iterable, Sequence
from typing import Any

from aioflow import dtypes
from aioflow.convert import TensorLike
from aioflow.graph import get_default_graph, transactional
from aioflow.graph_keys import GraphKeys
from aioflow.kernels import variables as kernels
from aioflow.kernels.constants import constant
from aioflow.library.control import group
from aioflow.library.variables import Variable
from aioflow.node import Operation, Tensor

# Lists


def global_variables(scope: str | None = None) -> list[Variable]:
    """The default graph's variables that sessions share and checkpoints keep; with `scope`, of names that begin so."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Variable]:
    """The default graph's variables that each process has for itself and checkpoints leave out."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """The default graph's variables that optimizers change unless told otherwise."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Variable]:
    """The default graph's variables of which a moving average is kept."""
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


# Initializing


def variables_initializer(var_list: Iterable[Variable], name: str = "init") -> Operation:
    """An operation that gives each of the variables its initial value.

    In one run of it they are initialized in the order they were built, so that one may be made from another's value.
    """
    return group(*[variable.initializer for variable in var_list or ()], name=name)


def global_variables_initializer() -> Operation:
    """An operation that gives each global variable of the default graph its initial value."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """An operation that gives each local variable of the default graph its initial value."""
    return variables_initializer(local_variables())


def is_variable_initialized(variable: Variable) -> Tensor:
    """Whether the variable has a value."""
    return kernels.is_variable_initialized(variable.handle)


def report_uninitialized_variables(
    var_list: Sequence[Variable] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """A vector of strings: the names of those variables that have no value.

    Of `var_list`; by default of the default graph's global and local variables.
    """
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    if not variables:
        return constant([], dtypes.string, name=name)
    return kernels.uninitialized_variables(
        [variable.handle for variable in variables], names=[variable.op.name for variable in variables], name=name
    )


# Assigning


@transactional
def assign(
    ref: Variable,
    value: TensorLike,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """The variable holds `value`. Gives the new value."""
    return _checked(ref).assign(value, name=name)


@transactional
def assign_add(ref: Variable, value: TensorLike, use_locking: bool | None = None, name: str | None = None) -> Any:
    """The variable grows by `value`. Gives the new value."""
    return _checked(ref).assign_add(value, name=name)


@transactional
def assign_sub(ref: Variable, value: TensorLike, use_locking: bool | None = None, name: str | None = None) -> Any:
    """The variable shrinks by `value`. Gives the new value."""
    return _checked(ref).assign_sub(value, name=name)


def scatter_update(
    ref: Variable, indices: TensorLike, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """The rows `indices` of the variable hold `updates`. Gives its new value."""
    return _checked(ref).scatter(kernels.scatter_update_variable, indices, updates, name)


def scatter_add(
    ref: Variable, indices: TensorLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """The rows `indices` of the variable grow by `updates`, repeated ones repeatedly. Gives its new value."""
    return _checked(ref).scatter(kernels.scatter_add_variable, indices, updates, name)


def scatter_sub(
    ref: Variable, indices: TensorLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """The rows `indices` of the variable shrink by `updates`, repeated ones repeatedly. Gives its new value."""
    return _checked(ref).scatter(kernels.scatter_sub_variable, indices, updates, name)


def _checked(ref: Any) -> Variable:
    if not isinstance(ref, Variable):
        raise TypeError(f"only a variable can be assigned, not {ref!r}")
    return ref


__all__ = [
    "assign", "assign_add", "assign_sub", "global_variables", "global_variables_initializer",
    "is_variable_initialized", "local_variables", "local_variables_initializer", "moving_average_variables",
    "report_uninitialized_variables", "scatter_add", "scatter_sub", "scatter_update", "trainable_variables",
    "variables_initializer",
]  # fmt: skip
