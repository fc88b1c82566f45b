"""Digests of graphs in messages: equal graphs, sent in equal messages, have equal digests."""

import hashlib
import secrets
from collections.abc import Mapping
from typing import Final

import numpy as np

from aioflow.tensors.dtypes import Array

HASHED: Final = 1 << 20
"""Bytes above which a digest is computed on a thread: that takes over a millisecond."""


def size(data: bytes, constants: Mapping[str, Array]) -> int:
    """The bytes of a graph and of the arrays that go with it."""
    return len(data) + sum([array.nbytes for array in constants.values() if isinstance(array, np.ndarray)])


def digest(data: bytes, constants: Mapping[str, Array], before: bytes = b"") -> bytes:
    """The digest of a graph and of the arrays that go with it, after a graph with the digest `before`.

    An array of strings, or a list of tensors, is equal to no other.
    """
    found = hashlib.sha256(before)
    found.update(data)
    for name, array in sorted(constants.items()):
        if isinstance(array, np.ndarray) and not array.dtype.hasobject:
            found.update(f"{len(name)} {name} {array.dtype} {array.shape} ".encode())
            found.update(np.ravel(array).view(np.uint8).data)
        else:
            found.update(secrets.token_bytes(32))
    return found.digest()
