"""Functions that change a variable, or some of its elements and rows."""

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
    return _check_variable(ref).scatter(op, indices, updates, name)


def _check_variable(ref: Any) -> Variable:
    if not isinstance(ref, Variable):
        raise TypeError(f"only a variable can be changed, not {safe_repr(ref)}")
    return ref


def assign_mul(ref: Variable, value: TensorLike, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Multiply the variable by `value`. Returns the new value."""
    return _check_variable(ref).assign_mul(value, name=name)


def count_up_to(ref: Variable, limit: int, name: str | None = None) -> Tensor:
    """Increment the variable, one integer. Returns its former value.

    Raises:
        OutOfRangeError: it has reached `limit`, and stays unchanged.
    """
    graph = graph_to_build_in(ref.graph)
    with graph.as_default(), graph.colocate_with(_check_variable(ref).handle, ignore_existing=True):
        return kernels.count_up_to_variable(ref.handle, limit, name=name)


def scatter_mul(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Multiply the rows `indices` of the variable by `updates`, repeated rows repeatedly. Returns its new value."""
    return _scatter(kernels.scatter_mul_variable, ref, indices, updates, name)


def scatter_div(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Divide the rows `indices` of the variable by `updates`, repeated rows repeatedly. Returns its new value."""
    return _scatter(kernels.scatter_div_variable, ref, indices, updates, name)


def scatter_min(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Set the rows `indices` of the variable to the minimum of them and `updates`. Returns its new value."""
    return _scatter(kernels.scatter_min_variable, ref, indices, updates, name)


def scatter_max(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Set the rows `indices` of the variable to the maximum of them and `updates`. Returns its new value."""
    return _scatter(kernels.scatter_max_variable, ref, indices, updates, name)


def scatter_nd_update(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Set the elements at the positions along the last axis of `indices` to `updates`. Returns the new value."""
    return _scatter(kernels.scatter_nd_update_variable, ref, indices, updates, name)


def scatter_nd_add(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Add `updates` to the elements at the positions along the last axis of `indices`. Returns the new value."""
    return _scatter(kernels.scatter_nd_add_variable, ref, indices, updates, name)


def scatter_nd_sub(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Subtract `updates` from the elements at the positions along the last axis of `indices`. Returns the new value."""
    return _scatter(kernels.scatter_nd_sub_variable, ref, indices, updates, name)


@transactional
def batch_scatter_update(
    ref: Variable, indices: NumberLike, updates: TensorLike, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Set the rows `indices`, in each batch along all but their last axis, to `updates`. Returns the new value.

    `indices` has the axes of the batch and then one of rows; `updates` its shape and then a row's.
    """
    rows = convert_to_tensor(indices, preferred_dtype=int32)
    rank = rows.spec.rank
    if not rank:
        raise ValueError(f"indices have batch axes and one of rows, their shape is {rows.shape}")
    return scatter_nd_update(ref, in_batches(expand_dims(rows, -1), rank - 1), updates, use_locking, name)
