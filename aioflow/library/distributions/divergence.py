"""Divergences between distributions: a function for each pair of classes, found by the classes of two objects."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aioflow.graph.building import transactional
from aioflow.graph.operation import Tensor
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.math.comparison import logical_not
from aioflow.kernels.math.reduction import reduce_any
from aioflow.kernels.math.rounding import is_nan
from aioflow.library.control import name_scope, with_dependencies

if TYPE_CHECKING:
    from aioflow.library.distributions.distribution import Distribution

Divergence = Callable[..., Tensor]
F = TypeVar("F", bound=Divergence)
_DIVERGENCES: Final[dict[tuple[type[Any], type[Any]], Divergence]] = {}


class RegisterKL:
    """Decorate a function (a, b, name=None) that builds the divergence between distributions of these two classes.

    It holds for subclasses, too, where no function is registered for a nearer pair of classes.

    Raises:
        ValueError: the pair has a function already.

    Examples:
        >>> class Sure(af.distributions.Distribution):
        ...     pass
        >>> @af.distributions.RegisterKL(Sure, Sure)
        ... def between(a, b, name=None):
        ...     return af.constant(0.0, name=name)
    """

    def __init__(self, dist_cls_a: type[Distribution], dist_cls_b: type[Distribution]) -> None:
        self._key = dist_cls_a, dist_cls_b

    def __call__(self, kl_fn: F) -> F:
        """Register the function, and return it."""
        if not callable(kl_fn):
            raise TypeError(f"RegisterKL decorates a function, not {kl_fn!r}")
        if self._key in _DIVERGENCES:
            first, second = (kind.__name__ for kind in self._key)
            raise ValueError(f"KL({first} || {second}) is already registered to {_DIVERGENCES[self._key]}")
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn


@transactional
def kl_divergence(
    distribution_a: Distribution, distribution_b: Distribution, allow_nan_stats: bool = True, name: str | None = None
) -> Tensor:
    """The Kullback-Leibler divergence from a to b, the mean of log(a(x) / b(x)) for x of a, for each of the batch.

    Args:
        distribution_a: the distribution of x.
        distribution_b: the one that it is compared with.
        allow_nan_stats: if it is False, a NaN fails the step with InvalidArgumentError.
        name: a scope for the operations.

    Raises:
        NotImplementedError: no function is registered for the two classes; see RegisterKL.

    Examples:
        >>> near, far = af.distributions.Normal(0.0, 1.0), af.distributions.Normal([0.0, 3.0], 1.0)
        >>> await session.run(af.distributions.kl_divergence(near, far))
        array([0. , 4.5], dtype=float32)
    """
    formula = _registered(type(distribution_a), type(distribution_b))
    with name_scope(name, "KullbackLeibler"):
        found = formula(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return found
        what = f"the divergence from {distribution_a.name} to {distribution_b.name} is NaN"
        fine = Assert(logical_not(reduce_any(is_nan(found))), [what, found])
        checked: Tensor = with_dependencies([fine], found)
        return checked


def _registered(first: type[Any], second: type[Any]) -> Divergence:
    """The function of the pair of classes with the fewest steps up the two lists of bases."""
    pairs = itertools.product(enumerate(first.__mro__), enumerate(second.__mro__))
    found = [(i + j, _DIVERGENCES[a, b]) for (i, a), (j, b) in pairs if (a, b) in _DIVERGENCES]
    if not found:
        raise NotImplementedError(
            f"no divergence of {first.__name__} and {second.__name__} is known: register one by RegisterKL"
        )
    return min(found, key=lambda each: each[0])[1]
