"""Broadcasting, and its inverse for gradients: sums from the broadcast shape to the operand's."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.families import CPU, GPU, NARROW, costs, shape_vector, summed_axes
from aioflow.tensors.dtypes import NUMERIC, SCALAR, UNKNOWN, Array, Namespace, Spec, TensorShape, normalise_axis

Axis: TypeAlias = int | Sequence[int] | None
"""An axis, several, or None for all."""


def axes_of(axis: Axis, rank: int | None) -> tuple[int, ...]:
    """The axes counted from the front where the rank is known. ValueError if one is out of range or named twice."""
    if axis is None:
        return tuple(range(rank or 0))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple([normalise_axis(int(each), rank) for each in given])
    if len({*axes}) < len(axes):
        raise ValueError(f"axes {list(given)} name an axis twice")
    return axes


def reduced(x: Spec, axis: Axis, keepdims: bool | None) -> TensorShape:
    """The shape of x without the axes, or with 1 in their place."""
    if x.sizes is None:
        return SCALAR if axis is None and not keepdims else UNKNOWN
    axes = axes_of(axis, len(x.sizes))
    if keepdims:
        return TensorShape([1 if i in axes else size for i, size in enumerate(x.sizes)]) if axes else x.shape
    return TensorShape([size for i, size in enumerate(x.sizes) if i not in axes]) if axes else x.shape


def counted(shape: Sequence[int], axis: Axis) -> int:
    """How many elements of a concrete shape are reduced to one."""
    count = 1
    for i in axes_of(axis, len(shape)):
        count *= shape[i]
    return count


@op
def spread(x: Spec, shape: Ints, axis: Axis = None, keepdims: bool | None = None, mean: bool = False) -> Spec:
    """x, which was reduced from `shape` along the axes, repeated along them, or shared out evenly if `mean`.

    The gradient of `reduce_sum` and of `reduce_mean`, which are its own gradient.
    """
    whole = known.shape(shape)
    if not reduced(Spec(x.dtype, whole), axis, keepdims).is_compatible_with(x.shape):
        raise ValueError(f"shape {x.shape} is not the shape of {whole} reduced along axis {axis}")
    return x.only(NUMERIC).with_shape(whole)


@spread.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    collect = OPERATORS["reduce_mean" if op.attrs["mean"] else "reduce_sum"]
    return collect(dy, op.attrs["axis"], keepdims=op.attrs["keepdims"]), None


@spread.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    axis, keepdims, mean, empty = node.attrs["axis"], node.attrs["keepdims"], node.attrs["mean"], xp.empty
    dtype, rank = node.output_specs[0].dtype.np, node.output_specs[0].rank
    aligned = None if rank is None or keepdims or axis is None else _with_gaps(rank, axis)

    def repeated(x: Array, shape: Array) -> Array:
        sizes = tuple(shape.tolist())
        result = empty(sizes, dtype)
        if mean:
            x = x / counted(sizes, axis)
        if aligned is not None:
            result[...] = x[aligned]
        else:
            result[...] = x if x.ndim in (0, len(sizes)) else x[_with_gaps(len(sizes), axis)]
        return result

    return repeated


def _with_gaps(rank: int, axis: Axis) -> tuple[slice | None, ...]:
    """The index that puts axes of size 1 where a tensor of that rank was reduced."""
    axes = axes_of(axis, rank)
    return tuple([None if i in axes else slice(None) for i in range(rank)])


@op
def sum_to_shape(x: Spec, shape: Ints) -> Spec:
    """`x` summed over the axes along which a tensor of `shape` would be broadcast to x; the result has that shape.

    The gradient of broadcasting: InvalidArgumentError where `shape` does not broadcast to x's.
    """
    target = known.shape(shape)
    if x.sizes is not None and target.sizes is not None:
        lead = len(x.sizes) - len(target.sizes)
        pairs = zip(target.sizes, x.sizes[lead:], strict=True) if lead >= 0 else [(2, 1)]
        if any(None not in pair and pair[0] not in (1, pair[1]) for pair in pairs):
            raise ValueError(f"shape {target} does not broadcast to {x.shape}")
    return x.only(NUMERIC).with_shape(target)


@sum_to_shape.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return OPERATORS["broadcast_to"](dy, shape_vector(op.inputs[0])), None


costs(sum_to_shape, 1.0)


@sum_to_shape.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    dtype = node.output_specs[0].dtype
    precise = xp.dtype(xp.float32) if dtype in NARROW else dtype.np

    def summed(x: Array, shape: Array) -> Array:
        sizes = tuple(shape.tolist())
        if x.shape == sizes:
            return x
        axes = summed_axes(sizes, x.shape)
        if axes is None or any(mine not in (1, size) for mine, size in zip(sizes[::-1], x.shape[::-1], strict=False)):
            raise errors.InvalidArgumentError(f"shape {list(sizes)} does not broadcast to {list(x.shape)}")
        dropped, kept = axes
        if kept:
            x = xp.sum(x, axis=tuple([dropped + axis for axis in kept]), dtype=precise, keepdims=True)
        if dropped:
            x = xp.sum(x, axis=tuple(range(dropped)), dtype=precise)
        return x if precise is dtype.np else x.astype(dtype.np)

    return summed


OPERATORS.update(spread=spread, sum_to_shape=sum_to_shape)
