"""The devices of some tensors as a ring, in which values go round or directly from device to device."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from aioflow.graph import scopes
from aioflow.graph.building import same_graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity
from aioflow.kernels.control.lossy import lossy, lossy_decode, lossy_encode, lossy_encode_top_k, lossy_residual
from aioflow.tensors.codecs import Codec

Reduction = Callable[[Sequence[Tensor]], Tensor]
"""(two or more tensors of one shape) -> a tensor of that shape; adds the first two first."""


class Ring:
    """The devices of some tensors, in order; the first follows the last."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._graph: Final = same_graph(*tensors)
        self._places: Final = [_places_of(tensor.op) for tensor in tensors]

    def __len__(self) -> int:
        return len(self._places)

    def device(self, number: int) -> str:
        """Return the requested device of the tensor of that number; "" if there is none."""
        return next(iter(self._places[number][1]), "")

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
                    piece if number == home % len(self) else self._lossy(piece, number, codec)
                    for number, piece in enumerate(sent)
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
