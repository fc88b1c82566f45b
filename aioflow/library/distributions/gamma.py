"""The gamma distribution, and the exponential distribution, which is one of its kind."""

from typing import ClassVar

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.division import xlogy
from aioflow.kernels.math.elementwise import log, log1p, negative, sqrt, square
from aioflow.kernels.math.gamma import digamma, igamma, igammac, lgamma
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.math.random_distributions import random_gamma
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution
from aioflow.library.distributions.divergence import RegisterKL
from aioflow.library.distributions.parameters import floats, positive
from aioflow.library.distributions.reparameterization import FULLY_REPARAMETERIZED


class Gamma(Distribution):
    """Gamma distributions of the shape `concentration`, at the inverse scale `rate`.

    Examples:
        >>> gamma = af.distributions.Gamma(concentration=[2.0, 6.0], rate=2.0)
        >>> await session.run([gamma.mean(), gamma.variance()])
        [array([1., 3.], dtype=float32), array([0.5, 1.5], dtype=float32)]
    """

    _scalars: ClassVar[tuple[str, ...]] = ("concentration", "rate")

    def __init__(
        self,
        concentration: NumberLike,
        rate: NumberLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[concentration, rate]) as scope:
            first, second = floats(concentration, rate)
            self.concentration = positive(validate_args, first, "concentration")
            self.rate = positive(validate_args, second, "rate")
            parts = [self.concentration, self.rate]
        super().__init__(
            self.rate.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope
        )

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return random_gamma(reshape(n, [1]), self.concentration, self.rate, self.dtype, seed)

    def _log_prob(self, value: Tensor) -> Tensor:
        return xlogy(self.concentration - 1, value) - self.rate * value - self._log_norm()

    def _log_norm(self) -> Tensor:
        return lgamma(self.concentration) - self.concentration * log(self.rate)

    def _cdf(self, value: Tensor) -> Tensor:
        return igamma(self.concentration, self.rate * value)

    def _survival_function(self, value: Tensor) -> Tensor:
        return igammac(self.concentration, self.rate * value)

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return log(self._survival_function(value))

    def _entropy(self) -> Tensor:
        shape = self.concentration
        return shape - log(self.rate) + lgamma(shape) + (1 - shape) * digamma(shape)

    def _mean(self) -> Tensor:
        return self.concentration / self.rate

    def _variance(self) -> Tensor:
        return self.concentration / square(self.rate)

    def _stddev(self) -> Tensor:
        return sqrt(self.concentration) / self.rate

    def _mode(self) -> Tensor:
        likeliest = (self.concentration - 1) / self.rate
        return self._defined(likeliest, self.concentration > 1, "the mode needs a concentration above 1, and was")


class Exponential(Gamma):
    """Exponential distributions: the times between events of which `rate` happen in one unit of time.

    Examples:
        >>> await session.run(af.distributions.Exponential(rate=[1.0, 2.0]).survival_function(1.0))
        array([0.36787945, 0.13533528], dtype=float32)
    """

    _scalars: ClassVar[tuple[str, ...]] = ("rate",)

    def __init__(
        self, rate: NumberLike, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Exponential"
    ) -> None:
        own = {"rate": rate, "validate_args": validate_args, "allow_nan_stats": allow_nan_stats, "name": name}
        (speed,) = floats(rate)
        super().__init__(ones_like(speed), speed, validate_args, allow_nan_stats, name)
        self._parameters = own

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        share = random_uniform(self._sizes(n), dtype=self.dtype, seed=seed)
        return negative(log1p(negative(share))) / self.rate

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return negative(self.rate * value)


@RegisterKL(Gamma, Gamma)
def _from_gamma_to_gamma(a: Gamma, b: Gamma, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_gamma_gamma"):
        shapes = (a.concentration - b.concentration) * digamma(a.concentration)
        norms = lgamma(b.concentration) - lgamma(a.concentration)
        rates = b.concentration * (log(a.rate) - log(b.rate)) + a.concentration * (b.rate / a.rate - 1)
        return shapes + norms + rates
