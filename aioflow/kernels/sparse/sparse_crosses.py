"""All ways to take one value from each of several lists, row by row."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.kernels.text.farmhash import fingerprint64
from aioflow.kernels.text.hash_words import MASK, hash_array
from aioflow.tensors.dtypes import INTEGER, STRING, Array, Namespace, Spec, TensorShape, int64, string
from aioflow.tensors.object_arrays import make_array, to_list


@op
def sparse_cross(rows: Sequence[Spec], values: Sequence[Spec], batch: Ints, separator: str) -> tuple[Spec, ...]:
    """The crosses of the values of each row, joined by a separator: a sparse tensor, as indices, values, shape.

    The values of an input lie in one vector, and `rows` has the row of each of them, rising.
    """
    known.scalar(batch, "batch")
    if not values:
        raise ValueError("at least one input is needed to cross")
    for row, value in zip(rows, values, strict=True):
        known.length(row, "rows")
        value.only(STRING).with_rank(1, "values")
    return (
        Spec(int64, TensorShape((None, 2))),
        Spec(string, TensorShape((None,))),
        Spec(int64, TensorShape((2,))),
    )


sparse_cross.no_gradient("text has no gradient")
costs(sparse_cross, TEXT)


@sparse_cross.kernel(CPU, fresh=True)
def _(
    xp: Namespace, rows: Sequence[Array], values: Sequence[Array], batch: Array, *, separator: str
) -> tuple[Array, ...]:
    count, between = int(batch), separator.encode()
    columns = [_by_row(row, to_list(value), count) for row, value in zip(rows, values, strict=True)]
    crosses = [
        [between.join(picked) for picked in itertools.product(*[column[row] for column in columns])]
        for row in range(count)
    ]
    places = [(row, place) for row, found in enumerate(crosses) for place in range(len(found))]
    shape = (count, max((len(found) for found in crosses), default=0))
    texts = make_array([text for found in crosses for text in found], (len(places),))
    return np.array(places, np.int64).reshape(-1, 2), texts, np.array(shape, np.int64)


def _by_row(rows: Array, values: Sequence[Any], count: int) -> list[list[Any]]:
    """The values of each row. ValueError if one lies in none of `count` rows."""
    found: list[list[Any]] = [[] for _ in range(count)]
    for row, value in zip(rows.tolist(), values, strict=True):
        if not 0 <= row < count:
            raise ValueError(f"row {row} is none of {count} rows; all inputs have the same number of rows")
        found[row].append(value)
    return found


# Crosses as numbers

_DEFAULT_KEY: Final = 956888297470
"""TensorFlow's."""
_MULTIPLIER: Final = 0xC6A4A7935BD1E995


@op
def sparse_cross_hashed(
    rows: Sequence[Spec], values: Sequence[Spec], batch: Ints, num_buckets: int = 0, hash_key: int | None = None
) -> tuple[Spec, ...]:
    """The crosses of the values of each row as 64-bit fingerprints: a sparse tensor, as indices, values, shape.

    The values of an input, strings or integers, lie in one vector, and `rows` has the row of each of them, rising. With
    `num_buckets` the values are from 0 to `num_buckets - 1`.
    """
    known.scalar(batch, "batch")
    if not values:
        raise ValueError("at least one input is needed to cross")
    if num_buckets < 0:
        raise ValueError(f"num_buckets is {num_buckets}, and must not be negative; 0 stands for all 63 bits")
    for row, value in zip(rows, values, strict=True):
        known.length(row, "rows")
        value.only(STRING, INTEGER).with_rank(1, "values")
    return (
        Spec(int64, TensorShape((None, 2))),
        Spec(int64, TensorShape((None,))),
        Spec(int64, TensorShape((2,))),
    )


sparse_cross_hashed.no_gradient("a fingerprint does not vary smoothly")
costs(sparse_cross_hashed, TEXT)


@sparse_cross_hashed.kernel(CPU, fresh=True)
def _(
    xp: Namespace,
    rows: Sequence[Array],
    values: Sequence[Array],
    batch: Array,
    *,
    num_buckets: int,
    hash_key: int | None,
) -> tuple[Array, ...]:
    count, key = int(batch), (_DEFAULT_KEY if hash_key is None else hash_key) & MASK
    columns = [_by_row(row, _fingerprints(value), count) for row, value in zip(rows, values, strict=True)]
    divisor = num_buckets or int64.max
    crosses = [
        [functools.reduce(_joined_fingerprint, picked, key) % divisor for picked in itertools.product(*row)]
        for row in zip(*columns, strict=True)
    ]
    places = [(row, place) for row, found in enumerate(crosses) for place in range(len(found))]
    shape = (count, max((len(found) for found in crosses), default=0))
    numbers = np.array([number for found in crosses for number in found], np.int64)
    return np.array(places, np.int64).reshape(-1, 2), numbers, np.array(shape, np.int64)


def _fingerprints(values: Array) -> list[int]:
    """The fingerprints of strings, and integers themselves, below 2^64."""
    if values.dtype == object:
        return to_list(hash_array(fingerprint64, values))
    return [number & MASK for number in values.tolist()]


def _joined_fingerprint(one: int, other: int) -> int:
    """The fingerprint of two fingerprints: FarmHash's for numbers of 64 bits."""
    mixed = _shifted(other * _MULTIPLIER & MASK) * _MULTIPLIER & MASK
    result = (one ^ _MULTIPLIER ^ mixed) * _MULTIPLIER & MASK
    return _shifted(_shifted(result) * _MULTIPLIER & MASK)


def _shifted(number: int) -> int:
    return number ^ number >> 47
