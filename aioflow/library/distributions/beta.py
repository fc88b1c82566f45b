"""The beta distribution."""

from typing import ClassVar

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.division import xlogy
from aioflow.kernels.math.elementwise import log1p, negative
from aioflow.kernels.math.gamma import digamma, lgamma
from aioflow.kernels.math.incomplete_beta import betainc
from aioflow.kernels.math.random_distributions import random_gamma
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution, further_seed
from aioflow.library.distributions.divergence import RegisterKL
from aioflow.library.distributions.parameters import checked, floats, positive, spread
from aioflow.library.distributions.reparameterization import FULLY_REPARAMETERIZED


class Beta(Distribution):
    """Beta distributions of shares between 0 and 1: near 1 for a large concentration1, near 0 for a large other.

    Examples:
        >>> beta = af.distributions.Beta(concentration1=[1.0, 3.0], concentration0=1.0)
        >>> await session.run([beta.mean(), beta.prob(0.5)])
        [array([0.5 , 0.75], dtype=float32), array([1.  , 0.75], dtype=float32)]
    """

    _scalars: ClassVar[tuple[str, ...]] = ("concentration1", "concentration0")

    def __init__(
        self,
        concentration1: NumberLike,
        concentration0: NumberLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[concentration1, concentration0]) as scope:
            ones, zeros = floats(concentration1, concentration0)
            self.concentration1 = positive(validate_args, ones, "concentration1")
            self.concentration0 = positive(validate_args, zeros, "concentration0")
            self.total_concentration = self.concentration1 + self.concentration0
        dtype, parts = self.total_concentration.dtype, [self.total_concentration]
        super().__init__(dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        ones, zeros = spread(self.concentration1, self.concentration0)
        first = random_gamma(reshape(n, [1]), ones, dtype=self.dtype, seed=seed)
        second = random_gamma(reshape(n, [1]), zeros, dtype=self.dtype, seed=further_seed(seed, "beta"))
        return first / (first + second)

    def _log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        powers = xlogy(self.concentration1 - 1, value) + (self.concentration0 - 1) * log1p(negative(value))
        return powers - self._log_norm()

    def _cdf(self, value: Tensor) -> Tensor:
        return betainc(self.concentration1, self.concentration0, self._checked(value))

    def _survival_function(self, value: Tensor) -> Tensor:
        return betainc(self.concentration0, self.concentration1, 1 - self._checked(value))

    def _entropy(self) -> Tensor:
        ones, zeros, total = self.concentration1, self.concentration0, self.total_concentration
        powers = (ones - 1) * digamma(ones) + (zeros - 1) * digamma(zeros) - (total - 2) * digamma(total)
        return self._log_norm() - powers

    def _mean(self) -> Tensor:
        return self.concentration1 / self.total_concentration

    def _variance(self) -> Tensor:
        mean = self._mean()
        return mean * (1 - mean) / (1 + self.total_concentration)

    def _mode(self) -> Tensor:
        likeliest = (self.concentration1 - 1) / (self.total_concentration - 2)
        above = (self.concentration1 > 1) & (self.concentration0 > 1)
        return self._defined(likeliest, above, "the mode needs concentrations above 1, and would be")

    def _log_norm(self) -> Tensor:
        return lgamma(self.concentration1) + lgamma(self.concentration0) - lgamma(self.total_concentration)

    def _checked(self, value: Tensor) -> Tensor:
        return checked(self.validate_args, value, (value > 0) & (value < 1), "a value lies between 0 and 1, but not")


@RegisterKL(Beta, Beta)
def _from_beta_to_beta(a: Beta, b: Beta, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_beta_beta"):
        ones = (b.concentration1 - a.concentration1) * digamma(a.concentration1)
        zeros = (b.concentration0 - a.concentration0) * digamma(a.concentration0)
        total = (b.total_concentration - a.total_concentration) * digamma(a.total_concentration)
        return b._log_norm() - a._log_norm() - ones - zeros + total
