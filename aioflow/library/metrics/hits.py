"""The predicted classes that are among the labels of an example: sets along the last axis, without repetitions.

All pairs of a prediction and a label of an example are compared at once, in memory in proportion to their number.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.array.sorting import sort
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, logical_and, not_equal
from aioflow.kernels.math.reduction import reduce_any, reduce_sum
from aioflow.library.sparse import sparse_tensor_to_dense
from aioflow.tensors.dtypes import bool_, float64, int64

NO_LABEL: Final = np.int64(np.iinfo(np.int64).min)
"""Fills up the rows of sparse labels to the same length."""


class Overlap(NamedTuple):
    """For each example the number of distinct classes that are in both sets, or in one of them alone, as float64."""

    both: Tensor
    predictions_only: Tensor
    labels_only: Tensor


def overlap(labels: Tensor, predictions: Tensor, class_id: int | None) -> Overlap:
    """Compare the sets of labels and predictions along their last axes; with `class_id`, that class alone."""
    ordered_labels, ordered_predictions = sort(labels), sort(predictions)
    wanted = _distinct(ordered_labels, class_id)
    given = _distinct(ordered_predictions, class_id)
    both = count(logical_and(given, are_labels(ordered_predictions, labels)))
    return Overlap(both, count(given) - both, count(wanted) - both)


def _distinct(ordered: Tensor, class_id: int | None) -> Tensor:
    """Return whether each element is a class, that class if it is given, and the first of equal elements."""
    first = ones_like(ordered[..., :1], bool_)
    distinct = concat([first, not_equal(ordered[..., 1:], ordered[..., :-1])], -1)
    counted = not_equal(ordered, NO_LABEL) if class_id is None else equal(ordered, np.int64(class_id))
    return logical_and(distinct, counted)


def are_labels(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return for each prediction whether it is one of the labels of its example."""
    return reduce_any(equal(expand_dims(predictions, -1), expand_dims(labels, -2)), -1)


def count(flags: Tensor) -> Tensor:
    """Return the number of true elements along the last axis, as a float64."""
    return reduce_sum(cast(flags, float64), -1)


def count_distinct(labels: Tensor) -> Tensor:
    """Return the number of distinct labels of each example, as a float64."""
    return count(_distinct(sort(labels), None))


# Operands


def is_sparse(labels: Any) -> bool:
    """Whether labels are a sparse tensor, whose rows may differ in length."""
    return isinstance(labels, (SparseTensor, SparseTensorValue))


def labels_for(labels: Any, predictions: Tensor) -> Tensor:
    """Return labels as int64 with the rank of `predictions`, the labels of an example along the last axis.

    Labels of one axis less are one label for each example. Rows of sparse labels are filled up with NO_LABEL.

    Raises:
        ValueError: the shapes do not fit, or a rank is unknown.
    """
    values = _dense(labels)
    mine, theirs = values.spec.rank, predictions.spec.rank
    if mine is None or theirs is None:
        raise ValueError(f"the ranks must be known; labels have shape {values.shape}, predictions {predictions.shape}")
    rows = values if mine == theirs else expand_dims(values, -1)
    if mine not in (theirs, theirs - 1) or not rows.shape[:-1].is_compatible_with(predictions.shape[:-1]):
        raise ValueError(
            f"labels of shape {values.shape} do not fit predictions of shape {predictions.shape}: without the last "
            "axis their shapes are equal, or labels have no such axis"
        )
    return rows


def _dense(labels: Any) -> Tensor:
    if not is_sparse(labels):
        return cast(convert_to_tensor(labels, preferred_dtype=int64), int64)
    given = SparseTensor.from_value(labels)
    wide = SparseTensor(given.indices, cast(given.values, int64), given.dense_shape)
    return sparse_tensor_to_dense(wide, default_value=NO_LABEL)
