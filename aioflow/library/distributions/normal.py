"""The normal distribution."""

import math
from typing import ClassVar

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.select import select
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.elementwise import log, log1p, negative, square
from aioflow.kernels.math.error_functions import erfc, ndtri
from aioflow.kernels.math.random import random_normal
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution
from aioflow.library.distributions.divergence import RegisterKL
from aioflow.library.distributions.parameters import floats, positive
from aioflow.library.distributions.reparameterization import FULLY_REPARAMETERIZED


class Normal(Distribution):
    """Normal distributions of mean `loc` and standard deviation `scale`.

    Examples:
        >>> normal = af.distributions.Normal(loc=[0.0, 1.0], scale=2.0)
        >>> await session.run(normal.cdf(1.0))
        array([0.69146246, 0.5       ], dtype=float32)
        >>> normal.sample([5, 4]).shape
        TensorShape([5, 4, 2])
    """

    _scalars: ClassVar[tuple[str, ...]] = ("loc", "scale")

    def __init__(
        self,
        loc: NumberLike,
        scale: NumberLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[loc, scale]) as scope:
            self.loc, deviation = floats(loc, scale)
            self.scale = positive(validate_args, deviation, "scale")
            parts = [self.loc, self.scale]
        super().__init__(self.loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return self.loc + self.scale * random_normal(self._sizes(n), dtype=self.dtype, seed=seed)

    def _log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * square(self._z(value)) - 0.5 * math.log(2 * math.pi) - log(self.scale)

    def _cdf(self, value: Tensor) -> Tensor:
        return _share_below(self._z(value))

    def _log_cdf(self, value: Tensor) -> Tensor:
        return _log_share_below(self._z(value))

    def _survival_function(self, value: Tensor) -> Tensor:
        return _share_below(negative(self._z(value)))

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return _log_share_below(negative(self._z(value)))

    def _quantile(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ndtri(value)

    def _entropy(self) -> Tensor:
        return self._to_batch(0.5 * math.log(2 * math.pi * math.e) + log(self.scale))

    def _mean(self) -> Tensor:
        return self._to_batch(self.loc)

    def _mode(self) -> Tensor:
        return self._mean()

    def _stddev(self) -> Tensor:
        return self._to_batch(self.scale)

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale


@RegisterKL(Normal, Normal)
def _from_normal_to_normal(a: Normal, b: Normal, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_normal_normal"):
        ratio = square(a.scale / b.scale)
        return square((a.loc - b.loc) / b.scale) / 2 + (ratio - 1 - log(ratio)) / 2


def _share_below(z: Tensor) -> Tensor:
    """The share of standard normal numbers below z."""
    return erfc(z * -(0.5**0.5)) / 2


def _log_share_below(z: Tensor) -> Tensor:
    """Its logarithm: far below 0, where the share itself is 0, from its asymptotic series.

    Each piece has an argument from its own range only, for elsewhere its gradient is no number.
    """
    low, high = (-20.0, 8.0) if z.dtype.np.itemsize > 4 else (-10.0, 5.0)
    tail, middle = minimum(z, low), maximum(minimum(z, high), low)
    inverse = 1 / square(tail)
    series = 1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse * (1 - 7 * inverse)))
    below = -0.5 * square(tail) - log(negative(tail)) - 0.5 * math.log(2 * math.pi) + log(series)
    above = log1p(negative(_share_below(negative(maximum(z, 0.0)))))
    return select(z < low, below, select(z > 0, above, log(_share_below(minimum(middle, 0.0)))))
