"""Pooling that shrinks images by any ratio, by windows whose sizes differ by one [Graham 2015]."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, zeros_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.math.arithmetic import minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.math.reduction import reduce_max, reduce_sum
from aioflow.kernels.nn.fractional_windows import fractional_windows
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import int64

Pool = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""(windows of elements, which of them count, numbers of those, axis of the windows) -> pooled elements."""


class FractionalPool(NamedTuple):
    """Pooled images, and where their windows begin.

    Attributes:
        output: the pooled images.
        row_pooling_sequence: the first row of each window, and the number of rows.
        col_pooling_sequence: the first column of each window, and the number of columns.
    """

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


@transactional
def fractional_max_pool(
    value: NumberLike,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> FractionalPool:
    """The highest element of each window of images [batch, height, width, channels], which shrink by any ratio.

    Args:
        value: the images.
        pooling_ratio: how many times smaller each axis becomes, as [1.0, 1.44, 1.73, 1.0]; batch and channels stay.
        pseudo_random: whether the sizes of windows are as even as possible from a random start, not in random order.
        overlapping: whether each window has the first element of the next one, too.
        deterministic: whether all steps have the same windows, which the seeds give.
        seed: with `seed2` the seed of the windows; both 0 for other ones in each session.
        seed2: the second part of the seed.
        name: the name of the operations.

    Examples:
        >>> image = af.reshape(af.range(16.0), [1, 4, 4, 1])
        >>> found = await session.run(af.nn.fractional_max_pool(image, [1.0, 2.0, 2.0, 1.0]))
        >>> found.output[0, :, :, 0], found.row_pooling_sequence
        (array([[ 5.,  7.],
               [13., 15.]], dtype=float32), array([0, 2, 4]))
    """
    with name_scope(name, "FractionalMaxPool"):
        return _pooled(value, pooling_ratio, pseudo_random, overlapping, deterministic, (seed, seed2), _highest)


@transactional
def fractional_avg_pool(
    value: NumberLike,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> FractionalPool:
    """The mean of each window of images; the arguments are those of `fractional_max_pool`.

    Examples:
        >>> image = af.reshape(af.range(16.0), [1, 4, 4, 1])
        >>> found = await session.run(af.nn.fractional_avg_pool(image, [1.0, 2.0, 2.0, 1.0]))
        >>> found.output[0, :, :, 0]
        array([[ 2.5,  4.5],
               [10.5, 12.5]], dtype=float32)
    """
    with name_scope(name, "FractionalAvgPool"):
        return _pooled(value, pooling_ratio, pseudo_random, overlapping, deterministic, (seed, seed2), _mean)


def _pooled(
    value: NumberLike,
    ratios: Sequence[float],
    pseudo_random: bool,
    overlapping: bool,
    deterministic: bool,
    seeds: tuple[int, int],
    pool: Pool,
) -> FractionalPool:
    x = convert_to_tensor(value)
    x.spec.with_rank(4, "value")
    if len(ratios) != 4 or ratios[0] != 1 or ratios[3] != 1:
        raise ValueError(f"pooling_ratio is [1, ratio of rows, ratio of columns, 1], not {list(ratios)}")
    sizes, key = shape(x), _key(deterministic, *seeds)
    rows = fractional_windows(sizes[1], key, float(ratios[1]), pseudo_random)
    columns = fractional_windows(sizes[2], key + 1, float(ratios[2]), pseudo_random)
    pooled = _along(_along(x, rows, 1, overlapping, pool), columns, 2, overlapping, pool)
    return FractionalPool(pooled, rows, columns)


def _key(deterministic: bool, seed: int, seed2: int) -> Tensor:
    """The seed of the windows: one for all steps, or another one in each step."""
    if deterministic:
        return constant([seed, seed2], int64)
    return random_uniform([2], 0, 1 << 62, int64, seed=seed + (seed2 << 32) or None)


def _along(x: Tensor, ends: Tensor, axis: int, overlapping: bool, pool: Pool) -> Tensor:
    """`x` pooled along an axis: the elements of each window get an axis of their own, which goes."""
    first, counts = ends[:-1], ends[1:] - ends[:-1]
    if overlapping:  # the last window has no next one
        counts = minimum(counts + 1, ends[-1] - first)
    within = range_(reduce_max(counts))
    places = expand_dims(first, 1) + minimum(within, expand_dims(counts, 1) - 1)
    after = [1] * (3 - axis)
    used = reshape(less(within, expand_dims(counts, 1)), [*_sizes(counts, within), *after])
    return pool(gather(x, places, axis=axis), used, reshape(cast(counts, x.dtype), [-1, *after]), axis + 1)


def _sizes(counts: Tensor, within: Tensor) -> list[Tensor]:
    return [shape(counts)[0], shape(within)[0]]


def _highest(windows: Tensor, used: Tensor, counts: Tensor, axis: int) -> Tensor:
    return reduce_max(windows, axis)


def _mean(windows: Tensor, used: Tensor, counts: Tensor, axis: int) -> Tensor:
    return reduce_sum(where(used, windows, zeros_like(windows)), axis) / counts
