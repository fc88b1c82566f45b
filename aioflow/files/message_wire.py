"""Decode and encode messages in protocol buffers' encoding, field by field.

A message is a sequence of fields: a varint with number and kind, then a value: a varint, 8 or 4 bytes, or a length
followed by that many bytes. The parser does not recur and checks every length against the remaining bytes first.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from aioflow.tensors.as_array import AnyArray

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
"""The kinds of a field."""
_MOST: Final = (1 << 64) - 1
_FEW: Final = 24

Part = tuple[int, int]
"""Where a message begins and ends in the bytes."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The varint at that offset, and the offset after it. ValueError if it is cut off, or too long."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MOST, at
        shift += 7
        if shift > 63:
            raise ValueError(f"a number at byte {at} has more than 10 bytes")
    raise ValueError(f"a number is cut off at byte {end}")


def fields(data: bytes, part: Part) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: number, kind, and where the value begins and ends."""
    at, end = part
    while at < end:
        key = data[at]
        if key < 128:
            at += 1
        else:
            key, at = read_varint(data, at, end)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise ValueError(f"{number} is not a field number, at byte {at}")
        if kind == BYTES:
            if at < end and data[at] < 128:
                length, at = data[at], at + 1
            else:
                length, at = read_varint(data, at, end)
        elif kind == VARINT:
            length = read_varint(data, at, end)[1] - at
        elif kind in (EIGHT, FOUR):
            length = 8 if kind == EIGHT else 4
        else:
            raise ValueError(f"a field of kind {kind} at byte {at}")
        if length > end - at:
            raise ValueError(f"{length} bytes are said to follow byte {at}, and there are {end - at}")
        yield number, kind, at, at + length
        at += length


def parts(data: bytes, part: Part, number: int) -> Iterator[Part]:
    """Where the messages in the fields of that number are."""
    for found, kind, begin, end in fields(data, part):
        if found == number and kind == BYTES:
            yield begin, end


def integers(data: bytes, begin: int, end: int) -> AnyArray:
    """The packed numbers between two offsets, as int64."""
    if end - begin < _FEW:
        values = []
        while begin < end:
            value, begin = read_varint(data, begin, end)
            values.append(signed(value))
        return np.array(values, np.int64)
    array = np.frombuffer(data, np.uint8, end - begin, begin)
    ends = np.flatnonzero(array < 128)
    if array[-1] > 127:
        raise ValueError(f"a number is cut off at byte {end}")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise ValueError(f"a number after byte {begin} has more than 10 bytes")
    values64 = np.zeros(len(ends), np.uint64)
    for place in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > place)
        values64[longer] |= (array[starts[longer] + place] & np.uint64(127)).astype(np.uint64) << np.uint64(7 * place)
    return values64.view(np.int64)


def signed(value: int) -> int:
    """The number from -2**63 on that a varint stands for."""
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """A number from 0 on."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def content(field: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(field << 3 | BYTES) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    """A field of a number from 0 on."""
    return varint(field << 3 | VARINT) + varint(value)
