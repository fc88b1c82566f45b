"""Positions of numbers in a random order, one by one: no list of the order is made.

A Feistel network of 6 rounds is an order of all numbers of an even number of bits. A number that it takes beyond the
largest is taken on, until it is among them.
"""

from typing import Final

import numpy as np

from aioflow.graph.op import T, op
from aioflow.kernels.families import CPU, costs
from aioflow.kernels.math.random_numbers import Words
from aioflow.tensors.dtypes import INTEGER, Array, Namespace, Spec, TensorShape, broadcast_shapes

_ROUNDS: Final = 6


@op
def random_index_shuffle(index: T, seed: Spec, max_index: T) -> Spec:
    """The places of `index` in an order of the numbers from 0 to `max_index` that the seed chooses.

    Each seed is two integers along the last axis. The results for all numbers from 0 to `max_index` are these numbers,
    each once.

    Examples:
        >>> sorted(await session.run(af.random_index_shuffle(af.range(5), seed=[1, 2], max_index=4)))
        [np.int32(0), np.int32(1), np.int32(2), np.int32(3), np.int32(4)]
    """
    index.only(INTEGER).same_dtype(max_index)
    sizes = seed.only(INTEGER).sizes
    if sizes is not None and (not sizes or sizes[-1] not in (None, 2)):
        raise ValueError(f"a seed is two integers along the last axis; the shape is {seed.shape}")
    seeds = TensorShape(None if sizes is None else sizes[:-1])
    return Spec(index.dtype, broadcast_shapes(index.broadcast(max_index), seeds))


random_index_shuffle.no_gradient("positions are whole numbers")
costs(random_index_shuffle, 200.0)


@random_index_shuffle.kernel(CPU, fresh=True)
def _(xp: Namespace, index: Array, seed: Array, max_index: Array) -> Array:
    whole = (index >= 0) & (index <= max_index)
    if not whole.all():
        raise ValueError("an index lies outside the numbers from 0 to max_index")
    keys = seed.astype(np.int64 if seed.dtype.kind == "i" else np.uint64).view(np.uint64)
    places, first, second, last = np.broadcast_arrays(
        index.astype(np.uint64), keys[..., 0], keys[..., 1], max_index.astype(np.uint64)
    )
    moved = _moved(places.ravel(), first.ravel(), second.ravel(), last.ravel())
    return moved.reshape(places.shape).astype(index.dtype)


def _moved(places: Words, first: Words, second: Words, last: Words) -> Words:
    half = _half_bits(last)
    result = places.copy()
    left = np.arange(places.size)
    while left.size:
        result[left] = _network(result[left], first[left], second[left], half[left])
        left = left[result[left] > last[left]]
    return result


def _half_bits(last: Words) -> Words:
    """Half the number of bits of the least even number of bits, 2 at least, that hold each number."""
    bits = np.array([max(2, int(number).bit_length()) for number in last.tolist()], np.uint64)
    return (bits + np.uint64(1)) // np.uint64(2)


def _network(numbers: Words, first: Words, second: Words, half: Words) -> Words:
    mask = (np.uint64(1) << half) - np.uint64(1)
    upper, lower = numbers >> half, numbers & mask
    for turn in range(_ROUNDS):
        key = _spread(second + np.uint64(turn * 0x9E3779B97F4A7C15 & (1 << 64) - 1)) ^ first
        upper, lower = lower, upper ^ (_spread(_spread(lower + key) + key) & mask)
    return upper << half | lower


def _spread(number: Words) -> Words:
    """64 bits in which every bit of the number counts (Vigna's splitmix64)."""
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ number >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ number >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return number ^ number >> np.uint64(31)
