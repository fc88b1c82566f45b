"""CRC-32C (Castagnoli), the checksum of TFRecords, computed by the library google-crc32c."""

import functools
from typing import Any, Final

import google_crc32c
import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

_MASK_DELTA: Final = 0xA282EAD8


def crc32c(data: bytes, crc: int = 0) -> int:
    """Return the checksum of `data`, appended to bytes with the checksum `crc`."""
    checksum: int = google_crc32c.extend(crc, data)
    return checksum


def mask(crc: int) -> int:
    """Return the checksum in its stored form, since the checksum of bytes that contain their own checksum is weak."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


@functools.cache
def _table(width: int) -> Words:
    """Return the change that each byte value makes at each place of `width` zero bytes: a CRC is linear over GF(2)."""
    zeros = crc32c(bytes(width))
    rows = [[crc32c(bytes(i) + bytes([b]) + bytes(width - 1 - i)) ^ zeros for b in range(256)] for i in range(width)]
    return np.array(rows, np.uint32)


def masked_crc32c_windows(data: Any, width: int) -> Words:
    """Return the checksums of all windows of `width` bytes in `data`, in their stored form."""
    array = np.frombuffer(data, np.uint8)
    count = max(0, len(array) - width + 1)
    crcs = np.full(count, crc32c(bytes(width)), np.uint32)
    for place, changes in enumerate(_table(width)):
        crcs ^= changes.take(array[place : place + count])
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_MASK_DELTA)
