"""Devices in a ring, and what goes round in it: the two halves of an all-reduce [Patarasu and Yuan 2009, section 3].

Each device has a tensor in as many pieces as there are devices. In the first half a piece goes from device to device
and collects those of its number, until it comes home complete; in the second it goes round once more, and stays with
everybody. So each device sends and receives twice the bytes of its tensor, less one n-th, however many there are.

All of it is ordinary nodes on the devices of the tensors: what goes from one to the next are Sends and Recvs, which
partitioning makes, and gradients are those of the nodes.
"""

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
"""From tensors of one shape to one of that shape, the first two first."""


class Ring:
    """The devices of some tensors, in their order, the first after the last."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._graph: Final = same_graph(*tensors)
        self._places: Final = [_places_of(tensor.op) for tensor in tensors]

    def __len__(self) -> int:
        return len(self._places)

    @contextlib.contextmanager
    def at(self, number: int) -> Iterator[None]:
        """Operations built inside are where the tensor of that number is, whatever scopes are around."""
        colocation, devices = self._places[number % len(self)]
        with scopes.change_scope(self._graph, colocation=colocation, devices=devices):
            yield

    def collect(self, pieces: Sequence[Sequence[Tensor]], reduction: Reduction) -> list[Tensor]:
        """The pieces `pieces[device][number]` of each number reduced on the way round, which ends on that device."""
        return [self._collected([own[number] for own in pieces], number, reduction) for number in range(len(pieces[0]))]

    def _collected(self, pieces: Sequence[Tensor], home: int, reduction: Reduction) -> Tensor:
        count = len(self)
        reduced = pieces[(home + 1) % count]
        for number in range(home + 2, home + count + 1):
            with self.at(number):
                reduced = reduction([reduced, pieces[number % count]])
        return reduced

    def collect_in_order(
        self, pieces: Sequence[Sequence[Tensor]], reduction: Reduction, codec: str | None
    ) -> list[Tensor]:
        """The same, but that all go home straight away and are reduced there in the order of the devices.

        With a codec, pieces travel home in that form. A piece that is at home already loses nothing.
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
        """`values`, each on the device of its number, on all devices, which get them by way of the one before.

        In a lossy form they are the same bits on all, that one included where they come from.
        """
        rows = [self._passed_on(value, home, codec) for home, value in enumerate(values)]
        return [[row[number] for row in rows] for number in range(len(self))]

    def _passed_on(self, value: Tensor, home: int, codec: str | None) -> list[Tensor]:
        with self.at(home):
            sent = value if codec is None else _encoded(value, codec)
        found: dict[int, Tensor] = {}
        for number in range(home, home + len(self)):
            with self.at(number):
                sent = identity(sent) if number > home else sent
                edge = "" if number == home else f"{value.name} to {sent.device or sent.op.name}"
                found[number % len(self)] = sent if codec is None else _decoded(sent, value, codec, edge)
        return [found[number] for number in range(len(self))]


def _places_of(op: Operation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to be colocated with, and what device to ask for, to be where an operation is."""
    device = op.device or next(filter(None, map(_device_of(op), op.colocation)), "")
    return ((), (device,)) if device else (op.colocation or (op.name,), ())


def _device_of(op: Operation) -> Callable[[str], str]:
    """What device an operation beside `op` asks for, by its name; "" if it is not in this graph."""

    def device(name: str) -> str:
        try:
            return op.graph.get_operation_by_name(name).device
        except KeyError:
            return ""

    return device


def _encoded(value: Tensor, codec: str) -> Tensor:
    parsed = Codec.parse(codec)
    if parsed.name == "top_k":
        return lossy_encode_top_k(value, lossy_residual(), parsed.keep)
    return lossy_encode(value, codec)


def _decoded(wire: Tensor, value: Tensor, codec: str, edge: str) -> Tensor:
    return lossy_decode(wire, codec, value.dtype, value.shape, edge)
