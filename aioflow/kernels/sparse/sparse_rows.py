"""The rows of a sparse tensor as Python sequences, for ops that process rows one by one."""

import numpy as np

from aioflow.kernels.array.gather import _flattened as flat_positions
from aioflow.tensors.dtypes import Array


def rows_of(indices: Array, values: Array, shape: Array) -> dict[tuple[int, ...], Array]:
    """The values along the last axis by the position of their row, for rows that have any. Positions are checked."""
    flat_positions(np, indices, tuple(shape.tolist()))
    if not len(indices):
        return {}
    ends = np.flatnonzero((indices[1:, :-1] != indices[:-1, :-1]).any(1)) + 1
    rows: dict[tuple[int, ...], Array] = {}
    for place, part in zip([0, *ends.tolist()], np.split(values, ends), strict=True):
        row = tuple(indices[place, :-1].tolist())
        if row in rows:
            raise ValueError(f"the positions of row {list(row)} are not together: use af.sparse_reorder")
        rows[row] = part
    return rows
