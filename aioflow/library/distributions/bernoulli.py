"""The Bernoulli distribution."""

from typing import ClassVar

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import negative, sigmoid
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.nn.activation import softplus
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution
from aioflow.library.distributions.divergence import RegisterKL
from aioflow.library.distributions.parameters import checked, logits_and_probs
from aioflow.library.distributions.reparameterization import NOT_REPARAMETERIZED
from aioflow.tensors.dtypes import DTypeLike, int32


class Bernoulli(Distribution):
    """1 with the probability `probs`, else 0; `logits` are the log odds, log(probs / (1 - probs)).

    Raises:
        ValueError: both of `logits` and `probs` are given, or none.

    Examples:
        >>> coin = af.distributions.Bernoulli(probs=[0.25, 0.75])
        >>> await session.run([coin.prob(1), coin.mode()])
        [array([0.25, 0.75], dtype=float32), array([0, 1], dtype=int32)]
    """

    _scalars: ClassVar[tuple[str, ...]] = ("logits",)

    def __init__(
        self,
        logits: NumberLike | None = None,
        probs: NumberLike | None = None,
        dtype: DTypeLike = int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name) as scope:
            self.logits, self.probs = logits_and_probs(logits, probs, validate_args, classes=False)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, [self.probs], scope)

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        share = random_uniform(self._sizes(n), dtype=self.probs.dtype, seed=seed)
        return cast(share < self.probs, self.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        value = cast(value, self.logits.dtype)
        value = checked(self.validate_args, value, value * (1 - value) >= 0, "a value lies between 0 and 1, but not")
        return value * self.logits - softplus(self.logits)

    def _entropy(self) -> Tensor:
        return softplus(negative(self.logits)) + self.logits * sigmoid(negative(self.logits))

    def _mean(self) -> Tensor:
        return self.probs + 0.0

    def _variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _mode(self) -> Tensor:
        return cast(self.probs > 0.5, self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _from_bernoulli_to_bernoulli(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_bernoulli_bernoulli"):
        ones = softplus(negative(b.logits)) - softplus(negative(a.logits))
        zeros = softplus(b.logits) - softplus(a.logits)
        return sigmoid(a.logits) * ones + sigmoid(negative(a.logits)) * zeros
