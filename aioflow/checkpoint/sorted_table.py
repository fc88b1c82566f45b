"""Reads sorted tables, the form of the index of TensorFlow's checkpoints.

A table is a sequence of blocks and a footer. A block has entries, each a key that shares its beginning with the key
before, and a value, then the offsets of some entries. One byte for the compression and a checksum follow it. The footer
says where the index block is, whose values say where the other blocks are.
"""

import struct
from collections.abc import Iterator
from typing import Final

from aioflow import errors
from aioflow.files.crc32c import crc32c, mask
from aioflow.files.message_wire import read_varint

_FOOTER: Final = 48
_MAGIC: Final = struct.pack("<Q", 0xDB4775248B80FB57)
_TRAILER: Final = struct.Struct("<BI")
_NUMBER: Final = struct.Struct("<I")


def read_table(data: bytes, file: str) -> dict[bytes, bytes]:
    """Return the values by their keys. DataLossError if the bytes are damaged, or no table."""
    if len(data) < _FOOTER or data[-8:] != _MAGIC:
        raise errors.DataLossError(f"{file!r} is no index of a checkpoint of TensorFlow, or it is cut off")
    try:
        _, at = _handle(data, len(data) - _FOOTER)
        place, _ = _handle(data, at)
        found: dict[bytes, bytes] = {}
        for _, value in _entries(_block(data, *place)):
            found.update(_entries(_block(data, *_handle(value, 0)[0])))
    except (ValueError, struct.error) as error:
        raise errors.DataLossError(f"{file!r} is damaged: {error}") from None
    return found


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """The offset and the size of a block, and where the next bytes are."""
    offset, at = read_varint(data, at, len(data))
    size, at = read_varint(data, at, len(data))
    return (offset, size), at


def _block(data: bytes, offset: int, size: int) -> bytes:
    end = offset + size
    if end + _TRAILER.size > len(data):
        raise ValueError(f"a block of {size} bytes at byte {offset} does not lie in {len(data)} bytes")
    kind, checksum = _TRAILER.unpack_from(data, end)
    if mask(crc32c(data[offset : end + 1])) != checksum:
        raise ValueError(f"the checksum of the block at byte {offset} does not match")
    if kind:
        raise errors.UnimplementedError("the index is compressed, which TensorFlow's own checkpoints are not")
    return data[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    (restarts,) = _NUMBER.unpack_from(block, len(block) - _NUMBER.size)
    end = len(block) - _NUMBER.size * (restarts + 1)
    at, key = 0, b""
    while at < end:
        shared, at = read_varint(block, at, end)
        own, at = read_varint(block, at, end)
        size, at = read_varint(block, at, end)
        if shared > len(key) or at + own + size > end:
            raise ValueError(f"an entry at byte {at} of a block of {end} bytes has {own + size} bytes")
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + size]
        at += own + size
