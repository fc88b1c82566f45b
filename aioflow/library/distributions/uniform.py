"""The uniform distribution."""

import math
from typing import ClassVar

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.select import select
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.elementwise import log
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.math.rounding import is_nan
from aioflow.library.control import name_scope
from aioflow.library.distributions.distribution import Distribution
from aioflow.library.distributions.parameters import checked, floats, spread
from aioflow.library.distributions.reparameterization import FULLY_REPARAMETERIZED


class Uniform(Distribution):
    """Numbers from `low` up to but not `high`, each as likely as the next.

    Examples:
        >>> await session.run(af.distributions.Uniform(low=1.0, high=[3.0, 5.0]).prob(2.0))
        array([0.5 , 0.25], dtype=float32)
    """

    _scalars: ClassVar[tuple[str, ...]] = ("low", "high")

    def __init__(
        self,
        low: NumberLike = 0.0,
        high: NumberLike = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[low, high]) as scope:
            self.low, top = floats(low, high)
            self.high = checked(validate_args, top, self.low < top, "low must be below high, and high is")
            parts = [self.low, self.high]
        super().__init__(self.low.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, arguments, parts, scope)

    def range(self, name: str = "range") -> Tensor:
        """How far `high` lies above `low`."""
        with self._scope(name):
            return self.high - self.low

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return self.low + self.range() * random_uniform(self._sizes(n), dtype=self.dtype, seed=seed)

    def _prob(self, value: Tensor) -> Tensor:
        value, low, high = spread(value, self.low, self.high)
        inside = (value >= low) & (value < high)
        return select(is_nan(value), value, select(inside, 1 / (high - low), constant(0, self.dtype)))

    def _log_prob(self, value: Tensor) -> Tensor:
        value, low, high = spread(value, self.low, self.high)
        inside = (value >= low) & (value < high)
        return select(is_nan(value), value, select(inside, -log(high - low), constant(-math.inf, self.dtype)))

    def _cdf(self, value: Tensor) -> Tensor:
        value, low, high = spread(value, self.low, self.high)
        return select(value >= high, constant(1, self.dtype), maximum((value - low) / (high - low), 0.0))

    def _entropy(self) -> Tensor:
        return log(self.range())

    def _mean(self) -> Tensor:
        return (self.low + self.high) / 2

    def _stddev(self) -> Tensor:
        return self.range() / 12**0.5
