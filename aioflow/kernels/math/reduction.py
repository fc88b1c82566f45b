"""Reductions along some axes or all: sums, means, products, extremes and their indices, and norms."""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.dynamic_axes import dynamic_reduction, order_with_last, permute
from aioflow.kernels.families import CPU, GPU, NARROW, SLOW, costs, fitting, shape_vector, shaped_like
from aioflow.kernels.math import onednn_column_sums
from aioflow.kernels.math.broadcasting import Axis, axes_of, counted, reduced, spread
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.math.complex import conj, real
from aioflow.kernels.math.cumulative import product_of_others
from aioflow.kernels.math.elementwise import exp
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.tensors.dtypes import (
    BOOL,
    FLOAT,
    INTEGER,
    NUMERIC,
    STRING,
    Array,
    DType,
    Namespace,
    Spec,
    float8_e4m3fn,
    float32,
    float64,
    int32,
    int64,
)
from aioflow.tensors.object_arrays import map_elements

Reduce = Callable[[Array], Array]


def _bound(node: NodeView) -> tuple[tuple[int, ...] | None, bool]:
    """The axes, None for all, and whether they stay as 1."""
    axis = node.attrs["axis"]
    axes = None if axis is None else axes_of(axis, node.input_specs[0].rank)
    return axes, bool(node.attrs["keepdims"])


def _reduction(
    made: Op[Tensor], ufunc: str, function: str, start: Callable[[DType], Any] | None = None
) -> Callable[[Namespace, NodeView], Reduce]:
    """Declare the kernels of a reduction, and return the one on the CPU: a ufunc's, where NumPy's function is slow.

    Args:
        made: the op.
        ufunc: the ufunc whose `reduce` computes it.
        function: the equivalent function of the array namespace.
        start: the result for an empty axis, where the ufunc has no identity.
    """

    @made.kernel(CPU, fresh=True, binds=True)
    def plain(xp: Namespace, node: NodeView) -> Reduce:
        (axes, keep), dtype = _bound(node), node.output_specs[0].dtype
        reduce = getattr(xp, ufunc).reduce
        if start is not None:
            first = dtype.np.type(start(dtype))
            return lambda x: reduce(x, axes, None, None, keep, first)
        if dtype in NARROW:
            return lambda x: reduce(x, axes, xp.float32, None, keep).astype(dtype.np)
        if dtype in INTEGER:
            return lambda x: reduce(x, axes, dtype.np, None, keep)
        return (lambda x: reduce(x, axes, None, None, True)) if keep else lambda x: reduce(x, axes)

    @made.kernel(GPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Reduce:
        axes, keep = _bound(node)
        reduce, dtype = getattr(xp, function), node.output_specs[0].dtype

        def reduced(x: Array) -> Array:
            if start is not None and not x.size:
                return xp.full(_sizes_of(x.shape, axes, keep), start(dtype), dtype.np)
            return reduce(x, axis=axes, keepdims=keep).astype(dtype.np)

        return reduced

    costs(made, 1.0)
    dynamic_reduction(made)
    return plain


def _sizes_of(sizes: tuple[int, ...], axes: tuple[int, ...] | None, keep: bool) -> tuple[int, ...]:
    """The shape that a reduction of an empty array of these sizes has."""
    return np.empty(sizes, bool).any(axis=axes, keepdims=keep).shape


# Sums


@op
def reduce_sum(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """The sum along the axes, all if None; 0 of nothing.

    Examples:
        >>> await session.run(af.reduce_sum([[1, 2], [3, 4]], axis=1, keepdims=True))
        array([[3],
               [7]], dtype=int32)
    """
    return input_tensor.only(NUMERIC).with_shape(reduced(input_tensor, axis, keepdims))


@op
def reduce_mean(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """The mean along the axes, all if None; NaN of nothing. Of integers an integer, the fraction cut off.

    Examples:
        >>> await session.run(af.reduce_mean([[1.0, 2.0], [3.0, 6.0]], axis=1))
        array([1.5, 4.5], dtype=float32)
    """
    return input_tensor.only(NUMERIC).with_shape(reduced(input_tensor, axis, keepdims))


def _spread_back(op: Operation, value: Tensor, mean: bool = False) -> Tensor:
    """`value`, of the result's shape, broadcast to the shape of the operand."""
    x = op.inputs[0]
    return shaped_like(x, spread(value, shape_vector(x), op.attrs["axis"], op.attrs["keepdims"], mean))


reduce_sum.gradient(lambda op, dy: _spread_back(op, dy))
reduce_mean.gradient(lambda op, dy: _spread_back(op, dy, mean=True))
onednn_column_sums.declare(reduce_sum, _reduction(reduce_sum, "add", "sum"))
costs(reduce_mean, 1.0)
dynamic_reduction(reduce_mean)


@reduce_sum.kernel(GPU, fresh=True, binds=True, only={float32, float64}, priority=1)
def _(xp: Namespace, node: NodeView) -> Reduce:
    axes, keep = _bound(node)

    def sums(x: Array) -> Array:
        if axes is None or axes != tuple(range(len(axes))) or len(axes) == x.ndim or not x.flags.c_contiguous:
            return x.sum(axis=axes, keepdims=keep)
        # The first axes are summed by a product: CuPy's sum takes many times as long.
        rows = x.reshape(math.prod(x.shape[: len(axes)]), math.prod(x.shape[len(axes) :]))
        total = xp.matmul(xp.ones((1, len(rows)), x.dtype), rows)
        return total.reshape((1,) * (len(axes) if keep else 0) + x.shape[len(axes) :])

    return sums


@reduce_mean.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Reduce:
    (axes, keep), spec = _bound(node), node.input_specs[0]
    reduce, dtype = xp.add.reduce, spec.dtype.np
    if spec.dtype in INTEGER:
        wide = xp.uint64 if spec.dtype.is_unsigned else xp.int64
        return lambda x: _whole_mean(xp, reduce(x, axes, wide, None, keep), counted(x.shape, axes)).astype(dtype)
    if spec.dtype in NARROW:
        return lambda x: (reduce(x, axes, xp.float32, None, keep) / counted(x.shape, axes)).astype(dtype)
    if spec.shape.is_fully_defined():
        count = counted(spec.sizes, axes)  # type: ignore[arg-type]
        return lambda x: reduce(x, axes, None, None, keep) / count
    if axes is None:
        return lambda x: reduce(x, None, None, None, keep) / x.size
    return lambda x: reduce(x, axes, None, None, keep) / counted(x.shape, axes)


def _whole_mean(xp: Namespace, total: Array, count: int) -> Array:
    return xp.sign(total) * (xp.absolute(total) // max(count, 1))


@reduce_mean.kernel(GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Reduce:
    (axes, keep), dtype = _bound(node), node.output_specs[0].dtype.np
    return lambda x: xp.mean(x, axis=axes, keepdims=keep).astype(dtype)


@op
def count_nonzero(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None, dtype: DType = int64) -> Spec:
    """How many elements along the axes, all if None, are not 0, not false, or not the empty string.

    Examples:
        >>> await session.run(af.count_nonzero([[0, 1], [2, 3]]))
        np.int64(3)
    """
    input_tensor.only(NUMERIC, BOOL, STRING)
    return Spec(dtype, reduced(input_tensor, axis, keepdims)).only(NUMERIC)


count_nonzero.no_gradient("a count does not vary smoothly")
costs(count_nonzero, 1.0)
dynamic_reduction(count_nonzero)


@count_nonzero.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Reduce:
    (axes, keep), dtype = _bound(node), node.output_specs[0].dtype.np

    def counted(x: Array) -> Array:
        true = map_elements(bool, np.bool_, x) if x.dtype.hasobject else x.astype(bool)
        return xp.sum(true, axis=axes, keepdims=keep).astype(dtype)

    return counted


# Products


@op
def reduce_prod(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """The product along the axes, all if None; 1 of nothing.

    Examples:
        >>> await session.run(af.reduce_prod([2, 3, 4]))
        np.int32(24)
    """
    spec = input_tensor.only(NUMERIC).with_shape(reduced(input_tensor, axis, keepdims))
    factors = input_tensor.known
    if spec.rank != 0 or not isinstance(factors, tuple) or None in factors:
        return spec
    return Spec(spec.dtype, spec.shape, fitting(math.prod(factors), spec.dtype))  # type: ignore[arg-type]


@reduce_prod.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    x, axis = op.inputs[0], op.attrs["axis"]
    return _spread_back(op, dy) * conj(product_of_others(x, axis))


_reduction(reduce_prod, "multiply", "prod")


# Extremes


@op
def reduce_max(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """The greatest element along the axes, all if None; NaN if one is; of nothing the lowest value of the dtype.

    The gradient is shared evenly by those that are greatest.

    Examples:
        >>> await session.run(af.reduce_max([[1, 5], [7, 2]], axis=0))
        array([7, 5], dtype=int32)
    """
    return input_tensor.only(FLOAT, INTEGER).with_shape(reduced(input_tensor, axis, keepdims))


@op
def reduce_min(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """The smallest element along the axes, all if None; NaN if one is; of nothing the highest value of the dtype.

    The gradient is shared evenly by those that are smallest.

    Examples:
        >>> await session.run(af.reduce_min([[1, 5], [7, 2]], axis=0))
        array([1, 2], dtype=int32)
    """
    return input_tensor.only(FLOAT, INTEGER).with_shape(reduced(input_tensor, axis, keepdims))


def _shared_by_extremes(op: Operation, dy: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    extreme = cast(equal(x, _spread_back(op, y)), x.dtype)
    share = dy / reduce_sum(extreme, op.attrs["axis"], op.attrs["keepdims"])
    return extreme * _spread_back(op, share)


reduce_max.gradient(_shared_by_extremes)
reduce_min.gradient(_shared_by_extremes)


def _has_infinity(dtype: DType) -> bool:
    return dtype.is_floating and dtype is not float8_e4m3fn


_reduction(reduce_max, "maximum", "max", start=lambda dtype: -math.inf if _has_infinity(dtype) else dtype.min)
_reduction(reduce_min, "minimum", "min", start=lambda dtype: math.inf if _has_infinity(dtype) else dtype.max)


# Truth


@op
def reduce_all(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """Whether all elements along the axes, all if None, are true; true of nothing.

    Examples:
        >>> await session.run(af.reduce_all([[True, False], [True, True]], axis=1))
        array([False,  True])
    """
    return input_tensor.only(BOOL).with_shape(reduced(input_tensor, axis, keepdims))


@op
def reduce_any(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """Whether any element along the axes, all if None, is true; false of nothing.

    Examples:
        >>> await session.run(af.reduce_any([[False, False], [True, False]], axis=1))
        array([False,  True])
    """
    return input_tensor.only(BOOL).with_shape(reduced(input_tensor, axis, keepdims))


for _made, _ufunc in (reduce_all, "logical_and"), (reduce_any, "logical_or"):
    _made.no_gradient("truth values do not vary smoothly")
    _reduction(_made, _ufunc, _made.name.removeprefix("reduce_"))


# Norms


@op
def reduce_logsumexp(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """log(sum(exp(x))) along the axes, all if None, without overflow on the way; -inf of nothing.

    Examples:
        >>> await session.run(af.reduce_logsumexp([0.0, 0.0]))
        np.float32(0.6931472)
    """
    return input_tensor.only(FLOAT).with_shape(reduced(input_tensor, axis, keepdims))


@reduce_logsumexp.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return _spread_back(op, dy) * exp(op.inputs[0] - _spread_back(op, op.outputs[0]))


@reduce_logsumexp.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Reduce:
    (axes, keep), dtype = _bound(node), node.output_specs[0].dtype

    def stable(x: Array) -> Array:
        wide = x.astype(xp.float32) if dtype in NARROW else x
        if not x.size:
            return xp.full(_sizes_of(x.shape, axes, keep), -math.inf, dtype.np)
        highest = xp.max(wide, axis=axes, keepdims=True)
        highest = xp.where(xp.isfinite(highest), highest, xp.zeros((), wide.dtype))
        result = xp.log(xp.sum(xp.exp(wide - highest), axis=axes, keepdims=True)) + highest
        return (result if keep else xp.squeeze(result, axis=axes)).astype(dtype.np, copy=False)

    return stable


costs(reduce_logsumexp, SLOW)
dynamic_reduction(reduce_logsumexp)


@op
def l2_loss(t: Spec) -> Spec:
    """Half the sum of the squares of all elements.

    Examples:
        >>> await session.run(af.nn.l2_loss([3.0, 4.0]))
        np.float32(12.5)
    """
    return t.only(FLOAT).with_shape(())


@l2_loss.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return op.inputs[0] * dy


@l2_loss.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, t: Array) -> Array:
    return _sum_of_squares(xp, t) * 0.5


@l2_loss.kernel(CPU, GPU, fresh=True, only=NARROW, priority=1)
def _(xp: Namespace, t: Array) -> Array:
    return (_sum_of_squares(xp, t.astype(xp.float32)) * 0.5).astype(t.dtype)


def _sum_of_squares(xp: Namespace, t: Array) -> Array:
    flat = t.ravel()
    return flat.dot(flat) if xp is np else xp.square(flat).sum()


costs(l2_loss, 2.0)

__all__ = ["count_nonzero", "l2_loss", "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean",
           "reduce_min", "reduce_prod", "reduce_sum"]  # fmt: skip

OPERATORS.update({name: globals()[name] for name in __all__})


@op
def argmax(input: Spec, axis: int | None = None, name: str | None = None, output_type: DType = int64) -> Spec:
    """The index of the greatest element along one axis, 0 if None; the first of several.

    The first NaN counts as the extreme, as in NumPy; TensorFlow ignores NaN.

    Raises InvalidArgumentError where the axis is empty.

    Examples:
        >>> await session.run(af.argmax([[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]], axis=1))
        array([1, 0])
    """
    return _positions(input, axis, output_type)


@op
def argmin(input: Spec, axis: int | None = None, name: str | None = None, output_type: DType = int64) -> Spec:
    """The index of the smallest element along one axis, 0 if None; the first of several.

    The first NaN counts as the extreme, as in NumPy; TensorFlow ignores NaN.

    Raises InvalidArgumentError where the axis is empty.

    Examples:
        >>> await session.run(af.argmin([[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]], axis=1))
        array([0, 1])
    """
    return _positions(input, axis, output_type)


def _positions(x: Spec, axis: int | None, output_type: DType) -> Spec:
    if output_type not in (int32, int64):
        raise TypeError(f"output_type is int32 or int64, not {output_type.name}")
    axis = x.axis(axis or 0)
    if x.sizes is not None and x.sizes[axis] == 0:
        raise ValueError(f"axis {axis} of shape {x.shape} is empty")
    return Spec(output_type, reduced(x.only(FLOAT, INTEGER, BOOL), axis, False))


def _positions_along(made: Op[Tensor], x: Tensor, axis: Tensor, output_type: DType) -> Tensor:
    return made(permute(x, order_with_last(x, axis)), -1, output_type=output_type)


for _made in (argmax, argmin):
    _made.no_gradient("an index does not vary smoothly")
    costs(_made, 1.0)
    _made.dynamic("axis")(functools.partial(_positions_along, _made))

    @_made.kernel(CPU, GPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView, name: str = _made.name) -> Callable[[Array], Array]:
        find, spec = operator.methodcaller(name, node.attrs["axis"] or 0), node.output_specs[0]
        if spec.rank == 0 and xp is np:
            return lambda x: spec.dtype.np.type(find(x))
        return lambda x: find(x).astype(spec.dtype.np, copy=False)


OPERATORS.update(argmax=argmax, argmin=argmin)


@op
def reduce_euclidean_norm(input_tensor: Spec, axis: Axis = None, keepdims: bool | None = None) -> Spec:
    """The square root of the sum of the squares along the axes, of complex numbers of their moduli; 0 of nothing.

    Of integers an integer, the fraction cut off. The gradient is 0 where the norm is.

    Examples:
        >>> await session.run(af.reduce_euclidean_norm([[3.0, 4.0], [5.0, 12.0]], axis=1))
        array([ 5., 13.], dtype=float32)
    """
    return input_tensor.only(NUMERIC).with_shape(reduced(input_tensor, axis, keepdims))


@reduce_euclidean_norm.gradient
def _(op: Operation, dy: Tensor) -> Tensor | None:
    x, y = op.inputs[0], op.outputs[0]
    if not x.dtype.is_differentiable:
        return None
    share = cast(div_no_nan(real(dy), real(y)), x.dtype)
    return x * shaped_like(x, spread(share, shape_vector(x), op.attrs["axis"], op.attrs["keepdims"]))


@reduce_euclidean_norm.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    axis, keep, dtype = node.attrs["axis"], bool(node.attrs["keepdims"]), node.output_specs[0].dtype
    axes = None if axis is None else axes_of(axis, node.input_specs[0].rank)
    wide = xp.float64 if dtype.is_integer else xp.float32 if dtype in NARROW else dtype.np

    def length(x: Array) -> Array:
        numbers = x.astype(wide, copy=False)
        squares = (numbers * numbers.conj()).real if dtype.is_complex else numbers * numbers
        return xp.sqrt(xp.sum(squares, axis=axes, keepdims=keep)).astype(dtype.np, copy=False)

    return length


costs(reduce_euclidean_norm, 2.0)
dynamic_reduction(reduce_euclidean_norm)
