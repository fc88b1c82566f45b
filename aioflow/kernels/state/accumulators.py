"""Ops on conditional accumulators: they sum gradients; a take waits until the required number has arrived."""

import functools
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.graph.params import Prefer
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.state.resource_handles import LiveSpec, again, check_component, opened
from aioflow.queues import LARGE
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import COMPLEX, FLOAT, NUMERIC, SCALAR, Array, DeviceKind, DType, Spec, TensorShape
from aioflow.waiting.accumulators import UNORDERED, Accumulator, DenseAccumulator, Rows, SparseAccumulator, Taken

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
Steps = Annotated[Spec, Prefer(dtypes.int64)]
"""Data that is a number of a step."""


class AccumulatorSpec(LiveSpec):
    """A handle to an accumulator of gradients like `items[0]`."""

    __slots__ = ()
    kind = "a conditional accumulator"


class DenseSpec(AccumulatorSpec):
    """A handle to an accumulator of arrays."""

    __slots__ = ()


class SparseSpec(AccumulatorSpec):
    """A handle to an accumulator of rows."""

    __slots__ = ()
    kind = "a sparse conditional accumulator"


def _item(dtype: DType, shape: TensorShape, reduction_type: str) -> Spec:
    if reduction_type not in ("MEAN", "SUM"):
        raise ValueError(f"reduction_type is 'MEAN' or 'SUM', not {reduction_type!r}")
    item = Spec(dtype, TensorShape(shape)).only(NUMERIC)
    if reduction_type == "MEAN" and not (dtype in FLOAT or dtype in COMPLEX):
        raise TypeError(f"{dtype.name} has no mean: use reduction_type='SUM', or another dtype")
    return item


@op(stateful=True, observes=True, handle=True)
def conditional_accumulator(
    dtype: DType, shape: TensorShape, container: str = "", shared_name: str = "", reduction_type: str = "MEAN"
) -> Spec:
    """A handle to an accumulator: the same one for every operation with that container and name."""
    return DenseSpec((_item(dtype, shape, reduction_type),))


@op(stateful=True, observes=True, handle=True)
def sparse_conditional_accumulator(
    dtype: DType, shape: TensorShape, container: str = "", shared_name: str = "", reduction_type: str = "MEAN"
) -> Spec:
    """A handle to an accumulator of gradients of which only some rows are held."""
    item = _item(dtype, shape, reduction_type)
    if item.rank == 0:
        raise ValueError("a gradient of rank 0 has no rows")
    return SparseSpec((item,))


def _opening(kind: type[Accumulator]) -> Callable[..., Accumulator]:
    def kernel(ctx: Context, *, node: NodeView) -> Accumulator:
        (item,) = AccumulatorSpec.check(node.output_specs[0]).items
        mean = node.attrs["reduction_type"] == "MEAN"
        return opened(ctx, node, kind, lambda name: kind(name, item, mean, node.attrs))

    return kernel


conditional_accumulator.kernel(CPU)(_opening(DenseAccumulator))
sparse_conditional_accumulator.kernel(CPU)(_opening(SparseAccumulator))


# Adding


def _check_order(order: int, local_step: Spec) -> None:
    if not isinstance(order, int) or order < UNORDERED:
        raise ValueError(
            f"order is the place of a task among others, from 0 on, or {UNORDERED} for none: not {order!r}"
        )
    known.scalar(local_step, "local_step")


@op(stateful=True)
def accumulator_apply_gradient(handle: Spec, local_step: Steps, gradient: Spec, order: int = UNORDERED) -> None:
    """Adds the gradient, unless it is stale: computed in a step before the accumulator's. Never waits.

    A take sums the gradients that have an `order` in that order, independent of the order of arrival; it sums those
    without one (-1) first, as they arrived.
    """
    _check_order(order, local_step)
    check_component(gradient, DenseSpec.check(handle).items[0], "the gradient")


@accumulator_apply_gradient.kernel(CPU, fresh=True)
def _(ctx: Context, live: DenseAccumulator, local_step: Array, gradient: Array, *, order: int) -> None:
    ctx.step.check()
    live.apply(gradient, int(local_step), order)


@op(stateful=True)
def sparse_accumulator_apply_gradient(
    handle: Spec,
    local_step: Steps,
    gradient_indices: Steps,
    gradient_values: Spec,
    gradient_shape: Steps,
    has_known_shape: bool = False,
    order: int = UNORDERED,
) -> None:
    """The gradient whose row `gradient_indices[i]` is `gradient_values[i]` is added, unless it is stale. Never waits.

    Rows named twice are summed. `gradient_shape` is that of the whole, if `has_known_shape`. See
    `accumulator_apply_gradient` for the order.
    """
    _check_order(order, local_step)
    (item,) = SparseSpec.check(handle).items
    known.vector(gradient_shape, "gradient_shape")
    known.vector(gradient_indices, "gradient_indices")
    if gradient_values.rank == 0:
        raise ValueError("gradient_values has a row for each index, and so not rank 0")
    gradient_indices.shape.merge_with(gradient_values.shape[:1])
    whole = gradient_values.shape[1:]
    check_component(gradient_values.with_shape(TensorShape.vector(None).concatenate(whole)), item, "the gradient")


@sparse_accumulator_apply_gradient.kernel(CPU, fresh=True)
def _(
    ctx: Context,
    live: SparseAccumulator,
    local_step: Array,
    gradient_indices: Array,
    gradient_values: Array,
    gradient_shape: Array,
    *,
    has_known_shape: bool,
    order: int,
) -> None:
    ctx.step.check()
    shape = gradient_shape if has_known_shape else None
    live.apply(gradient_indices, gradient_values, shape, int(local_step), order)


# Taking


@op(waits=True)
def accumulator_take_gradient(handle: Spec, num_required: Ints) -> Spec:
    """The mean, or the sum, of all gradients added, once `num_required` were. The accumulator's next step begins.

    While it waits nothing is taken. InvalidArgumentError unless `num_required` is positive.
    """
    known.scalar(num_required, "num_required")
    return again(DenseSpec.check(handle).items[0])


@accumulator_take_gradient.kernel(CPU, fresh=True)
async def _(ctx: Context, live: DenseAccumulator, num_required: Array, *, node: NodeView) -> Any:
    return await _total(ctx, live, int(num_required), node)


async def _total(ctx: Context, live: Accumulator, required: int, node: NodeView) -> Any:
    taken: Taken = await live.take_parts(required, node)
    try:
        total = await ctx.step.in_thread(live.total, taken) if taken.nbytes > LARGE else live.total(taken)
    except BaseException:
        live.give_back(taken)
        raise
    ctx.took(functools.partial(live.give_back, taken))
    return total


@op(waits=True)
def sparse_accumulator_take_gradient(handle: Spec, num_required: Ints) -> tuple[Spec, Spec, Spec]:
    """The same of rows: their indices, which ascend, their values, and the shape of the whole, -1 where it is open.

    In the mean a row is divided by the number of gradients that had it.
    """
    known.scalar(num_required, "num_required")
    (item,) = SparseSpec.check(handle).items
    rows = TensorShape.vector(None)
    values = Spec(item.dtype, rows.concatenate(item.shape[1:]))
    return Spec(dtypes.int64, rows), values, Spec(dtypes.int64, TensorShape.vector(item.rank))


@sparse_accumulator_take_gradient.kernel(CPU, fresh=True)
async def _(ctx: Context, live: SparseAccumulator, num_required: Array, *, node: NodeView) -> Any:
    total: Rows = await _total(ctx, live, int(num_required), node)
    whole = [-1 if total.rows is None else total.rows, *total.values.shape[1:]]
    return total.indices, total.values, np.array(whole, np.int64)


# The step


@op(stateful=True)
def accumulator_set_global_step(handle: Spec, new_global_step: Steps) -> None:
    """The accumulator is in that step: gradients of earlier ones are stale."""
    AccumulatorSpec.check(handle)
    known.scalar(new_global_step, "new_global_step")


@accumulator_set_global_step.kernel(CPU, fresh=True)
def _(ctx: Context, live: Accumulator, new_global_step: Array) -> None:
    ctx.step.check()
    live.set_global_step(int(new_global_step))


@op(stateful=True)
def accumulator_num_accumulated(handle: Spec) -> Spec:
    """How many gradients were added since the last were taken."""
    AccumulatorSpec.check(handle)
    return Spec(dtypes.int32, SCALAR)


accumulator_num_accumulated.kernel(CPU, fresh=True, binds=True)(
    lambda xp, node: lambda live: np.int32(live.num_accumulated)
)

_op: Op[Any]
for _op in (conditional_accumulator, sparse_conditional_accumulator):
    _op.no_gradient("a handle has no history")
for _op in (accumulator_apply_gradient, sparse_accumulator_apply_gradient, accumulator_set_global_step):
    _op.no_gradient("it changes state")
for _op in (accumulator_take_gradient, sparse_accumulator_take_gradient):
    _op.no_gradient("a gradient's history ends where it entered the accumulator")
accumulator_num_accumulated.no_gradient("it reads the state of an accumulator")
