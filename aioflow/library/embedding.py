"""Rows of a table looked up by number."""

from collections.abc import Sequence
from typing import Any

from aioflow.convert import TensorLike, convert_to_tensor
from aioflow.graph import transactional
from aioflow.kernels.arithmetic import maximum
from aioflow.kernels.comparison import greater
from aioflow.kernels.filling import ones_like
from aioflow.kernels.gathering import gather
from aioflow.kernels.math import sqrt
from aioflow.kernels.reduction import reduce_sum
from aioflow.kernels.select import where
from aioflow.library.variables import Variable
from aioflow.node import Tensor


@transactional
def embedding_lookup(
    params: Variable | TensorLike | Sequence[Any],
    ids: TensorLike,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Tensor:
    """The rows `ids` of the table `params`: of shape [*ids.shape, *row].

    The gradient of the table is IndexedSlices: an optimizer touches only the rows that were looked up.

    Args:
        params: a variable or a tensor, or a list of one.
        ids: integers of any shape.
        partition_strategy: for compatibility: a table is one variable.
        name: the name of the operation.
        validate_indices: for compatibility: a row that is not there is always an error.
        max_norm: rows longer than that, in the Euclidean norm, are shortened to it.

    Raises:
        ValueError: `params` is a list of several.
    """
    if isinstance(params, (list, tuple)) and any(isinstance(part, (Tensor, Variable)) for part in params):
        if len(params) != 1:
            raise ValueError(f"a table is one variable or tensor here, not {len(params)} of them")
        params = params[0]
    rows = params.sparse_read(ids, name=name) if isinstance(params, Variable) else gather(params, ids, name=name)
    return rows if max_norm is None else _shortened(rows, convert_to_tensor(ids), max_norm)


def _shortened(rows: Tensor, ids: Tensor, max_norm: float) -> Tensor:
    if rows.shape.ndims is None or ids.shape.ndims is None:
        raise ValueError("max_norm needs params and ids of known rank")
    axes = list(range(ids.shape.ndims, rows.shape.ndims))
    squares = reduce_sum(rows * rows, axes, keepdims=True)
    norm = sqrt(where(greater(squares, 0.0), squares, ones_like(squares)))  # where the root has a slope
    shortened: Tensor = rows * (max_norm / maximum(norm, max_norm))
    return shortened
