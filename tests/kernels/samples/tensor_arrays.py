"""Samples for lists of tensors in `kernels/control`: from arrays to lists and back."""

import numpy as np

from aioflow.kernels.control import list_edits as le
from aioflow.kernels.control import tensor_array as ta
from aioflow.kernels.control import tensor_lists as tl
from aioflow.tensors.dtypes import TensorShape, float64
from tests.kernels.samples import sample

R = np.random.default_rng(31)
VECTOR, ROWS = R.standard_normal(3), R.standard_normal((4, 2))
UNKNOWN = TensorShape(None)


def array(size, shape=UNKNOWN, **options):
    return ta.tensor_array(size, float64, shape, **options)


def rows_in(x, places=(2, 0, 3, 1)):
    return ta.tensor_array_scatter(array(4), list(places), x)


def zeros_beside(x):
    return ta.tensor_array_write(array(3, TensorShape([3])), 1, x)


sample("tensor_array", lambda x: ta.tensor_array_read(ta.tensor_array_write(array(2), 1, x), 1), VECTOR,
       reference=lambda x: x)  # fmt: skip
sample("tensor_array_size", lambda x: ta.tensor_array_size(rows_in(x)), ROWS, reference=lambda x: np.int32(4))
sample("tensor_array_size", lambda n: ta.tensor_array_size(array(n)), np.int32(3), reference=lambda n: n)
sample("tensor_array_write", lambda x, y: ta.tensor_array_gather(
    ta.tensor_array_write(ta.tensor_array_write(array(2), 0, x), 1, y), [1, 0, 1]), VECTOR, VECTOR + 1,
    reference=lambda x, y: np.stack([y, x, y]))  # fmt: skip
sample("tensor_array_write", lambda x, i: ta.tensor_array_read(
    ta.tensor_array_write(array(0, dynamic_size=True), i, x), i), VECTOR, np.int32(5),
    reference=lambda x, i: x)  # fmt: skip
sample("tensor_array_read", lambda x: ta.tensor_array_read(rows_in(x), 3), ROWS, reference=lambda x: x[2])
sample("tensor_array_read", lambda x: ta.tensor_array_read(rows_in(x), 3), ROWS[:, 0], reference=lambda x: x[2])
sample("tensor_array_read", lambda x: ta.tensor_array_read(zeros_beside(x), 0) + x, VECTOR, reference=lambda x: x)
sample("tensor_array_gather", lambda x, i: ta.tensor_array_gather(rows_in(x), i), ROWS, np.array([1, 1, 0], np.int32),
       reference=lambda x, i: x[[3, 3, 1]])  # fmt: skip
sample("tensor_array_gather", lambda x: ta.tensor_array_gather(zeros_beside(x), [0, 1, 2]), VECTOR,
       reference=lambda x: np.stack([0 * x, x, 0 * x]))  # fmt: skip
sample("tensor_array_gather", lambda x: ta.tensor_array_gather(zeros_beside(x), []), VECTOR,
       reference=lambda x: np.zeros((0, 3)))  # fmt: skip
sample("tensor_array_scatter", lambda x: ta.tensor_array_gather(rows_in(x), [0, 1, 2, 3]), ROWS,
       reference=lambda x: x[[1, 3, 0, 2]])  # fmt: skip
sample("tensor_array_scatter", lambda x, i: ta.tensor_array_read(
    ta.tensor_array_scatter(array(9), i, x), 8), ROWS, np.array([8, 1, 0, 2], np.int32),
    reference=lambda x, i: x[0])  # fmt: skip
sample("tensor_array_clear", lambda x: ta.tensor_array_read(ta.tensor_array_clear(rows_in(x), 1), 2), ROWS,
       reference=lambda x: x[0])  # fmt: skip
sample("tensor_array_clear", lambda x: ta.tensor_array_read(ta.tensor_array_clear(rows_in(x), [0, 1, 0]), 2), ROWS,
       reference=lambda x: x[0])  # fmt: skip


def split(x, lengths, **options):
    return ta.tensor_array_split(array(3, infer_shape=False, **options), x, lengths)


sample("tensor_array_split", lambda x: ta.tensor_array_read(split(x, [1, 0, 3]), 2), ROWS, reference=lambda x: x[1:])
sample("tensor_array_split", lambda x, n: ta.tensor_array_read(split(x, n), 0), ROWS, np.array([2, 1, 1], np.int32),
       reference=lambda x, n: x[:2])  # fmt: skip
sample("tensor_array_concat", lambda x, y: list(ta.tensor_array_concat(ta.tensor_array_write(ta.tensor_array_write(
    array(2, infer_shape=False), 0, x), 1, y))), ROWS, ROWS[:1] + 1,
    reference=lambda x, y: [np.concatenate([x, y]), np.array([4, 1])])  # fmt: skip
sample("tensor_array_concat", lambda x: ta.tensor_array_concat(split(x, [3, 0, 1]))[0], VECTOR[[0, 1, 2, 0]],
       reference=lambda x: x)  # fmt: skip
sample("tensor_array_concat", lambda x: ta.tensor_array_concat(zeros_beside(x))[0], VECTOR,
       reference=lambda x: np.concatenate([0 * x, x, 0 * x]))  # fmt: skip

# Lists as gradients have them

sample("tensor_list_empty", lambda x: x + tl.tensor_list_read(tl.tensor_list_empty(float64, UNKNOWN), 4, [3]), VECTOR,
       reference=lambda x: x)  # fmt: skip
sample("tensor_list_put", lambda x: tl.tensor_list_read(tl.tensor_list_put(2, x), 2, [3]), VECTOR,
       reference=lambda x: x)  # fmt: skip
sample("tensor_list_read", lambda x: x * tl.tensor_list_read(tl.tensor_list_put(2, x), 1, [3]), VECTOR,
       reference=np.zeros_like)  # fmt: skip
sample("tensor_list_add", lambda x, y: tl.tensor_list_gather(
    tl.tensor_list_add([tl.tensor_list_put(2, x), tl.tensor_list_put_rows([0, 2], y), tl.tensor_list_put(0, x)]),
    [0, 1, 2, 3], [3]), VECTOR, R.standard_normal((2, 3)),
    reference=lambda x, y: np.stack([x + y[0], 0 * x, x + y[1], 0 * x]))  # fmt: skip
sample("tensor_list_put_rows", lambda x: tl.tensor_list_read(tl.tensor_list_put_rows([1, 0, 1, 3], x), 1, [2]), ROWS,
       reference=lambda x: x[0] + x[2])  # fmt: skip
sample("tensor_list_gather", lambda x: tl.tensor_list_gather(tl.tensor_list_put_rows([1, 0, 1, 3], x), [2, 1, 9], [2]),
       ROWS, reference=lambda x: np.stack([0 * x[0], x[0] + x[2], 0 * x[0]]))  # fmt: skip
sample("tensor_list_put_pieces", lambda x: tl.tensor_list_concat(
    tl.tensor_list_put_pieces(x, [3, 0, 1]), [3, 0, 1, 2], [2]), ROWS,
    reference=lambda x: np.concatenate([x, np.zeros((2, 2))]))  # fmt: skip
sample("tensor_list_concat", lambda x, y: tl.tensor_list_concat(
    tl.tensor_list_add([tl.tensor_list_put_pieces(x, [3, 1]), tl.tensor_list_put(3, y)]), [3, 1, 2, 4], [2]),
    ROWS, ROWS, reference=lambda x, y: np.concatenate([x, np.zeros((2, 2)), y]))  # fmt: skip

# Elements put in and taken out


def rows_of(flow, count):
    return tl.tensor_list_gather(flow, list(range(count)), [2])


def inserted(x, y, index):
    return rows_of(le.tensor_list_insert(tl.tensor_list_put_rows([0, 1, 2, 3], x), index, y), 5)


for place in (0, 3, 4):
    sample("tensor_list_insert", inserted, ROWS, ROWS[0] + 1, np.int32(place),
           reference=lambda x, y, i: np.insert(x, i, y, axis=0))  # fmt: skip
for place in (0, 2, 3):
    sample("tensor_list_erase", lambda x, i: rows_of(le.tensor_list_erase(
        tl.tensor_list_put_rows([0, 1, 2, 3], x), i), 3), ROWS, np.int32(place),
        reference=lambda x, i: np.delete(x, i, axis=0))  # fmt: skip
sample("tensor_list_open", lambda x: rows_of(le.tensor_list_open(tl.tensor_list_put_rows([0, 1, 2, 3], x), 1), 5), ROWS,
       reference=lambda x: np.insert(x, 1, 0, axis=0))  # fmt: skip
sample("tensor_list_open", lambda x: rows_of(le.tensor_list_open(tl.tensor_list_put_rows([0, 1, 2, 3], x), 7), 4), ROWS,
       reference=lambda x: x)  # fmt: skip
sample("tensor_list_close", lambda x: rows_of(le.tensor_list_close(tl.tensor_list_put_rows([0, 1, 2, 3], x), 1), 4),
       ROWS, reference=lambda x: np.concatenate([np.delete(x, 1, axis=0), 0 * x[:1]]))  # fmt: skip
sample("tensor_list_close", lambda x: rows_of(le.tensor_list_close(tl.tensor_list_put_rows([0, 1, 2, 3], x), 7), 4),
       ROWS, reference=lambda x: x)  # fmt: skip
sample("tensor_list_loosen", lambda x: tl.tensor_list_gather(le.tensor_list_loosen(
    tl.tensor_list_put_rows([0, 1, 2, 3], x), UNKNOWN), [3, 1], [2]), ROWS, reference=lambda x: x[[3, 1]])  # fmt: skip
