"""Training without parameter servers: each device has its own variables, and a ring adds up the gradients.

    towers = []
    for number, device in enumerate(devices):
        with af.device(device), af.variable_scope(f"tower{number}"):
            towers.append(optimizer.compute_gradients(*model(share_of(number))))
    reduced = af.train.all_reduce_gradients(towers)
    train = optimizer.apply_gradients([pair for pairs in reduced for pair in pairs], global_step)

Variables that begin equal stay equal to the last bit, because they get the same updates; `broadcast_variables`
makes them equal at the beginning.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from aioflow.graph.building import transactional
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.control.lossy import LOSSY
from aioflow.library import collectives
from aioflow.library.control import group, name_scope
from aioflow.library.dense_reduction import Groups
from aioflow.library.ring import Ring
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import DType

Gradient: TypeAlias = Tensor | IndexedSlices | None
Pairs: TypeAlias = Sequence[tuple[Any, Any]]
BUCKET_BYTES: Final = 4 << 20
"""Bytes of a bucket: many for throughput, few so that the first one travels before the last one is computed."""


@transactional
def all_reduce_gradients(
    towers: Sequence[Pairs],
    op: str = "mean",
    codec: str | None = None,
    in_task_order: bool = False,
    bucket_bytes: int = BUCKET_BYTES,
    groups: Groups | None = None,
    name: str | None = None,
) -> list[list[tuple[Gradient, Any]]]:
    """Return the variables of each tower with the gradients of all towers, reduced, as `apply_gradients` takes them.

    Consecutive gradients of one dtype travel together, in buckets, since a message for each would cost more than its
    bytes. The buckets are filled from the last variable to the first, in the order in which a backward pass computes
    the gradients. Each bucket is reduced as soon as its gradients exist, while those of later buckets are computed.

    Args:
        towers: for each device (gradient, variable) pairs from `compute_gradients`, in the same order. The gradient of
            a variable that the loss does not depend on is None in all towers.
        op: `mean`, which weights all towers equally, or `sum`.
        codec: a lossy form, see `af.collectives.all_reduce`, for gradients of float32 and float64.
        in_task_order: whether the sums equal, to the last bit, those of one device that adds tower after tower.
        bucket_bytes: the most bytes of a bucket; a gradient that is larger, or of unknown shape, travels alone.
        groups: the numbers of the towers of each host, see `af.collectives.all_reduce`.
        name: the name scope.

    Raises:
        ValueError: there are no towers, or their gradients differ.

    Examples:
        >>> v, w = af.Variable(1.0), af.Variable(1.0)
        >>> towers = [[(af.constant(2.0), v)], [(af.constant(4.0), w)]]
        >>> reduced = af.train.all_reduce_gradients(towers)
        >>> await session.run([tower[0][0] for tower in reduced])
        [np.float32(3.0), np.float32(3.0)]
    """
    _check(towers, bucket_bytes)
    found: list[list[tuple[Gradient, Any]]] = [[(None, variable) for _, variable in pairs] for pairs in towers]
    rows = {place: row for place, row in enumerate(_rows(towers)) if row[0] is not None}
    places = list(reversed(rows))
    with name_scope(name, "all_reduce_gradients"):
        for bucket in buckets([_measure(rows[place]) for place in places], bucket_bytes):
            reduced = _reduce([rows[places[number]] for number in bucket], op, codec, in_task_order, groups)
            for number, row in zip(bucket, reduced, strict=True):
                for pairs, gradient in zip(found, row, strict=True):
                    pairs[places[number]] = (gradient, pairs[places[number]][1])
    return found


def _rows(towers: Sequence[Pairs]) -> list[list[Any]]:
    """Return for each variable its gradients in all towers."""
    return [[gradient for gradient, _ in row] for row in zip(*towers, strict=True)]


@transactional
def broadcast_variables(towers: Sequence[Sequence[Variable]], name: str | None = None) -> Operation:
    """Return an operation that copies the values of the first tower's variables to all towers.

    Raises:
        ValueError: there are no towers, or their numbers of variables differ.

    Examples:
        >>> v, w = af.Variable(1.0), af.Variable(2.0)
        >>> await session.run([v.initializer, w.initializer])
        [None, None]
        >>> _ = await session.run(af.train.broadcast_variables([[v], [w]]))
        >>> await session.run(w)
        np.float32(1.0)
    """
    _check_counts(towers)
    with name_scope(name, "broadcast_variables"):
        assigned = []
        for row in zip(*towers, strict=True):
            values = collectives.broadcast(row)
            assigned += [each.assign(value) for each, value in zip(row[1:], values[1:], strict=True)]
        return group(*assigned)


# Buckets


Measure: TypeAlias = tuple[DType, int] | None
"""The dtype and the bytes of a gradient that may share a bucket; None for others."""


def buckets(measures: Sequence[Measure], limit: int) -> list[list[int]]:
    """Return groups of consecutive gradients of one dtype with up to `limit` bytes, by their numbers."""
    found: list[list[int]] = []
    dtype, room = None, 0
    for number, measure in enumerate(measures):
        if measure is not None and measure[0] is dtype and measure[1] <= room:
            found[-1].append(number)
            room -= measure[1]
        else:
            found.append([number])
            dtype, room = (None, 0) if measure is None else (measure[0], limit - measure[1])
    return found


def _measure(row: Sequence[Tensor | IndexedSlices]) -> Measure:
    if any(isinstance(gradient, IndexedSlices) or not gradient.shape.is_fully_defined() for gradient in row):
        return None
    return row[0].dtype, row[0].dtype.size * (row[0].shape.num_elements() or 0)


def _reduce(
    rows: Sequence[Sequence[Any]], op: str, codec: str | None, in_task_order: bool, groups: Groups | None
) -> Sequence[Sequence[Gradient]]:
    """Return for each gradient of a bucket those of all towers, reduced."""
    codec = codec if rows[0][0].dtype in LOSSY else None
    if len(rows) == 1:
        return [collectives.all_reduce(rows[0], op, codec, in_task_order, groups)]
    towers: list[list[Tensor]] = [list(each) for each in zip(*rows, strict=True)]
    ring = Ring([tower[0] for tower in towers])
    packed = []
    for number, tower in enumerate(towers):
        with ring.at(number):
            packed.append(concat([reshape(gradient, [-1]) for gradient in tower], 0))
    reduced = collectives.all_reduce(packed, op, codec, in_task_order, groups)
    unpacked = []
    for number, tower in enumerate(towers):
        with ring.at(number):
            pieces = split(reduced[number], [gradient.shape.num_elements() for gradient in tower])
            unpacked.append([reshape(piece, like.shape.as_list()) for piece, like in zip(pieces, tower, strict=True)])
    return list(zip(*unpacked, strict=True))


# Arguments


def _check(towers: Sequence[Pairs], bucket_bytes: int) -> None:
    if bucket_bytes < 0:
        raise ValueError(f"bucket_bytes is a number of bytes, not {bucket_bytes!r}")
    _check_counts(towers)
    for place, row in enumerate(_rows(towers)):
        absent = [number for number, gradient in enumerate(row) if gradient is None]
        if absent and len(absent) < len(row):
            variable = towers[absent[0]][place][1].name
            raise ValueError(
                f"tower {absent[0]} has no gradient for {variable!r}, its variable number {place}, and others have one"
            )


def _check_counts(towers: Sequence[Sequence[Any]]) -> None:
    if not towers:
        raise ValueError("at least one tower is needed")
    counts = [len(tower) for tower in towers]
    if len(set(counts)) > 1:
        raise ValueError(f"the towers have {', '.join(map(str, counts))} variables: they must have the same ones")
