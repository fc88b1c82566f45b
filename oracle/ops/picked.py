"""Elements that are picked, classes that are drawn, integers that are counted, features that are crossed."""

from typing import Any

import numpy as np

from oracle.draw import Call, Draw, call
from oracle.table import compare


def highest(d: Draw) -> Call:
    shape = d.shape(1, 3, (2, 5))
    count = int(np.prod(shape))
    numbers = d.rng().permutation(count).reshape(shape).astype("float32")  # no two are equal
    axis = d.axis(shape)
    return call(numbers, k=d.integer(1, shape[axis]), reduction_dimension=axis)


compare("nn.approx_max_k", highest, ops="top_k")


def _lowest(library: Any, x: Any, **attrs: Any) -> Any:  # TensorFlow finds the lowest elements on TPUs alone
    values, places = library.nn.approx_max_k(-x, **attrs)
    return -values, places


compare("nn.approx_min_k", highest, theirs=_lowest, ops="top_k")


def classes(d: Draw) -> Call:
    count, true = d.integer(4, 9), d.integer(1, 3)
    return call(d.array("int64", (d.integer(1, 3), true), 0, 3), num_true=true, num_sampled=count, unique=True)


compare("nn.all_candidate_sampler", classes)


def by_weights(d: Draw) -> Call:
    drawn = classes(d)
    counts = [float(weight) for weight in d.array("float64", (drawn.attrs["num_sampled"],), 0.1, 4)]
    more = {"unique": False, "distortion": d.pick(0.5, 1.0), "unigrams": counts, "range_max": len(counts)}
    return call(*drawn.arrays, **drawn.attrs | more)


def _expected(library: Any, true: Any, **attrs: Any) -> Any:
    return library.nn.fixed_unigram_candidate_sampler(true, **attrs)[1]


compare("nn.fixed_unigram_candidate_sampler", by_weights, _expected)


def of_whole_ratios(d: Draw) -> Call:
    rows, columns = d.pick(1, 2, 3), d.pick(1, 2)
    shape = (d.integer(1, 2), rows * d.integer(1, 3), columns * d.integer(1, 3), d.integer(1, 2))
    return call(
        d.array(d.dtype("float32", "float64"), shape, -8, 8),
        pooling_ratio=[1.0, float(rows), float(columns), 1.0], overlapping=d.pick(False, True), deterministic=True,
        seed=1, seed2=1,
    )  # fmt: skip


FEW = "TensorFlow's gradient fails for images of few windows; finite differences check ours"
compare("nn.fractional_max_pool", of_whole_ratios, ops="fractional_windows", gradient=FEW)
compare("nn.fractional_avg_pool", of_whole_ratios, ops="fractional_windows")


def counted(d: Draw) -> Call:
    shape = (d.integer(1, 3), d.integer(1, 5))
    arrays = [d.array(d.pick("int32", "int64"), shape, 0, 5)]
    if weighted := d.pick(False, True):
        arrays.append(d.array("float32", shape))
    return call(
        *arrays, axis=d.pick(0, -1), minlength=d.pick(None, 3, 8), maxlength=d.pick(None, 2, 8),
        binary_output=not weighted and d.pick(False, True),
    )  # fmt: skip


compare("sparse.bincount", counted, ops=(), gradient="TensorFlow's has none")


def crossed(d: Draw) -> Call:
    rows = d.integer(1, 3)
    kinds = [d.pick("str", "int64") for _ in range(d.integer(1, 3))]
    return call(*[d.array(kind, (rows, d.integer(1, 3)), 0, 30) for kind in kinds], separator=d.pick(None, "-"))


def _crossed(library: Any, *inputs: Any, **attrs: Any) -> Any:
    return library.sparse.cross(list(inputs), **attrs)


compare("sparse.cross", crossed, _crossed, ops="sparse_cross")


def crossed_as_numbers(d: Draw) -> Call:
    made = crossed(d)
    return call(*made.arrays, num_buckets=d.pick(0, 1, 1000), hash_key=d.pick(None, 0, 12345))


def _crossed_as_numbers(library: Any, *inputs: Any, **attrs: Any) -> Any:
    return library.sparse.cross_hashed(list(inputs), **attrs)


compare("sparse.cross_hashed", crossed_as_numbers, _crossed_as_numbers, ops="sparse_cross_hashed")
