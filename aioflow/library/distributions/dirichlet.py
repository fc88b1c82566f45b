"""The Dirichlet distribution."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.linalg.diagonals import matrix_diag
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.division import xlogy
from aioflow.kernels.math.elementwise import abs
from aioflow.kernels.math.gamma import digamma, lbeta
from aioflow.kernels.math.random_distributions import random_gamma
from aioflow.kernels.math.reduction import reduce_all, reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution
from aioflow.library.distributions.divergence import RegisterKL
from aioflow.library.distributions.parameters import checked, floats, positive
from aioflow.library.distributions.reparameterization import FULLY_REPARAMETERIZED


class Dirichlet(Distribution):
    """Dirichlet distributions of shares that sum to 1, one for each number along the last axis of `concentration`.

    Raises:
        ValueError: `concentration` is a scalar.

    Examples:
        >>> shares = af.distributions.Dirichlet([1.0, 2.0, 5.0])
        >>> await session.run(shares.mean())
        array([0.125, 0.25 , 0.625], dtype=float32)
        >>> (await session.run(shares.sample(4))).sum(-1).round(4).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        concentration: NumberLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Dirichlet",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[concentration]) as scope:
            self.concentration = vectors(concentration, validate_args, "concentration")
            self.total_concentration = reduce_sum(self.concentration, -1)
        dtype, parts = self.concentration.dtype, [self.total_concentration]
        super().__init__(dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)
        self._event_part = self.concentration

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        numbers = random_gamma(reshape(n, [1]), self.concentration, dtype=self.dtype, seed=seed)
        return numbers / reduce_sum(numbers, -1, keepdims=True)

    def _log_prob(self, value: Tensor) -> Tensor:
        off = abs(reduce_sum(value, -1) - 1)
        value = checked(self.validate_args, value, off < 1e-4, "the shares of a value must sum to 1, not")
        value = checked(self.validate_args, value, value > 0, "the shares of a value must be positive, not")
        return reduce_sum(xlogy(self.concentration - 1, value), -1) - lbeta(self.concentration)

    def _entropy(self) -> Tensor:
        total = self.total_concentration
        powers = reduce_sum((self.concentration - 1) * digamma(self.concentration), -1)
        return lbeta(self.concentration) + (total - self._count()) * digamma(total) - powers

    def _mean(self) -> Tensor:
        return self.concentration / self._total()

    def _variance(self) -> Tensor:
        mean = self._mean()
        return mean * (1 - mean) / (1 + self._total())

    def _covariance(self) -> Tensor:
        return covariance_of_shares(self._mean()) / expand_dims(1 + self._total(), -1)

    def _mode(self) -> Tensor:
        likeliest = (self.concentration - 1) / expand_dims(self.total_concentration - self._count(), -1)
        above = reduce_all(self.concentration > 1, -1, keepdims=True)
        return self._defined(likeliest, above, "the mode needs concentrations above 1, and would be")

    def _total(self) -> Tensor:
        return expand_dims(self.total_concentration, -1)

    def _count(self) -> Tensor:
        """How many shares there are."""
        return cast(self.event_shape_tensor()[0], self.dtype)


def vectors(concentration: NumberLike, validate_args: bool, what: str) -> Tensor:
    """Positive parameters along a last axis."""
    (tensor,) = floats(concentration)
    if tensor.shape.ndims == 0:
        raise ValueError(f"{what} must have an axis of classes, and is a scalar")
    return positive(validate_args, tensor, what)


def covariance_of_shares(shares: Tensor) -> Tensor:
    """The covariances of one draw of a class with these probabilities, as 0 and 1 for each class."""
    return matrix_diag(shares) - expand_dims(shares, -1) * expand_dims(shares, -2)


@RegisterKL(Dirichlet, Dirichlet)
def _from_dirichlet_to_dirichlet(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_dirichlet_dirichlet"):
        slopes = digamma(a.concentration) - expand_dims(digamma(a.total_concentration), -1)
        powers = reduce_sum((a.concentration - b.concentration) * slopes, -1)
        return lbeta(b.concentration) - lbeta(a.concentration) + powers
