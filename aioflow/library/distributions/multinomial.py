"""How often each class is drawn: with probabilities that are known, or that are drawn themselves."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.ranges import one_hot
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape, shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.math.elementwise import log
from aioflow.kernels.math.gamma import lbeta, lgamma
from aioflow.kernels.math.no_nan import multiply_no_nan
from aioflow.kernels.math.random import multinomial
from aioflow.kernels.math.random_distributions import random_gamma
from aioflow.kernels.math.reduction import reduce_max, reduce_sum
from aioflow.kernels.nn.softmax import log_softmax
from aioflow.library.control import name_scope
from aioflow.library.distributions.dirichlet import covariance_of_shares, vectors
from aioflow.library.distributions.distribution import Distribution, further_seed
from aioflow.library.distributions.parameters import checked, floats, logits_and_probs, whole
from aioflow.library.distributions.reparameterization import NOT_REPARAMETERIZED
from aioflow.tensors.dtypes import int32


class Multinomial(Distribution):
    """How often each class comes up in `total_count` draws, with the probabilities `probs` or softmax(`logits`).

    Sampling takes memory for each draw: the largest of the counts, for each sample of each of the batch.

    Raises:
        ValueError: both of `logits` and `probs` are given, or none, or they are scalars.

    Examples:
        >>> counts = af.distributions.Multinomial(total_count=4.0, probs=[0.25, 0.75])
        >>> await session.run(counts.mean())
        array([1., 3.], dtype=float32)
        >>> (await session.run(counts.sample(3))).sum(-1).tolist()
        [4.0, 4.0, 4.0]
    """

    def __init__(
        self,
        total_count: NumberLike,
        logits: NumberLike | None = None,
        probs: NumberLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[total_count]) as scope:
            self.logits, self.probs = logits_and_probs(logits, probs, validate_args, classes=True)
            self.total_count = _totals(total_count, self.logits, validate_args)
            parts = [self.total_count, self.logits[..., 0]]
        dtype = self.logits.dtype
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)
        self._event_part = self.logits

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        sizes = self._sizes(n)
        odds = broadcast_to(self.logits, concat([sizes, shape(self.logits)[-1:]], 0))
        return _drawn(odds, broadcast_to(self.total_count, sizes), seed)

    def _log_prob(self, value: Tensor) -> Tensor:
        value = _counts(value, self.total_count, self.validate_args)
        return _log_orders(self.total_count, value) + reduce_sum(multiply_no_nan(log_softmax(self.logits), value), -1)

    def _mean(self) -> Tensor:
        return expand_dims(self.total_count, -1) * self.probs

    def _variance(self) -> Tensor:
        return self._mean() * (1 - self.probs)

    def _covariance(self) -> Tensor:
        return expand_dims(expand_dims(self.total_count, -1), -1) * covariance_of_shares(self.probs)


class DirichletMultinomial(Distribution):
    """How often each class comes up in `total_count` draws, with probabilities drawn from Dirichlet(`concentration`).

    Sampling takes memory for each draw: the largest of the counts, for each sample of each of the batch.

    Examples:
        >>> counts = af.distributions.DirichletMultinomial(total_count=2.0, concentration=[1.0, 1.0])
        >>> await session.run(counts.prob([[2.0, 0.0], [1.0, 1.0]]))
        array([0.3333333, 0.3333333], dtype=float32)
    """

    def __init__(
        self,
        total_count: NumberLike,
        concentration: NumberLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[total_count, concentration]) as scope:
            self.concentration = vectors(concentration, validate_args, "concentration")
            self.total_concentration = reduce_sum(self.concentration, -1)
            self.total_count = _totals(total_count, self.concentration, validate_args)
            parts = [self.total_count, self.total_concentration]
        dtype = self.concentration.dtype
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)
        self._event_part = self.concentration

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        sizes = self._sizes(n)
        weights = broadcast_to(self.concentration, concat([sizes, self.event_shape_tensor()], 0))
        chances = random_gamma([], weights, dtype=self.dtype, seed=seed)
        totals = broadcast_to(self.total_count, sizes)
        return _drawn(log(chances), totals, further_seed(seed, "dirichlet_multinomial"))

    def _log_prob(self, value: Tensor) -> Tensor:
        value = _counts(value, self.total_count, self.validate_args)
        shares = lbeta(self.concentration + value) - lbeta(self.concentration)
        return _log_orders(self.total_count, value) + shares

    def _mean(self) -> Tensor:
        return expand_dims(self.total_count, -1) * self._shares()

    def _variance(self) -> Tensor:
        return self._mean() * (1 - self._shares()) * expand_dims(self._excess(), -1)

    def _covariance(self) -> Tensor:
        scale = expand_dims(expand_dims(self.total_count * self._excess(), -1), -1)
        return scale * covariance_of_shares(self._shares())

    def _shares(self) -> Tensor:
        return self.concentration / expand_dims(self.total_concentration, -1)

    def _excess(self) -> Tensor:
        """How much larger variances are than with probabilities that are known."""
        return (self.total_count + self.total_concentration) / (1 + self.total_concentration)


def _totals(total_count: NumberLike, like: Tensor, validate_args: bool) -> Tensor:
    """How many draws, in the dtype of the other parameters."""
    _, total = floats(like, total_count)
    return checked(validate_args, total, whole(total), "total_count must be a whole number from 0 on, not")


def _counts(value: Tensor, total: Tensor, validate_args: bool) -> Tensor:
    value = checked(validate_args, value, whole(value), "counts must be whole numbers from 0 on, not")
    return checked(validate_args, value, equal(reduce_sum(value, -1), total), "counts must sum to total_count, and are")


def _log_orders(total: Tensor, counts: Tensor) -> Tensor:
    """The logarithm of the number of orders in which the classes can come up so often."""
    return lgamma(total + 1) - reduce_sum(lgamma(counts + 1), -1)


def _drawn(logits: Tensor, totals: Tensor, seed: int | None) -> Tensor:
    """How often each class along the last axis of `logits` comes up in `totals` draws."""
    classes, most = shape(logits)[-1:], cast(reduce_max(totals), int32)
    draws = multinomial(reshape(logits, concat([[-1], classes], 0)), most, seed, output_dtype=int32)
    counted = cast(range_(most), totals.dtype) < reshape(totals, [-1, 1])
    ones = one_hot(draws, classes[0], dtype=logits.dtype) * expand_dims(cast(counted, logits.dtype), -1)
    return reshape(reduce_sum(ones, 1), shape(logits))
