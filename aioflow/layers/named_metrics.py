"""Metrics by the names that `compile` takes: what to measure, given labels and predictions."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.shapes import reshape, shape, squeeze
from aioflow.kernels.array.sorting import in_top_k
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater
from aioflow.kernels.math.reduction import argmax
from aioflow.library.losses.objectives import NAMES, beside, known_classes, loss_of
from aioflow.library.metrics.areas import auc
from aioflow.library.metrics.means import mean
from aioflow.library.metrics.rates import precision, recall
from aioflow.tensors.dtypes import float32, int64
from aioflow.tensors.recursion import safe_repr

Measured = tuple[Tensor, Tensor]
"""The value of a metric, and its update."""
Function = Callable[[Tensor, Tensor, Tensor | None], Measured]
"""(labels, predictions, weights of the elements) -> what is measured."""


class Metric(NamedTuple):
    """A metric with its name."""

    name: str
    function: Function


def metric_of(given: Any, labels: Tensor, predictions: Tensor) -> Metric:
    """The metric of that name, or of that function, for labels and predictions of these shapes.

    A function (labels, predictions) gives a tensor, whose mean is measured, or the value of a metric and its update, as
    the functions of `af.metrics` do.
    """
    check_metric(given)
    if isinstance(given, str):
        name = _accuracy_for(labels, predictions) if given.lower() in _ACCURACY else given.lower()
        return Metric(given, _named(name))
    return Metric(getattr(given, "__name__", type(given).__name__), lambda *values: _of_function(given, *values))


def check_metric(given: Any) -> None:
    """Raise ValueError for an unknown name, TypeError for what is neither a name nor a function."""
    if not isinstance(given, str):
        if not callable(given):
            raise TypeError(f"a metric is a name or a function of labels and predictions, not {safe_repr(given)}")
        return
    known = [*_FUNCTIONS, *NAMES, *_ACCURACY]
    if given.lower() not in known:
        close = difflib.get_close_matches(given.lower(), known, 1)
        raise ValueError(f"no metric is named {given!r}" + (f"; did you mean {close[0]!r}?" if close else ""))


def _named(name: str) -> Function:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    loss = loss_of(name)
    return lambda labels, predictions, weights: _mean(loss.of(labels, predictions), weights)


def _of_function(function: Callable[..., Any], labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Measured:
    found = function(labels, predictions)
    if isinstance(found, tuple) and len(found) == 2:
        return found
    return _mean(found, weights)


def _mean(values: Any, weights: Tensor | None) -> Measured:
    if weights is None:
        return mean(values)
    values = cast(values, float32)
    return mean(values, beside(weights, values))


def weights_and_mask(weights: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """The weights of elements, 0 where the mask leaves them out."""
    if mask is None:
        return weights
    kept = cast(mask, float32)
    return kept if weights is None else kept * beside(weights, kept)


def _accuracy_for(labels: Tensor, predictions: Tensor) -> str:
    size = (predictions.shape.as_list() or [None])[-1]
    if size == 1 or predictions.shape.ndims == 1:
        return "binary_accuracy"
    same_rank = labels.shape.ndims == predictions.shape.ndims
    sparse = not same_rank or labels.shape.as_list()[-1] == 1
    return "sparse_categorical_accuracy" if sparse else "categorical_accuracy"


def _binary_accuracy(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Measured:
    if (labels.shape.ndims or 0) < (predictions.shape.ndims or 0):
        labels = labels[..., None]
    return _mean(equal(cast(labels, predictions.dtype), cast(greater(predictions, 0.5), predictions.dtype)), weights)


def _categorical_accuracy(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Measured:
    return _mean(equal(argmax(labels, -1), argmax(predictions, -1)), weights)


def _sparse_accuracy(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Measured:
    return _mean(equal(_classes(labels, predictions), argmax(predictions, -1)), weights)


def _classes(labels: Tensor, predictions: Tensor) -> Tensor:
    flat = labels.shape.ndims == predictions.shape.ndims
    return cast(squeeze(labels, [-1]) if flat else labels, int64)


def _thresholded(function: Callable[..., Measured]) -> Function:
    def measure(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Measured:
        return function(*_flat(labels, greater(predictions, 0.5), weights))

    return measure


def _auc(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Measured:
    return auc(*_flat(labels, predictions, weights))


def _flat(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """All three as vectors, with a weight for each prediction."""
    if weights is not None:
        whole = ones_like(predictions, float32)
        weights = reshape(beside(weights, whole) * whole, [-1])
    return reshape(labels, [-1]), reshape(predictions, [-1]), weights


def _top_5(classes: Callable[[Tensor, Tensor], Tensor]) -> Function:
    """Whether the right class is among the best 5, for predictions [batch, ..., classes]."""

    def measure(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Measured:
        right = classes(labels, predictions)
        found = in_top_k(reshape(predictions, [-1, known_classes(predictions)]), reshape(right, [-1]), 5)
        return _mean(reshape(found, shape(right)), weights)

    return measure


_ACCURACY: Final = ("accuracy", "acc")
"""The names of the accuracy whose kind depends on the shapes of labels and predictions."""
_FUNCTIONS: Final[Mapping[str, Function]] = {
    "auc": _auc, "binary_accuracy": _binary_accuracy, "categorical_accuracy": _categorical_accuracy,
    "precision": _thresholded(precision), "recall": _thresholded(recall),
    "sparse_categorical_accuracy": _sparse_accuracy, "sparse_top_k_categorical_accuracy": _top_5(_classes),
    "top_k_categorical_accuracy": _top_5(lambda labels, _: argmax(labels, -1)),
}  # fmt: skip
