"""Samples of classes, windows and values that are drawn or crossed."""

import numpy as np

from aioflow.kernels.nn.fractional_windows import fractional_windows
from aioflow.kernels.nn.weighted_sampling import all_sampler, fixed_unigram_sampler
from aioflow.kernels.sparse.sparse_crosses import sparse_cross, sparse_cross_hashed
from tests.kernels.samples import sample

TRUE = np.array([[0, 2], [1, 1]])
WEIGHTS = np.array([1.0, 0.0, 3.0])

for unique in (False, True):
    sample(
        "fixed_unigram_candidate_sampler",
        lambda true, weights, unique=unique: fixed_unigram_sampler(true, weights, 2, 2, unique, 3, 1, 2),
        TRUE, WEIGHTS,
    )  # fmt: skip
sample(
    "all_candidate_sampler", lambda true: all_sampler(true, 2, 3, True), TRUE,
    reference=lambda true: (np.arange(3), np.ones((2, 2), np.float32), np.ones(3, np.float32)),
)  # fmt: skip

for ratio, expected in ((1.0, range(8)), (3.5, (0, 3, 7)), (7.0, (0, 7))):
    sizes = None if ratio == 3.5 else lambda size, seed, expected=expected: np.array(expected)
    sample(
        "fractional_windows", lambda size, seed, ratio=ratio: fractional_windows(size, seed, ratio, ratio == 3.5),
        np.array(7), np.array([1, 2]), reference=sizes,
    )  # fmt: skip


def texts(*items):
    return np.array(items, object)


sample(
    "sparse_cross", lambda a, b, x, y, batch: sparse_cross([a, b], [x, y], batch, "-"), np.array([0, 0, 2]),
    np.array([0, 1, 2, 2]), texts(b"a", b"b", b"c"), texts(b"1", b"2", b"3", b""), np.array(3),
    reference=lambda *inputs: (
        [[0, 0], [0, 1], [2, 0], [2, 1]], texts(b"a-1", b"b-1", b"c-3", b"c-"), [3, 2]
    ),
)  # fmt: skip
sample(
    "sparse_cross_hashed", lambda a, b, x, y, batch: sparse_cross_hashed([a, b], [x, y], batch, 0), np.array([0, 0]),
    np.array([0]), texts(b"a", b"b"), texts(b"c"), np.array(1),
    reference=lambda *inputs: ([[0, 0], [0, 1]], [1265624096873407566, 2725843207563437254], [1, 2]),
)  # fmt: skip
sample(
    "sparse_cross_hashed", lambda a, b, x, y, batch: sparse_cross_hashed([a, b], [x, y], batch, 100, 7),
    np.array([0, 2]), np.array([0, 1, 2]), np.array([3, -4]), texts(b"a", b"", b"c"), np.array(3),
)  # fmt: skip
