"""Metrics by the names that `compile` takes: what to measure, given labels and predictions."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.library.losses.by_name import NAMES, loss_of
from aioflow.library.losses.objectives import beside
from aioflow.library.metrics import accuracies, curves, decisions, f_scores, fits, loss_means
from aioflow.library.metrics.means import mean
from aioflow.library.metrics.metric import Metric
from aioflow.tensors.class_names import known_name
from aioflow.tensors.dtypes import float32
from aioflow.tensors.recursion import safe_repr

Measured = tuple[Tensor, Tensor]
"""The value of a metric, and its update."""
Function = Callable[[Tensor, Tensor, Tensor | None], Measured]
"""(labels, predictions, weights of the elements) -> what is measured."""


class NamedMetric(NamedTuple):
    """A metric with its name."""

    name: str
    function: Function


def metric_of(given: Any, labels: Tensor, predictions: Tensor) -> NamedMetric:
    """The metric of that name, class or function, for labels and predictions of these shapes.

    A function (labels, predictions) gives a tensor, whose mean is measured, or the value of a metric and its update, as
    the functions of `af.metrics` do.
    """
    check_metric(given)
    if isinstance(given, str):
        name = known_name(given, _KNOWN) or given
        name = _accuracy_for(labels, predictions) if name in _ACCURACY else name
        return NamedMetric(given, _named(name))
    if isinstance(given, type) and issubclass(given, Metric):
        given = given()
    if isinstance(given, Metric):
        return NamedMetric(given.name, given)
    return NamedMetric(getattr(given, "__name__", type(given).__name__), lambda *values: _of_function(given, *values))


def check_metric(given: Any) -> None:
    """Raise ValueError for an unknown name, TypeError for what is neither a name nor a function."""
    if not isinstance(given, str):
        if not callable(given):
            raise TypeError(f"a metric is a name or a function of labels and predictions, not {safe_repr(given)}")
        return
    if known_name(given, _KNOWN) is None:
        close = difflib.get_close_matches(given.lower(), _KNOWN, 1)
        raise ValueError(f"no metric is named {given!r}" + (f"; did you mean {close[0]!r}?" if close else ""))


def _named(name: str) -> Function:
    if name in _CLASSES:
        return _CLASSES[name]()
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


_ACCURACY: Final = ("accuracy", "acc")
"""The names of the accuracy whose kind depends on the shapes of labels and predictions."""
_CLASSES: Final[Mapping[str, Callable[[], Metric]]] = {
    "auc": curves.AUC, "binary_accuracy": accuracies.BinaryAccuracy,
    "categorical_accuracy": accuracies.CategoricalAccuracy,
    "concordance_correlation": fits.ConcordanceCorrelation, "cosine_similarity": loss_means.CosineSimilarity,
    "f1_score": f_scores.F1Score, "false_negatives": decisions.FalseNegatives,
    "false_positives": decisions.FalsePositives, "pearson_correlation": fits.PearsonCorrelation,
    "precision": decisions.Precision, "r2_score": fits.R2Score, "recall": decisions.Recall,
    "root_mean_squared_error": fits.RootMeanSquaredError,
    "sparse_categorical_accuracy": accuracies.SparseCategoricalAccuracy,
    "sparse_top_k_categorical_accuracy": accuracies.SparseTopKCategoricalAccuracy,
    "top_k_categorical_accuracy": accuracies.TopKCategoricalAccuracy, "true_negatives": decisions.TrueNegatives,
    "true_positives": decisions.TruePositives,
}  # fmt: skip
"""The metrics by name, besides the means of losses."""
_KNOWN: Final = (*_CLASSES, *NAMES, *_ACCURACY)
"""All names of metrics."""
