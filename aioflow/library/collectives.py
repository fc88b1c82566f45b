"""`af.collectives`: reductions of tensors on several devices, whose result all of these devices get.

Each function takes a list with one tensor per device, on the devices of the tensors, and returns a list of the same
length, with each result on the device of its number. The names are those of TensorFlow's `contrib.nccl`.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph import scopes
from aioflow.graph.building import same_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.array.shapes import rank, reshape, shape, size
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.control.lossy import lossy, lossy_decode, lossy_encode, lossy_encode_top_k, lossy_residual
from aioflow.kernels.families import NARROW
from aioflow.kernels.math.arithmetic import add_n, maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.lazy import Face
from aioflow.library.control import control_dependencies, name_scope
from aioflow.tensors import dtypes
from aioflow.tensors.codecs import Codec
from aioflow.tensors.dtypes import COMPLEX, FLOAT, DType, TensorShape

Reduction = Callable[[Sequence[Tensor]], Tensor]
"""(two or more tensors of one shape) -> a tensor of that shape; adds the first two first."""


class Ring:
    """The devices of some tensors, in order; the first follows the last."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._graph: Final = same_graph(*tensors)
        self._places: Final = [_places_of(tensor.op) for tensor in tensors]

    def __len__(self) -> int:
        return len(self._places)

    @contextlib.contextmanager
    def at(self, number: int) -> Iterator[None]:
        """Put operations built inside on the device of the tensor of that number, whatever the enclosing scopes."""
        colocation, devices = self._places[number % len(self)]
        with scopes.change_scope(self._graph, colocation=colocation, devices=devices):
            yield

    def collect(self, pieces: Sequence[Sequence[Tensor]], reduction: Reduction) -> list[Tensor]:
        """Reduce the pieces `pieces[device][number]` of each number around the ring, ending on that device."""
        return [self._collect([own[number] for own in pieces], number, reduction) for number in range(len(pieces[0]))]

    def _collect(self, pieces: Sequence[Tensor], home: int, reduction: Reduction) -> Tensor:
        count = len(self)
        reduced = pieces[(home + 1) % count]
        for number in range(home + 2, home + count + 1):
            with self.at(number):
                reduced = reduction([reduced, pieces[number % count]])
        return reduced

    def collect_in_order(
        self, pieces: Sequence[Sequence[Tensor]], reduction: Reduction, codec: str | None
    ) -> list[Tensor]:
        """Do the same, but send all pieces directly to their final device and reduce them there in device order.

        With a codec, pieces are sent in that form. A piece that is already on its final device stays exact.
        """
        reduced = []
        for home in range(len(pieces[0])):
            sent = [each[home] for each in pieces]
            if codec is not None:
                sent = [
                    piece if number == home else self._lossy(piece, number, codec) for number, piece in enumerate(sent)
                ]
            with self.at(home):
                reduced.append(reduction(sent))
        return reduced

    def _lossy(self, piece: Tensor, number: int, codec: str) -> Tensor:
        with self.at(number):
            made: Tensor = lossy(piece, codec)
            return made

    def spread(self, values: Sequence[Tensor], codec: str | None) -> list[list[Tensor]]:
        """Copy `values`, each on the device of its number, to all devices, around the ring.

        In a lossy form they are the same bits on all devices, including the first one.
        """
        rows = [self._passed_on(value, home, codec) for home, value in enumerate(values)]
        return [[row[number] for row in rows] for number in range(len(self))]

    def _passed_on(self, value: Tensor, home: int, codec: str | None) -> list[Tensor]:
        with self.at(home):
            sent = value if codec is None else _encode(value, codec)
        found: dict[int, Tensor] = {}
        for number in range(home, home + len(self)):
            with self.at(number):
                sent = identity(sent) if number > home else sent
                edge = "" if number == home else f"{value.name} to {sent.device or sent.op.name}"
                found[number % len(self)] = sent if codec is None else _decode(sent, value, codec, edge)
        return [found[number] for number in range(len(self))]


def _places_of(op: Operation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the colocation and the requested device that put an operation beside another one."""
    device = op.device or next(filter(None, map(_device_of(op), op.colocation)), "")
    return ((), (device,)) if device else (op.colocation or (op.name,), ())


def _device_of(op: Operation) -> Callable[[str], str]:
    """Return the device that an operation beside `op` asks for; "" if it is not in this graph."""

    def device(name: str) -> str:
        try:
            return op.graph.get_operation_by_name(name).device
        except KeyError:
            return ""

    return device


def _encode(value: Tensor, codec: str) -> Tensor:
    parsed = Codec.parse(codec)
    if parsed.name == "top_k":
        return lossy_encode_top_k(value, lossy_residual(), parsed.keep)
    return lossy_encode(value, codec)


def _decode(wire: Tensor, value: Tensor, codec: str, edge: str) -> Tensor:
    return lossy_decode(wire, codec, value.dtype, value.shape, edge)


Reducible = Tensor | IndexedSlices


def _pairwise(of_two: Callable[[Tensor, Tensor], Any]) -> Reduction:
    def reduction(values: Sequence[Tensor]) -> Tensor:
        first, *rest = values
        for value in rest:
            first = of_two(first, value)
        return first

    return reduction


_OPS: Final[Mapping[str, Reduction]] = {
    "sum": add_n,
    "mean": add_n,
    "prod": _pairwise(lambda a, b: a * b),
    "min": _pairwise(minimum),
    "max": _pairwise(maximum),
}


@transactional
def all_reduce(
    tensors: Sequence[TensorLike | IndexedSlices],
    op: str = "sum",
    codec: str | None = None,
    in_task_order: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Return the sum, or another reduction, of all tensors on each of their devices, the same to the last bit on all.

    The devices form a ring, and each sends pieces only to the next one: for n devices, each sends twice the bytes of a
    tensor, less one n-th, for any n. Gradients use as many bytes. It waits for all devices, and a step that fails on
    one device fails on all.

    Args:
        tensors: one for each device, of one dtype and shape. The rows of IndexedSlices are concatenated, not added.
        op: `sum`, `mean`, `prod`, `min` or `max`. For a mean, narrow floats are added as float32, in task order.
        codec: a lossy form, see `af.lossy`, in which sums and means are sent: once to the device that adds up a piece,
            once from there. With `top_k` each device keeps the omitted elements for the next step; rows of
            IndexedSlices, which change from step to step, are sent exactly. Gradients stop there: they are None.
        in_task_order: whether each piece is reduced in the order of `tensors`, on one device, so that the result equals
            to the last bit that of one device. As many bytes are sent, but from all to all. A codec always does this.
        name: the name scope.

    Raises:
        TypeError: the dtypes differ, or cannot be reduced so.
        ValueError: there are none, their shapes differ, or there is no such op or codec.
        InvalidArgumentError: in the step, if shapes that were not known differ.
    """
    _check(op, codec)
    given = [value if isinstance(value, IndexedSlices) else convert_to_tensor(value) for value in tensors]
    with name_scope(name, "all_reduce", given):
        slices = [value for value in given if isinstance(value, IndexedSlices)]
        dense = [value for value in given if isinstance(value, Tensor)]
        if slices and dense:
            raise TypeError("some are tensors, others IndexedSlices: all must be of one kind")
        return list(_slices(slices, op, codec) if slices else _reduced(dense, op, codec, in_task_order))


def all_sum(tensors: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return the sum of all tensors, on each of their devices: `all_reduce`."""
    return list(all_reduce(tensors, "sum", name=name or "all_sum"))


def all_prod(tensors: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return the product of all tensors, on each of their devices: `all_reduce`."""
    return list(all_reduce(tensors, "prod", name=name or "all_prod"))


def all_min(tensors: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return the smallest of each element, on each of the tensors' devices: `all_reduce`."""
    return list(all_reduce(tensors, "min", name=name or "all_min"))


def all_max(tensors: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return the greatest of each element, on each of the tensors' devices: `all_reduce`."""
    return list(all_reduce(tensors, "max", name=name or "all_max"))


@transactional
def all_gather(tensors: Sequence[TensorLike], axis: int = 0, name: str | None = None) -> list[Tensor]:
    """Concatenate all tensors along an axis, on each of their devices; each tensor travels around the ring.

    Raises:
        TypeError: the dtypes differ.
        ValueError: there are none, or they cannot be concatenated.
    """
    given = _convert_all(tensors)
    with name_scope(name, "all_gather", given):
        return _gather_rows(given, axis, None)


@transactional
def broadcast(tensors: Sequence[TensorLike], root: int = 0, name: str | None = None) -> list[Tensor]:
    """Return the tensor of number `root` on the devices of all tensors, which have its dtype and shape.

    Each device gets a piece of it, and the pieces travel around the ring.
    """
    given = _convert_all(tensors)
    if not 0 <= root < len(given):
        raise ValueError(f"there are {len(given)} tensors: root cannot be {root!r}")
    with name_scope(name, "broadcast", given):
        ring, whole = Ring(given), _merged_shape(given)
        count = _pieces(whole, len(ring))
        if not count:
            return _check_same_shapes(ring, given)
        pieces = _divide(ring, root, given[root], whole, count)
        here = []
        for number, piece in enumerate(pieces):
            with ring.at(number):
                here.append(identity(piece))
        return _join(ring, given, ring.spread(here, None), whole)


# Arguments


def _check(op: str, codec: str | None) -> None:
    if op not in _OPS:
        raise ValueError(f"op must be one of {', '.join(_OPS)}, not {op!r}")
    if codec is not None:
        Codec.parse(codec)
        if op not in ("sum", "mean"):
            raise ValueError(f"only sums and means can be sent in a lossy form, not {op!r}")


def _convert_all(tensors: Sequence[TensorLike]) -> list[Tensor]:
    return [convert_to_tensor(tensor) for tensor in tensors]


def _merged_shape(tensors: Sequence[Tensor]) -> TensorShape:
    """Return the known part of the shape of all tensors."""
    if not tensors:
        raise ValueError("at least one tensor is needed")
    whole = tensors[0].spec.same_dtype(*[tensor.spec for tensor in tensors[1:]]).shape
    for tensor in tensors[1:]:
        whole = whole.merge_with(tensor.shape)
    return whole


def _pieces(whole: TensorShape, devices: int) -> int:
    """Return the number of pieces: one for each device, unless there are too few elements."""
    known = whole.num_elements()
    return devices if known is None else min(devices, known)


# Dense tensors


def _reduced(tensors: Sequence[Tensor], op: str, codec: str | None, in_task_order: bool) -> list[Tensor]:
    whole = _merged_shape(tensors)
    if op == "mean":
        tensors[0].spec.only(FLOAT | COMPLEX)
    ring = Ring(tensors)
    count = _pieces(whole, len(ring))
    if len(ring) == 1 or not count:
        return _check_same_shapes(ring, tensors)
    pieces = [_divide(ring, number, tensor, whole, count) for number, tensor in enumerate(_agreeing(ring, tensors))]
    if op == "mean" and tensors[0].dtype in NARROW:  # the sum could overflow
        reduced = ring.collect_in_order(pieces, _wide_sum, codec)
    elif in_task_order or codec is not None:
        reduced = ring.collect_in_order(pieces, _OPS[op], codec)
    else:
        reduced = ring.collect(pieces, _OPS[op])
    if op == "mean":
        reduced = _shares(ring, reduced, tensors[0].dtype)
    return _join(ring, tensors, ring.spread(reduced, codec), whole)


def _check_same_shapes(ring: Ring, tensors: Sequence[Tensor]) -> list[Tensor]:
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


def _divide(ring: Ring, number: int, tensor: Tensor, whole: TensorShape, count: int) -> list[Tensor]:
    """Divide a tensor into `count` one-dimensional pieces of nearly the same size."""
    with ring.at(number):
        flat = reshape(tensor, [-1])
        known = whole.num_elements()
        if known is not None:
            return split(flat, [(known + count - 1 - piece) // count for piece in range(count)])
        spare = constant(np.arange(count - 1, -1, -1), dtypes.int32)
        return split(flat, (size(flat) + spare) // count, num=count)


def _wide_sum(values: Sequence[Tensor]) -> Tensor:
    return add_n([cast(value, dtypes.float32) for value in values])


def _shares(ring: Ring, sums: Sequence[Tensor], dtype: DType) -> list[Tensor]:
    shares = []
    for number, total in enumerate(sums):
        with ring.at(number):
            shares.append(cast(total / constant(len(ring), total.dtype), dtype))
    return shares


def _join(
    ring: Ring, tensors: Sequence[Tensor], pieces: Sequence[Sequence[Tensor]], whole: TensorShape
) -> list[Tensor]:
    """Return on each device a tensor of its pieces, in the shape of its own tensor."""
    found = []
    for number, tensor in enumerate(tensors):
        with ring.at(number):
            flat = concat(pieces[number], 0)
            found.append(reshape(flat, whole.as_list() if whole.is_fully_defined() else shape(tensor)))
    return found


# Rows


def _slices(slices: Sequence[IndexedSlices], op: str, codec: str | None) -> list[IndexedSlices]:
    """Return all rows on each device, in the order of the devices."""
    if op not in ("sum", "mean"):
        raise ValueError(f"the rows of IndexedSlices can be added up, which {op!r} cannot")
    ring = Ring([each.values for each in slices])
    keeps = codec is not None and Codec.parse(codec).name == "top_k"
    rows = _gather_rows([each.values for each in slices], 0, None if keeps else codec)
    places = _gather_rows([each.indices for each in slices], 0, None)
    if op == "mean":
        rows = _shares(ring, rows, rows[0].dtype)
    return [IndexedSlices(*parts) for parts in zip(rows, places, [each.dense_shape for each in slices], strict=True)]


def _gather_rows(tensors: Sequence[Tensor], axis: int, codec: str | None) -> list[Tensor]:
    if not tensors:
        raise ValueError("at least one tensor is needed")
    ring = Ring(tensors)
    rows = ring.spread(tensors, codec)
    found = []
    for number, row in enumerate(rows):
        with ring.at(number):
            found.append(concat(row, axis))
    return found


__all__ = ["all_gather", "all_max", "all_min", "all_prod", "all_reduce", "all_sum", "broadcast"]
Face(__name__, {__name__: " ".join(__all__)})
