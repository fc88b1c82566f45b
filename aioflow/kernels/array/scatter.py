"""Elements and rows put at given positions: of a tensor, which gives a new one, and of a variable, which changes."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Op, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.gather import _flattened as flat_positions
from aioflow.kernels.array.gather import _nd_shape as picked_shape
from aioflow.kernels.array.gather import check_positions, gather_nd
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, GPU, NARROW
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.state.variables import _at, _scatter, _value_of
from aioflow.resources.containers import VariableState
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import ANY, FLOAT, INTEGER, NUMERIC, Array, Namespace, Spec

Change = Callable[[Namespace, Array, Array, Array], None]
"""(xp, rows, places, updates): changes rows in place."""


def _set(xp: Namespace, rows: Array, places: Array, updates: Array) -> None:
    rows[places] = updates


def _changed(xp: Namespace, whole: Array, indices: Array, updates: Array, change: Change) -> None:
    """Change the slices of `whole`, which is contiguous, at the positions along the last axis of `indices`."""
    if change is _set and type(updates) is np.ndarray and _set_one(whole, indices, updates):
        return
    depth = indices.shape[-1]
    sizes = whole.shape[:depth]
    if depth > whole.ndim or np.shape(updates) != indices.shape[:-1] + whole.shape[depth:]:
        raise ValueError(f"updates of shape {list(np.shape(updates))} do not fit shape {list(whole.shape)}")
    places = xp.asarray(flat_positions(xp, indices, sizes)).reshape(-1)
    rows = whole.reshape((math.prod(sizes), *whole.shape[depth:]))
    change(xp, rows, places, xp.asarray(updates).reshape(places.shape + whole.shape[depth:]))


def _set_one(whole: Array, indices: Array, updates: Array) -> bool:
    """Set the slice at the position, and return True, if there is one position, in range, and the update fits."""
    depth = indices.shape[-1]
    if indices.size != depth or updates.shape != indices.shape[:-1] + whole.shape[depth:] or depth > whole.ndim:
        return False
    place = indices.ravel().tolist()
    for index, size in zip(place, whole.shape, strict=False):
        if not 0 <= index < size:
            return False
    whole[(*place, ...)] = updates
    return True


# On tensors


def _tensor_scatter(
    name: str, change: Change, doc: str, example: str, *families: frozenset[dtypes.DType]
) -> Op[Tensor]:
    def rule(tensor: T, indices: Indices, updates: T) -> Spec:
        tensor.only(*families).same_dtype(updates)
        updates.shape.merge_with(picked_shape(tensor.shape, indices))
        return tensor if tensor.known is None else Spec(tensor.dtype, tensor.shape)

    def check(tensor: Spec | Array, indices: Spec | Array, updates: Spec | Array) -> None:
        check_positions(tensor, indices)

    rule.__doc__ = f"""{doc}

    The positions are along the last axis of `indices`: as `gather_nd` takes them.

    Examples:
        >>> await session.run(af.{name.replace("scatter", "scatter_nd")}([1, 2, 3], [[0], [2]], [5, 1]))
        array({example}, dtype=int32)
    """
    made: Op[Tensor] = op(name=name)(rule)
    made.check(check)

    made.updates = True

    @made.kernel(CPU, GPU, out=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
        dtype = node.output_specs[0].dtype
        wide = dtype in NARROW and change is not _set  # so that repeated sums are rounded once

        def scattered(tensor: Array, indices: Array, updates: Array, out: Array | None = None) -> Array:
            if out is tensor and not wide and out.flags.c_contiguous:
                _changed(xp, out, indices, updates, change)
                return out
            result = xp.array(tensor, np.float32 if wide else getattr(tensor, "dtype", dtype.np), order="C")
            _changed(xp, result, indices, updates, change)
            return result.astype(dtype.np) if wide else result

        return scattered

    return made


tensor_scatter_update: Final = _tensor_scatter(
    "tensor_scatter_update",
    _set,
    "`tensor` with `updates` at the positions `indices`; of repeated ones the last.",
    "[5, 2, 1]",
    ANY,
)
tensor_scatter_add: Final = _tensor_scatter(
    "tensor_scatter_add",
    _at("add"),
    "`tensor` with `updates` added at the positions `indices`.",
    "[6, 2, 4]",
    NUMERIC,
)
tensor_scatter_sub: Final = _tensor_scatter(
    "tensor_scatter_sub",
    _at("subtract"),
    "`tensor` with `updates` subtracted at the positions `indices`.",
    "[-4,  2,  2]",
    NUMERIC,
)
tensor_scatter_max: Final = _tensor_scatter(
    "tensor_scatter_max",
    _at("maximum"),
    "The largest of the element of `tensor` and all `updates` there.",
    "[5, 2, 3]",
    FLOAT,
    INTEGER,
)
tensor_scatter_min: Final = _tensor_scatter(
    "tensor_scatter_min",
    _at("minimum"),
    "The smallest of the element of `tensor` and all `updates` there.",
    "[1, 2, 1]",
    FLOAT,
    INTEGER,
)


tensor_scatter_update.moves = True


@tensor_scatter_update.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, Tensor]:
    _, indices, updates = op.inputs
    return tensor_scatter_update(dy, indices, zeros_like(updates)), None, gather_nd(dy, indices)


@tensor_scatter_add.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, Tensor]:
    return dy, None, gather_nd(dy, op.inputs[1])


@tensor_scatter_sub.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, Tensor]:
    return dy, None, -gather_nd(dy, op.inputs[1])


def _extreme_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None, Tensor]:
    """Those that are equal to the extreme share its gradient."""
    tensor, indices, updates = op.inputs
    kept = cast(equal(tensor, op.output), dy.dtype)
    taken = cast(equal(updates, gather_nd(op.output, indices)), dy.dtype)
    share = dy / tensor_scatter_add(kept, indices, taken)
    return share * kept, None, gather_nd(share, indices) * taken


tensor_scatter_max.gradient(_extreme_gradient)
tensor_scatter_min.gradient(_extreme_gradient)


# On variables

scatter_mul_variable: Final = _scatter(
    "scatter_mul_variable",
    _at("multiply"),
    "The rows `indices` are multiplied by `updates`, repeated ones repeatedly; the result is the new value.",
    NUMERIC,
)
scatter_min_variable: Final = _scatter(
    "scatter_min_variable",
    _at("minimum"),
    "The rows `indices` hold the lesser of themselves and `updates`; the result is the variable's new value.",
    FLOAT,
    INTEGER,
)
scatter_max_variable: Final = _scatter(
    "scatter_max_variable",
    _at("maximum"),
    "The rows `indices` hold the greater of themselves and `updates`; the result is the variable's new value.",
    FLOAT,
    INTEGER,
)


def _divide(xp: Namespace, value: Array, indices: Array, updates: Array) -> None:
    if value.dtype.kind not in "iu":
        _at("divide")(xp, value, indices, updates)
        return
    if xp is np and (np.asarray(updates) == 0).any():
        raise ValueError("integers cannot be divided by 0")
    for place, divisor in zip(indices.reshape(-1), _each(value, indices, updates), strict=True):
        value[place] = (value[place] - xp.fmod(value[place], divisor)) // divisor  # rounded towards 0, as in C


def _each(value: Array, indices: Array, updates: Array) -> Array:
    """`updates` as one row for each index."""
    return np.broadcast_to(updates, np.shape(indices) + value.shape[1:]).reshape((np.size(indices), *value.shape[1:]))


scatter_div_variable: Final = _scatter(
    "scatter_div_variable",
    _divide,
    "The rows `indices` are divided by `updates`, repeated ones repeatedly; the result is the variable's new value.",
    NUMERIC,
)


def _scatter_nd(name: str, change: Change, doc: str, *families: frozenset[dtypes.DType]) -> Op[Tensor]:
    """An op that changes a variable at positions along the last axis of `indices`."""

    def rule(handle: Spec, indices: Indices, updates: Spec) -> Spec:
        item = _value_of(handle).only(*families).same_dtype(updates)
        updates.shape.merge_with(picked_shape(item.shape, indices))
        return item

    rule.__doc__ = f"{doc} The result is the variable's new value."
    made: Op[Tensor] = op(name=name, stateful=True)(rule)
    made.no_gradient("it changes state")

    @made.check
    def _(handle: Spec, indices: Spec | Array, updates: Spec | Array) -> None:
        check_positions(_value_of(handle), indices)

    @made.kernel(CPU, GPU)
    def _(ctx: Context, state: VariableState, indices: Array, updates: Array) -> Array:
        ctx.step.check()
        return state.change(lambda present: _changed(ctx.xp, present, indices, updates, change), ctx.step.journal)

    return made


scatter_nd_update_variable: Final = _scatter_nd(
    "scatter_nd_update_variable", _set, "The variable holds `updates` at the positions `indices`.", ANY
)
scatter_nd_add_variable: Final = _scatter_nd(
    "scatter_nd_add_variable", _at("add"), "The variable grows by `updates` at the positions `indices`.", NUMERIC
)
scatter_nd_sub_variable: Final = _scatter_nd(
    "scatter_nd_sub_variable", _at("subtract"), "The variable shrinks by `updates` at the positions `indices`.", NUMERIC
)


@op(stateful=True)
def count_up_to_variable(handle: Spec, limit: int) -> Spec:
    """The variable's value before it grew by one. OutOfRangeError, and it does not grow, once it is at `limit`."""
    return _value_of(handle).only(INTEGER).with_rank(0)


count_up_to_variable.no_gradient("it changes state")


@count_up_to_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState, *, limit: int) -> Array:
    ctx.step.check()
    before: list[Any] = []

    def count(present: Array) -> None:
        if present >= limit:
            raise errors.OutOfRangeError(f"variable {state.name!r} has reached its limit {limit}")
        before.append(present.copy())
        present += 1

    state.change(count, ctx.step.journal)
    return before[0]


OPERATORS.update(tensor_scatter_update=tensor_scatter_update, tensor_scatter_add=tensor_scatter_add)
