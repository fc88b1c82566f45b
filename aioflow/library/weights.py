"""Weights, labels and predictions of losses and metrics, brought to shapes that fit each other.

Weights fit values if they are a scalar, or have the rank of the values and in each axis size 1 or the size of the
values. That is narrower than NumPy's broadcasting: weights never enlarge the values.
"""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import no_op, ones_like
from aioflow.kernels.array.shapes import expand_dims, rank, squeeze
from aioflow.kernels.array.weights import fitting_weights, same_shape
from aioflow.kernels.math.arithmetic import multiply
from aioflow.kernels.math.comparison import equal, logical_and, not_equal
from aioflow.library.branches import cond


@transactional
def assert_broadcastable(weights: NumberLike, values: NumberLike) -> Operation:
    """Return an operation that fails unless `weights` fit `values`; a `no_op` if that is certain already.

    Weights fit if they are a scalar, or have the rank of the values and in each axis size 1 or the size of the values.

    Raises:
        ValueError: they do not fit by the known parts of their shapes.
        InvalidArgumentError: in the run, if they do not fit.

    Examples:
        >>> af.weights_broadcast.assert_broadcastable(af.constant([[1.0], [0.5]]), af.ones([2, 3])).type
        'no_op'
    """
    given = convert_to_tensor(weights)
    checked = fit_weights(given, convert_to_tensor(values))
    return no_op(name="assert_broadcastable") if checked is given else checked.op


@transactional
def broadcast_weights(weights: NumberLike, values: NumberLike) -> Tensor:
    """Return `weights` repeated to the shape of `values`, with the dtype of `values`.

    The sum of the weights of all values is the divisor of a weighted mean.

    Raises:
        ValueError: they do not fit by the known parts of their shapes: see `assert_broadcastable`.
        InvalidArgumentError: in the run, if they do not fit.

    Examples:
        >>> await session.run(af.weights_broadcast.broadcast_weights([[1.0], [2.0]], af.ones([2, 2])))
        array([[1., 1.],
               [2., 2.]], dtype=float32)
    """
    whole = convert_to_tensor(values)
    given = convert_to_tensor(weights, whole.dtype)
    if given.shape.is_fully_defined() and given.shape == whole.shape:
        return given
    return multiply(fit_weights(given, whole), ones_like(whole), name="broadcast_weights")


def fit_weights(weights: Tensor, values: Tensor) -> Tensor:
    """Return `weights`, checked in the run where the known parts of the shapes leave open whether they fit."""
    mine, theirs = weights.spec.sizes, values.spec.sizes
    if mine is not None and (not mine or (theirs is not None and _surely_fits(mine, theirs))):
        return weights
    return fitting_weights(weights, values)


def _surely_fits(weights: tuple[int | None, ...], values: tuple[int | None, ...]) -> bool:
    return len(weights) == len(values) and all(
        mine == 1 or (mine is not None and mine == theirs) for mine, theirs in zip(weights, values, strict=True)
    )


# Ranks


def align(labels: Tensor, predictions: Tensor, more: int = 0) -> tuple[Tensor, Tensor]:
    """Return both so that predictions have `more` axes more than labels, if one last axis of size 1 is in the way."""
    return _without_last(labels, predictions, -more), _without_last(predictions, labels, more)


def _without_last(value: Tensor, other: Tensor, more: int) -> Tensor:
    """Return `value` without its last axis of size 1, if it has one axis more than `other` and `more`."""
    mine, theirs = value.spec.sizes, other.spec.rank
    if mine is not None and (not mine or mine[-1] not in (1, None)):
        return value
    if mine is not None and theirs is not None:
        return squeeze(value, [-1]) if len(mine) == theirs + more + 1 else value
    made: Tensor = cond(equal(rank(value), rank(other) + (more + 1)), lambda: squeeze(value, [-1]), lambda: value)
    return made


def align_weights(weights: Tensor, values: Tensor) -> Tensor:
    """Return `weights` with the rank of `values`, if one last axis of size 1 is too many or is missing.

    A scalar stays a scalar.
    """
    shorter = _without_last(weights, values, 0)
    mine, theirs = shorter.spec.rank, values.spec.rank
    if mine is not None and theirs is not None:
        return expand_dims(shorter, -1) if 0 < mine == theirs - 1 else shorter
    lacks = logical_and(not_equal(rank(shorter), 0), equal(rank(shorter) + 1, rank(values)))
    made: Tensor = cond(lacks, lambda: expand_dims(shorter, -1), lambda: shorter)
    return made


def of_same_shape(labels: Tensor, predictions: Tensor, kind: str = "predictions") -> Tensor:
    """Return `labels`, checked in the run where the known parts of the shapes leave open whether they are equal.

    ValueError, naming both shapes, if they certainly differ.
    """
    if not labels.shape.is_compatible_with(predictions.shape):
        raise ValueError(f"labels have shape {labels.shape}, {kind} {predictions.shape}; they must be equal")
    known = labels.spec.sizes is not None and None not in labels.spec.sizes and labels.shape == predictions.shape
    return labels if known or labels.shape is predictions.shape else same_shape(labels, predictions)
