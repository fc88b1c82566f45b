"""Numbers of the binomial distribution: how many of some attempts succeed.

Of few expected successes the distribution is summed up to a share of it; of more, numbers are drawn and some of them
rejected, as those of Poisson's are (see random_distributions.py). Of likely successes the failures are drawn.
"""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from aioflow.kernels.math.gamma import log_gamma
from aioflow.kernels.math.random_distributions import drawn
from aioflow.kernels.math.random_numbers import Words, fractions
from aioflow.kernels.math.special import pieces
from aioflow.tensors.dtypes import Array, DType, float64

_FEW: Final = 10.0
"""Expected successes below it are counted up to."""
_MOST: Final = 80
"""More successes than this, of fewer than _FEW expected ones, come once in 10^40 times."""


def binomials(counts: Array, probs: Array, streams: Iterator[Words], dtype: DType) -> Array:
    """The successes of `counts` attempts of the probability of `probs`, by two words of a stream for each number.

    Raises:
        ValueError: a count is not a whole number from 0 on, or a probability lies outside [0, 1]; a floating dtype has
            NaN there.
    """
    valid = (counts >= 0) & (counts < math.inf) & (np.floor(counts) == counts) & (probs >= 0) & (probs <= 1)
    if dtype.is_integer and not valid.all():
        raise ValueError(f"there are no {counts[~valid][0]} attempts of probability {probs[~valid][0]}")
    rare = np.minimum(probs, 1 - probs)
    numbers = drawn(_binomials, np.stack([counts, rare], 1), valid, streams, 2)
    successes = np.where(probs > 0.5, counts - numbers, numbers)
    return (successes.astype(np.int64) if dtype.is_integer else successes).astype(dtype.np)


def _binomials(parameters: Array, words: Words) -> Array:
    n, p = parameters.T
    few = n * p < _FEW
    return pieces([(few, _counted), (~few, _squeezed)], n, p, *[fractions(word, float64.np, 53) for word in words.T])


def _counted(n: Array, p: Array, share: Array, unused: Array) -> Array:
    """The first number up to which more than the share of the distribution lies."""
    number, part, odds = np.zeros_like(n), np.exp(n * np.log1p(-p)), p / (1 - p)
    below = part.copy()
    for k in range(1, _MOST):
        beyond = (share >= below) & (k <= n)
        if not beyond.any():
            break
        number += beyond
        part *= (n - k + 1) / k * odds
        below += part
    return number


def _squeezed(n: Array, p: Array, u: Array, v: Array) -> Array:
    """Hörmann's transformed rejection with squeeze (BTRS, 1993)."""
    deviation = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u = u - 0.5
    side = 0.5 - np.abs(u)
    number = np.floor((2 * a / side + b) * u + n * p + 0.5)
    possible = (number >= 0) & (number <= n)
    inside = (side >= 0.07) & (v <= 0.92 - 4.2 / b)
    height = np.log(v * (2.83 + 5.1 / b) * deviation / (a / (side * side) + b))
    mode = np.floor((n + 1) * p)
    likely = np.where(possible, number, mode)
    fall = _log_orders(n, mode) - _log_orders(n, likely) + (likely - mode) * np.log(p / (1 - p))
    return np.where(possible & (inside | (height <= fall)), number, np.nan)


def _log_orders(n: Array, number: Array) -> Array:
    """The logarithm of number! (n - number)!."""
    total: Array = log_gamma(number + 1) + log_gamma(n - number + 1)
    return total
