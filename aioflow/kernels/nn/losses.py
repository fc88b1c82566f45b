"""Cross entropies, computed from logits together with their gradients."""

import functools
import math
from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.graph.params import renamed
from aioflow.kernels import known
from aioflow.kernels.array.constants import stop_gradient
from aioflow.kernels.families import CPU, GPU, SLOW, costs
from aioflow.kernels.nn.activation import Function, ones, same_shape, softplus_of, wide
from aioflow.kernels.nn.softmax import kept_sum, log_softmax, row_starts, row_tops, softmax, softmax_grad
from aioflow.tensors.dtypes import FLOAT, INTEGER, Array, Namespace, Spec, TensorShape


def _batch_shape(logits: Spec) -> TensorShape:
    """The shape of `logits` without the classes."""
    if logits.sizes is None:
        return TensorShape(None)
    if not logits.sizes:
        raise ValueError("logits are a scalar; their last axis must be the classes")
    if logits.sizes[-1] == 0:
        raise ValueError(f"there must be at least one class, logits have shape {logits.shape}")
    return TensorShape(logits.sizes[:-1])


# Sparse: one label per row


@op(name="sparse_softmax_cross_entropy_with_logits")
def _sparse(features: Spec, labels: Spec) -> tuple[Spec, Spec]:
    """-log(softmax(features)[label]) of each row, and its gradient softmax(features) - one_hot(label)."""
    batch = _batch_shape(features.only(FLOAT))
    if batch.ndims is not None and labels.rank not in (None, batch.ndims):
        raise ValueError(f"labels of rank {labels.rank} do not fit logits of rank {batch.ndims + 1}: one label per row")
    if not labels.only(INTEGER).shape.is_compatible_with(batch):
        raise ValueError(
            f"labels of shape {labels.shape} do not fit logits of shape {features.shape}: one label per row"
        )
    whole = batch if labels.sizes is None or batch.is_fully_defined() else labels.shape
    return Spec(features.dtype, whole), Spec(features.dtype, features.shape)


@_sparse.check
def _(features: Spec | Array, labels: Spec | Array) -> None:
    classes = known.sizes_of(features)
    if classes is not None and not isinstance(labels, Spec):
        flat = labels.ravel()
        _check_labels(flat, flat.view(f"u{flat.itemsize}"), labels.shape, (*labels.shape, classes[-1] or math.inf))


@wide(_sparse)
def _(xp: Namespace, node: NodeView) -> Function:
    return _on_cpu(np.dtype(f"u{node.input_specs[1].dtype.size}")) if xp is np else functools.partial(_anywhere, xp)


def _on_cpu(unsigned: np.dtype[Any]) -> Function:
    """Shift each row by the logit of its label: then the loss is log(sum(exp)), without loss to rounding.

    Only rows that overflow need the shift by the highest logit; an infinite loss reveals them.
    """

    def compute(features: Array, labels: Array) -> tuple[Array, Array]:
        flat, classes = labels.ravel(), features.shape[-1]
        _check_labels(flat, flat.view(unsigned), labels.shape, features.shape)
        flat = flat.astype(np.intp)
        flat += row_starts(flat.size, classes)
        rows = np.ascontiguousarray(features).reshape(-1, classes)  # flat, so that the results below are too
        backprop = rows - rows.take(flat).reshape(-1, 1)
        np.exp(backprop, out=backprop)
        total = backprop.dot(ones(classes, backprop.dtype))
        loss = np.log(total)
        if not loss.dot(loss) < math.inf:
            _shift_by_top(rows, flat, backprop, total, loss)
        backprop /= total.reshape(-1, 1)
        backprop.reshape(-1)[flat] -= 1
        return loss.reshape(labels.shape), backprop.reshape(features.shape)

    return compute


def _shift_by_top(rows: Array, flat: Array, backprop: Array, total: Array, loss: Array) -> None:
    """Compute again, in place, where the loss is not finite: the exponentials in `backprop`, their sums, the loss."""
    places = np.flatnonzero(~np.isfinite(loss))
    shifted = rows[places]
    tops = row_tops(shifted)
    shifted -= tops
    backprop[places] = np.exp(shifted, out=shifted)
    total[places] = shifted.dot(ones(rows.shape[1], rows.dtype))
    loss[places] = np.log(total[places]) - (rows.take(flat[places]) - tops.ravel())


def _check_labels(flat: Array, unsigned: Array, shape: tuple[int, ...], logits: tuple[float, ...]) -> None:
    """ValueError if a label is out of range; as `unsigned`, negative labels are above all others."""
    if shape != logits[:-1]:
        raise ValueError(f"labels of shape {list(shape)} do not fit logits of shape {list(logits)}")
    if flat.size and unsigned[worst := unsigned.argmax()] >= logits[-1]:
        raise ValueError(
            f"label {flat[worst]} (number {worst} of {flat.size}) is outside the valid range [0, {logits[-1]})"
        )


def _anywhere(xp: Namespace, features: Array, labels: Array) -> tuple[Array, Array]:
    """The same without a look at the values, for which a GPU would have to wait; rows of bad labels become NaN."""
    shifted = features - features.max(-1, keepdims=True)
    total = xp.exp(shifted).sum(-1, keepdims=True)
    wrong = xp.logical_or(labels < 0, labels >= features.shape[-1])
    chosen = labels[..., None] == xp.arange(features.shape[-1])
    loss = xp.log(total)[..., 0] - xp.where(chosen, shifted, 0).sum(-1)
    backprop = xp.exp(shifted) / total - chosen
    return xp.where(wrong, xp.nan, loss), xp.where(wrong[..., None], xp.nan, backprop)


@_sparse.gradient
def _(op: Operation, dloss: Tensor, dbackprop: Tensor) -> tuple[Tensor, None]:
    dx = scale_rows(op.outputs[1], dloss)
    if dbackprop.op.type != "zeros_like":
        dx = dx + softmax_grad(dbackprop, softmax(op.inputs[0]))
    return dx, None


# Dense: a distribution per row


@op(name="softmax_cross_entropy_with_logits")
def _dense(features: T, labels: T) -> tuple[Spec, Spec]:
    """-sum(labels * log_softmax(features)) of each row, and its gradient sum(labels) * softmax(features) - labels."""
    batch = _batch_shape(features.only(FLOAT).same_dtype(labels))
    if labels.rank not in (None, features.rank) or not labels.shape.is_compatible_with(features.shape):
        raise ValueError(f"labels have shape {labels.shape}, logits {features.shape}; they must be equal")
    return Spec(features.dtype, batch), Spec(features.dtype, same_shape(labels, features))


@wide(_dense)
def _(xp: Namespace, node: NodeView) -> Function:
    def compute(features: Array, labels: Array) -> tuple[Array, Array]:
        if features.shape != labels.shape:
            raise ValueError(f"labels have shape {list(labels.shape)}, logits {list(features.shape)}")
        column = ones(features.shape[-1], features.dtype) if xp is np else None

        def sums(rows: Array) -> Array:
            return rows.sum(-1) if column is None else rows.dot(column)

        shifted = features - (row_tops(features) if xp is np and features.size else features.max(-1, None, True))
        backprop = xp.exp(shifted)
        total = sums(backprop)
        shifted -= xp.log(total)[..., None]
        shifted *= labels
        backprop *= (sums(labels) / total)[..., None]
        backprop -= labels
        return -sums(shifted), backprop

    return compute


@_dense.gradient
def _(op: Operation, dloss: Tensor, dbackprop: Tensor) -> tuple[Tensor, Tensor]:
    features, labels = op.inputs
    dx = scale_rows(op.outputs[1], dloss)
    dlabels = scale_rows(-log_softmax(features), dloss)
    if dbackprop.op.type != "zeros_like":
        p = softmax(features)
        dx = dx + softmax_grad(dbackprop, p) * kept_sum(labels)
        dlabels = dlabels + kept_sum(dbackprop * p) - dbackprop
    return dx, dlabels


@op
def scale_rows(x: T, factor: T) -> Spec:
    """Each row of `x` times its own element of `factor`, which has the shape of `x` without the last axis."""
    if x.rank is not None and factor.rank not in (None, x.rank - 1):
        raise ValueError(f"rows of shape {x.shape} need factors of rank {x.rank - 1}, not of shape {factor.shape}")
    return x.only(FLOAT).same_dtype(factor)


@scale_rows.kernel(CPU, GPU, out=True)
def _(xp: Namespace, x: Array, factor: Array, out: Array | None = None) -> Array:
    return xp.multiply(x, factor[..., None], out=out)


@scale_rows.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, Tensor]:
    x, factor = op.inputs
    return scale_rows(dz, factor), OPERATORS["reduce_sum"](dz * x, -1)


# Independent probabilities


@op(name="sigmoid_cross_entropy_with_logits")
def _sigmoid(labels: T, logits: T) -> Spec:
    """-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)) of each element, without overflow."""
    logits.only(FLOAT).same_dtype(labels)
    return logits.with_shape(same_shape(labels, logits))


@wide(_sigmoid, out=True)
def _(xp: Namespace, node: NodeView) -> Function:
    def compute(labels: Array, logits: Array, out: Array | None = None) -> Array:
        product = labels * logits
        return xp.subtract(softplus_of(xp, logits), product, out=out)

    return compute


@_sigmoid.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    labels, logits = op.inputs
    return -logits * dy, (OPERATORS["sigmoid"](logits) - labels) * dy


for _op, _factor in ((_sparse, SLOW), (_dense, SLOW), (_sigmoid, 3 * SLOW)):
    costs(_op, _factor)


# For users


def _check_named(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        raise ValueError(f"Only call `{function}` with named arguments (labels=..., logits=..., ...)")
    if labels is None or logits is None:
        raise ValueError(f"`{function}` needs both labels and logits")


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: NumberLike | None = None, logits: NumberLike | None = None, name: str | None = None
) -> Tensor:
    """The cross entropy between the class of each row and the softmax of its logits.

    Args:
        _sentinel: must stay None; pass all arguments by name.
        labels: the class of each row, integers from 0 up to the number of classes; the shape of `logits` less the last.
        logits: unscaled log probabilities, one per class along the last axis.
        name: the name of the operation.

    Raises:
        InvalidArgumentError: in a run, for a label that is not a class.

    Examples:
        >>> losses = af.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[1.0, 3.0]])
        >>> await session.run(losses)
        array([0.12692805], dtype=float32)
    """
    _check_named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return _sparse(logits, labels, name=name)[0]


@transactional
def softmax_cross_entropy_with_logits_v2(
    labels: NumberLike, logits: NumberLike, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """The cross entropy between a distribution over classes and the softmax of logits.

    Args:
        labels: a probability per class, which add up to 1; of the shape of `logits`. Gradients flow to them too.
            For labels that add up to s the gradient is s * softmax(logits) - labels, the exact derivative;
            TensorFlow's is softmax(logits) - labels for any s.
        logits: unscaled log probabilities.
        axis: the axis of the classes, the last by default.
        name: the name of the operation.
        dim: another name for `axis`.

    Examples:
        >>> losses = af.nn.softmax_cross_entropy_with_logits_v2([[0.0, 1.0]], [[1.0, 3.0]])
        >>> await session.run(losses)
        array([0.12692805], dtype=float32)
    """
    along = renamed("axis", axis, dim)
    return _along(labels, logits, -1 if along is None else along, False, name)


@transactional
def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: NumberLike | None = None,
    logits: NumberLike | None = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """As `softmax_cross_entropy_with_logits_v2`, but no gradient flows to the labels.

    Examples:
        >>> losses = af.nn.softmax_cross_entropy_with_logits(labels=[[0.0, 1.0]], logits=[[1.0, 3.0]])
        >>> await session.run(losses)
        array([0.12692805], dtype=float32)
    """
    _check_named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return _along(labels, logits, dim if axis is None else axis, True, name)


def _along(labels: Any, logits: Any, axis: int, stop: bool, name: str | None) -> Tensor:
    x = convert_to_tensor(logits)
    y = convert_to_tensor(labels, x.dtype)
    if stop:
        y = stop_gradient(y)
    rank = x.spec.rank
    if rank is None and axis != -1:
        raise ValueError(f"logits of unknown rank have no axis {axis}: set their shape, or make it the last axis")
    if rank is not None and x.spec.axis(axis) != rank - 1:
        order = [place for place in range(rank) if place != axis % rank] + [axis % rank]
        x, y = OPERATORS["transpose"](x, order), OPERATORS["transpose"](y, order)
    return _dense(x, y, name=name)[0]


@dispatching
def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: NumberLike | None = None, logits: NumberLike | None = None, name: str | None = None
) -> Tensor:
    """The cross entropy between independent probabilities and the sigmoids of logits, element by element.

    Args:
        _sentinel: must stay None; pass all arguments by name.
        labels: a probability per element, of the shape of `logits`.
        logits: unscaled log odds.
        name: the name of the operation.

    Examples:
        >>> losses = af.nn.sigmoid_cross_entropy_with_logits(labels=[1.0, 0.0], logits=[2.0, 2.0])
        >>> await session.run(losses)
        array([0.12692809, 2.126928  ], dtype=float32)
    """
    _check_named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    return _sigmoid(labels, logits, name=name)
