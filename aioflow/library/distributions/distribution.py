"""The base of all distributions: shapes, names of operations, and how one method follows from another."""

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.array.partition import broadcast_static_shape
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import broadcast_to, reshape, shape, size
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.math.elementwise import exp, log, log1p, negative, sqrt, square
from aioflow.kernels.math.reduction import reduce_all, reduce_prod
from aioflow.library.control import name_scope, with_dependencies
from aioflow.library.distributions.divergence import kl_divergence
from aioflow.library.distributions.parameters import common_shape
from aioflow.library.distributions.reparameterization import ReparameterizationType
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype, int32
from aioflow.tensors.shape import TensorShape

D = TypeVar("D", bound="Distribution")


def _rest(share: Tensor) -> Tensor:
    return 1 - share


def _log_rest(share: Tensor) -> Tensor:
    return log1p(negative(share))


_WAYS: Final[Mapping[str, tuple[tuple[str, Callable[..., Any]], ...]]] = {
    "prob": (("_prob", identity), ("_log_prob", exp)),
    "log_prob": (("_log_prob", identity), ("_prob", log)),
    "cdf": (("_cdf", identity), ("_log_cdf", exp)),
    "log_cdf": (("_log_cdf", identity), ("_cdf", log)),
    "survival_function": (("_survival_function", identity), ("_cdf", _rest)),
    "log_survival_function": (("_log_survival_function", identity), ("_cdf", _log_rest)),
    "stddev": (("_stddev", identity), ("_variance", sqrt)),
    "variance": (("_variance", identity), ("_stddev", square)),
}
"""The formulas of a class from which each method may follow, the best first, and how it does."""


class Distribution:
    """A batch of distributions: a shape of batches, each with parameters of its own, and a shape of one event.

    A subclass defines `_batch_parts`, tensors that broadcast to the shape of the batch, `_sample_n(n, seed)`, of shape
    [n, *batch, *event], and of `_log_prob`, `_prob`, `_cdf`, `_log_cdf`, `_survival_function`,
    `_log_survival_function`, `_quantile`, `_mean`, `_mode`, `_variance`, `_stddev`, `_covariance` and `_entropy` those
    that it knows; the methods of these names follow. If its events are vectors it defines `_event_part`, a tensor whose
    last axis is as long as they are.

    Args:
        dtype: the dtype of samples.
        reparameterization_type: whether gradients flow through samples to the parameters.
        validate_args: whether steps check parameters and values, and fail with InvalidArgumentError; without it, wrong
            ones give wrong results or NaN.
        allow_nan_stats: whether a statistic that is undefined is NaN; if not, the step that computes it fails.
        parameters: the arguments of the subclass, for `copy`.
        graph_parents: the tensors of the parameters.
        name: a scope for all operations.

    Examples:
        >>> class Sure(af.distributions.Distribution):
        ...     def __init__(self, value):
        ...         self.value = af.constant(value)
        ...         super().__init__(self.value.dtype, af.distributions.FULLY_REPARAMETERIZED, False, True)
        ...         self._batch_parts = [self.value]
        ...     def _prob(self, value):
        ...         return af.cast(af.equal(value, self.value), af.float32)
        >>> await session.run(Sure([2.0, 3.0]).log_prob(2.0))
        array([  0., -inf], dtype=float32)
    """

    _scalars: ClassVar[tuple[str, ...]] = ()
    """The names of the parameters, where each is a number for each of the batch."""

    def __init__(
        self,
        dtype: DTypeLike,
        reparameterization_type: ReparameterizationType,
        validate_args: bool,
        allow_nan_stats: bool,
        parameters: Mapping[str, Any] | None = None,
        graph_parents: Sequence[Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        given = parameters or {}
        self._dtype = as_dtype(dtype)
        self._reparameterization_type = reparameterization_type
        self._validate_args = validate_args
        self._allow_nan_stats = allow_nan_stats
        self._parameters = {key: given[key] for key in given if key != "self" and not key.startswith("_")}
        self._batch_parts: Sequence[Tensor] = graph_parents or ()
        self._event_part: Tensor | None = None
        self._name = name or type(self).__name__

    # What it was made of

    @classmethod
    def param_shapes(cls, sample_shape: NumberLike, name: str = "DistributionParamShapes") -> dict[str, Tensor]:
        """The shape of each parameter, as a tensor, for which a sample without a shape of its own has `sample_shape`.

        Raises:
            NotImplementedError: the parameters of the class are no numbers.
        """
        with name_scope(name):
            return {key: convert_to_tensor(sample_shape, int32) for key in cls._known_scalars()}

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, TensorShape]:
        """The same as `param_shapes`, for a shape that is known."""
        return {key: TensorShape(sample_shape) for key in cls._known_scalars()}

    @classmethod
    def _known_scalars(cls) -> tuple[str, ...]:
        if not cls._scalars:
            raise NotImplementedError(f"the shapes of the parameters of {cls.__name__} do not follow from a sample's")
        return cls._scalars

    @property
    def name(self) -> str:
        """The scope of its operations."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The dtype of samples."""
        return self._dtype

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments it was made of, by name."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """FULLY_REPARAMETERIZED if gradients flow through samples, else NOT_REPARAMETERIZED."""
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        """Whether a statistic that is undefined is NaN; if not, its step fails."""
        return self._allow_nan_stats

    @property
    def validate_args(self) -> bool:
        """Whether steps check parameters and values."""
        return self._validate_args

    def copy(self: D, **override_parameters_kwargs: Any) -> D:
        """A distribution of the same class, whose arguments are the same but for those given here."""
        return type(self)(**{**self._parameters, **override_parameters_kwargs})

    def __repr__(self) -> str:
        sizes = f"batch_shape={self.batch_shape} event_shape={self.event_shape}"
        return f"<af.distributions.{type(self).__name__} {self._name!r} {sizes} dtype={self._dtype.name}>"

    # Shapes

    @property
    def batch_shape(self) -> TensorShape:
        """The shape of the batch, as far as it is known."""
        return functools.reduce(broadcast_static_shape, [part.shape for part in self._batch_parts], TensorShape([]))

    @property
    def event_shape(self) -> TensorShape:
        """The shape of one event, as far as it is known."""
        return TensorShape([]) if self._event_part is None else self._event_part.shape[-1:]

    @transactional
    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The shape of the batch, as a vector."""
        with self._scope(name):
            return identity(common_shape(self._batch_parts))

    @transactional
    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event, as a vector."""
        with self._scope(name):
            return constant([], int32, [0]) if self._event_part is None else shape(self._event_part)[-1:]

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        """Whether it is one distribution, without a batch."""
        with self._scope(name):
            return equal(size(self.batch_shape_tensor()), 0)

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        """Whether an event is a scalar."""
        with self._scope(name):
            return equal(size(self.event_shape_tensor()), 0)

    # Samples and probabilities

    @transactional
    def sample(self, sample_shape: NumberLike = (), seed: int | None = None, name: str = "sample") -> Tensor:
        """Events of each of the batch: [*sample_shape, *batch, *event]. See `get_seed` for the seed."""
        with self._scope(name):
            sizes = reshape(convert_to_tensor(sample_shape, int32), [-1])
            events = self._sample_n(reduce_prod(sizes), seed)
            return reshape(events, concat([sizes, shape(events)[1:]], 0))

    def prob(self, value: NumberLike, name: str = "prob") -> Tensor:
        """The probability of a value, or the density there."""
        return self._following("prob", name, value)

    def log_prob(self, value: NumberLike, name: str = "log_prob") -> Tensor:
        """The logarithm of `prob`."""
        return self._following("log_prob", name, value)

    def cdf(self, value: NumberLike, name: str = "cdf") -> Tensor:
        """The probability that an event is at most `value`."""
        return self._following("cdf", name, value)

    def log_cdf(self, value: NumberLike, name: str = "log_cdf") -> Tensor:
        """The logarithm of `cdf`."""
        return self._following("log_cdf", name, value)

    def survival_function(self, value: NumberLike, name: str = "survival_function") -> Tensor:
        """The probability that an event is above `value`: 1 - cdf."""
        return self._following("survival_function", name, value)

    def log_survival_function(self, value: NumberLike, name: str = "log_survival_function") -> Tensor:
        """The logarithm of `survival_function`."""
        return self._following("log_survival_function", name, value)

    def quantile(self, value: NumberLike, name: str = "quantile") -> Tensor:
        """The number whose cdf is `value`."""
        return self._following("quantile", name, value)

    # Statistics

    def mean(self, name: str = "mean") -> Tensor:
        """The mean of events."""
        return self._following("mean", name)

    def mode(self, name: str = "mode") -> Tensor:
        """The likeliest event."""
        return self._following("mode", name)

    def variance(self, name: str = "variance") -> Tensor:
        """The mean square of the distance of events from their mean, for each element of an event."""
        return self._following("variance", name)

    def stddev(self, name: str = "stddev") -> Tensor:
        """The square root of `variance`."""
        return self._following("stddev", name)

    def covariance(self, name: str = "covariance") -> Tensor:
        """The covariances of the elements of an event: [*batch, elements, elements]."""
        return self._following("covariance", name)

    def entropy(self, name: str = "entropy") -> Tensor:
        """The mean of -log_prob, in nats."""
        return self._following("entropy", name)

    def cross_entropy(self, other: "Distribution", name: str = "cross_entropy") -> Tensor:
        """The mean of -other.log_prob(x) for events x of this one: its entropy and the divergence from `other`."""
        with self._scope(name):
            return self.entropy() + self.kl_divergence(other)

    def kl_divergence(self, other: "Distribution", name: str = "kl_divergence") -> Tensor:
        """The Kullback-Leibler divergence from this one to `other`; see `af.distributions.kl_divergence`."""
        with self._scope(name):
            return kl_divergence(self, other, self._allow_nan_stats)

    # For subclasses

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no sample")

    @transactional
    def _following(self, what: str, name: str, *values: NumberLike) -> Tensor:
        """What a method gives: from the first of its formulas that the class has."""
        for formula, then in _WAYS.get(what, ((f"_{what}", identity),)):
            if hasattr(self, formula):
                with self._scope(name):
                    given = [convert_to_tensor(value, preferred_dtype=self._dtype) for value in values]
                    result: Tensor = then(getattr(self, formula)(*given))
                    return result
        raise NotImplementedError(f"{type(self).__name__} has no {what}")

    @contextlib.contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        """Operations built inside are named below the distribution's scope."""
        with name_scope(f"{self._name.rstrip('/')}/", values=self._batch_parts), name_scope(name):
            yield

    def _sizes(self, n: Tensor) -> Tensor:
        """The shape [n, *batch], as a vector."""
        return concat([reshape(n, [1]), common_shape(self._batch_parts)], 0)

    def _to_batch(self, statistic: Tensor) -> Tensor:
        """The statistic, for each of the batch."""
        return broadcast_to(statistic, common_shape(self._batch_parts))

    def _defined(self, statistic: Tensor, where: Tensor, requirement: str) -> Tensor:
        """The statistic; where it is undefined, NaN, or the step fails, as the user asked."""
        if self._allow_nan_stats:
            return select(where, statistic, constant(np.nan, statistic.dtype))
        found: Tensor = with_dependencies([Assert(reduce_all(where), [requirement, statistic])], statistic)
        return found


def further_seed(seed: int | None, use: str) -> int | None:
    """A seed for a second draw of one call; None of None."""
    if seed is None:
        return None
    return int.from_bytes(hashlib.sha256(f"{seed} {use}".encode()).digest()[:4], "little") >> 1
