"""All ways to take one value from each of several lists, row by row."""

import itertools
from collections.abc import Sequence

import numpy as np

from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.families import CPU, TEXT, costs
from aioflow.tensors.dtypes import STRING, Array, Namespace, Spec, TensorShape, int64, string
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


def _by_row(rows: Array, values: Sequence[bytes], count: int) -> list[list[bytes]]:
    """The values of each row. ValueError if one lies in none of `count` rows."""
    found: list[list[bytes]] = [[] for _ in range(count)]
    for row, value in zip(rows.tolist(), values, strict=True):
        if not 0 <= row < count:
            raise ValueError(f"row {row} is none of {count} rows; all inputs have the same number of rows")
        found[row].append(value)
    return found
