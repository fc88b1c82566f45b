"""Reductions, cumulative ops, sorting, counting."""

from typing import Any

import numpy as np

from oracle.draw import ANY, BOOL, COMPLEX, FLOAT, FLOATS, INTS, NUMBERS, Call, Draw, call, one
from oracle.table import NUMPY, compare, differs, open_sizes

CONJUGATE = differs("TensorFlow forgets to conjugate the second gradient", lambda x, *ids, **attrs: x.dtype.kind == "c")


WIDE = differs("squares of float16 are summed as float32", lambda x, **attrs: x.dtype == np.float16)
ZEROS = differs("TensorFlow's gradients are wrong where there is a 0", lambda x, **attrs: (x == 0).any())


def reduced(*dtypes: str) -> Any:
    def drawn(d: Draw) -> Call:
        shape = d.shape()
        return call(d.array(d.dtype(*dtypes), shape), axis=d.axes(shape), keepdims=d.pick(True, False))

    return drawn


for name in ("reduce_sum", "reduce_mean"):
    compare(name, reduced(*NUMBERS), rtol=64)
compare(
    "reduce_mean of open sizes",
    reduced(*FLOAT),
    lambda lib, x, **attrs: lib.reduce_mean(open_sizes(lib, x), **attrs),
    ops=("reduce_mean", "spread"),
    rtol=64,
)
compare("reduce_prod", reduced(*NUMBERS), rtol=64, differs=CONJUGATE + ZEROS)
for name in ("reduce_max", "reduce_min"):
    compare(name, reduced(*FLOATS, *INTS))
for name in ("reduce_all", "reduce_any"):
    compare(name, reduced(*BOOL))
compare("reduce_logsumexp", reduced(*FLOATS), rtol=64)
compare("count_nonzero", reduced(*NUMBERS))
compare("math.reduce_euclidean_norm", reduced(*FLOATS, *COMPLEX), rtol=64, differs=CONJUGATE + ZEROS + WIDE)
for name in ("reduce_std", "reduce_variance"):
    compare(f"math.{name}", reduced(*FLOATS, *COMPLEX), ops=(), rtol=256)


def moments(lib: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return lib.nn.moments(x, list(range(x.shape.ndims)) if axis is None else axis, keepdims=keepdims)


compare(
    "nn.moments", reduced(*FLOATS), moments, ops=(), rtol=256, gradient="TensorFlow stops the second one at the mean"
)


def along(*dtypes: str) -> Any:
    def drawn(d: Draw) -> Call:
        shape = d.shape(1)
        return call(d.array(d.dtype(*dtypes), shape), axis=d.axis(shape))

    return drawn


for name in ("argmax", "argmin"):
    compare(
        name, along(*FLOATS, *INTS), differs=differs(NUMPY + "NaN is the extreme", lambda x, axis: np.isnan(x).any())
    )


def running(*dtypes: str) -> Any:
    def drawn(d: Draw) -> Call:
        shape = d.shape(1)
        return call(
            d.array(d.dtype(*dtypes), shape),
            axis=d.axis(shape),
            exclusive=d.pick(False, True),
            reverse=d.pick(False, True),
        )

    return drawn


compare("cumsum", running(*NUMBERS), rtol=64)
compare(
    "cumprod",
    running(*NUMBERS),
    rtol=64,
    ops=("cumprod", "recurrence", "shift"),
    differs=differs(
        "TensorFlow divides by the factor: wrong for 0, and it forgets to conjugate",
        lambda x, **attrs: (x == 0).any() or x.dtype.kind == "c",
    ),
)
compare(
    "math.cumulative_logsumexp",
    running(*FLOATS),
    rtol=64,
    differs=differs(NUMPY + "logaddexp of NaN is NaN", lambda x, **attrs: np.isnan(x).any()),
)
compare("nn.l2_loss", one(*FLOATS), rtol=64)
compare("nn.zero_fraction", one(*FLOATS, *INTS), ops=())
compare(
    "norm",
    reduced(*FLOAT, *COMPLEX),
    rtol=64,
    ops=(),
    differs=differs(NUMPY + "a norm is real", lambda x, **attrs: x.dtype.kind == "c"),
    call=lambda lib, x, axis, keepdims: lib.norm(x, axis=axis if isinstance(axis, int) else None, keepdims=keepdims),
)


NOTHING = differs(
    "of nothing nothing; TensorFlow's gradient refuses", lambda x, **attrs: not x.size or attrs.get("k") == 0
)


def ranked(*dtypes: str) -> Any:
    def drawn(d: Draw) -> Call:
        shape = d.shape(1)
        return call(d.array(d.dtype(*dtypes), shape), k=d.integer(0, shape[-1] + 1))

    return drawn


compare("nn.top_k", ranked(*FLOATS, *INTS), differs=NOTHING)


NO_ORDER = differs(
    NUMPY + "NaN is greater than all", lambda x, direction, **attrs: direction == "DESCENDING" and np.isnan(x).any()
)


def directed(*dtypes: str) -> Any:
    def drawn(d: Draw) -> Call:
        shape = d.shape(1)
        return call(d.array(d.dtype(*dtypes), shape), axis=d.axis(shape), direction=d.pick("ASCENDING", "DESCENDING"))

    return drawn


compare("sort", directed(*FLOATS, *INTS), ops=("sort", "reorder"), differs=NOTHING + NO_ORDER)
compare(
    "argsort", directed(*FLOATS, *INTS), lambda lib, x, **attrs: lib.argsort(x, stable=True, **attrs), differs=NO_ORDER
)


def nth(d: Draw) -> Call:
    shape = d.shape(1)
    n = d.integer(0, max(shape[-1], 1))
    return call(d.array(d.dtype(*FLOATS, *INTS), shape), n=n, reverse=d.pick(False, True))


compare("nth_element", nth, theirs=lambda lib, x, n, reverse: lib.raw_ops.NthElement(input=x, n=n, reverse=reverse))


def targets(d: Draw) -> Call:
    batch, classes = d.integer(0, 4), d.integer(1, 5)
    predictions = d.array("float32", (batch, classes))
    return call(predictions, d.ids((batch,), -1, classes), k=d.integer(0, classes + 1))


compare("nn.in_top_k", targets)
compare("unique", one(*ANY, ranks=(1, 1), sides=(0, 8)))
compare("unique_with_counts", one(*ANY, ranks=(1, 1), sides=(0, 8)), ops=())


def shuffled(d: Draw) -> Call:
    return call(d.rng().permutation(d.integer(0, 6)).astype(d.pick("int32", "int64")))


compare("invert_permutation", shuffled)
compare("invert_permutation of others", lambda d: call(d.ids(d.shape(1, 1), 0, 3)))


def counted(d: Draw) -> Call:
    shape = d.shape(0, 2)
    return call(d.array("int32", shape, -1, 5), minlength=d.pick(None, 0, 3, 8), maxlength=d.pick(None, 0, 2, 6))


compare("bincount", counted)


def weighted(d: Draw) -> Call:
    shape = d.shape(1, 1)
    return call(
        d.array("int32", shape, 0, 5), d.array(d.dtype(*FLOAT, "int32", "int64"), shape), minlength=d.pick(None, 4)
    )


compare("bincount with weights", weighted, lambda lib, x, w, **attrs: lib.bincount(x, w, **attrs))


def confused(d: Draw) -> Call:
    count = d.integer(0, 6)
    return call(d.ids((count,), 0, 3), d.ids((count,), 0, 3), num_classes=d.pick(None, 4, 5))


compare(
    "confusion_matrix",
    confused,
    theirs="math.confusion_matrix",
    differs=differs("of nothing there are no classes", lambda x, y, num_classes: not x.size and num_classes is None),
)


def binned(d: Draw) -> Call:
    dtype = d.dtype(*FLOAT, "int32", "int64")
    values, ends = d.array(dtype, d.shape(), -6, 6), np.array(d.pick([-3, 4], [0, 5]), dtype)
    return call(values, ends, nbins=d.integer(1, 6), dtype=d.pick("int32", "int64"))


compare("histogram_fixed_width", binned)
compare(
    "histogram_fixed_width_bins",
    binned,
    differs=differs("TensorFlow ignores the dtype asked for", lambda *arrays, dtype, **attrs: dtype == "int64"),
)


def searched(d: Draw) -> Call:
    dtype, rows = d.dtype(*FLOAT, *INTS), d.shape(0, 2, (1, 3))
    sequence = d.array(dtype, (*rows, d.integer(0, 5)), -4, 5)
    sequence.sort(-1)
    return call(sequence, d.array(dtype, (*rows, d.integer(0, 4)), -4, 5), side=d.pick("left", "right"))


compare("searchsorted", searched, gradient="TensorFlow has none for integers")
for name in ("is_non_decreasing", "is_strictly_increasing"):
    compare(f"math.{name}", one(*FLOATS, *INTS), ops=())
