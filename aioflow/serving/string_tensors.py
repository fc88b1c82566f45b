"""The bytes of a tensor of BYTES: each string behind its length in 4 bytes.

Python needs more than a second for a million strings. So it reads and writes them in slices, and the event loop has a
turn between two slices.
"""

import asyncio
import struct
from collections.abc import Iterator
from typing import Final

from aioflow.tensors.dtypes import Array
from aioflow.tensors.object_arrays import empty, ravel_array

STRINGS_AT_ONCE: Final = 1024
"""Strings between two turns of the event loop: about 2 ms."""
_LENGTH: Final = struct.Struct("<I")


async def read_strings(data: memoryview, count: int) -> Array:
    """Return this number of strings. ValueError if the data has more bytes than these, or fewer."""
    if count > len(data) // _LENGTH.size:
        raise ValueError(f"{count} elements of BYTES need {count * _LENGTH.size} bytes or more, not {len(data)}")
    found, start = empty(count), 0
    for part in _slices(count):
        if part.start:
            await asyncio.sleep(0)
        found[part], start = _split(data, start, part)
    if start != len(data):
        raise ValueError(f"{len(data) - start} bytes follow the last element of BYTES")
    return found


async def write_strings(array: Array) -> list[bytes | memoryview]:
    """Return the bytes of an array of strings, in parts."""
    flat = ravel_array(array)
    written: list[bytes | memoryview] = []
    for part in _slices(flat.size):
        if part.start:
            await asyncio.sleep(0)
        written.append(_join(flat[part].tolist()))
    return written


def _slices(count: int) -> Iterator[slice]:
    for begin in range(0, count, STRINGS_AT_ONCE):
        yield slice(begin, min(begin + STRINGS_AT_ONCE, count))


def _split(data: memoryview, start: int, part: slice) -> tuple[list[bytes], int]:
    """Return the strings of a slice, whose bytes begin at `start`, and where those of the next slice begin."""
    texts = []
    for index in range(part.start, part.stop):
        begin = end = start + _LENGTH.size
        if begin <= len(data):
            end += _LENGTH.unpack_from(data, start)[0]
        if end > len(data):
            raise ValueError(f"element {index} of BYTES goes on behind the end of its {len(data)} bytes")
        texts.append(bytes(data[begin:end]))
        start = end
    return texts, start


def _join(texts: list[bytes]) -> bytes:
    return b"".join([part for text in texts for part in (_LENGTH.pack(len(text)), text)])
