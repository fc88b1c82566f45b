"""Intersections over unions of classes, as metrics with the names of Keras."""

from collections.abc import Sequence
from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.select import where
from aioflow.kernels.linalg.diagonals import matrix_diag_part
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater, greater_equal, not_equal
from aioflow.kernels.math.histograms import confusion_matrix
from aioflow.kernels.math.reduction import argmax, reduce_sum
from aioflow.library.metrics.metric import Metric, flat
from aioflow.library.metrics.state import Pair, metric, ratio, sum_up
from aioflow.tensors.dtypes import float32, int64


class IoU(Metric):
    """The mean over some classes of the elements that are of the class by label and prediction, over those by either.

    Args:
        num_classes: the number of classes.
        target_class_ids: the classes that count.
        name: its name.
        ignore_class: elements of this label do not count.
        sparse_y_true: whether labels are numbers of classes; else they have an element for each class.
        sparse_y_pred: likewise predictions.
        axis: the axis of the classes.

    Examples:
        >>> value, update = af.metrics.IoU(2, [0])([0, 0, 1, 1], [0, 1, 0, 1])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.33333334)
    """

    def __init__(
        self, num_classes: int, target_class_ids: Sequence[int], name: str | None = None,
        ignore_class: int | None = None, sparse_y_true: bool = True, sparse_y_pred: bool = True, axis: int = -1,
    ) -> None:  # fmt: skip
        super().__init__(name)
        if not target_class_ids or max(target_class_ids) >= num_classes or min(target_class_ids) < 0:
            raise ValueError(f"target_class_ids are classes below {num_classes}, not {list(target_class_ids)}")
        self._count: Final = num_classes
        self._targets: Final = list(target_class_ids)
        self._ignored: Final = ignore_class
        self._sparse: Final = sparse_y_true, sparse_y_pred
        self._axis: Final = axis

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The mean, and its update."""
        sparse_labels, sparse_predictions = self._sparse
        truth = labels if sparse_labels else argmax(labels, self._axis)
        guess = predictions if sparse_predictions else argmax(predictions, self._axis)
        truth, guess, each = flat(cast(truth, int64), cast(guess, int64), weights)
        if self._ignored is not None:
            counts = not_equal(truth, self._ignored)
            each = each * cast(counts, float32)
            truth, guess = where(counts, truth, zeros_like(truth)), where(counts, guess, zeros_like(guess))
        matrix = confusion_matrix(truth, guess, self._count, float32, weights=each)
        return metric(self._mean, [sum_up(matrix, "total_confusion_matrix")], None, None)

    def _mean(self, matrix: Tensor, name: str) -> Tensor:
        both = gather(matrix_diag_part(matrix), self._targets)
        either = gather(reduce_sum(matrix, 0) + reduce_sum(matrix, 1), self._targets) - both
        there = reduce_sum(cast(greater(either, 1e-9), float32))
        return ratio(reduce_sum(ratio(both, either)), there, name=name)


class BinaryIoU(IoU):
    """The same for two classes, 0 and 1, where predictions are at least a threshold for 1.

    Args:
        target_class_ids: the classes that count.
        threshold: the threshold.
        name: its name.

    Examples:
        >>> value, update = af.metrics.BinaryIoU([1], threshold=0.3)([0, 1, 0, 1], [0.1, 0.2, 0.4, 0.7])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.33333334)
    """

    def __init__(
        self, target_class_ids: Sequence[int] = (0, 1), threshold: float = 0.5, name: str | None = None
    ) -> None:
        super().__init__(2, target_class_ids, name or "binary_io_u")
        self._threshold: Final = threshold

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The mean, and its update."""
        return super().measure(labels, greater_equal(predictions, self._threshold), weights)


class MeanIoU(IoU):
    """The same for all classes.

    Args:
        num_classes: the number of classes.
        name: its name.
        ignore_class: elements of this label do not count.
        sparse_y_true: whether labels are numbers of classes; else they have an element for each class.
        sparse_y_pred: likewise predictions.
        axis: the axis of the classes.

    Examples:
        >>> value, update = af.metrics.MeanIoU(2)([0, 0, 1, 1], [0, 1, 0, 1])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.33333334)
    """

    def __init__(
        self, num_classes: int, name: str | None = None, ignore_class: int | None = None, sparse_y_true: bool = True,
        sparse_y_pred: bool = True, axis: int = -1,
    ) -> None:  # fmt: skip
        super().__init__(num_classes, range(num_classes), name, ignore_class, sparse_y_true, sparse_y_pred, axis)


class OneHotIoU(IoU):
    """The same for some classes, and labels and predictions that have an element for each class.

    Args:
        num_classes: the number of classes.
        target_class_ids: the classes that count.
        name: its name.
        ignore_class: elements of this label do not count.
        sparse_y_pred: whether predictions are numbers of classes.
        axis: the axis of the classes.

    Examples:
        >>> value, update = af.metrics.OneHotIoU(2, [1])([[0, 1], [1, 0]], [[0.2, 0.8], [0.4, 0.6]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5)
    """

    def __init__(
        self, num_classes: int, target_class_ids: Sequence[int], name: str | None = None,
        ignore_class: int | None = None, sparse_y_pred: bool = False, axis: int = -1,
    ) -> None:  # fmt: skip
        super().__init__(num_classes, target_class_ids, name, ignore_class, False, sparse_y_pred, axis)


class OneHotMeanIoU(MeanIoU):
    """The same for all classes, and labels and predictions that have an element for each class.

    Args:
        num_classes: the number of classes.
        name: its name.
        ignore_class: elements of this label do not count.
        sparse_y_pred: whether predictions are numbers of classes.
        axis: the axis of the classes.

    Examples:
        >>> value, update = af.metrics.OneHotMeanIoU(2)([[0, 1], [1, 0]], [[0.2, 0.8], [0.4, 0.6]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.25)
    """

    def __init__(
        self, num_classes: int, name: str | None = None, ignore_class: int | None = None, sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:  # fmt: skip
        super().__init__(num_classes, name, ignore_class, False, sparse_y_pred, axis)
