"""Samples of what picks elements by indices, masks, segments or their order, and of what counts."""

import numpy as np

from aioflow.graph.op import REGISTRY
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import ensure_index, gather, gather_grad, gather_nd, scatter_nd
from aioflow.kernels.array.ranges import linspace, one_hot
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import boolean_mask, sequence_mask
from aioflow.kernels.array.shapes import shape, size
from aioflow.kernels.array.sorting import in_top_k, invert_permutation, top_k, unique
from aioflow.kernels.math.segments import gather_segments, segment_sum, unsorted_segment_sum
from aioflow.tensors.dtypes import int64

from . import sample

CUBE = np.arange(24.0).reshape(2, 3, 4) / 7
MATRIX = np.arange(6.0).reshape(2, 3) / 7
EMPTY = np.zeros((0, 3))
MIXED = np.array([[0.3, 2.0, -1.5, 0.9], [7.0, -2.0, 0.1, 5.0]])

for indices in (np.array([1, 0, 1], np.int32), np.int64(1), np.array([[0], [1]], np.uint8), np.zeros((0, 2), int)):
    sample("gather", gather, CUBE, indices, reference=lambda x, i: np.take(x, i, 0))
sample("gather", lambda x, i: gather(x, i, axis=1), CUBE, np.array([[2, 0]]), reference=lambda x, i: np.take(x, i, 1))
sample("gather", lambda x, i: gather(x, i, axis=-1), CUBE, np.int32(3), reference=lambda x, i: np.take(x, i, -1))
sample("gather", lambda x, i: gather(x, i), np.arange(5.0), np.int32(3), reference=lambda x, i: x[i])
BATCHED = np.array([[2, 0], [1, 1]], np.int32)
sample(
    "gather", lambda x, i: gather(x, i, batch_dims=1), CUBE, BATCHED,
    reference=lambda x, i: np.stack([x[b][i[b]] for b in range(2)]),
)  # fmt: skip
sample(
    "gather", lambda x, i: gather(x, i, axis=2, batch_dims=1), CUBE, BATCHED,
    reference=lambda x, i: np.stack([x[b][:, i[b]] for b in range(2)]),
)  # fmt: skip


def added(dy, x, index):
    result = np.zeros(x.shape)
    np.add.at(result, index, dy)
    return result


sample(
    "gather_grad", lambda dy, x, i: gather_grad(dy, x, i, 1, 0), CUBE, CUBE, np.array([2, 0, 2]),
    reference=lambda dy, x, i: added(dy, x, np.s_[:, i]),
)  # fmt: skip
sample(
    "gather_grad", lambda dy, x, i: gather_grad(dy, x, i, -1, -1), CUBE[:, 0, :2], MIXED, np.array([[3, 0], [2, 2]]),
    reference=lambda dy, x, i: added(dy, x, ([[0], [1]], i)),
)  # fmt: skip
POSITIONS = np.array([[1, 2], [0, 0], [1, 2]], np.int32)
sample("ensure_index", ensure_index, np.array([[2, 0]]), np.int32(3), reference=lambda i, n: i)
sample("gather_nd", gather_nd, CUBE, POSITIONS, reference=lambda x, i: x[tuple(i.T)])
sample("gather_nd", gather_nd, MATRIX, POSITIONS, reference=lambda x, i: x[tuple(i.T)])
sample("gather_nd", gather_nd, CUBE, np.array([1]), reference=lambda x, i: x[1])
sample("gather_nd", gather_nd, MATRIX, np.zeros((2, 0), int), reference=lambda x, i: np.stack([x, x]))
sample("gather_nd", gather_nd, EMPTY, np.zeros((0, 1), int), reference=lambda x, i: x)
sample(
    "scatter_nd", lambda i, u: scatter_nd(i, u, [2, 3, 4]), POSITIONS, CUBE[0],
    reference=lambda i, u: added(u, CUBE, tuple(i.T)),
)  # fmt: skip
sample(
    "scatter_nd", lambda i, u, x: scatter_nd(i, u, shape(x)), POSITIONS, CUBE[0, 0, :3], MATRIX,
    reference=lambda i, u, x: added(u, x, tuple(i.T)),
)  # fmt: skip
sample(
    "scatter_nd", lambda i, u: scatter_nd(i, u, [3]), np.array([[2], [0], [2]]), np.array([b"a", b"b", b"c"], object),
    reference=lambda i, u: np.array([b"b", b"", b"ac"], object),
)  # fmt: skip
sample(
    "scatter_nd", lambda i, u: scatter_nd(i, u, [3]), np.array([[2], [0], [2]]), np.array([True, False, False]),
    reference=lambda i, u: np.array([False, False, True]),
)  # fmt: skip

MASK = np.array([[True, False, True], [False, False, True]])
sample("boolean_mask", boolean_mask, CUBE, MASK, reference=lambda x, m: x[m])
sample("boolean_mask", lambda x, m: boolean_mask(x, m, axis=1), CUBE, MASK[0], reference=lambda x, m: x[:, m])
sample("boolean_mask", boolean_mask, MATRIX, ~MASK & MASK, reference=lambda x, m: x[m])
sample(
    "boolean_mask_grad", lambda dy, x, m: REGISTRY["boolean_mask_grad"](dy, x, m, 1), CUBE[:, :2], CUBE, MASK[0],
    reference=lambda dy, x, m: added(dy, x, np.s_[:, m]),
)  # fmt: skip
LENGTHS = np.array([[1, 0], [3, 2]], np.int32)
sample("sequence_mask", sequence_mask, LENGTHS, reference=lambda n: np.arange(3) < n[..., None])
sample(
    "sequence_mask", lambda n: sequence_mask(n, 5, "float32"), LENGTHS, reference=lambda n: np.arange(5) < n[..., None]
)  # fmt: skip

IDS = np.array([2, 0, -1, 2], np.int32)
BY_SEGMENT = CUBE.reshape(4, 3, 2)


def summed(x, ids, count):
    return np.stack([x[ids == segment].sum(0) for segment in range(count)])


for values in (BY_SEGMENT, BY_SEGMENT[:, 0, 0]):
    sample(
        "unsorted_segment_sum", lambda x, i: unsorted_segment_sum(x, i, 4), values, IDS,
        reference=lambda x, i: summed(x, i, 4),
    )  # fmt: skip
    sample("segment_sum", segment_sum, values, np.array([0, 0, 2, 2]), reference=lambda x, i: summed(x, i, 3))
sample(
    "unsorted_segment_sum", lambda x, i, n: unsorted_segment_sum(x, i, n), MATRIX, MASK.astype(int), np.int32(2),
    reference=lambda x, i, n: summed(x, i, n),
)  # fmt: skip
sample("unsorted_segment_sum", lambda x, i: unsorted_segment_sum(x, i, 2), EMPTY, EMPTY[:, 0].astype(int),
       reference=lambda x, i: np.zeros((2, 3)))  # fmt: skip
sample("segment_sum", segment_sum, EMPTY, EMPTY[:, 0].astype(int), reference=lambda x, i: EMPTY)
sample(
    "gather_segments", gather_segments, MATRIX, np.array([1, -1, 0, 1]),
    reference=lambda x, i: np.where((i < 0)[:, None], 0, x[i]),
)  # fmt: skip
sample("gather_segments", gather_segments, MATRIX[:0], np.array([[-1, -2]]), reference=lambda x, i: np.zeros((1, 2, 3)))

sample("range", lambda n: range_(n), np.int32(4), reference=np.arange)
sample("range", lambda: range_(10, 3, -3), reference=lambda: np.arange(10, 3, -3))
sample(
    "range", lambda a, b: range_(a, b, 0.5), np.float64(1), np.float64(3), reference=lambda a, b: np.arange(a, b, 0.5)
)
sample(
    "linspace",
    lambda a, b: linspace(a, b, 5),
    np.float64(1),
    np.float64(3),
    reference=lambda a, b: np.linspace(a, b, 5),
)
sample("linspace", lambda a, n: linspace(a, 2.0, n), np.float64(1), np.int32(1), reference=lambda a, n: np.array([a]))
PLACES = np.array([[0, 3], [-1, 1]], np.int32)
HOT = np.arange(3) == PLACES[..., None]
sample("one_hot", lambda i: one_hot(i, 3), PLACES, reference=lambda i: HOT)
sample("one_hot", lambda i: one_hot(i, 3, axis=0), PLACES, reference=lambda i: np.moveaxis(HOT, -1, 0))
sample("one_hot", lambda i: one_hot(i, 3, axis=1, dtype=int64), PLACES, reference=lambda i: np.moveaxis(HOT, -1, 1))
sample("one_hot", lambda i, d: one_hot(i, d), np.int64(1), np.int32(3), reference=lambda i, d: np.array([0, 1, 0]))
sample(
    "one_hot", lambda i, on, off: one_hot(i, 3, on, off), PLACES, np.float64(2.5), np.float64(-1),
    reference=lambda i, on, off: np.where(HOT, on, off),
)  # fmt: skip

for k in (1, 3, 4):
    order = np.argsort(-MIXED, axis=-1, kind="stable")[:, :k]
    sample(
        "top_k", lambda x, k=k: top_k(x, k), MIXED,
        reference=lambda x, order=order: (np.take_along_axis(x, order, -1), order),
    )  # fmt: skip
sample("top_k", top_k, CUBE, reference=lambda x: (x[..., 3:], np.full((2, 3, 1), 3)))
sample(
    "in_top_k", lambda x, t: in_top_k(x, t, 2), MIXED, np.array([3, 1]), reference=lambda x, t: np.array([True, False])
)  # fmt: skip
sample("in_top_k", lambda x, t: in_top_k(x, t, 1), EMPTY, np.zeros(0, int), reference=lambda x, t: np.zeros(0, bool))
sample(
    "unique", unique, np.array([3.0, 1.0, 3.0, 2.0, 1.0]),
    reference=lambda x: (np.array([3.0, 1.0, 2.0]), np.array([0, 1, 0, 2, 1])),
)  # fmt: skip
sample("unique", lambda x: unique(x, int64), EMPTY[:, 0], reference=lambda x: (x, np.zeros(0, int)))
sample("invert_permutation", invert_permutation, np.array([2, 0, 1, 3]), reference=np.argsort)
sample("size", lambda x: size(constant([1, 2]), out_type=int64), MATRIX, reference=lambda x: np.int64(2))
