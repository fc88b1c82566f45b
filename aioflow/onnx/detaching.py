"""The data of large tensors, detached from a model before the parser of protocol buffers copies them.

The parser gets the model with a mark in the place of the data of each large tensor of the outermost graph. A mark is
random bytes, which no model can know, and the place of the data. Bytes that are not a protocol buffer stay as they are:
the parser reports the damage.
"""

import secrets
from collections.abc import Mapping
from typing import Final, Optional, TypeAlias

_LEAST: Final = 1 << 12
"""The fewest bytes that are detached: to copy fewer costs less."""
_MOST_FIELDS: Final = 1 << 20
"""The most fields that are looked at: a model of more has other costs."""
_TOKEN, _NUMBER = 16, 8
_NOTHING: Final = memoryview(b"")

_Fields: TypeAlias = Mapping[int, Optional["_Fields"]]
"""{number of a field: the fields within, None for data to detach}"""
_TENSOR: Final[_Fields] = {9: None}
_ATTRIBUTE: Final[_Fields] = {5: _TENSOR}
_NODE: Final[_Fields] = {5: _ATTRIBUTE}
_GRAPH: Final[_Fields] = {1: _NODE, 5: _TENSOR}
_MODEL: Final[_Fields] = {7: _GRAPH}


class Detached:
    """The bytes of a model, and the token of the marks that stand for parts of them."""

    def __init__(self, data: memoryview = _NOTHING) -> None:
        self._data = data
        self._token = secrets.token_bytes(_TOKEN)

    def mark(self, start: int, end: int) -> bytes:
        """The mark for a part of the bytes."""
        return self._token + b"".join(place.to_bytes(_NUMBER, "little") for place in (start, end))

    def find(self, data: bytes) -> memoryview:
        """The part of the bytes that a mark stands for; data that are no mark as they are."""
        if len(data) != _TOKEN + 2 * _NUMBER or not data.startswith(self._token):
            return memoryview(data)
        start, end = (int.from_bytes(data[at : at + _NUMBER], "little") for at in (_TOKEN, _TOKEN + _NUMBER))
        return self._data[start:end]


def detach(data: memoryview) -> tuple[bytes, Detached]:
    """The model with marks in place of large data, and where the marks lead."""
    detached = Detached(data)
    try:
        return b"".join(_Walk(data, detached).message(0, len(data), _MODEL)), detached
    except _Malformed:
        return bytes(data), detached


class _Malformed(Exception):
    """The bytes are no protocol buffers, or have too many fields."""


class _Walk:
    """One walk over the fields of a model, as deep as large data can lie."""

    def __init__(self, data: memoryview, detached: Detached) -> None:
        self._data = data
        self._detached = detached
        self._left = _MOST_FIELDS

    def message(self, start: int, end: int, fields: _Fields) -> list[bytes | memoryview]:
        """The parts that make up a message without its large data."""
        parts: list[bytes | memoryview] = []
        copied = at = start
        while at < end:
            tag, begin, after = self._field(at, end)
            if after - begin >= _LEAST and tag & 7 == 2 and tag >> 3 in fields:
                inner = fields[tag >> 3]
                made = [self._detached.mark(begin, after)] if inner is None else self.message(begin, after, inner)
                parts += [self._data[copied:at], varint(tag), varint(sum(map(len, made))), *made]
                copied = after
            at = after
        return [*parts, self._data[copied:end]]

    def _field(self, at: int, end: int) -> tuple[int, int, int]:
        """The tag of a field, where its content begins, and where it ends."""
        self._left -= 1
        tag, begin = self._number(at, end)
        match tag & 7:
            case 0:
                after = self._number(begin, end)[1]
            case 1:
                after = begin + 8
            case 2:
                size, begin = self._number(begin, end)
                after = begin + size
            case 5:
                after = begin + 4
            case _:
                raise _Malformed
        if after > end or not tag >> 3 or not self._left:
            raise _Malformed
        return tag, begin, after

    def _number(self, at: int, end: int) -> tuple[int, int]:
        """A number in bytes of 7 bits, and where it ends."""
        number = 0
        for place, byte in enumerate(self._data[at : min(at + 10, end)]):
            number |= (byte & 127) << 7 * place
            if byte < 128:
                return number, at + place + 1
        raise _Malformed


def varint(number: int) -> bytes:
    """A number in bytes of 7 bits."""
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
