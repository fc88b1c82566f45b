"""Numbers of Philox 4x32 with 10 rounds, to the bit those of TensorFlow's generators.

Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), defines the function: a key of 64 bits and a
counter of 128 bits make a block of four words of 32 bits. A state is three integers of 64 bits: the low and the high
half of the counter, and the key. The place of a number decides its words:

    integers of 32 bits, float32 and narrower   word i
    integers of 64 bits, float64                words 2 i, the low one, and 2 i + 1
    normals                                     in pairs, by Box and Muller, from two uniform numbers
    truncated normals                           in groups of one block's size, each from blocks of its own

The words are the same everywhere; logarithms and sines may round differently. random_numbers.py has the numbers of the
random operations without a generator, whose words have 64 bits.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aioflow.kernels.math.random_numbers import sized
from aioflow.tensors.dtypes import Array, DType, bfloat16, float16, float32, float64

State = tuple[int, int]
"""The counter and the key."""
Words = npt.NDArray[np.uint32]

ADVANCE: Final = 256
"""By how much the counter of a generator grows for each number that it draws."""
_WORD: Final = (1 << 64) - 1
_WHOLE: Final = (1 << 128) - 1
_LOW: Final = np.uint64(0xFFFF_FFFF)
_HALF: Final = np.uint64(32)
_FACTORS: Final = np.uint64(0xD251_1F53), np.uint64(0xCD9E_8D57)
_BUMPS: Final = 0x9E37_79B9, 0xBB67_AE85
_ROUNDS: Final = 10
_PORTION: Final = 1 << 14
"""Blocks computed at a time: the event loop must get its turn between two of NumPy's calls."""
_LEAST: Final = 1e-7
"""A lower uniform number counts as this one where a logarithm is taken of it."""
_FIRST_BLOCKS: Final = 2
"""The blocks of a group of truncated normals that are computed for all groups at once."""


def state_of(values: Array) -> State:
    """The counter and the key that three integers of 64 bits are."""
    low, high, key = (int(value) & _WORD for value in values.tolist())
    return low | high << 64, key


def advanced(values: Array, delta: int) -> Array:
    """The state after `delta` numbers were drawn from another."""
    counter, key = state_of(values)
    counter = (counter + delta * ADVANCE) & _WHOLE
    return np.array([counter & _WORD, counter >> 64, key], np.uint64).astype(values.dtype)


# Words


def blocks(state: State, numbers: npt.NDArray[np.uint64]) -> Words:
    """The blocks [len(numbers), 4] of those numbers, counted from 0 at the counter of the state."""
    made = np.empty((numbers.size, 4), np.uint32)
    for start in range(0, numbers.size, _PORTION):
        part = slice(start, start + _PORTION)
        made[part] = _mixed(_counters(state[0], numbers[part]), state[1])
    return made


def _first(state: State, count: int, size: int) -> Words:
    """As many of the first blocks as `count` numbers of `size` bytes need."""
    return blocks(state, np.arange(-(-count * size // 16), dtype=np.uint64))


def _counters(start: int, numbers: npt.NDArray[np.uint64]) -> list[npt.NDArray[np.uint64]]:
    """The four words of the counters start + numbers, the lowest first, as integers of 64 bits."""
    low = numbers + np.uint64(start & _WORD)
    high = np.uint64(start >> 64) + (low < numbers).astype(np.uint64)
    return [low & _LOW, low >> _HALF, high & _LOW, high >> _HALF]


def _mixed(counters: list[npt.NDArray[np.uint64]], key: int) -> Words:
    """The blocks of those counters under a key."""
    a, b, c, d = counters
    keys = [key & int(_LOW), key >> 32]
    for _ in range(_ROUNDS):
        first, second = a * _FACTORS[0], c * _FACTORS[1]
        a, b = (second >> _HALF) ^ b ^ np.uint64(keys[0]), second & _LOW
        c, d = (first >> _HALF) ^ d ^ np.uint64(keys[1]), first & _LOW
        keys = [(part + bump) & int(_LOW) for part, bump in zip(keys, _BUMPS, strict=True)]
    return np.stack([a, b, c, d], 1).astype(np.uint32)


def integers(state: State, count: int, size: int) -> npt.NDArray[Any]:
    """`count` unsigned integers of `size` bytes, 4 or 8."""
    words = _first(state, count, size)
    return (words if size == 4 else _long(words)).ravel()[:count]


def rounds(state: State, count: int) -> Iterator[npt.NDArray[np.uint64]]:
    """Integers of 64 bits in rounds of `count`, each from the blocks that follow those of the round before."""
    size = -(-count // 2)
    for start in range(0, _WORD, max(size, 1)):
        yield _long(blocks(state, np.arange(size, dtype=np.uint64) + np.uint64(start))).ravel()[:count]


def _long(words: Words) -> npt.NDArray[np.uint64]:
    """Pairs of words as integers of 64 bits, the low one first, on machines of any byte order."""
    return words[:, 0::2].astype(np.uint64) | words[:, 1::2].astype(np.uint64) << _HALF


# Numbers


def uniforms(state: State, shape: Array, dtype: DType) -> Array:
    """From 0 up to but not 1."""
    sizes, count = sized(shape)
    numbers = _fractions(_first(state, count, max(dtype.size, 4)), dtype).ravel()[:count]
    return numbers.astype(dtype.np, copy=False).reshape(sizes)


def normals(state: State, shape: Array, dtype: DType) -> Array:
    """Of mean 0 and standard deviation 1."""
    sizes, count = sized(shape)
    numbers = _box_muller(_first(state, count, max(dtype.size, 4)), dtype).ravel()[:count]
    return numbers.astype(dtype.np, copy=False).reshape(sizes)


def central_normals(state: State, shape: Array, dtype: DType) -> Array:
    """Normal numbers of mean 0 and standard deviation 1, without those of 2 and more, and of -2 and less.

    A group has as many numbers as one block. It begins `ADVANCE` words for each of its numbers after the group before
    it, and has the first normals from there on that lie between -2 and 2.
    """
    sizes, count = sized(shape)
    group = 16 // max(dtype.size, 4)
    starts = np.arange(-(-count // group), dtype=np.uint64)[:, None] * np.uint64(ADVANCE * group // 4)
    found = _central(state, starts, group, dtype, _FIRST_BLOCKS)
    short = np.isnan(found[:, -1])
    if short.any():
        found[short] = _central(state, starts[short], group, dtype, ADVANCE * group // 4)
    return found.ravel()[:count].astype(dtype.np, copy=False).reshape(sizes)


def _central(state: State, starts: Array, group: int, dtype: DType, depth: int) -> Array:
    """The first `group` normals between -2 and 2 of `depth` blocks from each start on; NaN where they are fewer."""
    numbers = (starts + np.arange(depth, dtype=np.uint64)).ravel()
    drawn = _box_muller(blocks(state, numbers), dtype).reshape(len(starts), depth * group)
    central = np.abs(drawn) < 2
    order = np.argsort(~central, axis=1, kind="stable")[:, :group]
    return np.where(np.take_along_axis(central, order, 1), np.take_along_axis(drawn, order, 1), np.nan)


def _fractions(words: Words, dtype: DType) -> Array:
    """Numbers from 0 up to but not 1 from the lowest bits of words; as float32 for a narrower dtype."""
    if dtype is float64:
        mantissas = (words[:, 0::2].astype(np.uint64) & np.uint64(0xF_FFFF)) << _HALF | words[:, 1::2]
        return mantissas.astype(np.float64) * 2.0**-52
    digits = {float16: 10, bfloat16: 7}.get(dtype, 23)
    return (words & np.uint32((1 << digits) - 1)).astype(np.float32) * np.float32(2.0**-digits)


def _box_muller(words: Words, dtype: DType) -> Array:
    """Two normals of each pair of uniform numbers: from the first a distance, from the second a direction."""
    fractions = _fractions(words, float64 if dtype is float64 else float32)
    number = fractions.dtype.type
    distance = np.sqrt(number(-2) * np.log(np.maximum(fractions[:, 0::2], number(_LEAST))))
    direction = fractions[:, 1::2] * number(2 * math.pi)
    made = np.empty_like(fractions)
    np.multiply(distance, np.sin(direction), out=made[:, 0::2])
    np.multiply(distance, np.cos(direction), out=made[:, 1::2])
    return made
