import numpy as np

from aioflow.kernels.array import sorting
from aioflow.kernels.math import cumulative, histograms, reduction, variance
from aioflow.kernels.math import segments as families
from aioflow.kernels.math import unsorted_segments as unsorted
from aioflow.kernels.sparse import sparse_segments as sparse
from tests.kernels.samples import sample

rows = np.array([[1.5, -0.5], [0.0, 2.5], [3.0, 0.7], [-1.2, 0.0], [0.4, 1.1]])
numbers = np.array([3, -4, 5, 7, 9], np.int32)
rising = np.array([0, 0, 2, 2, 2], np.int32)
mixed = np.array([2, -1, 0, 2, 0])
complexes = rows[:, 0] + 1j * rows[:, 1]


def grouped(function, empty):
    """The reference: `function` of the rows of each id."""

    def by_segment(data, ids, count=None):
        ids = np.asarray(ids)
        flat = data.reshape(-1, *data.shape[ids.ndim :])
        count = int(ids.max(initial=-1)) + 1 if count is None else count
        parts = [flat[ids.ravel() == s] for s in range(count)]
        found = [function(part) if len(part) else np.full(flat.shape[1:], empty) for part in parts]
        return np.array(found).astype(data.dtype).reshape(count, *flat.shape[1:])

    return by_segment


def mean(part):
    return np.trunc(np.mean(part, 0)) if part.dtype.kind == "i" else np.mean(part, 0)


def sqrt_n(part):
    return np.sum(part, 0) / np.sqrt(len(part))


for op, reference in [
    (families.segment_mean, grouped(mean, 0)),
    (families.segment_prod, grouped(lambda part: np.prod(part, 0), 1)),
    (families.segment_max, grouped(lambda part: np.max(part, 0), 0)),
    (families.segment_min, grouped(lambda part: np.min(part, 0), 0)),
]:
    sample(op.name, op, rows, rising, reference=reference)
    sample(op.name, op, rows[:, 0], rising.astype(np.int64), reference=reference)
    sample(op.name, op, rows.reshape(5, 1, 2), rising + 1, reference=reference)
    sample(op.name, op, numbers, rising, reference=reference)
    sample(op.name, op, rows[:0], rising[:0], reference=reference)
for op in (families.segment_mean, families.segment_prod):
    sample(op.name, op, complexes, rising)

least, most = np.finfo(np.float64).min, np.finfo(np.float64).max
for op, function, empty in [
    (unsorted.unsorted_segment_mean, mean, 0),
    (unsorted.unsorted_segment_sqrt_n, sqrt_n, 0),
    (unsorted.unsorted_segment_prod, lambda part: np.prod(part, 0), 1),
    (unsorted.unsorted_segment_max, lambda part: np.max(part, 0), least),
    (unsorted.unsorted_segment_min, lambda part: np.min(part, 0), most),
]:
    name, reference = op.__name__, grouped(function, empty)
    # A segment of no rows is as far from 0 as the dtype goes, which differs between dtypes: for extremes there is none.
    ids, count = (mixed, 4) if abs(empty) <= 1 else (mixed // 2, 2)
    for data, places in [
        (rows, ids),
        (rows[:, 0], ids.astype(np.int32)),
        (rows[:4].reshape(2, 2, 2), np.abs(ids[:4]).reshape(2, 2)),
        (rows[:0], ids[:0]),
    ]:
        size = count if len(data) or count == 4 else 0
        sample(
            name, lambda data, ids, o=op, n=size: o(data, ids, n), data, places,
            reference=lambda data, ids, r=reference, n=size: r(data, ids, n),
        )  # fmt: skip
    sample(name, op, rows, ids, np.array(count), reference=reference)
    if op is not unsorted.unsorted_segment_sqrt_n:
        bounds = {least: np.iinfo(np.int32).min, most: np.iinfo(np.int32).max}
        sample(name, op, numbers, mixed, np.array(4), reference=grouped(function, bounds.get(empty, empty)))
sample("unsorted_segment_prod", lambda x, ids: unsorted.unsorted_segment_prod(x, ids, 3), complexes, mixed)
sample(
    "segment_sizes",
    lambda ids, x: families.segment_sizes(ids, x),
    mixed,
    rows[:4],
    reference=lambda ids, x: np.array([[2.0], [1], [2], [1]]),
)
sample(
    "segment_edges",
    lambda x, ids: families.segment_edges(x, ids, True),
    rows[:, 0],
    rising,
    reference=lambda x, ids: np.array([0, 1, 0, 0, 1], bool),
)

indices = np.array([4, 0, 0, 3, 1])
for op, function in [
    (sparse.sparse_segment_sum, lambda part: np.sum(part, 0)),
    (sparse.sparse_segment_mean, mean),
    (sparse.sparse_segment_sqrt_n, sqrt_n),
]:
    reference = grouped(function, 0)
    sample(op.__name__, op, rows, indices, rising, reference=lambda x, i, ids, r=reference: r(x[i], ids))
    sample(
        op.__name__, lambda x, i, ids, o=op: o(x, i, ids, num_segments=4), rows[:, 0], indices[:2], rising[:2],
        reference=lambda x, i, ids, r=reference: r(x[i], ids, 4),
    )  # fmt: skip
    sample(op.__name__, op, complexes, indices, rising)
    sample(op.__name__, op, rows, indices[:0], rising[:0], reference=lambda x, i, ids: np.zeros((0, 2)))

# Counting

classes = np.array([[2, 0, 2], [5, 2, 0]], np.int32)
weights = np.array([[0.5, 1.5, 2.5], [0.1, 0.2, 0.3]])
sample("bincount", histograms.bincount, classes, reference=lambda x: np.bincount(x.ravel()).astype(np.int32))
sample("bincount", histograms.bincount, classes, weights, reference=lambda x, w: np.bincount(x.ravel(), w.ravel()))
sample(
    "bincount", lambda x, w: histograms.bincount(x, w, maxlength=3), classes, weights,
    reference=lambda x, w: np.bincount(x.ravel(), w.ravel())[:3],
)  # fmt: skip
sample(
    "bincount", lambda x: histograms.bincount(x, minlength=8, maxlength=8, dtype="int64"), classes,
    reference=lambda x: np.bincount(x.ravel(), minlength=8),
)  # fmt: skip
values, limits = np.array([[-1.0, 0.0, 1.5], [2.0, 5.0, 15.0]]), np.array([0.0, 5.0])
sample(
    "histogram_fixed_width", lambda x, r: histograms.histogram_fixed_width(x, r, 5), values, limits,
    reference=lambda x, r: np.histogram(np.clip(x, *r), 5, r)[0].astype(np.int32),
)  # fmt: skip
sample(
    "histogram_fixed_width_bins", lambda x, r: histograms.histogram_fixed_width_bins(x, r, 5, "int64"), values, limits,
    reference=lambda x, r: np.array([[0, 0, 1], [2, 4, 4]]),
)  # fmt: skip
labels, guesses = np.array([1, 2, 4, 1]), np.array([2, 2, 4, 0])


def confusion(labels, guesses, weights=None, count=5, dtype=np.int32):
    matrix = np.zeros((count, count), dtype)
    np.add.at(matrix, (labels, guesses), 1 if weights is None else weights)
    return matrix


sample("confusion_matrix", histograms.confusion_matrix, labels, guesses, reference=confusion)
sample(
    "confusion_matrix",
    lambda i, j, w: histograms.confusion_matrix(i, j, 6, "float64", weights=w), labels, guesses, weights.ravel()[:4],
    reference=lambda i, j, w: confusion(i, j, w, 6, np.float64),
)  # fmt: skip

# Order

x = np.array([[[1.3, -0.7, 0.2], [2.1, 0.4, 0.9]], [[0.8, 1.1, -3.0], [-0.6, 1.7, 2.0]]])
equal = np.array([[3, 1, 3, 1, 2], [0, 0, -1, 5, 5]], np.int16)
for axis in (-1, 0, 1):
    sample("sort", lambda x, a=axis: sorting.sort(x, a), x, reference=lambda x, a=axis: np.sort(x, a))
    sample(
        "sort", lambda x, a=axis: sorting.sort(x, a, "DESCENDING"), x,
        reference=lambda x, a=axis: np.flip(np.sort(x, a), a),
    )  # fmt: skip
    sample(
        "argsort", lambda x, a=axis: sorting.argsort(x, a), x,
        reference=lambda x, a=axis: np.argsort(x, a).astype(np.int32),
    )  # fmt: skip
sample("sort", sorting.sort, equal, reference=np.sort)
sample("sort", sorting.sort, x[:0], reference=np.sort)
sample(
    "argsort", lambda x: sorting.argsort(x, direction="DESCENDING"), equal,
    reference=lambda x: np.argsort(-x, kind="stable").astype(np.int32),
)  # fmt: skip
texts = np.array([[b"pear", b"", b"fig", b"pear"], [b"b", b"a", b"b", b"\xff"]], object)
for direction, order in (("ASCENDING", [[1, 2, 0, 3], [1, 0, 2, 3]]), ("DESCENDING", [[0, 3, 2, 1], [3, 0, 2, 1]])):
    sample(
        "argsort", lambda x, d=direction: sorting.argsort(x, direction=d), texts,
        reference=lambda x, o=order: np.array(o, np.int32),
    )  # fmt: skip
sample("argsort", sorting.argsort, texts[:0], reference=lambda x: np.zeros((0, 4), np.int32))
places = np.argsort(x, 1)
for inverse in (False, True):
    sample("reorder", lambda x, i, b=inverse: sorting.reorder(x, i, 1, b), x, places)
for reverse in (False, True):
    sample(
        "nth_element", lambda x, n, r=reverse: sorting.nth_element(x, n, r), x, np.array(2),
        reference=lambda x, n, r=reverse: (np.sort(x) * 1.0)[..., 0 if r else 2],
    )  # fmt: skip
sample("nth_element", sorting.nth_element, equal, np.array(1), reference=lambda x, n: np.sort(x)[..., n])
for op, compare in [(sorting.is_non_decreasing, np.less_equal), (sorting.is_strictly_increasing, np.less)]:
    for inputs in (np.array([1.0, 1.0, 2.0]), np.array([[1, 2], [3, 4]]), np.array([2, 1]), np.array([])):
        sample(
            op.__name__,
            op,
            inputs,
            reference=lambda x, c=compare: np.all(c(x.ravel()[:-1], x.ravel()[1:])),
            gradient=False,
        )

# Sums and spread

sample("accumulate_n", lambda *xs: cumulative.accumulate_n(xs), rows, rows * 2, rows - 1, reference=lambda *xs: sum(xs))
sample(
    "polyval",
    lambda a, x: cumulative.polyval([a, 2.0, a], x),
    np.array(1.5),
    rows,
    reference=lambda a, x: np.polyval([a, 2, a], x),
)
sample("polyval", lambda x: cumulative.polyval([3.0], x), rows, reference=lambda x: np.full_like(x, 3))
for axis, exclusive, reverse in [(0, False, False), (1, True, False), (-1, False, True), (0, True, True)]:

    def cumulated(x, axis=axis, exclusive=exclusive, reverse=reverse):
        moved = np.moveaxis(x, axis, 0)
        moved = moved[::-1] if reverse else moved
        with np.errstate(divide="ignore"):
            found = np.array([np.log(np.sum(np.exp(moved[: i + (not exclusive)]), 0)) for i in range(len(moved))])
        return np.moveaxis(found[::-1] if reverse else found, 0, axis)

    sample(
        "cumulative_logsumexp",
        lambda x, a=(axis, exclusive, reverse): cumulative.cumulative_logsumexp(x, *a), x, reference=cumulated,
        gradient=not exclusive,
    )  # fmt: skip
    if exclusive:  # the first element, -inf, does not move
        sample(
            "cumulative_logsumexp",
            lambda x, a=axis, r=reverse: cumulative.cumulative_logsumexp(x, a, True, r)[
                (slice(None),) * (a % 3) + (slice(0, -1) if r else slice(1, None),)
            ],
            x,
        )
for axis, keepdims in [(None, False), (1, False), (-1, True), ((0, 2), False)]:
    for op, reference in [
        (reduction.reduce_euclidean_norm, lambda x, **kw: np.sqrt(np.sum(np.abs(x) ** 2, **kw))),
        (variance.reduce_variance, np.var),
        (variance.reduce_std, np.std),
    ]:
        for inputs in (x, x + 1j * x[::-1]):
            made = lambda x, o=op, a=axis, k=keepdims: o(x, a, k)  # noqa: E731
            sample(
                op.__name__, made, inputs, reference=lambda x, r=reference, a=axis, k=keepdims: r(x, axis=a, keepdims=k)
            )
