"""Running sums, products and log-sum-exp along an axis, sums of many tensors, and polynomials.

Gradients of running products are exact where elements are zero.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.constants import identity, zeros_like
from aioflow.kernels.array.dynamic_axes import dynamic_axis
from aioflow.kernels.array.select import masked
from aioflow.kernels.families import CPU, GPU, NARROW, SLOW, costs, elements, shape_vector
from aioflow.kernels.math.arithmetic import add, add_n
from aioflow.kernels.math.broadcasting import Axis, axes_of
from aioflow.kernels.math.complex import conj
from aioflow.kernels.math.elementwise import exp
from aioflow.kernels.math.rounding import is_finite
from aioflow.tensors.dtypes import FLOAT, NUMERIC, Array, DTypeLike, Namespace, ShapeLike, Spec, as_dtype, as_shape

Function = Callable[..., Array]


@op
def cumsum(x: Spec, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Spec:
    """The running sum along an axis: element i is the sum of all up to i.

    Without i itself if `exclusive`, counted from the end if `reverse`.

    Examples:
        >>> await session.run(af.cumsum([1, 2, 3, 4]))
        array([ 1,  3,  6, 10], dtype=int32)
    """
    x.axis(axis)
    return _along(x)


@op
def cumprod(x: Spec, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Spec:
    """The running product along an axis: element i is the product of all up to i.

    Without i itself if `exclusive`, counted from the end if `reverse`.

    Examples:
        >>> await session.run(af.cumprod([1, 2, 3, 4]))
        array([ 1,  2,  6, 24], dtype=int32)
    """
    x.axis(axis)
    return _along(x)


def _along(x: Spec) -> Spec:
    if x.rank == 0:
        raise ValueError("a scalar has no axis")
    return x.only(NUMERIC)


@cumsum.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return cumsum(dy, op.attrs["axis"], op.attrs["exclusive"], not op.attrs["reverse"])


@cumprod.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    """Element i is in y[k] for each k from i on: dx[i] = before[i] * sum of dy[k] * x[i+1] ... x[k]."""
    x, axis, exclusive, reverse = op.inputs[0], *(op.attrs[name] for name in ("axis", "exclusive", "reverse"))
    before = cumprod(x, axis, True, reverse)
    dy = _shift(dy, axis, not reverse) if exclusive else dy
    after = recurrence(conj(x), dy, axis, not reverse, lag=True)
    return conj(before) * after


def _running(made: Op[Tensor], function: str, start: int) -> None:
    """Declare the kernel of a running sum or product, which `start` begins."""

    @made.kernel(CPU, GPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Function:
        attrs, dtype = node.attrs, node.output_specs[0].dtype
        axis, exclusive, reverse = attrs["axis"], attrs["exclusive"], attrs["reverse"]
        wide, run = xp.float32 if dtype in NARROW else dtype.np, getattr(xp, function)
        if not exclusive and not reverse:
            return lambda x: run(x, axis, wide).astype(dtype.np, copy=False)

        def running(x: Array) -> Array:
            x = xp.flip(x, axis) if reverse else x
            if exclusive:
                y = xp.full(x.shape, start, dtype.np)
                y[_part(axis, x.ndim, slice(1, None))] = run(x[_part(axis, x.ndim, slice(None, -1))], axis, wide)
            else:
                y = run(x, axis, wide).astype(dtype.np, copy=False)
            return xp.flip(y, axis) if reverse else y

        return running

    costs(made, 2.0)
    dynamic_axis(made)


def _part(axis: int, rank: int, part: slice) -> tuple[slice, ...]:
    whole = slice(None)
    axis %= rank
    return (whole,) * axis + (part,)


_running(cumsum, "cumsum", 0)
_running(cumprod, "cumprod", 1)


# For gradients of products


@op(name="shift")
def _shift(x: Spec, axis: int, reverse: bool = False) -> Spec:
    """`x` moved one place along an axis, towards its end or, if `reverse`, its start; 0 moves in."""
    x.axis(axis)
    return _along(x)


@_shift.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return _shift(dy, op.attrs["axis"], not op.attrs["reverse"])


@_shift.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, *, axis: int, reverse: bool) -> Array:
    y = xp.zeros(x.shape, x.dtype)
    head, tail = (_part(axis, x.ndim, part) for part in (slice(None, -1), slice(1, None)))
    y[head if reverse else tail] = x[tail if reverse else head]
    return y


@op
def recurrence(a: T, u: T, axis: int, reverse: bool = False, lag: bool = False) -> Spec:
    """`s` with s[i] = u[i] + a[i] * s[i-1] along an axis, and s[0] = u[0]; from the end if `reverse`.

    If `lag` the factor is that of the element before, a[i-1]. a and u have one shape.
    """
    a.axis(axis)
    if not a.shape.is_compatible_with(u.shape):
        raise ValueError(f"shapes {a.shape} and {u.shape} differ")
    return _along(u.same_dtype(a))


@recurrence.gradient
def _(op: Operation, ds: Tensor) -> tuple[Tensor, Tensor]:
    a, s = op.inputs[0], op.outputs[0]
    axis, reverse, lag = (op.attrs[name] for name in ("axis", "reverse", "lag"))
    du = recurrence(conj(a), ds, axis, not reverse, not lag)
    if lag:
        return _shift(du, axis, not reverse) * conj(s), du
    return du * conj(_shift(s, axis, reverse)), du


@recurrence.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, a: Array, u: Array, *, axis: int, reverse: bool, lag: bool) -> Array:
    """By doubling: after each round an element has taken in twice as many before it."""
    if a.shape != u.shape:
        raise ValueError(f"shapes {list(a.shape)} and {list(u.shape)} differ")
    a, s = (xp.moveaxis(xp.flip(v, axis) if reverse else v, axis, 0) for v in (a, u))
    s = s.copy()
    factor = xp.zeros(a.shape, a.dtype)
    factor[1:] = a[:-1] if lag else a[1:]
    step = 1
    while step < len(s):
        s[step:] += factor[step:] * s[:-step]
        following = xp.zeros(a.shape, a.dtype)
        following[step:] = factor[step:] * factor[:-step]
        factor, step = following, 2 * step
    s = xp.moveaxis(s, 0, axis)
    return xp.flip(s, axis) if reverse else s


@recurrence.cost
def _(inputs: Any, outputs: Any, attrs: Any) -> float:
    count = elements(inputs[0])
    return 4 * count * math.log2(count + 2)


def product_of_others(x: Tensor, axis: Axis) -> Tensor:
    """For each element the product of all others along the axes, all if None: no division, so 0 does no harm."""
    if axis is None:
        flat = OPERATORS["reshape"](x, [-1])
        return OPERATORS["reshape"](_others(flat, 0), shape_vector(x))
    *rest, last = axes_of(axis, x.spec.rank) or (None,)
    if last is None:
        return OPERATORS["ones_like"](x)
    if not rest:
        return _others(x, last)
    products = OPERATORS["reduce_prod"](x, (last,), keepdims=True)
    return _others(x, last) * product_of_others(products, tuple(rest))


def _others(x: Tensor, axis: int) -> Tensor:
    return cumprod(x, axis, exclusive=True) * cumprod(x, axis, exclusive=True, reverse=True)


OPERATORS.update(cumsum=cumsum, cumprod=cumprod)


@transactional
def accumulate_n(
    inputs: Sequence[NumberLike],
    shape: ShapeLike = None,
    tensor_dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The sum of all inputs, which must have one shape; the result's shape combines the known parts with `shape`.

    Raises:
        ValueError: `inputs` is empty, or the shapes differ.
        TypeError: the dtypes differ from each other or from `tensor_dtype`.

    Examples:
        >>> await session.run(af.accumulate_n([[1, 2], [3, 4]]))
        array([4, 6], dtype=int32)
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError("accumulate_n: a list of at least one tensor is needed")
    dtype = None if tensor_dtype is None else as_dtype(tensor_dtype)
    tensors = [convert_to_tensor(value, dtype) for value in inputs]
    if len(tensors) == 1:
        result = tensors[0] if name is None and shape is None else identity(tensors[0], name=name)
    else:
        result = add_n(tensors, name=name or "accumulate_n")
    if shape is not None:
        result.set_shape(as_shape(shape))
    return result


@transactional
def polyval(coeffs: Sequence[NumberLike], x: NumberLike, name: str | None = None) -> Tensor:
    """The polynomial of these coefficients, the highest power first, at every element of x; 0 without coefficients.

    The coefficients are numbers or tensors that broadcast with x.

    Examples:
        >>> await session.run(af.polyval([1.0, 0.0, -2.0], 3.0))
        np.float32(7.0)
    """
    if not isinstance(coeffs, (list, tuple)):
        raise ValueError(f"polyval: coeffs must be a list, not {type(coeffs).__name__}")
    value = convert_to_tensor(x)
    if not coeffs:
        return zeros_like(value, name=name or "polyval")
    numbers = [convert_to_tensor(number, value.dtype) for number in coeffs]
    result = numbers[0]
    for number in numbers[1:-1]:
        result = result * value + number
    if len(numbers) == 1:
        return add(zeros_like(value), result, name=name or "polyval")
    return add(result * value, numbers[-1], name=name or "polyval")


@op
def cumulative_logsumexp(x: Spec, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Spec:
    """The running log(sum(exp(x))) along an axis, without overflow: element i is that of all up to i.

    Without i itself if `exclusive`, so that the first one is -inf; counted from the end if `reverse`. On the CPU alone.

    Examples:
        >>> await session.run(af.cumulative_logsumexp([0.0, 0.0, 0.0]))
        array([0.       , 0.6931472, 1.0986123], dtype=float32)
    """
    if x.rank == 0:
        raise ValueError("a scalar has no axis")
    x.axis(axis)
    return x.only(FLOAT)


@cumulative_logsumexp.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    """dx[i] = exp(x[i] - y[i]) s[i] with s[i] = dy[i] + exp(y[i] - y[i+1]) s[i+1]: no factor is above 1."""
    x, (axis, reverse) = op.inputs[0], (op.attrs["axis"], op.attrs["reverse"])
    y = op.outputs[0]
    if op.attrs["exclusive"]:
        y, dy = cumulative_logsumexp(x, axis, False, reverse), _shift(dy, axis, not reverse)
    following = _shift(y, axis, not reverse)
    kept = _share(y, following)
    return _share(x, y) * recurrence(kept, dy, axis, not reverse)


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """exp(part - whole), 0 where `part` is the logarithm of 0."""
    some = is_finite(part)
    return masked(exp(masked(part, some) - masked(whole, some)), some)


@cumulative_logsumexp.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    dtype = node.output_specs[0].dtype
    axis, exclusive, reverse = (node.attrs[name] for name in ("axis", "exclusive", "reverse"))
    wide = xp.float32 if dtype in NARROW else dtype.np

    def running(x: Array) -> Array:
        moved = xp.moveaxis(x, axis, 0)
        moved = (moved[::-1] if reverse else moved).astype(wide, copy=False)
        result = xp.full(moved.shape, -math.inf, dtype.np)
        if exclusive:
            result[1:] = xp.logaddexp.accumulate(moved[:-1], axis=0)
        else:
            result[...] = xp.logaddexp.accumulate(moved, axis=0)
        return xp.moveaxis(result[::-1] if reverse else result, 0, axis)

    return running


costs(cumulative_logsumexp, 2 * SLOW)
dynamic_axis(cumulative_logsumexp)
