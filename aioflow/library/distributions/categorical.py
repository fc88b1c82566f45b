"""The categorical distribution."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.ranges import one_hot
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape, shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import negative
from aioflow.kernels.math.no_nan import multiply_no_nan
from aioflow.kernels.math.random import multinomial
from aioflow.kernels.math.reduction import argmax, reduce_sum
from aioflow.kernels.nn.softmax import log_softmax, softmax
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution
from aioflow.library.distributions.divergence import RegisterKL
from aioflow.library.distributions.parameters import checked, logits_and_probs, whole
from aioflow.library.distributions.reparameterization import NOT_REPARAMETERIZED
from aioflow.tensors.dtypes import DTypeLike, int32


class Categorical(Distribution):
    """One of some classes, with the probabilities `probs` or softmax(`logits`) along the last axis.

    The cdf of a class counts its own probability, too.

    Raises:
        ValueError: both of `logits` and `probs` are given, or none, or they are scalars.

    Examples:
        >>> die = af.distributions.Categorical(probs=[0.25, 0.5, 0.25])
        >>> await session.run([die.prob([0, 1]), die.cdf(1), die.mode()])
        [array([0.25, 0.5 ], dtype=float32), np.float32(0.75), np.int32(1)]
    """

    def __init__(
        self,
        logits: NumberLike | None = None,
        probs: NumberLike | None = None,
        dtype: DTypeLike = int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name) as scope:
            self.logits, self.probs = logits_and_probs(logits, probs, validate_args, classes=True)
            self.event_size = shape(self.logits)[-1]
            parts = [self.logits[..., 0]]
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        sizes = concat([self._sizes(n), reshape(self.event_size, [1])], 0)
        rows = reshape(broadcast_to(self.logits, sizes), concat([[-1], sizes[-1:]], 0))
        return cast(reshape(multinomial(rows, 1, seed), sizes[:-1]), self.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        return reduce_sum(multiply_no_nan(log_softmax(self.logits), self._chosen(value)), -1)

    def _chosen(self, value: Tensor) -> Tensor:
        """1 for the class of each value, 0 for others."""
        size = cast(self.event_size, value.dtype)
        value = checked(self.validate_args, value, whole(value) & (value < size), "a value is one of the classes, not")
        return one_hot(cast(value, int32), self.event_size, dtype=self.logits.dtype)

    def _cdf(self, value: Tensor) -> Tensor:
        classes = cast(range_(self.event_size), value.dtype)
        reached = cast(classes <= expand_dims(value, -1), self.probs.dtype)
        return reduce_sum(self.probs * reached, -1)

    def _entropy(self) -> Tensor:
        return negative(reduce_sum(multiply_no_nan(log_softmax(self.logits), self.probs), -1))

    def _mode(self) -> Tensor:
        return cast(argmax(self.logits, -1), self.dtype)


@RegisterKL(Categorical, Categorical)
def _from_categorical_to_categorical(a: Categorical, b: Categorical, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_categorical_categorical"):
        return reduce_sum(softmax(a.logits) * (log_softmax(a.logits) - log_softmax(b.logits)), -1)
