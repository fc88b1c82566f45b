"""What users do with parts of variables: count one up, change elements and rows of one by function."""

from typing import Any

from aioflow.graph.building import graph_to_build_in, transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.array import scatter as kernels
from aioflow.kernels.array.shapes import expand_dims
from aioflow.library.arrays import in_batches
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import int32
from aioflow.tensors.recursion import safe_repr


def _scatter(op: Op[Tensor], ref: Any, indices: NumberLike, updates: TensorLike, name: str | None) -> Tensor:
    return _checked(ref).scatter(op, indices, updates, name)


def _checked(ref: Any) -> Variable:
    if not isinstance(ref, Variable):
        raise TypeError(f"only a variable can be changed, not {safe_repr(ref)}")
    return ref


def assign_mul(ref: Variable, value: TensorLike, use_locking: bool | None = None, name: str | None = None) -> Any:
    """The variable is multiplied by `value`. Gives the new value."""
    return _checked(ref).assign_mul(value, name=name)


def count_up_to(ref: Variable, limit: int, name: str | None = None) -> Tensor:
    """The variable, one integer, grows by one. Gives its value before.

    Raises:
        OutOfRangeError: it has reached `limit`, and stays as it is.
    """
    graph = graph_to_build_in(ref.graph)
    with graph.as_default(), graph.colocate_with(_checked(ref).handle, ignore_existing=True):
        return kernels.count_up_to_variable(ref.handle, limit, name=name)


def scatter_mul(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """The rows `indices` of the variable are multiplied by `updates`, repeated ones repeatedly. Gives its new value."""
    return _scatter(kernels.scatter_mul_variable, ref, indices, updates, name)


def scatter_div(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """The rows `indices` of the variable are divided by `updates`, repeated ones repeatedly. Gives its new value."""
    return _scatter(kernels.scatter_div_variable, ref, indices, updates, name)


def scatter_min(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """The rows `indices` of the variable hold the lesser of themselves and `updates`. Gives its new value."""
    return _scatter(kernels.scatter_min_variable, ref, indices, updates, name)


def scatter_max(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """The rows `indices` of the variable hold the greater of themselves and `updates`. Gives its new value."""
    return _scatter(kernels.scatter_max_variable, ref, indices, updates, name)


def scatter_nd_update(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """The variable holds `updates` at the positions along the last axis of `indices`. Gives its new value."""
    return _scatter(kernels.scatter_nd_update_variable, ref, indices, updates, name)


def scatter_nd_add(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """The variable grows by `updates` at the positions along the last axis of `indices`. Gives its new value."""
    return _scatter(kernels.scatter_nd_add_variable, ref, indices, updates, name)


def scatter_nd_sub(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """The variable shrinks by `updates` at the positions along the last axis of `indices`. Gives its new value."""
    return _scatter(kernels.scatter_nd_sub_variable, ref, indices, updates, name)


@transactional
def batch_scatter_update(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """In each batch, along all axes of `indices` but the last, the rows `indices` hold `updates`. Gives the new value.

    `indices` has the batch's axes and then one of rows; `updates` its shape and then a row's.
    """
    rows = convert_to_tensor(indices, preferred_dtype=int32)
    rank = rows.spec.rank
    if not rank:
        raise ValueError(f"indices have batch axes and one of rows, their shape is {rows.shape}")
    return scatter_nd_update(ref, in_batches(expand_dims(rows, -1), rank - 1), updates, use_locking, name)
