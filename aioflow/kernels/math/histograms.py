"""How often values occur: by value, by range, and by pairs of classes."""

from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.gather import gather_nd
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import size, squeeze
from aioflow.kernels.families import CPU, GPU, costs
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.segments import add_rows, check_constants, check_range, gather_segments
from aioflow.tensors.dtypes import (
    FLOAT,
    INTEGER,
    NUMERIC,
    Array,
    DType,
    DTypeLike,
    Namespace,
    Spec,
    TensorShape,
    as_dtype,
    int32,
)

_USUAL_BINS: Any = 100

# By value


@op(name="bincount")
def _bincount(arr: Indices, weights: Spec, minlength: Ints, maxlength: Ints) -> Spec:
    """Element v is the sum of the weights of the elements of `arr` that equal v; -1 means no limit."""
    known.integers(arr, "arr")
    if not weights.shape.is_compatible_with(arr.shape):
        raise ValueError(f"weights of shape {weights.shape} do not fit arr of shape {arr.shape}")
    low, high = known.scalar(minlength, "minlength"), known.scalar(maxlength, "maxlength")
    exact = low is not None and high is not None and 0 <= high <= low
    return Spec(weights.only(NUMERIC).dtype, TensorShape.vector(high if exact else None))


@_bincount.check
def _(arr: Spec | Array, *others: Spec | Array) -> None:
    if not isinstance(arr, Spec):
        _check_counted(arr)


def _check_counted(values: Array) -> None:
    if values.size and values.min() < 0:
        raise ValueError(f"only values from 0 on are counted, not {values.min()}")


@_bincount.gradient
def _(op: Operation, dy: Tensor) -> tuple[None, Tensor, None, None]:
    arr = op.inputs[0]
    counted = less(arr, cast(size(dy), arr.dtype))
    return None, gather_segments(dy, select(counted, arr, -1)), None, None


@_bincount.kernel(CPU, fresh=True, binds=True)  # how long the result is depends on values
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    dtype = node.output_specs[0].dtype

    def counts(arr: Array, weights: Array, minlength: Array, maxlength: Array) -> Array:
        if weights.shape != arr.shape:
            raise ValueError(f"weights of shape {list(weights.shape)} do not fit arr of shape {list(arr.shape)}")
        flat, each, limit = arr.ravel(), weights.ravel(), int(maxlength)
        _check_counted(flat)
        length = max(int(flat.max()) + 1 if flat.size else 0, int(minlength))
        if 0 <= limit < length:
            kept = flat < limit
            flat, each, length = flat[kept], each[kept], limit
        return add_rows(xp, each, flat, length, dtype)

    return counts


costs(_bincount, 5.0)


@_bincount.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    arr, weights, least, limit = inputs
    length = max(int(arr.max(initial=-1)) + 1, int(least))
    return int(weights.dtype.itemsize) * (min(length, int(limit)) if limit >= 0 else length)


@transactional
def bincount(
    arr: NumberLike,
    weights: NumberLike | None = None,
    minlength: NumberLike | None = None,
    maxlength: NumberLike | None = None,
    dtype: DTypeLike = int32,
    name: str | None = None,
) -> Tensor:
    """The count, or the sum of weights, of each value from 0 up to the highest in `arr`.

    Args:
        arr: integers of any shape.
        weights: the weight of each element, in the shape of `arr`; 1 in `dtype` if None.
        minlength: the minimum length of the result.
        maxlength: its maximum length; larger values are not counted.
        dtype: the dtype of the counts, without weights.
        name: the name of the operation.

    Raises:
        InvalidArgumentError: an element is negative.

    Examples:
        >>> await session.run(af.bincount([1, 1, 3, 0]))
        array([1, 2, 0, 1], dtype=int32)
    """
    values = convert_to_tensor(arr, preferred_dtype=int32)
    counts = ones_like(values, as_dtype(dtype)) if weights is None else weights
    limits = [-1 if limit is None else limit for limit in (minlength, maxlength)]
    return _bincount(values, counts, *limits, name=name)


# By range


def _range(values: Spec, value_range: Spec, nbins: Spec) -> int | None:
    """The number of bins, if it is known."""
    values.only(FLOAT, INTEGER).same_dtype(value_range)
    if not value_range.shape.is_compatible_with((2,)):
        raise ValueError(f"value_range must be two numbers, its shape is {value_range.shape}")
    count = known.scalar(nbins, "nbins")
    if count is not None and count < 1:
        raise ValueError(f"nbins must be 1 or more, not {count}")
    return count


def _limits(value_range: Array) -> tuple[float, float]:
    low, high = (float(limit) for limit in value_range)
    if not low < high:
        raise ValueError(f"value_range [{low:g}, {high:g}] is empty")
    return low, high


def _bins(xp: Namespace, values: Array, value_range: Array, count: int) -> Array:
    """The bin of each value, the first or last for those outside, -1 for NaN."""
    low, high = _limits(value_range)
    if count < 1:
        raise ValueError(f"nbins must be 1 or more, not {count}")
    scaled = xp.floor((values.astype(xp.float64) - low) / (high - low) * count)
    return xp.where(xp.isnan(scaled), -1, xp.clip(scaled, 0, count - 1)).astype(xp.int64)


@op
def histogram_fixed_width_bins(values: T, value_range: T, nbins: Ints = _USUAL_BINS, dtype: DType = int32) -> Spec:
    """The number of the bin that each value falls into, of `nbins` equally wide ones that fill `value_range`.

    Values below and above fall into the first and the last, NaN into bin -1. InvalidArgumentError for an empty range.

    Examples:
        >>> await session.run(af.histogram_fixed_width_bins([0.1, 0.9, 5.0], [0.0, 1.0], nbins=2))
        array([0, 1, 1], dtype=int32)
    """
    _range(values, value_range, nbins)
    return Spec(dtype, values.shape).only(INTEGER)


@op
def histogram_fixed_width(values: T, value_range: T, nbins: Ints = _USUAL_BINS, dtype: DType = int32) -> Spec:
    """The number of values in each of `nbins` equally wide bins that fill `value_range`.

    Values below and above fall into the first and the last, NaN into none. InvalidArgumentError for an empty range.

    Examples:
        >>> await session.run(af.histogram_fixed_width([0.1, 0.2, 0.9], [0.0, 1.0], nbins=2))
        array([2, 1], dtype=int32)
    """
    return Spec(dtype, TensorShape.vector(_range(values, value_range, nbins))).only(NUMERIC)


def _check_limits(values: Spec | Array, value_range: Spec | Array, nbins: Spec | Array, dtype: DType) -> None:
    if not isinstance(value_range, Spec):
        _limits(value_range)


for _op in (histogram_fixed_width_bins, histogram_fixed_width):
    _op.check(_check_limits)
    _op.on_host("value_range")
    _op.no_gradient("counts do not vary smoothly")
    costs(_op, 10.0)


@histogram_fixed_width_bins.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, values: Array, value_range: Array, nbins: Array, *, dtype: DType) -> Array:
    return _bins(xp, values, value_range, int(nbins)).astype(dtype.np)


@histogram_fixed_width.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, values: Array, value_range: Array, nbins: Array, *, dtype: DType) -> Array:
    count = int(nbins)
    bins = _bins(xp, values, value_range, count).ravel()
    ones = xp.ones(bins.shape, dtype.np)
    return add_rows(xp, ones, xp.where(bins < 0, count, bins), count + 1, dtype)[:count]  # the last holds NaN's


# By pairs


@op(name="confusion_matrix")
def _confusion(labels: Indices, predictions: Indices, weights: Spec, num_classes: Ints) -> Spec:
    """Element [i, j] is the sum of the weights of those labelled i and predicted j; -1 classes are as many as occur."""
    labels, predictions = labels.with_rank(1, "labels"), predictions.with_rank(1, "predictions")
    known.integers(labels, "labels").same_dtype(known.integers(predictions, "predictions"))
    labels.shape.merge_with(predictions.shape).merge_with(weights.shape)
    count = known.scalar(num_classes, "num_classes")
    classes = None if count is None or count < 0 else count
    return Spec(weights.only(NUMERIC).dtype, TensorShape.matrix(classes, classes))


@_confusion.check
def _(labels: Spec | Array, predictions: Spec | Array, weights: Spec | Array, num_classes: Spec | Array) -> None:
    count = known.number(num_classes)
    if count is not None and count < 0:
        count = None if isinstance(labels, Spec) or isinstance(predictions, Spec) else _occurring(labels, predictions)
    check_constants(labels, count, "label")
    check_constants(predictions, count, "prediction")


def _occurring(labels: Array, predictions: Array) -> int:
    """How many classes there are at least."""
    return 1 + max((int(values.max()) for values in (labels, predictions) if values.size), default=-1)


@_confusion.gradient
def _(op: Operation, dy: Tensor) -> tuple[None, None, Tensor, None]:
    return None, None, gather_nd(dy, stack(op.inputs[:2], 1)), None


@_confusion.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    labels, predictions, weights, classes = inputs
    return int(weights.dtype.itemsize) * max(int(classes), _occurring(labels, predictions)) ** 2


@_confusion.kernel(CPU, fresh=True, binds=True)  # how many classes there are may depend on values
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    dtype = node.output_specs[0].dtype

    def counts(labels: Array, predictions: Array, weights: Array, num_classes: Array) -> Array:
        if not labels.shape == predictions.shape == weights.shape:
            shapes = ", ".join(str(list(values.shape)) for values in (labels, predictions, weights))
            raise ValueError(f"the shapes of labels, predictions and weights differ: {shapes}")
        count = _occurring(labels, predictions) if num_classes < 0 else int(num_classes)
        check_range(xp, labels, count, "label")
        check_range(xp, predictions, count, "prediction")
        cells = labels.astype(xp.int64) * count + predictions
        return add_rows(xp, weights, cells, count * count, dtype).reshape(count, count)

    return counts


@transactional
def confusion_matrix(
    labels: NumberLike,
    predictions: NumberLike,
    num_classes: NumberLike | None = None,
    dtype: DTypeLike = int32,
    name: str | None = None,
    weights: NumberLike | None = None,
) -> Tensor:
    """The matrix whose element [i, j] counts the examples of class i with prediction j.

    Args:
        labels: true classes, integers from 0 on, a vector; a last axis of size 1 may follow it.
        predictions: predicted classes, of the same form.
        num_classes: the number of classes; by default the highest class plus 1.
        dtype: the dtype of the result.
        name: the name of the result.
        weights: the weight of each example, 1 if None.

    Raises:
        InvalidArgumentError: a class is negative or not below `num_classes`.

    Examples:
        >>> await session.run(af.confusion_matrix([0, 1, 2], [0, 2, 2]))
        array([[1, 0, 0],
               [0, 0, 1],
               [0, 0, 1]], dtype=int32)
    """
    truth = convert_to_tensor(labels, preferred_dtype=int32)
    guess = convert_to_tensor(predictions, preferred_dtype=int32)
    truth, guess = _squeezed(truth, guess), _squeezed(guess, truth)
    if truth.dtype is not guess.dtype:
        wide = max(truth.dtype, guess.dtype, key=lambda kind: kind.size)
        truth, guess = cast(truth, wide), cast(guess, wide)
    each = ones_like(guess, as_dtype(dtype)) if weights is None else cast(weights, dtype)
    return _confusion(truth, guess, each, -1 if num_classes is None else num_classes, name=name)


def _squeezed(value: Tensor, other: Tensor) -> Tensor:
    """`value` without its last axis, if it has one more than `other` and that has size 1."""
    if (
        value.spec.sizes is None
        or other.spec.rank != len(value.spec.sizes) - 1
        or value.spec.sizes[-1] not in (1, None)
    ):
        return value
    return squeeze(value, -1)
