"""Hashes of one string, or of many strings of one length at once, from one definition.

A hash function here takes `Words` and reads numbers from the string by position. The strings of an array with the
same length go through it together, in NumPy's arithmetic; a few strings go through it one by one, in Python's.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from aioflow.tensors.dtypes import Array
from aioflow.tensors.object_arrays import apply_ufunc

MASK: Final = (1 << 64) - 1
"""All numbers are unsigned and of 64 bits: `x & MASK` drops what is above. It changes nothing in NumPy's arithmetic."""
_TOGETHER: Final = 16
"""The number of strings of one length from which on NumPy is faster."""

Number = Any
"""An int below 2^64, or an array of uint64."""


class Words(Protocol):
    """A string, or several of one length, from which a hash function reads."""

    length: int

    def number(self, start: int, size: int) -> Number:
        """The `size` bytes from `start` on as a little-endian number."""
        ...


class _Text:
    """One string."""

    def __init__(self, text: bytes) -> None:
        self.length = len(text)
        self._text = text

    def number(self, start: int, size: int) -> int:
        return int.from_bytes(self._text[start : start + size], "little")


class _Texts:
    """Several strings of one length."""

    def __init__(self, texts: list[bytes]) -> None:
        self.length = len(texts[0])
        self._bytes = np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), self.length)

    def number(self, start: int, size: int) -> Array:
        padded = np.zeros((len(self._bytes), 8), np.uint8)
        padded[:, :size] = self._bytes[:, start : start + size]
        return padded.view("<u8")[:, 0].astype(np.uint64, copy=False)


Hash = Callable[[Words], Number]


def hash_array(function: Hash, texts: Array) -> Array:
    """The hash of each string of an array, as uint64."""
    return apply_ufunc(functools.partial(_hash_slice, function), np.uint64, texts)


def _hash_slice(function: Hash, texts: Array) -> Array:
    items = texts.reshape(-1).tolist()
    places: dict[int, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(len(item), []).append(place)
    hashes = np.empty(len(items), np.uint64)
    for length, same in places.items():
        chosen = [items[place] for place in same]
        if length and len(same) >= _TOGETHER:
            hashes[same] = function(_Texts(chosen))
        else:
            hashes[same] = [function(_Text(text)) for text in chosen]
    return hashes.reshape(texts.shape)


def rotate(number: Number, bits: int) -> Number:
    """The number with its bits rotated to the left."""
    return number << bits & MASK | number >> 64 - bits


def as_bytes(hashes: Array) -> Array:
    """Hashes as their eight bytes, the lowest first, in an axis of their own."""
    little = hashes if sys.byteorder == "little" else hashes.byteswap()
    return np.ascontiguousarray(little).view(np.uint8).reshape(*hashes.shape, 8)
