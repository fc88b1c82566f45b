"""Shares of right predictions as metrics, with the names of Keras."""

from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import reshape, shape, squeeze
from aioflow.kernels.array.sorting import in_top_k
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater
from aioflow.kernels.math.reduction import argmax
from aioflow.library.losses.objectives import known_classes
from aioflow.library.metrics.metric import MeanMetric
from aioflow.tensors.dtypes import int64


class Accuracy(MeanMetric):
    """The share of predictions that equal their labels.

    Examples:
        >>> value, update = af.metrics.Accuracy()([1, 2, 3, 4], [0, 2, 3, 4])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.75)
    """

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """Whether each prediction is right."""
        return equal(cast(beside_last(labels, predictions), predictions.dtype), predictions)


class BinaryAccuracy(MeanMetric):
    """The share of predictions on the right side of a threshold, for labels of 0 and 1.

    Args:
        name: its name.
        threshold: predictions above it are 1.

    Examples:
        >>> value, update = af.metrics.BinaryAccuracy()([1, 0], [0.9, 0.8])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5)
    """

    def __init__(self, name: str | None = None, threshold: float = 0.5) -> None:
        super().__init__(name)
        self._threshold: Final = threshold

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """Whether each prediction is right."""
        right = cast(greater(predictions, self._threshold), predictions.dtype)
        return equal(cast(beside_last(labels, predictions), predictions.dtype), right)


class CategoricalAccuracy(MeanMetric):
    """The share of elements whose greatest prediction is at their greatest label, along the last axis.

    Examples:
        >>> value, update = af.metrics.CategoricalAccuracy()([[0, 1]], [[0.2, 0.8]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """Whether each element is right."""
        return equal(argmax(labels, -1), argmax(predictions, -1))


class SparseCategoricalAccuracy(MeanMetric):
    """The share of elements whose greatest prediction is at the number of their class.

    Examples:
        >>> value, update = af.metrics.SparseCategoricalAccuracy()([1, 0], [[0.2, 0.8], [0.3, 0.7]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5)
    """

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """Whether each element is right."""
        return equal(classes_of(labels, predictions), argmax(predictions, -1))


class TopKCategoricalAccuracy(MeanMetric):
    """The share of elements whose greatest label is at one of the `k` greatest predictions.

    Args:
        k: the number of predictions.
        name: its name.

    Examples:
        >>> value, update = af.metrics.TopKCategoricalAccuracy(k=2)([[0, 0, 1]], [[0.5, 0.2, 0.3]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        super().__init__(name or "top_k_categorical_accuracy")
        self._k: Final = k

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """Whether each element is right."""
        return among_best(argmax(labels, -1), predictions, self._k)


class SparseTopKCategoricalAccuracy(MeanMetric):
    """The share of elements whose class is at one of the `k` greatest predictions.

    Args:
        k: the number of predictions.
        name: its name.

    Examples:
        >>> value, update = af.metrics.SparseTopKCategoricalAccuracy(k=2)([2, 1], [[0.5, 0.2, 0.3], [0.4, 0.1, 0.5]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5)
    """

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        super().__init__(name or "sparse_top_k_categorical_accuracy")
        self._k: Final = k

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """Whether each element is right."""
        return among_best(classes_of(labels, predictions), predictions, self._k)


def beside_last(labels: Tensor, predictions: Tensor) -> Tensor:
    """The labels, with a last axis if the predictions have one more."""
    return labels[..., None] if (labels.shape.ndims or 0) < (predictions.shape.ndims or 0) else labels


def classes_of(labels: Tensor, predictions: Tensor) -> Tensor:
    """The classes [batch, ...], from labels that may have a last axis of size 1."""
    flat = labels.shape.ndims == predictions.shape.ndims
    return cast(squeeze(labels, [-1]) if flat else labels, int64)


def among_best(right: Tensor, predictions: Tensor, k: int) -> Tensor:
    """Whether the right class is among the best k, for predictions [batch, ..., classes]."""
    found = in_top_k(reshape(predictions, [-1, known_classes(predictions)]), reshape(right, [-1]), k)
    return reshape(found, shape(right))
