"""Student's t distribution."""

import math
from typing import ClassVar

import numpy as np

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, ones_like
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.elementwise import abs, log, log1p, rsqrt, square
from aioflow.kernels.math.gamma import digamma, lgamma
from aioflow.kernels.math.incomplete_beta import betainc
from aioflow.kernels.math.random import random_normal
from aioflow.kernels.math.random_distributions import random_gamma
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution, further_seed
from aioflow.library.distributions.parameters import floats, positive
from aioflow.library.distributions.reparameterization import FULLY_REPARAMETERIZED


class StudentT(Distribution):
    """Student's t distributions of `df` degrees of freedom, around `loc`; of the sign of `scale` nothing depends.

    Examples:
        >>> student = af.distributions.StudentT(df=[1.0, 2.0, 3.0], loc=0.0, scale=1.0)
        >>> await session.run(student.variance())
        array([nan, inf,  3.], dtype=float32)
    """

    _scalars: ClassVar[tuple[str, ...]] = ("df", "loc", "scale")

    def __init__(
        self,
        df: NumberLike,
        loc: NumberLike,
        scale: NumberLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[df, loc, scale]) as scope:
            freedom, self.loc, self.scale = floats(df, loc, scale)
            self.df = positive(validate_args, freedom, "df")
            parts = [self.df, self.loc, self.scale]
        super().__init__(self.loc.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        normal = random_normal(self._sizes(n), dtype=self.dtype, seed=seed)
        half, beta = self._to_batch(self.df / 2), constant(0.5, self.dtype)
        squares = random_gamma(reshape(n, [1]), half, beta, self.dtype, further_seed(seed, "student_t"))
        return self.loc + self.scale * normal * rsqrt(squares / self.df)

    def _log_prob(self, value: Tensor) -> Tensor:
        powers = (self.df + 1) / -2 * log1p(square(self._z(value)) / self.df)
        norm = (log(self.df) + math.log(math.pi)) / 2 + lgamma(self.df / 2) - lgamma((self.df + 1) / 2)
        return powers - log(abs(self.scale)) - norm

    def _cdf(self, value: Tensor) -> Tensor:
        z = self._z(value)
        outside = betainc(self.df / 2, constant(0.5, self.dtype), self.df / (square(z) + self.df)) / 2
        return select(z < 0, outside, 1 - outside)

    def _entropy(self) -> Tensor:
        half, more = self.df / 2, (self.df + 1) / 2
        log_beta = 0.5 * math.log(math.pi) + lgamma(half) - lgamma(more)
        spread = log(abs(self.scale)) + log(self.df) / 2
        return self._to_batch(spread + log_beta + more * (digamma(more) - digamma(half)))

    def _mean(self) -> Tensor:
        return self._defined(self._to_batch(self.loc), self.df > 1, "the mean needs df above 1, and would be")

    def _variance(self) -> Tensor:
        finite = self.df > 2
        ratio = self.df / (select(finite, self.df, 3 * ones_like(self.df)) - 2)
        known = self._to_batch(select(finite, ratio * square(self.scale), constant(np.inf, self.dtype)))
        return self._defined(known, self.df > 1, "the variance needs df above 1, and would be")

    def _mode(self) -> Tensor:
        return self._to_batch(self.loc)

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / abs(self.scale)
