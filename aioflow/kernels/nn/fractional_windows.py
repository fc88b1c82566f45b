"""The ends of pooling windows whose sizes differ by one, so that a length shrinks by any ratio [Graham 2015]."""

import math

import numpy as np

from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.families import CPU
from aioflow.kernels.math import random_numbers
from aioflow.kernels.math.stateless_random import key_of
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape, int64

_BLOCK = 0xF << 64
"""A counter that no other operation uses."""


@op
def fractional_windows(size: Ints, seed: Ints, ratio: float, pseudo_random: bool) -> Spec:
    """The first elements of windows that cover `size` elements, and `size`: there are floor(size / ratio) windows.

    The sizes of the windows are in random order, or as even as possible from a random start if `pseudo_random`.
    """
    length = known.scalar(size, "size")
    if known.length(seed, "seed") not in (None, 2):
        raise ValueError(f"a seed is two integers, its shape is {seed.shape}")
    if not ratio >= 1:
        raise ValueError(f"a pooling ratio is 1 or more, not {ratio}")
    if length is not None and length < ratio:
        raise ValueError(f"{length} elements are too few for windows of {ratio} elements")
    return Spec(int64, TensorShape.vector(None if length is None else int(length / ratio) + 1))


fractional_windows.no_gradient("windows do not vary smoothly")


@fractional_windows.kernel(CPU, fresh=True)
def _(xp: Namespace, size: Array, seed: Array, *, ratio: float, pseudo_random: bool) -> Array:
    length = int(size)
    count = int(length / ratio)
    if not count:
        raise ValueError(f"{length} elements are too few for windows of {ratio} elements")
    words = random_numbers.stream(key_of(seed), _BLOCK, count)
    if pseudo_random:
        return _even(length, count, float(words[0] >> np.uint64(11)) * 2.0**-53)
    steps = np.full(count, length // count)
    steps[np.argsort(words, kind="stable")[: length % count]] += 1
    return np.concatenate([[0], np.cumsum(steps)])


def _even(length: int, count: int, start: float) -> Array:
    """Ends whose distance from the next is the quotient, rounded up or down, from a start between 0 and 1."""
    first = math.ceil(start * length / count)
    ends = np.ceil((np.arange(count + 1) + start) * (length / count)).astype(np.int64) - first
    ends[-1] = length
    return ends
