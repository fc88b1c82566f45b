"""MurmurHash64A (Austin Appleby) with TensorFlow's seed: the buckets of `string_to_hash_bucket`."""

from typing import Final

from aioflow.kernels.text.hash_words import MASK, Number, Words

_FACTOR: Final = 0xC6A4A7935BD1E995
_SEED: Final = 0xDECAFCAFFE
_SHIFT: Final = 47


def murmurhash64(text: Words) -> Number:
    """The hash of each string, 64 bits."""
    state: Number = _SEED ^ text.length * _FACTOR & MASK
    whole = text.length - text.length % 8
    for start in range(0, whole, 8):
        state = (state ^ _scrambled(text.number(start, 8))) * _FACTOR & MASK
    if whole < text.length:
        state = (state ^ text.number(whole, text.length - whole)) * _FACTOR & MASK
    state = (state ^ state >> _SHIFT) * _FACTOR & MASK
    return state ^ state >> _SHIFT


def _scrambled(word: Number) -> Number:
    word = word * _FACTOR & MASK
    return (word ^ word >> _SHIFT) * _FACTOR & MASK
