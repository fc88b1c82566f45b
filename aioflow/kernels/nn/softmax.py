"""Softmax and its logarithm along one axis, with fused gradients.

Rows, that is the last axis, are short as a rule, and NumPy's reductions cost most where rows are short. So the highest
element of each row is found by `argmax` and taken by its flat index, unless the rows are few, and rows are summed by a
product with ones.
"""

import functools
from typing import Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import SLOW, costs
from aioflow.kernels.nn import onednn_softmax
from aioflow.kernels.nn.activation import Function, ones, same_shape, wide
from aioflow.tensors.dtypes import FLOAT, Array, Namespace, Spec

_FEW: Final = 8
"""Rows up to which a reduction finds the highest elements as fast."""
_highest: Final[Function] = np.maximum.reduce


@functools.lru_cache(maxsize=64)
def _few_starts(rows: int, length: int) -> Array:
    made = np.arange(0, rows * length, length)
    made.flags.writeable = False
    return made


def row_starts(rows: int, length: int) -> Array:
    """Where each row begins in the flat array; read only."""
    return _few_starts(rows, length) if rows <= 4096 else np.arange(0, rows * length, length or 1)


def row_tops(x: Array) -> Array:
    """The highest element of each row, as a column; NaN where a row has one."""
    if x.size <= _FEW * x.shape[-1]:
        return _highest(x, -1, None, None, True)
    best = x.argmax(-1)
    tops = x.take(best.ravel() + row_starts(best.size, x.shape[-1]))
    return tops.reshape(*best.shape, 1)


def _tops(x: Array, axis: int) -> Array:
    if not x.size:
        return x.dtype.type(0)  # an empty axis has no highest element
    return row_tops(x) if _is_rows(x, axis) else x.max(axis, None, True)


def _sums(x: Array, axis: int) -> Array:
    return x.dot(ones(x.shape[-1], x.dtype))[..., None] if _is_rows(x, axis) else x.sum(axis, None, None, True)


def _dots(a: Array, b: Array, axis: int) -> Array:
    """The sums of `a` * `b`."""
    return np.einsum("...i,...i->...", a, b)[..., None] if _is_rows(b, axis) else _sums(a * b, axis)


def _is_rows(x: Array, axis: int) -> bool:
    return axis in (-1, x.ndim - 1) and type(x) is np.ndarray


def _checked(logits: Spec, axis: int) -> Spec:
    if logits.rank == 0:
        raise ValueError("a scalar has no axis to take the softmax along")
    logits.axis(axis)
    return logits.only(FLOAT)


@op
def softmax(logits: Spec, axis: int = -1) -> Spec:
    """exp(logits) divided by its sum along `axis`: positive numbers that add up to 1, without overflow on the way.

    Examples:
        >>> await session.run(af.nn.softmax([1.0, 2.0, 3.0]))
        array([0.09003057, 0.24472846, 0.66524094], dtype=float32)
    """
    return _checked(logits, axis)


@op
def log_softmax(logits: Spec, axis: int = -1) -> Spec:
    """The logarithm of `softmax`: logits - log(sum(exp(logits))), exact where the softmax itself would be 0.

    Examples:
        >>> await session.run(af.nn.log_softmax([0.0, 1000.0]))
        array([-1000.,     0.], dtype=float32)
    """
    return _checked(logits, axis)


@op
def softmax_grad(gradients: T, softmax: T, axis: int = -1) -> Spec:
    """(gradients - sum(gradients * softmax)) * softmax, with the sum along `axis`: the gradient of `softmax`."""
    return _checked(softmax.same_dtype(gradients).with_shape(same_shape(gradients, softmax)), axis)


@op
def log_softmax_grad(gradients: T, log_softmax: T, axis: int = -1) -> Spec:
    """`gradients` - sum(gradients) * exp(log_softmax), summed along `axis`: the gradient of `log_softmax`."""
    return _checked(log_softmax.same_dtype(gradients).with_shape(same_shape(gradients, log_softmax)), axis)


def _softmax_of_rows(logits: Array, out: Array | None = None) -> Array:
    """The softmax along the last axis: that of any axis, by the same steps, without a choice in each."""
    if not logits.size:
        return np.empty_like(logits)
    y = np.subtract(logits, row_tops(logits), out)
    np.exp(y, y)
    return np.divide(y, y.dot(ones(y.shape[-1], y.dtype))[..., None], y)


@wide(softmax, out=True)
def _softmax_of(xp: Namespace, node: NodeView) -> Function:
    axis, rank = node.attrs["axis"], node.input_specs[0].rank
    if xp is np and axis in (-1, rank and rank - 1):
        return _softmax_of_rows

    def compute(logits: Array, out: Array | None = None) -> Array:
        y = xp.subtract(logits, _tops(logits, axis), out=out)
        xp.exp(y, out=y)
        return xp.divide(y, _sums(y, axis), out=y)

    return compute


@wide(log_softmax, out=True)
def _log_softmax_of(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]

    def compute(logits: Array, out: Array | None = None) -> Array:
        y = xp.subtract(logits, _tops(logits, axis), out=out)
        y -= xp.log(_sums(xp.exp(y), axis))
        return y

    return compute


@wide(softmax_grad, out=True)
def _softmax_grad_of(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]

    def compute(dy: Array, y: Array, out: Array | None = None) -> Array:
        dx = xp.subtract(dy, _dots(dy, y, axis), out=None if out is y else out)
        return xp.multiply(dx, y, out=dx if out is None else out)

    return compute


@wide(log_softmax_grad, out=True)
def _log_softmax_grad_of(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]

    def compute(dy: Array, y: Array, out: Array | None = None) -> Array:
        dx = xp.exp(y)
        dx *= _sums(dy, axis)
        return xp.subtract(dy, dx, out=out)

    return compute


onednn_softmax.declare(False, (softmax, softmax_grad), (_softmax_of, _softmax_grad_of))
onednn_softmax.declare(True, (log_softmax, log_softmax_grad), (_log_softmax_of, _log_softmax_grad_of))
for _op in (softmax, log_softmax, softmax_grad, log_softmax_grad):
    costs(_op, SLOW)


@softmax.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return softmax_grad(dy, op.output, op.attrs["axis"])


@log_softmax.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return log_softmax_grad(dy, op.output, op.attrs["axis"])


def kept_sum(x: Tensor, axis: int = -1) -> Tensor:
    """The sum along one axis, which stays with size 1."""
    return OPERATORS["reduce_sum"](x, axis, keepdims=True)


@softmax_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, Tensor]:
    (dy, y), axis = op.inputs, op.attrs["axis"]
    return softmax_grad(dz, y, axis), dz * (dy - kept_sum(dy * y, axis)) - dy * kept_sum(dz * y, axis)


@log_softmax_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, Tensor]:
    (dy, y), axis = op.inputs, op.attrs["axis"]
    p = OPERATORS["exp"](y)
    return dz - kept_sum(dz * p, axis), -dz * p * kept_sum(dy, axis)
