"""Reductions of dense tensors on several devices, whose result all of these devices get: the parts of `all_reduce`.

A tensor is divided into pieces, which are reduced at the same time on different devices. Large pieces go round a ring
in two parts, so that a device adds one part while it sends or receives the other.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.array.shapes import rank, reshape, shape, size
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.families import NARROW
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.sum_for_peers import sum_for_peers
from aioflow.library.control import control_dependencies
from aioflow.library.ring import Reduction, Ring
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import COMPLEX, FLOAT, TensorShape

_PART: Final = 4 << 20
"""Bytes of a piece of which two halves go round the ring."""
_DIRECT: Final = 16 << 20
"""Bytes of all tensors of a group that each of its devices reads and reduces itself, at most. That takes half as many
messages, and none waits for another."""


Groups = Sequence[Sequence[int]]
"""Numbers of tensors: each is in one group."""


def _pairwise(of_two: Callable[[Tensor, Tensor], Any]) -> Reduction:
    def reduction(values: Sequence[Tensor]) -> Tensor:
        first, *rest = values
        for value in rest:
            first = of_two(first, value)
        return first

    return reduction


OPS: Final[Mapping[str, Reduction]] = {
    "sum": sum_for_peers,
    "mean": sum_for_peers,
    "prod": _pairwise(lambda a, b: a * b),
    "min": _pairwise(minimum),
    "max": _pairwise(maximum),
}


def reduced(
    tensors: Sequence[Tensor], op: str, codec: str | None, in_task_order: bool, groups: Groups | None
) -> list[Tensor]:
    """Return the reduction of all tensors on each of their devices. Arguments are those of `all_reduce`."""
    whole = merged_shape(tensors)
    if op == "mean":
        tensors[0].spec.only(FLOAT | COMPLEX)
    ring = Ring(tensors)
    if groups is not None:
        check_groups(groups, len(ring))
    if len(ring) == 1 or whole.num_elements() == 0:
        return check_same_shapes(ring, tensors)
    if groups is None:
        return _round_the_ring(ring, tensors, op, codec, in_task_order, whole)
    return _in_groups(ring, tensors, op, codec, [list(group) for group in groups], whole)


def _round_the_ring(
    ring: Ring, tensors: Sequence[Tensor], op: str, codec: str | None, in_task_order: bool, whole: TensorShape
) -> list[Tensor]:
    parts = 1 if codec is not None else _parts(whole, tensors[0].dtype.size, len(ring))
    pieces = divide_all(ring, tensors, whole, piece_count(whole, len(ring) * parts))
    mean = op == "mean"
    if (mean and tensors[0].dtype in NARROW) or in_task_order or codec is not None:  # a narrow sum could overflow
        found = ring.collect_in_order(pieces, _mean_of(len(ring)) if mean else OPS[op], codec)
    else:
        found = ring.collect(pieces, OPS[op])
        found = shares(ring, found, lend=True) if mean else found
    return join(ring, tensors, ring.spread(found, codec), whole)


def _parts(whole: TensorShape, item: int, count: int) -> int:
    """Return the number of parts of each of `count` pieces: of two, a device adds one while it sends the other."""
    return 2 if (whole.num_elements() or 0) * item > count * _PART else 1


def _mean_of(count: int) -> Reduction:
    return lambda values: sum_for_peers(values, divisor=count)


def shares(ring: Ring, sums: Sequence[Tensor], lend: bool) -> list[Tensor]:
    """Return each sum, which is on the device of its number, divided by their number; `lend` if peers get it."""
    found = []
    for number, total in enumerate(sums):
        with ring.at(number):
            found.append(sum_for_peers([total], divisor=len(ring), lend=lend))
    return found


# Groups


def check_groups(groups: Groups, count: int) -> None:
    """ValueError unless the groups have each number below `count` once, and none is empty."""
    numbers = sorted(number for group in groups for number in group)
    if numbers != list(range(count)) or not all(groups):
        raise ValueError(
            f"groups must have each number from 0 to {count - 1} once, and none may be empty; they are "
            f"{[list(group) for group in groups]}"
        )


def _in_groups(
    ring: Ring, tensors: Sequence[Tensor], op: str, codec: str | None, groups: list[list[int]], whole: TensorShape
) -> list[Tensor]:
    """Reduce each piece in each group on one device, then between the groups, and send it to all of the group."""
    nbytes = (whole.num_elements() or _DIRECT) * tensors[0].dtype.size * len(ring)
    if len(groups) == 1 and nbytes <= _DIRECT:
        return _everywhere(ring, _agreeing(ring, tensors), op)
    most = max(map(len, groups))
    pieces = divide_all(ring, tensors, whole, piece_count(whole, most))
    found: list[list[Tensor]] = [[] for _ in tensors]
    for number in range(len(pieces[0])):
        totals = [_group_total(ring, group, number, pieces, _of_group(op, len(tensors))) for group in groups]
        if len(groups) > 1:
            totals = reduced(totals, "sum" if op == "mean" else op, codec, False, None)
        for group, total in zip(groups, totals, strict=True):
            for member in group:
                found[member].append(total)
    return join(ring, tensors, found, whole)


def _group_total(
    ring: Ring, group: Sequence[int], number: int, pieces: Sequence[Sequence[Tensor]], reduction: Reduction
) -> Tensor:
    with ring.at(group[number % len(group)]):
        return reduction([pieces[member][number] for member in group])


def _everywhere(ring: Ring, tensors: Sequence[Tensor], op: str) -> list[Tensor]:
    """Reduce all tensors on each device. Each is copied once, to memory that all peers can read."""
    found, lendable = [], []
    for number, tensor in enumerate(tensors):
        with ring.at(number):
            lendable.append(sum_for_peers([tensor]))
    for number in range(len(ring)):
        with ring.at(number):
            found.append(_whole(lendable, op))
    return found


def _whole(tensors: Sequence[Tensor], op: str) -> Tensor:
    """Return the reduction as a value of its own, which no peer gets."""
    if op in ("sum", "mean"):
        return sum_for_peers(tensors, divisor=len(tensors) if op == "mean" else 1, lend=False)
    return OPS[op](tensors)


def _of_group(op: str, count: int) -> Reduction:
    """Return the reduction inside a group; for a mean, sums of shares."""
    return _mean_of(count) if op == "mean" else OPS[op]


# Pieces


def merged_shape(tensors: Sequence[Tensor]) -> TensorShape:
    """Return the known part of the shape of all tensors."""
    if not tensors:
        raise ValueError("at least one tensor is needed")
    whole = tensors[0].spec.same_dtype(*[tensor.spec for tensor in tensors[1:]]).shape
    for tensor in tensors[1:]:
        whole = whole.merge_with(tensor.shape)
    return whole


def piece_count(whole: TensorShape, most: int) -> int:
    """Return the number of pieces: `most`, unless there are too few elements."""
    known = whole.num_elements()
    return most if known is None else min(most, known)


def check_same_shapes(ring: Ring, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors themselves: there is nothing to reduce."""
    found = []
    for number, tensor in enumerate(tensors):
        with ring.at(number):
            found.append(identity(tensor))
    return found


def _agreeing(ring: Ring, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the tensors, after a check in the run that each has the shape of the one before, if that is unknown."""
    if all(tensor.shape.is_fully_defined() for tensor in tensors):
        return tensors
    outlines, found = [], []
    for number, tensor in enumerate(tensors):
        with ring.at(number):
            outlines.append(concat([reshape(rank(tensor), [1]), shape(tensor)], 0))
    for number, tensor in enumerate(tensors):
        with ring.at(number):
            same = assert_equal(outlines[number], outlines[number - 1], message="the ranks and shapes differ")
            with control_dependencies([same]):
                found.append(identity(tensor))
    return found


def divide_all(ring: Ring, tensors: Sequence[Tensor], whole: TensorShape, count: int) -> list[list[Tensor]]:
    """Divide all tensors as `divide` does, after a check of their shapes."""
    return [divide(ring, number, tensor, whole, count) for number, tensor in enumerate(_agreeing(ring, tensors))]


def divide(ring: Ring, number: int, tensor: Tensor, whole: TensorShape, count: int) -> list[Tensor]:
    """Divide a tensor into `count` one-dimensional pieces of nearly the same size."""
    with ring.at(number):
        flat = reshape(tensor, [-1])
        known = whole.num_elements()
        if known is not None:
            return split(flat, [(known + count - 1 - piece) // count for piece in range(count)])
        spare = constant(np.arange(count - 1, -1, -1), dtypes.int32)
        return split(flat, (size(flat) + spare) // count, num=count)


def join(ring: Ring, tensors: Sequence[Tensor], pieces: Sequence[Sequence[Tensor]], whole: TensorShape) -> list[Tensor]:
    """Return on each device a tensor of its pieces, in the shape of its own tensor."""
    found = []
    for number, tensor in enumerate(tensors):
        with ring.at(number):
            flat = concat(pieces[number], 0)
            found.append(reshape(flat, whole.as_list() if whole.is_fully_defined() else shape(tensor)))
    return found
