"""Axes that only a run knows: an op along one, composed of the op along the last axis and moves of axes.

An axis is an attribute, since kernels and shape rules use it. `Op.dynamic` composes the op where it is a tensor.
"""

from typing import Any

import numpy as np

from aioflow.graph.op import Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.shapes import free, reshape, shape
from aioflow.kernels.families import CPU, GPU
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape


@op
def axes_last(shape: Ints, axes: Ints) -> tuple[Spec, Spec, Spec]:
    """The axes in an order in which `axes` are last; the sizes in that order, the product of the last ones as one.

    The third result is the shape with 1 for each of `axes`. InvalidArgumentError if one is out of range or named twice.
    """
    rank, count = known.length(shape, "shape"), _number_of(axes)
    flat = None if rank is None or count is None else rank - count + 1
    if flat is not None and flat < 1:
        raise ValueError(f"{count} axes are named, and the rank is {rank}")
    return tuple([Spec(shape.dtype, TensorShape.vector(size)) for size in (rank, flat, rank)])  # type: ignore[return-value]


def _number_of(axes: Spec) -> int | None:
    """How many axes an integer or a vector of integers names."""
    known.integers(axes, "axis")
    if axes.rank not in (None, 0, 1):
        raise ValueError(f"axis must be an integer or a vector of integers, its shape is {axes.shape}")
    return axes.shape.num_elements()


@axes_last.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, shape: Array, axes: Array) -> tuple[Array, Array, Array]:
    last = [dtypes.normalise_axis(axis, len(shape)) for axis in np.ravel(axes).tolist()]
    if len({*last}) < len(last):
        raise ValueError(f"axes {np.ravel(axes).tolist()} name an axis twice")
    first = [axis for axis in range(len(shape)) if axis not in last]
    ones = shape.copy()
    ones[last] = 1
    flat = np.append(shape[first], np.prod(shape[last], dtype=shape.dtype))
    return np.array(first + last, shape.dtype), flat, ones


axes_last.no_gradient("axes are whole numbers")
axes_last.on_host(outputs=True)


@op
def permute(x: Spec, perm: Ints, inverse: bool = False) -> Spec:
    """`x` with its axes in the order `perm`, or put back from that order if `inverse`.

    InvalidArgumentError if `perm` is not a permutation of the axes.
    """
    rank = known.length(perm, "perm")
    if rank is None:
        return Spec(x.dtype, x.shape if x.sizes is None else TensorShape((None,) * len(x.sizes)))
    return Spec(x.dtype, TensorShape((None,) * len(x.with_rank(rank, f"a, for perm of {rank} axes").sizes or ())))


@permute.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return permute(dy, op.inputs[1], not op.attrs["inverse"]), None


@permute.kernel(CPU, GPU)
def _(xp: Namespace, x: Array, perm: Array, *, inverse: bool) -> Array:
    order = perm.tolist()
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"perm {order} is not a permutation of the axes 0 to {x.ndim - 1}")
    return x.transpose(sorted(order, key=order.__getitem__) if inverse else order)


for _op in (axes_last, permute):
    free(_op)


def order_with_last(x: Tensor, axis: Tensor) -> Tensor:
    """The order of the axes of `x` in which `axis` is the last one."""
    return axes_last(shape(x), axis)[0]


def last_axis_to(x: Tensor, axis: Tensor) -> Tensor:
    """`x` with its last axis moved to the place `axis`."""
    return permute(x, order_with_last(x, axis), inverse=True)


def reduced(made: Op[Tensor], x: Tensor, axis: Tensor, keepdims: bool | None, *rest: Any) -> Tensor:
    """A reduction of `x` along `axis`, one or several: along the last axis, which they become together."""
    perm, flat, ones = axes_last(shape(x), axis)
    result = made(reshape(permute(x, perm), flat), -1, False, *rest)
    return reshape(result, ones) if keepdims else result


def along(made: Op[Tensor], x: Tensor, axis: Tensor, *rest: Any) -> Tensor:
    """An op that keeps the shape of `x`, along `axis`."""
    perm = order_with_last(x, axis)
    result = permute(made(permute(x, perm), -1, *rest), perm, inverse=True)
    result.set_shape(x.shape)
    return result


def dynamic_reduction(made: Op[Tensor]) -> None:
    """Declare a reduction, of parameters (x, axis, keepdims, ...), along axes that only a run knows."""
    made.dynamic("axis")(lambda x, axis, keepdims, *rest: reduced(made, x, axis, keepdims, *rest))


def dynamic_axis(made: Op[Tensor]) -> None:
    """Declare an op of parameters (x, axis, ...), which keeps the shape, along an axis that only a run knows."""
    made.dynamic("axis")(lambda x, axis, *rest: along(made, x, axis, *rest))


OPERATORS.update(last_axis_to=last_axis_to)
