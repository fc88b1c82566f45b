"""Sparse tensors as strings, so that they go where tensors of one shape go: into queues, one per element.

A sparse tensor is three strings: its positions, its values, its shape. Positions and shape are int64, little-endian;
the values are the name of their dtype, a line feed, and their bytes; of strings how many, how long each is, and these.
"""

import itertools
from collections.abc import Sequence
from typing import Final, NoReturn

import numpy as np

from aioflow import errors
from aioflow.graph.op import Indices, Ints, op
from aioflow.kernels.families import CPU
from aioflow.kernels.sparse.sparse_tensors import positions
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import STRING, Array, DType, Namespace, Spec, TensorShape, as_dtype, int64
from aioflow.tensors.object_arrays import concatenate_arrays, join_strings, make_array, to_list

_WORD: Final = np.dtype("<i8")
PARTS: Final = 3
"""Strings that are one sparse tensor."""


@op(name="serialize_sparse")
def pack_sparse(indices: Indices, values: Spec, dense_shape: Ints) -> Spec:
    """A sparse tensor as three strings."""
    positions(indices, dense_shape, values.with_rank(1, "values"))
    return Spec(dtypes.string, TensorShape([PARTS]))


@op(name="serialize_many_sparse")
def pack_sparse_rows(indices: Indices, values: Spec, dense_shape: Ints) -> Spec:
    """Each row of a sparse tensor, a sparse tensor itself, as three strings: [rows, 3].

    InvalidArgumentError if the positions do not come row by row.
    """
    sizes = positions(indices, dense_shape, values.with_rank(1, "values")).with_rank_at_least(1).sizes
    return Spec(dtypes.string, TensorShape([None if sizes is None else sizes[0], PARTS]))


@op(name="deserialize_many_sparse")
def unpack_sparse(serialized: Spec, dtype: DType, rank: int | None = None) -> tuple[Spec, Spec, Spec]:
    """Stacks serialized sparse tensors, three strings each, to one: its positions, values and shape.

    Rows may differ in size: the result has the greatest size. InvalidArgumentError if a row is not a serialized sparse
    tensor, or differs in dtype or rank.

    Args:
        serialized: [rows, 3].
        dtype: the dtype of the values.
        rank: the rank of each row; None takes it from the first row.
    """
    serialized.only(STRING).with_rank(2, "serialized").shape.merge_with([None, PARTS])
    whole = None if rank is None else rank + 1
    shape = Spec(int64, TensorShape.vector(whole))
    return Spec(int64, TensorShape.matrix(None, whole)), Spec(as_dtype(dtype), TensorShape.vector(None)), shape


for _op in (pack_sparse, pack_sparse_rows, unpack_sparse):
    _op.no_gradient("bytes do not vary smoothly")


# Packing


@pack_sparse.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array, values: Array, dense_shape: Array) -> Array:
    result = np.empty(PARTS, object)
    result[:] = _packed(indices, values, dense_shape)
    return result


@pack_sparse_rows.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array, values: Array, dense_shape: Array) -> Array:
    count = int(dense_shape[0])
    rows = indices[:, 0]
    if len(rows) and (np.any(rows[1:] < rows[:-1]) or not 0 <= rows[0] <= rows[-1] < count):
        raise errors.InvalidArgumentError(f"the positions must come row by row, of {count} rows: see af.sparse_reorder")
    ends = np.searchsorted(rows, np.arange(count + 1))
    result = np.empty((count, PARTS), object)
    for row in range(count):
        part = slice(ends[row], ends[row + 1])
        result[row] = _packed(indices[part, 1:], values[part], dense_shape[1:])
    return result


def _packed(indices: Array, values: Array, shape: Array) -> tuple[bytes, bytes, bytes]:
    if values.dtype == object:
        head = dtypes.string.name
        texts = to_list(values)
        body = make_array([len(texts), *map(len, texts)], dtype=_WORD).tobytes() + join_strings(b"", texts)
    else:
        head, body = as_dtype(values.dtype).name, values.tobytes()
    return indices.astype(_WORD).tobytes(), f"{head}\n".encode() + body, shape.astype(_WORD).tobytes()


# Unpacking


@unpack_sparse.kernel(CPU, fresh=True)
def _(xp: Namespace, serialized: Array, *, dtype: DType, rank: int | None) -> tuple[Array, Array, Array]:
    rows = [_unpacked(number, row, as_dtype(dtype)) for number, row in enumerate(serialized)]
    ranks = {len(shape) for _, _, shape in rows} | ({rank} if rank is not None else set())
    if len(ranks) > 1:
        raise errors.InvalidArgumentError(f"all rows must have one rank, not {', '.join(map(str, sorted(ranks)))}")
    wide = ranks.pop() if ranks else 0
    indices = np.concatenate([_of_row(number, places) for number, (places, _, _) in enumerate(rows)] or [_none(wide)])
    found = [part for _, part, _ in rows]
    values = concatenate_arrays(found) if dtype is dtypes.string else np.concatenate(found or [np.empty(0, dtype.np)])
    sizes = np.max([shape for _, _, shape in rows], axis=0) if rows else np.zeros(wide, np.int64)
    return indices, values, np.concatenate([np.array([len(rows)], np.int64), sizes])


def _none(rank: int) -> Array:
    return np.empty((0, rank + 1), np.int64)


def _of_row(number: int, places: Array) -> Array:
    """Positions in a row as positions in the whole."""
    return np.concatenate([np.full((len(places), 1), number, np.int64), places], axis=1)


def _unpacked(number: int, row: Sequence[bytes], dtype: DType) -> tuple[Array, Array, Array]:
    """Positions, values and shape of one row.

    InvalidArgumentError if they do not form a sparse tensor of that dtype.
    """
    places, values, shape = _words(number, row[0]), _values(number, row[1], dtype), _words(number, row[2])
    if len(places) != len(values) * len(shape):
        _refuse(number, f"{len(values)} values in {len(shape)} dimensions do not have {len(places)} coordinates")
    places = places.reshape(len(values), len(shape))
    if np.any((places < 0) | (places >= shape)):
        _refuse(number, f"a position is outside the shape {shape.tolist()}")
    return places, values, shape


def _values(number: int, packed: bytes, dtype: DType) -> Array:
    name, line, body = packed.partition(b"\n")
    if not line or name != dtype.name.encode():
        _refuse(number, f"its values are {name[:20].decode(errors='replace')!r}, {dtype.name} is expected")
    if dtype is not dtypes.string:
        if len(body) % dtype.np.itemsize:
            _refuse(number, f"{len(body)} bytes are not a whole number of {dtype.name} values")
        return np.frombuffer(body, dtype.np)
    return _texts(number, body)


def _texts(number: int, body: bytes) -> Array:
    """The strings behind their number and their lengths."""
    word = _WORD.itemsize
    count = int.from_bytes(body[:word], "little")
    begin = word * (count + 1)
    lengths = np.frombuffer(body, _WORD, count, word) if begin <= len(body) else np.array([-1])
    fits = not count or 0 <= lengths.min() <= lengths.max() <= len(body)
    if not fits or begin + int(lengths.sum()) != len(body):
        _refuse(number, "its strings are damaged")
    ends = [begin, *(begin + np.cumsum(lengths)).tolist()]
    return make_array([body[first:last] for first, last in itertools.pairwise(ends)])


def _words(number: int, packed: bytes) -> Array:
    if len(packed) % _WORD.itemsize:
        _refuse(number, f"{len(packed)} bytes are not a whole number of 64-bit integers")
    return np.frombuffer(packed, _WORD)


def _refuse(number: int, why: str) -> NoReturn:
    raise errors.InvalidArgumentError(f"row {number} is not a sparse tensor from af.serialize_sparse: {why}")
