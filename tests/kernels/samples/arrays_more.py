"""Samples of what parts, stitches, turns, compares and searches."""

import numpy as np

from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array import partition, sequence
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.scatter import (
    tensor_scatter_add,
    tensor_scatter_max,
    tensor_scatter_min,
    tensor_scatter_sub,
    tensor_scatter_update,
)
from aioflow.kernels.array.weights import fitting_weights, same_shape
from aioflow.kernels.sparse.sets import all_positions, set_difference, set_intersection, set_size, set_union
from aioflow.tensors.dtypes import int64

from . import sample

CUBE = np.arange(24.0).reshape(2, 3, 4) / 7 - 1
MATRIX = np.arange(6.0).reshape(2, 3) / 7
EMPTY = np.zeros((0, 3))

# Parted and stitched

NUMBERS = np.array([1, 0, 1, 2], np.int32)
ROWS = CUBE.reshape(4, 3, 2)


def parted(count):
    return lambda x, numbers: [x[numbers == number] for number in range(count)]


sample("dynamic_partition", lambda x, n: partition.dynamic_partition(x, n, 4), ROWS, NUMBERS, reference=parted(4))
sample("dynamic_partition", lambda x, n: partition.dynamic_partition(x, n, 2), MATRIX, (MATRIX > 0.4).astype(int),
       reference=parted(2))  # fmt: skip
sample("dynamic_partition", lambda x, n: partition.dynamic_partition(x, n, 1), EMPTY, EMPTY[:, 0].astype(int),
       reference=lambda x, n: x)  # fmt: skip
sample("dynamic_partition", lambda x, n: partition.dynamic_partition(x, n, 2), np.float64(2), np.int32(1),
       reference=lambda x, n: [x[:0] if x.ndim else np.zeros(0), x.reshape(1)])  # fmt: skip


def stitched(*pairs):
    indices, data = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
    row = data[0].shape[indices[0].ndim :]
    result = np.zeros((1 + max([-1, *np.concatenate([each.ravel() for each in indices])]), *row))
    for places, rows in zip(indices, data, strict=True):
        result[places] = rows
    return result


def stitch(*pairs):
    return partition.dynamic_stitch(pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :])


PLACES = np.array([[4, 0], [1, 1]], np.int32)
sample("dynamic_stitch", stitch, np.array([5, 1]), np.array([0, 2]), ROWS[:2], ROWS[2:], reference=stitched)
sample("dynamic_stitch", stitch, PLACES, np.array([0, 3], np.int32), CUBE[:, :2], CUBE[0, :2], reference=stitched)
sample("dynamic_stitch", stitch, np.int64(2), PLACES[0], np.float64(0.5), MATRIX[0, :2], reference=stitched)
sample("dynamic_stitch", stitch, np.zeros(0, int), EMPTY, reference=stitched)
sample("dynamic_stitch", lambda x: partition.dynamic_stitch([[2, 0], 1], [x, x[0]]), MATRIX,
       reference=lambda x: np.stack([x[1], x[0], x[0]]))  # fmt: skip
sample("stitched_places", lambda *i: partition.stitched_places(i), PLACES, np.array([0, 3], np.int32),
       reference=lambda *_: np.array([4, 3, -1, 5, 0]))  # fmt: skip
sample("gather", lambda x, i: partition.batch_gather(x, i), CUBE, np.array([[2, 0], [1, 1]]),
       reference=lambda x, i: np.stack([x[b][i[b]] for b in range(2)]))  # fmt: skip

# Positions

POSITIONS = np.array([[1, 2], [0, 0], [1, 2]], np.int32)
DISTINCT = np.array([[1, 2], [0, 0], [0, 1]], np.int32)
UPDATES = np.linspace(-1, 1, 12).reshape(3, 4)


def changed(how):
    def reference(x, indices, updates):
        result = x.copy()
        place = tuple(np.moveaxis(indices, -1, 0))
        if how is None:
            result[place] = updates
        else:
            how.at(result, place, updates)
        return result

    return reference


for name, made, how, places in (
    ("tensor_scatter_update", tensor_scatter_update, None, DISTINCT),
    ("tensor_scatter_add", tensor_scatter_add, np.add, POSITIONS),
    ("tensor_scatter_sub", tensor_scatter_sub, np.subtract, POSITIONS),
    ("tensor_scatter_max", tensor_scatter_max, np.maximum, POSITIONS),
    ("tensor_scatter_min", tensor_scatter_min, np.minimum, POSITIONS),
):
    sample(name, made, CUBE, places, UPDATES, reference=changed(how))
    sample(name, made, MATRIX, places, UPDATES[:, 0], reference=changed(how))
    sample(name, made, MATRIX, np.array([[[1]], [[0]]]), UPDATES[:2, None, :3], reference=changed(how))
    sample(name, made, EMPTY, np.zeros((0, 1), int), EMPTY, reference=changed(how))

# Turned

LENGTHS = np.array([2, 0, 3], np.int64)


def turned(x, lengths, seq, batch):
    result = x.copy()
    for place, length in enumerate(lengths):
        mine = np.moveaxis(result, (batch, seq), (0, 1))[place]
        mine[:length] = mine[:length][::-1].copy()
    return result


for seq, batch in ((1, 0), (0, 1), (-1, 1)):
    values = CUBE.transpose(1, 2, 0).copy() if (seq, batch) == (1, 0) else CUBE
    lengths = np.minimum(LENGTHS, values.shape[seq])
    sample(
        "reverse_sequence", lambda x, n, s=seq, b=batch: sequence.reverse_sequence(x, n, s, b), values, lengths,
        reference=lambda x, n, s=seq, b=batch: turned(x, n, s, b),
    )  # fmt: skip
sample("reverse_sequence", lambda x, n: sequence.reverse_sequence(x, n, seq_dim=1), EMPTY, LENGTHS[:0],
       reference=lambda x, n: x)  # fmt: skip
sample("roll", lambda x: sequence.roll(x, 2, 1), CUBE, reference=lambda x: np.roll(x, 2, 1))
sample("roll", lambda x, s: sequence.roll(x, s, [0, -1, 0]), CUBE, np.array([1, -3, 2]),
       reference=lambda x, s: np.roll(x, (3, -3), (0, -1)))  # fmt: skip
sample("roll", lambda x, s: sequence.roll(x, s, 0), MATRIX, np.int32(-1), reference=lambda x, s: np.roll(x, -1, 0))
sample("roll", lambda x, s: sequence.roll(x, s, 0), EMPTY, np.int32(3), reference=lambda x, s: x)

# Compared and searched


def words(items, shape):
    values = np.array([letter for word in items.values() for letter in word])
    indices = [[*row, place] for row, word in items.items() for place in range(len(word))]
    return np.array(indices, np.int64).reshape(-1, len(shape)), values, np.array(shape)


def compared(normalize):
    def build(*parts):
        return sequence.edit_distance(SparseTensor(*parts[:3]), SparseTensor(*parts[3:]), normalize)

    return build


MINE = words({(0,): [1, 2, 3, 4], (1,): [5], (3,): [1]}, [4, 4])
THEIRS = words({(0,): [2, 3, 3, 9, 4], (2,): [1, 1], (3,): [1]}, [4, 5])
sample("edit_distance", compared(False), *MINE, *THEIRS, reference=lambda *_: np.array([3, 1, 2, 0]), gradient=False)
sample("edit_distance", compared(True), *MINE, *THEIRS, reference=lambda *_: np.float32([0.6, np.inf, 1, 0]))
sample("edit_distance", compared(True), *words({(): [1, 2]}, [2]), *words({(): [2]}, [1]),
       reference=lambda *_: np.float32(1))  # fmt: skip

ITEMS = np.array([3.0, 1.0, 3.0, 2.0, 1.0])
sample("setdiff1d", sequence.setdiff1d, ITEMS, np.array([1.0, 7.0]),
       reference=lambda x, y: (np.array([3.0, 3.0, 2.0]), np.array([0, 2, 3])))  # fmt: skip
TEXT = np.array([b"a", b"b"], object)
sample("setdiff1d", lambda x, y: sequence.setdiff1d(x, y, int64), TEXT, TEXT[1:],
       reference=lambda x, y: (x[:1], np.array([0])))  # fmt: skip
sample("unique", sequence.unique_with_counts, ITEMS,
       reference=lambda x: (np.array([3.0, 1.0, 2.0]), np.array([0, 1, 0, 2, 1]), np.array([2, 2, 1])))  # fmt: skip
sample("unique", sequence.unique_with_counts, ITEMS[:0], reference=lambda x: (x, np.zeros(0), np.zeros(0)))
RISING = np.array([[0.0, 1.0, 1.0, 3.0], [-2.0, -1.0, 0.0, 0.5]])
SOUGHT = np.array([[1.0, -5.0, 9.0], [0.25, -1.0, 0.0]])
for side in ("left", "right"):
    sample(
        "searchsorted", lambda x, v, s=side: sequence.searchsorted(x, v, s), RISING, SOUGHT,
        reference=lambda x, v, s=side: np.stack([a.searchsorted(b, s) for a, b in zip(x, v, strict=True)]),
    )  # fmt: skip
sample("searchsorted", lambda x, v: sequence.searchsorted(x, v, out_type=int64), np.arange(5), np.array([3, 9, -1]),
       reference=lambda x, v: x.searchsorted(v))  # fmt: skip

# Sets


def parts(function):
    def build(a, b):
        made = function(a, b)
        return made.indices, made.values, made.dense_shape

    return build


def sets(function):
    def reference(a, b):
        rows = {
            place: sorted(function(set(a[place].tolist()), set(b[place].tolist())))
            for place in np.ndindex(a.shape[:-1])
        }
        indices = [[*row, place] for row, items in rows.items() for place in range(len(items))]
        values = np.array([item for items in rows.values() for item in items], a.dtype)
        shape = np.array([*a.shape[:-1], max(map(len, rows.values()))])
        return np.array(indices).reshape(-1, a.ndim), values, shape

    return reference


A, B = np.array([[1, 2, 2], [3, 4, 5]]), np.array([[2, 7], [9, 5]])
for made, function in (
    (set_intersection, set.intersection),
    (set_union, set.union),
    (set_difference, set.difference),
):
    sample("set_operation", parts(made), A, B, reference=sets(function))
    sample("set_operation", parts(made), np.stack([A, A]).astype(str).astype("S").astype(object),
           np.stack([B, B + 1]).astype(str).astype("S").astype(object), reference=sets(function))  # fmt: skip
sample("set_operation", parts(lambda a, b: set_difference(a, b, aminusb=False)), B, A, reference=lambda b, a: sets(
    set.difference
)(a, b))  # fmt: skip
sample("set_size", set_size, A, reference=lambda a: np.array([2, 3]))
sample("set_size", set_size, np.zeros((2, 0), int), reference=lambda a: np.array([0, 0]))
sample("all_positions", all_positions, np.array([2, 3]), reference=lambda s: np.argwhere(np.ones(s)))
sample("all_positions", all_positions, np.zeros(0, int), reference=lambda s: np.zeros((1, 0)))

# Shapes

sample("ensure_shape", lambda x: partition.ensure_shape(x, [None, 3]), MATRIX, reference=lambda x: x)
sample("identity", lambda x: partition.guarantee_const(x), MATRIX, reference=lambda x: x)
sample("broadcast_dynamic_shape", partition.broadcast_dynamic_shape, np.array([3, 1, 2]), np.array([5, 1]),
       reference=lambda x, y: np.array([3, 5, 2]))  # fmt: skip
sample("broadcast_dynamic_shape", lambda: partition.broadcast_dynamic_shape(constant([2, 1]), [3]),
       reference=lambda: np.array([2, 3]))  # fmt: skip
sample("same_shape", same_shape, MATRIX, MATRIX, reference=lambda labels, predictions: labels)
sample("fitting_weights", fitting_weights, np.array([[2.0], [0.5]]), MATRIX, reference=lambda weights, values: weights)
