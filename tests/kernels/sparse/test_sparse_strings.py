"""Sparse tensors as strings: there and back, and what is no such string."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.kernels.sparse.sparse_strings import unpack_sparse
from aioflow.library.sparse import (
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
)
from tests.support.evaluate import evaluate


def parts(sparse):
    return [evaluate(part) for part in (sparse.indices, sparse.values, sparse.dense_shape)]


def packed(*, places=(), values=b"int32\n", shape=(4,)):
    row = np.empty(3, object)
    row[:] = [np.array(places, np.int64).tobytes(), values, np.array(shape, np.int64).tobytes()]
    return row[None]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "complex64", "string"])
def test_every_dtype_comes_back(dtype):
    values = ["a", ""] if dtype == "string" else np.array([1, 0]).astype(af.as_dtype(dtype).np)
    with af.Graph().as_default():
        made = serialize_sparse(af.SparseTensor([[0, 1], [2, 0]], values, [3, 4]))
        found = deserialize_many_sparse([made], dtype)
        indices, again, shape = parts(found)
        assert (indices.tolist(), shape.tolist()) == ([[0, 0, 1], [0, 2, 0]], [1, 3, 4])
        assert again.tolist() == ([b"a", b""] if dtype == "string" else values.tolist())
        assert again.dtype == af.as_dtype(dtype).np
        assert deserialize_many_sparse([made], dtype, 3).shape.as_list() == [None, None, None]


def test_rows_of_different_sizes_make_a_batch_of_the_greatest():
    with af.Graph().as_default():
        rows = [af.SparseTensor([[size - 1]], [size], [size]) for size in (3, 1, 2)]
        indices, values, shape = parts(deserialize_many_sparse(af.stack([*map(serialize_sparse, rows)]), af.int32))
        assert indices.tolist() == [[0, 2], [1, 0], [2, 1]]
        assert values.tolist() == [3, 1, 2]
        assert shape.tolist() == [3, 3]


def test_rows_without_elements_and_no_rows_at_all():
    with af.Graph().as_default():
        empty = af.SparseTensor(np.zeros((0, 2), np.int64), np.zeros(0, np.float32), [2, 5])
        indices, values, shape = parts(deserialize_many_sparse(serialize_many_sparse(empty), af.float32, rank=2))
        assert (indices.shape, values.shape, shape.tolist()) == ((0, 2), (0,), [2, 5])
        none = np.empty((0, 3), object)
        indices, values, shape = evaluate(unpack_sparse(none, af.string, 2))
        assert (indices.shape, values.shape, shape.tolist()) == ((0, 3), (0,), [0, 0, 0])


DAMAGED = {
    "dtype": (packed(values=b"int64\n"), "its values are 'int64', int32 is expected"),
    "no dtype": (packed(values=b"int32"), "its values are 'int32', int32 is expected"),
    "half a value": (packed(values=b"int32\nabc"), "3 bytes are not a whole number of int32"),
    "coordinates": (packed(values=b"int32\nabcd"), "1 values in 1 dimensions do not have 0 coordinates"),
    "outside": (packed(places=[4], values=b"int32\nabcd"), r"a position is outside the shape \[4\]"),
    "negative": (packed(places=[-1], values=b"int32\nabcd"), r"a position is outside the shape \[4\]"),
    "half a number": (np.array([[b"abc", b"int32\n", b""]], object), "3 bytes are not a whole number of 64-bit"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_no_sparse_tensor_is_refused(name):
    row, complaint = DAMAGED[name]
    with af.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match=f"row 0 is not a .*{complaint}"):
        evaluate(unpack_sparse(row, af.int32))


@given(st.binary(max_size=40).filter(any))
def test_forged_strings_are_refused_and_not_believed(body):
    row = packed(values=b"string\n" + body)
    with af.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match="is not a sparse tensor"):
        evaluate(unpack_sparse(row, af.string))


def test_rows_must_have_one_rank_and_come_in_order():
    with af.Graph().as_default():
        mixed = af.stack([serialize_sparse(af.SparseTensor([[0] * rank], [1], [2] * rank)) for rank in (1, 2)])
        with pytest.raises(errors.InvalidArgumentError, match="all rows must have one rank, not 1, 2"):
            evaluate(unpack_sparse(mixed, af.int32))
        upside_down = af.SparseTensor([[1, 0], [0, 0]], [1, 2], [2, 2])
        with pytest.raises(errors.InvalidArgumentError, match="row by row, of 2 rows"):
            evaluate(serialize_many_sparse(upside_down))


def test_what_cannot_be_packed_is_refused_when_it_is_built():
    with af.Graph().as_default():
        with pytest.raises(ValueError, match="out_type must be string, not int32"):
            serialize_sparse(af.SparseTensor([[0]], [1], [2]), out_type=af.int32)
        with pytest.raises(TypeError, match="neither a SparseTensor nor"):
            serialize_sparse([1])
        with pytest.raises(ValueError, match="shapes"):
            deserialize_many_sparse([["a", "b"]], af.int32)
