"""The Laplace distribution."""

import math
from typing import ClassVar

import numpy as np

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.select import select
from aioflow.kernels.math.elementwise import abs, exp, log, log1p, negative, sign
from aioflow.kernels.math.random import random_uniform
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution
from aioflow.library.distributions.parameters import floats, positive
from aioflow.library.distributions.reparameterization import FULLY_REPARAMETERIZED


class Laplace(Distribution):
    """Laplace distributions: the density falls by exp(-1) with each `scale` of distance from `loc`, on both sides.

    Examples:
        >>> await session.run(af.distributions.Laplace(loc=0.0, scale=[0.5, 1.0]).prob(0.0))
        array([1. , 0.5], dtype=float32)
    """

    _scalars: ClassVar[tuple[str, ...]] = ("loc", "scale")

    def __init__(
        self,
        loc: NumberLike,
        scale: NumberLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[loc, scale]) as scope:
            self.loc, width = floats(loc, scale)
            self.scale = positive(validate_args, width, "scale")
            parts = [self.loc, self.scale]
        super().__init__(self.loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        least = float(np.nextafter(self.dtype.np.type(-1), self.dtype.np.type(0)))
        share = random_uniform(self._sizes(n), least, 1.0, self.dtype, seed)
        return self.loc - self.scale * sign(share) * log1p(negative(abs(share)))

    def _log_prob(self, value: Tensor) -> Tensor:
        return negative(abs(self._z(value))) - math.log(2) - log(self.scale)

    def _cdf(self, value: Tensor) -> Tensor:
        return _share_below(self._z(value))

    def _log_cdf(self, value: Tensor) -> Tensor:
        return _log_share_below(self._z(value))

    def _survival_function(self, value: Tensor) -> Tensor:
        return _share_below(negative(self._z(value)))

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return _log_share_below(negative(self._z(value)))

    def _entropy(self) -> Tensor:
        return self._to_batch(1 + math.log(2) + log(self.scale))

    def _mean(self) -> Tensor:
        return self._to_batch(self.loc)

    def _mode(self) -> Tensor:
        return self._mean()

    def _stddev(self) -> Tensor:
        return self._to_batch(2**0.5 * self.scale)

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale


def _share_below(z: Tensor) -> Tensor:
    """The share of standard Laplace numbers below z."""
    outside = exp(negative(abs(z))) / 2
    return select(z < 0, outside, 1 - outside)


def _log_share_below(z: Tensor) -> Tensor:
    """Its logarithm."""
    return select(z < 0, z - math.log(2), log1p(exp(negative(abs(z))) / -2))
