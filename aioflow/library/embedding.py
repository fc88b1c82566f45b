"""Lookups of rows of a table by number."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.fill import ones_like
from aioflow.kernels.array.gather import ensure_index, gather
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.array.sorting import invert_permutation
from aioflow.kernels.math.arithmetic import add_n, floordiv, maximum, mod
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater, less
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.variables import Variable


@transactional
def embedding_lookup(
    params: Variable | NumberLike | Sequence[Any],
    ids: NumberLike,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Tensor:
    """Return the rows `ids` of the table `params`, with shape [*ids.shape, *row].

    The gradient of the table is IndexedSlices: an optimizer touches only the rows that were looked up.

    Args:
        params: a variable or a tensor, or a list of several, between which the rows of the table are divided.
        ids: integers of any shape.
        partition_strategy: the division: with "mod" row i is in part i % len(params); with "div" the parts are
            consecutive, and the first ones have one row more if it does not divide evenly.
        name: the name of the operation.
        validate_indices: for compatibility: a missing row is always an error.
        max_norm: rows with a greater Euclidean norm are scaled down to it.

    Raises:
        ValueError: `params` is an empty list, or there is no such strategy.
    """
    parts = _parts(params)
    places = convert_to_tensor(ids)
    if len(parts) == 1:
        rows = _rows(parts[0], places, name)
    else:
        with get_default_graph().name_scope(name or "embedding_lookup") as scope:
            rows = _look_up_parts(parts, places, partition_strategy, scope)
    return rows if max_norm is None else _limit_norm(rows, places, max_norm)


def _parts(params: Any) -> list[Any]:
    """The parts of a table; a list of numbers is one part."""
    if isinstance(params, (list, tuple)):
        if not params:
            raise ValueError("a table needs at least one part")
        if any(isinstance(part, (Tensor, Variable, np.ndarray)) for part in params):
            return [part if isinstance(part, Variable) else convert_to_tensor(part) for part in params]
    return [params if isinstance(params, Variable) else convert_to_tensor(params)]


def _rows(part: Any, ids: Tensor, name: str | None = None) -> Tensor:
    return part.sparse_read(ids, name=name) if isinstance(part, Variable) else gather(part, ids, name=name)


def _look_up_parts(parts: Sequence[Any], ids: Tensor, strategy: str, name: str) -> Tensor:
    """Return rows of a divided table: looks up each part, and restores the order."""
    flat = reshape(ensure_index(ids, _total(parts, ids)), [-1])
    number, within = _locate_rows(parts, flat, strategy)
    places = [reshape(where(equal(number, cast(index, flat.dtype))), [-1]) for index in range(len(parts))]
    found = concat([_rows(part, gather(within, place)) for part, place in zip(parts, places, strict=True)], 0)
    rows = gather(found, invert_permutation(concat(places, 0)))
    each = rows.shape.as_list()[1:] if rows.shape.ndims else None
    if each is None or None in each or not ids.shape.is_fully_defined():
        return reshape(rows, concat([shape(ids), shape(found)[1:]], 0), name=name)
    return reshape(rows, [*ids.shape.as_list(), *each], name=name)


def _locate_rows(parts: Sequence[Any], ids: Tensor, strategy: str) -> tuple[Tensor, Tensor]:
    """Return the part of each row, and its row number there."""
    count = len(parts)
    if strategy == "mod":
        return mod(ids, count), floordiv(ids, count)
    if strategy != "div":
        raise ValueError(f"partition_strategy must be 'mod' or 'div', not {strategy!r}")
    each, longer = _lengths(parts, ids)
    number = maximum(floordiv(ids, each + 1), floordiv(ids - longer, maximum(each, 1)))
    return number, where(less(number, longer), mod(ids, each + 1), mod(ids - longer, maximum(each, 1)))


def _total(parts: Sequence[Any], ids: Tensor) -> Any:
    """Return the number of rows of the whole table."""
    sizes = [part.shape.as_list()[0] if part.shape.ndims else None for part in parts]
    return sum(sizes) if None not in sizes else add_n([shape(part, out_type=ids.dtype)[0] for part in parts])


def _lengths(parts: Sequence[Any], ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the length of a short part, and the number of parts with one row more."""
    whole = convert_to_tensor(_total(parts, ids), ids.dtype)
    return floordiv(whole, len(parts)), mod(whole, len(parts))


def _limit_norm(rows: Tensor, ids: Tensor, max_norm: float) -> Tensor:
    if rows.shape.ndims is None or ids.shape.ndims is None:
        raise ValueError("max_norm needs params and ids of known rank")
    axes = list(range(ids.shape.ndims, rows.shape.ndims))
    squares = reduce_sum(rows * rows, axes, keepdims=True)
    norm = sqrt(where(greater(squares, 0.0), squares, ones_like(squares)))  # where the root has a slope
    shortened: Tensor = rows * (max_norm / maximum(norm, max_norm))
    return shortened
