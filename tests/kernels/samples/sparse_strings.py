"""Samples of sparse tensors as strings."""

import numpy as np

from aioflow.kernels.sparse import sparse_strings as kernels
from aioflow.tensors.dtypes import float64

from . import sample

PLACES = np.array([[0, 1], [0, 3], [2, 0]], np.int64)
VALUES = np.array([0.5, -1.25, 2.0])
SIZES = np.array([3, 4], np.int64)
NOTHING = (np.zeros((0, 2), np.int64), np.zeros(0), np.array([0, 4], np.int64))


def packed(places, values, sizes):
    result = np.empty(3, object)
    body = b"float64\n" + values.tobytes()
    result[:] = [places.tobytes(), body, sizes.tobytes()]
    return result


def packed_rows(places, values, sizes):
    rows = [
        packed(places[places[:, 0] == row][:, 1:], values[places[:, 0] == row], sizes[1:]) for row in range(sizes[0])
    ]
    return np.array(rows, object).reshape(-1, 3)


def unpacked(dtype, rank):
    return lambda rows: kernels.unpack_sparse(rows, dtype, rank)


for parts in ((PLACES, VALUES, SIZES), NOTHING):
    sample("serialize_sparse", kernels.pack_sparse, *parts, reference=packed)
    sample("serialize_many_sparse", kernels.pack_sparse_rows, *parts, reference=packed_rows)
whole = PLACES, VALUES, SIZES
sample("deserialize_many_sparse", unpacked(float64, 1), packed_rows(*whole), reference=lambda rows: whole)
sample("deserialize_many_sparse", unpacked(float64, None), packed_rows(*whole), reference=lambda rows: whole)
none = np.zeros((0, 3), np.int64), np.zeros(0), np.zeros(3, np.int64)
sample("deserialize_many_sparse", unpacked(float64, 2), np.empty((0, 3), object), reference=lambda rows: none)
