"""Digests of graphs in messages: equal graphs, sent in equal messages, have equal digests."""

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from aioflow.net.wire.values import describe
from aioflow.tensors.dtypes import Array

HASHED: Final = 1 << 20
"""Bytes above which a digest is computed on a thread: that takes over a millisecond."""
_PIECE: Final = 1 << 10
"""The most strings of an array that are encoded at once."""


def size(data: bytes, constants: Mapping[str, Array], most: float = math.inf) -> int:
    """The bytes of a graph and of the arrays that go with it, in memory.

    To count the bytes of many strings takes long. So the count ends as soon as it exceeds `most`.
    """
    found = len(data)
    for array in constants.values():
        for piece in _pieces(array):
            found += _nbytes(piece)
            if found > most:
                return found
    return found


def digest(data: bytes, constants: Mapping[str, Array], before: bytes = b"") -> bytes:
    """The digest of a graph and of the arrays that go with it, after a graph with the digest `before`."""
    found = hashlib.sha256(before)
    found.update(data)
    for name, array in sorted(constants.items()):
        found.update(f"{len(name)} {name} {np.shape(array)} ".encode())
        for piece in _pieces(array):
            sent = describe(piece)
            found.update(repr(sent.descriptor).encode())
            for buffer in sent.buffers:
                found.update(buffer)
    return found.digest()


def _pieces(value: Any) -> Iterator[Any]:
    """The value as it is, or an array of strings in pieces: to encode it at once would hold all other threads."""
    if not isinstance(value, np.ndarray) or not value.dtype.hasobject:
        yield value
        return
    flat = value.reshape(-1)
    for begin in range(0, flat.size, _PIECE):
        yield flat[begin : begin + _PIECE]


def _nbytes(piece: Any) -> int:
    if not isinstance(piece, np.ndarray):
        return describe(piece).nbytes
    return piece.nbytes + (sum(map(sys.getsizeof, piece)) if piece.dtype.hasobject else 0)
