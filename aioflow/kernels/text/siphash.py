"""SipHash-2-4 (Aumasson and Bernstein, 2012): hashes under a secret key, TensorFlow's strong buckets."""

from collections.abc import Sequence

from aioflow.kernels.text.hash_words import MASK, Number, Words, rotate

State = tuple[Number, Number, Number, Number]


def siphash(key: Sequence[int], text: Words) -> Number:
    """The hash of each string under a key of two numbers of 64 bits."""
    low, high = key
    state: State = (
        low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573,
    )  # fmt: skip
    whole = text.length - text.length % 8
    for start in range(0, whole, 8):
        state = _absorbed(state, text.number(start, 8))
    last = (text.length & 0xFF) << 56 | text.number(whole, text.length - whole)
    a, b, c, d = _absorbed(state, last)
    a, b, c, d = _rounds((a, b, c ^ 0xFF, d), 4)
    return a ^ b ^ c ^ d


def _absorbed(state: State, word: Number) -> State:
    a, b, c, d = state
    a, b, c, d = _rounds((a, b, c, d ^ word), 2)
    return a ^ word, b, c, d


def _rounds(state: State, count: int) -> State:
    a, b, c, d = state
    for _ in range(count):
        a, c = a + b & MASK, c + d & MASK
        b, d = rotate(b, 13) ^ a, rotate(d, 16) ^ c
        a, c = rotate(a, 32) + d & MASK, c + b & MASK
        b, d = rotate(b, 17) ^ c, rotate(d, 21) ^ a
        c = rotate(c, 32)
    return a, b, c, d
