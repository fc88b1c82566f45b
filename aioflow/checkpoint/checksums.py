"""Checksums of blocks, as fast as memory. A CRC of every byte would make a restore take twice as long.

A block is a matrix of little-endian 64-bit numbers in rows of 1021. The checksum first adds up each column modulo
2**64. It is the CRC-32 of these sums, continued over the bytes after the last whole row; for less than one row it is
the plain CRC-32. Every wrong bit changes a sum. The number of columns is prime, and a block is 1021 pages of 4096 bytes
long: no two pages of a block start in the same column, so the checksum also detects pages that changed places.
"""

import zlib
from typing import Final

import numpy as np

_COLUMNS: Final = 1021
_ROW: Final = 8 * _COLUMNS
BLOCK: Final = 4096 * _COLUMNS
"""Bytes that share a checksum, about 4 MB; the last block of a piece is shorter."""


def blocks_in(size: int) -> int:
    """Return the number of blocks in `size` bytes."""
    return -(-size // BLOCK)


def checksums(data: memoryview) -> list[int]:
    """Return the checksum of each block of the data."""
    return [_checksum(data[begin : begin + BLOCK]) for begin in range(0, len(data), BLOCK)]


def _checksum(block: memoryview) -> int:
    rows = len(block) // _ROW
    if not rows:
        return zlib.crc32(block)
    sums = np.add.reduce(np.frombuffer(block, "<u8", rows * _COLUMNS).reshape(rows, _COLUMNS), axis=0)
    return zlib.crc32(block[rows * _ROW :], zlib.crc32(sums))
