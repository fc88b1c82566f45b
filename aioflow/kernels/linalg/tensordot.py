"""Products of tensors over any of their axes."""

import math
from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.reduction import reduce_prod
from aioflow.tensors.dtypes import normalise_axis


@transactional
def tensordot(a: NumberLike, b: NumberLike, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over axes of a and b; the result has a's other axes, then b's.

    Args:
        a: a tensor of known rank.
        b: another of the same dtype.
        axes: two sequences of equal length, or two numbers: the axes of a and of b to sum over; or one number: that
            many of a's last axes and b's first.
        name: the name of the result.

    Raises:
        ValueError: an axis is out of range, the sizes differ, or a rank is not known.
    """
    a, b = _pair(a, b)
    ranks = _known_rank(a), _known_rank(b)
    met_a, met_b = _met(axes, *ranks)
    free_a, free_b = ([i for i in range(r) if i not in met] for r, met in zip(ranks, (met_a, met_b), strict=True))
    left = _as_matrix(a, free_a, met_a)
    right = _as_matrix(b, met_b, free_b)
    sizes = [_size(tensor, i) for tensor, free in ((a, free_a), (b, free_b)) for i in free]
    if len(free_a) == len(free_b) == 1:
        return matmul(left, right, name=name)
    return OPERATORS["reshape"](matmul(left, right), sizes, name=name)


def _pair(a: NumberLike, b: NumberLike) -> tuple[Tensor, Tensor]:
    if isinstance(b, Tensor) and not isinstance(a, Tensor):
        return convert_to_tensor(a, b.dtype), b
    a = convert_to_tensor(a)
    return a, convert_to_tensor(b, a.dtype)


def _known_rank(tensor: Tensor) -> int:
    if tensor.spec.rank is None:
        raise ValueError(f"tensordot: the rank of {tensor!r} must be known")
    return tensor.spec.rank


def _met(axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise ValueError(f"tensordot: ranks {rank_a} and {rank_b} do not have {axes} axes in common")
        return [*range(rank_a - int(axes), rank_a)], [*range(int(axes))]
    first, second = (np.atleast_1d(np.asarray(each, np.int64)).tolist() for each in axes)
    met = [normalise_axis(i, rank_a) for i in first], [normalise_axis(i, rank_b) for i in second]
    if len(met[0]) != len(met[1]) or any(len({*each}) < len(each) for each in met):
        raise ValueError(f"tensordot: axes {first} and {second} do not pair up")
    return met


def _as_matrix(x: Tensor, rows: list[int], columns: list[int]) -> Tensor:
    order = rows + columns
    sizes = [_total(x, rows), _total(x, columns)]
    if order != sorted(order):
        x = OPERATORS["transpose"](x, order)
    return x if len(rows) == len(columns) == 1 else OPERATORS["reshape"](x, sizes)


def _size(x: Tensor, axis: int) -> Any:
    size = None if x.spec.sizes is None else x.spec.sizes[axis]
    return OPERATORS["shape"](x)[axis] if size is None else size


def _total(x: Tensor, axes: list[int]) -> Any:
    """The product of the sizes: a number where it is known, else a tensor."""
    sizes = [x.spec.sizes[i] for i in axes] if x.spec.sizes is not None else []
    return reduce_prod(OPERATORS["gather"](OPERATORS["shape"](x), axes)) if None in sizes else math.prod(sizes)


OPERATORS["tensordot"] = tensordot
