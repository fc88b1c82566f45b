"""Masks the payloads of websocket frames, and unmasks them [RFC 6455 section 5.3].

A payload is masked from its place into other memory, block by block: a block is sent while it is in the processor's
cache. A received payload is unmasked where it is. So masking takes one pass over the bytes at each end, and no copy.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from aioflow.net.transport.segments import address_of
from aioflow.net.wire.framing import Frame
from aioflow.resources.buffers import BUFFERS
from aioflow.tensors.as_array import AnyArray

ZERO: Final = bytes(4)
"""The key that changes nothing."""
_CLEAR: Final = (b"", ZERO)
_BLOCK: Final = 1 << 18
"""The bytes of a block."""
_SMALL: Final = 256
"""Bytes that are masked as one number: for so few, NumPy takes longer."""


def key_maker(transport: asyncio.Transport) -> Callable[[], bytes]:
    """Return a function that makes the key of each frame that the dialling end of a connection sends.

    An unpredictable key protects proxies: one that does not know websockets could take crafted values for requests of
    HTTP. Between two ends with the same address there is none: the bytes stay on the host, and the key is `ZERO`.
    """
    near, far = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return (lambda: ZERO) if near and far and near[0] == far[0] else (lambda: os.urandom(4))


def masked(data: Frame, key: bytes) -> Frame:
    """`data` masked with a key of 4 bytes, in other memory; as it is for `ZERO` and for no key."""
    if key in _CLEAR:
        return data
    if len(data) <= _SMALL:
        return _few(data, key)
    found = BUFFERS.empty((len(data),), np.dtype(np.uint8))
    _mask(np.frombuffer(data, np.uint8), key, found)
    return found.data


def masked_blocks(data: Frame, key: bytes) -> Iterator[Frame]:
    """Yield the same bytes in blocks that are masked one by one."""
    if key in _CLEAR:
        yield data
        return
    for start in range(0, len(data), _BLOCK):
        yield masked(data[start : start + _BLOCK], key)


def unmask(data: memoryview, key: bytes) -> bytes:
    """Unmask these bytes in place, and return the key of the bytes after them."""
    if len(data) <= _SMALL:
        data[:] = _few(data, key)
    else:
        whole = np.frombuffer(data, np.uint8)
        lead = -address_of(whole) % 4  # NumPy takes three times as long with words that are not aligned
        data[:lead] = _few(data[:lead], key)
        _mask(whole[lead:], rotated(key, lead), whole[lead:])
    return rotated(key, len(data))


def rotated(key: bytes, nbytes: int) -> bytes:
    """The key of the bytes that follow `nbytes` masked bytes."""
    turn = nbytes % 4
    return key[turn:] + key[:turn]


def _few(data: Frame, key: bytes) -> bytes:
    nbytes = len(data)
    repeated = key * (nbytes // 4 + 1)
    number = int.from_bytes(data, "little") ^ int.from_bytes(repeated[:nbytes], "little")
    return number.to_bytes(nbytes, "little")


def _mask(data: AnyArray, key: bytes, out: AnyArray) -> None:
    """Write the masked bytes of `data` to `out`: whole words, and then the last bytes."""
    end = len(data) & ~3
    np.bitwise_xor(data[:end].view("<u4"), np.frombuffer(key, "<u4"), out=out[:end].view("<u4"))
    out[end:] = np.frombuffer(_few(data[end:].data, key), np.uint8)
