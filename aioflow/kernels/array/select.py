"""Selects elements by a condition or a mask, and makes masks from lengths.

`np.where` branches on every element, and where a condition follows no pattern the branches are mispredicted: that is
ten times slower than arithmetic. So on the CPU large arrays are chosen from by arithmetic on their bits, which keeps
NaN and infinities where they are, as multiplying floats by 0 and 1 would not.

"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.dynamic_axes import axes_last, order_with_last, permute
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.families import CPU, GPU, costs, elements, stays, sum_to_operand
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    ANY,
    BOOL,
    NUMERIC,
    UNKNOWN,
    Array,
    DType,
    DTypeLike,
    Namespace,
    Spec,
    TensorShape,
    int64,
)

Function = Callable[..., Any]


@op(name="boolean_mask")
def _boolean_mask(tensor: Spec, mask: Spec, axis: int = 0) -> Spec:
    """The elements of `tensor` where `mask`, which covers the axes from `axis` on, holds, in order."""
    place, covered = _covered(tensor, mask.only(dtypes.BOOL), axis)
    if tensor.sizes is None or place is None:
        return Spec(tensor.dtype)
    covered_by = TensorShape(tensor.sizes[place : place + covered])
    if not covered_by.is_compatible_with(mask.shape):
        raise ValueError(f"a mask of shape {mask.shape} does not fit {tensor.shape} from axis {axis} on")
    return Spec(tensor.dtype, TensorShape((*tensor.sizes[:place], None, *tensor.sizes[place + covered :])))


def _covered(tensor: Spec, mask: Spec, axis: int) -> tuple[int | None, int]:
    if mask.rank == 0:
        raise ValueError("a mask of rank 1 or more is needed")
    return (None, 0) if tensor.rank is None or mask.rank is None else (tensor.axis(axis), mask.rank)


@_boolean_mask.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return _boolean_mask_grad(dy, *op.inputs, op.attrs["axis"]), None


@_boolean_mask.dynamic("axis")
def _(tensor: Tensor, mask: Tensor, axis: Tensor) -> Tensor:
    """The axes under the mask made the last ones, and the axis of the elements that are left put in their place."""
    rank, covered = tensor.spec.rank, mask.spec.rank
    if rank is None or covered is None:
        raise ValueError("an axis that only a run knows needs a tensor and a mask of known rank")
    axis = where(axis < 0, axis + rank, axis)
    moved = permute(tensor, axes_last(shape(tensor), axis + np.arange(covered, dtype=axis.dtype.np))[0])
    found = _boolean_mask(moved, mask, rank - covered)
    return permute(found, order_with_last(found, axis), inverse=True)


_boolean_mask.moves = True


@_boolean_mask.kernel(CPU, fresh=True, binds=True)  # how many there are depends on values
def _(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]
    return (lambda x, mask: x[_masked(axis, x.ndim, mask)]) if axis else lambda x, mask: x[mask]


def _masked(axis: int, rank: int, mask: Array) -> Any:
    return (*[slice(None)] * dtypes.normalise_axis(axis, rank), mask)


@op(name="boolean_mask_grad")
def _boolean_mask_grad(dy: Spec, tensor: Spec, mask: Spec, axis: int) -> Spec:
    """Zeros in the shape of `tensor`, with `dy` where `mask` holds: the gradient of `boolean_mask`."""
    return Spec(dy.dtype, tensor.shape)


@_boolean_mask_grad.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return _boolean_mask(dy, op.inputs[2], op.attrs["axis"]), None, None


@_boolean_mask_grad.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]

    def placed(dy: Array, tensor: Array, mask: Array) -> Array:
        result = xp.zeros(tensor.shape, dy.dtype)
        result[_masked(axis, tensor.ndim, mask)] = dy
        return result

    return placed


@transactional
def boolean_mask(
    tensor: TensorLike, mask: TensorLike, name: str | None = None, axis: TensorLike | None = None
) -> Tensor:
    """The elements of `tensor` where `mask`, which covers the axes from `axis` on (by default 0), holds, in order.

    Examples:
        >>> await session.run(af.boolean_mask([1, 2, 3], [True, False, True]))
        array([1, 3], dtype=int32)
    """
    return _boolean_mask(tensor, mask, 0 if axis is None else axis, name=name)


@op(name="sequence_mask")
def _sequence_mask(lengths: Indices, maxlen: Ints, dtype: DType) -> Spec:
    """Row i begins with `lengths[i]` ones, and zeros follow; a negative `maxlen` is the greatest length."""
    known.integers(lengths, "lengths")
    count = known.scalar(maxlen, "maxlen")
    width = count if count is None or count >= 0 else _greatest(lengths.known)
    return Spec(dtype, lengths.shape.concatenate([width]))


def _greatest(lengths: Any) -> int | None:
    """The greatest of lengths, at least 0; None if one is not known."""
    each = lengths if isinstance(lengths, tuple) else (lengths,)
    return None if None in each else max(0, *each, 0)


@_sequence_mask.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    lengths, most = inputs[0], int(inputs[1])
    return int(lengths.size) * int(attrs["dtype"].size) * (most if most >= 0 else int(lengths.max(initial=0)))


_sequence_mask.no_gradient("lengths are integers")


@_sequence_mask.kernel(CPU, fresh=True, binds=True)  # how wide it is may depend on values
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype.np

    def mask(lengths: Array, maxlen: Array) -> Array:
        count = int(maxlen)
        if count < 0:
            count = max(int(lengths.max()), 0) if lengths.size else 0
        return (xp.arange(count) < lengths[..., None]).astype(dtype, copy=False)

    return mask


@transactional
def sequence_mask(
    lengths: NumberLike, maxlen: NumberLike | None = None, dtype: DTypeLike = dtypes.bool_, name: str | None = None
) -> Tensor:
    """Whether each of the places 0 to `maxlen` - 1 lies within each length: shape `[*lengths.shape, maxlen]`.

    `maxlen` is by default the greatest length.

    Examples:
        >>> await session.run(af.sequence_mask([1, 3], 4))
        array([[ True, False, False, False],
               [ True,  True,  True, False]])
    """
    return _sequence_mask(lengths, -1 if maxlen is None else maxlen, dtype, name=name)


costs(_boolean_mask, 2.0)
OPERATORS["boolean_mask"] = boolean_mask


_LARGE: Final = 4096
_WORDS: Final = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
BY_BITS: Final = frozenset(dtype for dtype in ANY if dtype.size in _WORDS and dtype.family != "string")
"""Dtypes whose elements are as large as some integer."""


@op
def select(condition: Spec, x: T, y: T) -> Spec:
    """`x` where `condition` is true, y elsewhere; all three are broadcast together by NumPy's rule.

    Examples:
        >>> await session.run(af.select([True, False], [1, 2], [10, 20]))
        array([ 1, 20], dtype=int32)
    """
    condition.only(BOOL)
    whole = Spec(x.dtype, x.same_dtype(y).broadcast(y))
    return Spec(x.dtype, whole.broadcast(condition))


@select.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor | None, ...]:
    z, (condition, x, y) = op.outputs[0], op.inputs
    dx = masked(dz, condition)
    dy = masked(dz, OPERATORS["logical_not"](condition))
    return (
        None,
        dx if stays(x, z) else sum_to_operand(x, dx, condition, y),
        dy if stays(y, z) else sum_to_operand(y, dy, condition, x),
    )


select.moves = True


@select.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    return xp.where  # type: ignore[no-any-return]


@select.kernel(CPU, fresh=True, binds=True, only=BY_BITS, priority=1, scalar="{1} if {0} else {2}")
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    dtype = node.output_specs[0].dtype.np
    where, word = xp.where, np.dtype(_WORDS[dtype.itemsize])

    def chosen(condition: Array, x: Array, y: Array) -> Array:
        if condition.size < _LARGE:
            return where(condition, x, y)
        bits = y.view(word)
        result = (x.view(word) ^ bits) * condition
        result ^= bits
        return result.view(dtype)

    return chosen


@op
def masked(x: Spec, mask: Spec) -> Spec:
    """`x` where `mask` is true, 0 elsewhere, even where x is infinite or NaN. The mask broadcasts to x's shape.

    Examples:
        >>> await session.run(af.masked([1.0, 2.0], [True, False]))
        array([1., 0.], dtype=float32)
    """
    mask.only(BOOL)
    if not x.broadcast(mask).is_compatible_with(x.shape):
        raise ValueError(f"a mask of shape {mask.shape} does not broadcast to {x.shape}")
    return x.only(NUMERIC, BOOL)


@masked.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return masked(dy, op.inputs[1]), None


@masked.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, mask: Array) -> Array:
    return xp.where(mask, x, xp.zeros((), x.dtype))


@masked.kernel(CPU, out=True, binds=True, only=BY_BITS, priority=1, scalar="{0} if {1} else {type}(0)")
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    dtype = node.output_specs[0].dtype.np
    multiply, word = xp.multiply, np.dtype(_WORDS[dtype.itemsize])

    def kept(x: Array, mask: Array, out: Array | None = None) -> Array:
        if out is None:
            return multiply(x.view(word), mask).view(dtype)
        multiply(x.view(word), mask, out=out.view(word))
        return out

    return kept


# Users' form


@transactional
@dispatching
def where(
    condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, name: str | None = None
) -> Tensor:
    """`x` where `condition` is true, y elsewhere; without x and y, the int64 indices [n, rank] of its true elements.

    All three are broadcast together by NumPy's rule, with TensorFlow's exception: a condition of rank 1 for x and y of
    one rank above 1 chooses whole rows, x[i] or y[i].

    Raises:
        ValueError: only one of x and y is given, or the shapes do not fit.

    Examples:
        >>> await session.run(af.where([True, False], [1, 2], [10, 20]))
        array([ 1, 20], dtype=int32)
    """
    if (x is None) != (y is None):
        raise ValueError("where: give both x and y, or neither")
    condition = convert_to_tensor(condition)
    if x is None:
        return _where(condition, name=name)
    x, y = _pair(x, y)
    return select(_by_row(condition, x, y), x, y, name=name)


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors, a literal with the dtype of the other."""
    x_dtype, y_dtype = (v.dtype if isinstance(getattr(v, "dtype", None), DType) else None for v in (x, y))
    x = convert_to_tensor(x, None if x_dtype is not None else y_dtype)
    return x, convert_to_tensor(y, None if y_dtype is not None else x.dtype)


def _by_row(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    ranks = condition.spec.rank, x.spec.rank, y.spec.rank
    if ranks[0] not in (None, 1) or {0, 1} & {*ranks[1:]} or (None not in ranks and ranks[1] != ranks[2]):
        return condition
    return _per_row(condition, x, y)


@op(name="per_row")
def _per_row(condition: Spec, x: Spec, y: Spec) -> Spec:
    """`condition` with an axis of size 1 for each of x's after the first, if it has rank 1 and x and y one above 1."""
    if condition.rank is None or x.rank is None or y.rank is None:
        return Spec(condition.dtype, UNKNOWN)
    if condition.rank != 1 or x.rank != y.rank or x.rank < 2:
        return condition
    return condition.with_shape((condition.shape[0], *[1] * (x.rank - 1)))


_per_row.no_gradient("truth values do not vary smoothly")
_per_row.cost(lambda inputs, outputs, attrs: 0.0)


@_per_row.kernel(CPU, GPU)
def _(xp: Namespace, condition: Array, x: Array, y: Array) -> Array:
    if condition.ndim != 1 or x.ndim != y.ndim or x.ndim < 2:
        return condition
    return condition.reshape((-1, *[1] * (x.ndim - 1)))


@op(name="where")
def _where(condition: Spec) -> Spec:
    """The indices of the elements of `condition` that are true or not 0, in row-major order: int64, [n, rank]."""
    return condition.only(NUMERIC, BOOL).with_dtype(int64).with_shape((None, condition.rank))


_where.no_gradient("indices do not vary smoothly")


@_where.kernel(CPU, fresh=True)  # how many there are depends on values
def _(xp: Namespace, condition: Array) -> Array:
    if condition.ndim == 0:
        return xp.zeros((int(bool(condition)), 0), xp.int64)
    return xp.stack(xp.nonzero(condition), axis=1)


@_where.cost
def _(inputs: Any, outputs: Any, attrs: Any) -> float:
    return 2 * elements(inputs[0])


OPERATORS.update(select=select, masked=masked, where=where)
