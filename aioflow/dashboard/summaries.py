"""Serialized summaries as messages: numbers, histograms and pictures."""

import base64
import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

from aioflow.dashboard.messages import Histogram, Picture, clip
from aioflow.files.message_wire import BYTES, EIGHT, FOUR, Part, fields, parts

LARGEST: Final = 200_000
"""Bytes of a picture that is shown."""


def read_summaries(data: bytes, step: int) -> Iterator[tuple[str, float] | Histogram | Picture]:
    """The values of a summary: numbers with their tags, histograms, pictures. ValueError if it is malformed."""
    for value in parts(data, (0, len(data)), 1):
        found = {number: (kind, begin, end) for number, kind, begin, end in fields(data, value)}
        tag = _text(data, found.get(1))
        if 2 in found and found[2][0] == FOUR:
            yield clip(tag), struct.unpack_from("<f", data, found[2][1])[0]
        if 5 in found and found[5][0] == BYTES:
            yield _histogram(data, found[5][1:], clip(tag), step)
        if 4 in found and found[4][0] == BYTES:
            yield from _picture(data, found[4][1:], clip(tag), step)


def _text(data: bytes, field: tuple[int, int, int] | None) -> str:
    return "" if field is None else data[field[1] : field[2]].decode(errors="replace")


def _histogram(data: bytes, part: Part, tag: str, step: int) -> Histogram:
    ends: dict[int, float] = {}
    lists: dict[int, tuple[float, ...]] = {6: (), 7: ()}
    for number, kind, begin, end in fields(data, part):
        if kind == EIGHT:
            ends[number] = struct.unpack_from("<d", data, begin)[0]
        elif kind == BYTES and number in lists:
            lists[number] = tuple(np.frombuffer(data[begin : end - (end - begin) % 8], "<f8").tolist())
    return Histogram(tag, step, ends.get(1, 0.0), ends.get(2, 0.0), lists[6], lists[7])


def _picture(data: bytes, part: Part, tag: str, step: int) -> Iterator[Picture]:
    for begin, end in parts(data, part, 4):
        if end - begin <= LARGEST:
            yield Picture(tag, step, base64.b64encode(data[begin:end]).decode())
