"""Learning rates that fall as the global step grows. Each is a tensor to pass to an optimizer.

Each is computed in the dtype of `learning_rate`. The global step is a variable, a tensor or a number of any numeric
dtype.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from aioflow.graph.building import get_default_graph, graph_to_build_in
from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.select import where
from aioflow.kernels.math.arithmetic import minimum, pow
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater
from aioflow.kernels.math.elementwise import cos, exp, log, sqrt
from aioflow.kernels.math.random import random_normal
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.math.rounding import ceil, floor
from aioflow.tensors.dtypes import DType
from aioflow.train.numbers import as_number


@contextmanager
def _scope(default: str, name: str | None, *values: Any) -> Iterator[Graph]:
    """Enter the graph of the values, a name scope and a transaction."""
    found = (getattr(value, "graph", None) for value in values)
    graph = graph_to_build_in(next((graph for graph in found if isinstance(graph, Graph)), None) or get_default_graph())
    with graph.transaction(), graph.as_default(), graph.name_scope(name or default):
        yield graph


def _as_step(global_step: NumberLike, rate: Tensor) -> Tensor:
    if global_step is None:
        raise ValueError("a learning rate that decays needs the global_step")
    return as_number(global_step, rate.dtype)


class Schedule(Protocol):
    """A learning rate that falls with global_step / decay_steps."""

    def __call__(
        self,
        learning_rate: NumberLike,
        global_step: NumberLike,
        decay_steps: NumberLike,
        decay_rate: NumberLike,
        staircase: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Return the rate at the global step; with `staircase` it falls only after whole decay_steps."""


def _schedule(called: str, label: str, formula: Callable[[Tensor, Tensor, Tensor], Tensor], doc: str) -> Schedule:
    """Return the schedule formula(learning_rate, decay_rate, progress), where progress is global_step / decay_steps."""

    def decay(
        learning_rate: NumberLike,
        global_step: NumberLike,
        decay_steps: NumberLike,
        decay_rate: NumberLike,
        staircase: bool = False,
        name: str | None = None,
    ) -> Tensor:
        with _scope(label, name, learning_rate, global_step, decay_steps, decay_rate):
            rate = convert_to_tensor(learning_rate, name="learning_rate")
            progress = _as_step(global_step, rate) / as_number(decay_steps, rate.dtype)
            return formula(rate, as_number(decay_rate, rate.dtype), floor(progress) if staircase else progress)

    decay.__doc__ = doc
    decay.__name__ = decay.__qualname__ = called
    return decay


exponential_decay: Final = _schedule(
    "exponential_decay",
    "ExponentialDecay",
    lambda rate, decay, progress: rate * pow(decay, progress),
    """The rate times decay_rate ^ (global_step / decay_steps); with `staircase` it falls only after whole
    decay_steps.

    Examples:
        >>> await session.run(af.train.exponential_decay(0.1, global_step=20, decay_steps=10, decay_rate=0.5))
        np.float32(0.025)
    """,
)
natural_exp_decay: Final = _schedule(
    "natural_exp_decay",
    "NaturalExpDecay",
    lambda rate, decay, progress: rate * exp(-decay * progress),
    """The rate times exp(-decay_rate * global_step / decay_steps); with `staircase` in steps of decay_steps.

    Examples:
        >>> await session.run(af.train.natural_exp_decay(0.1, global_step=10, decay_steps=10, decay_rate=1.0))
        np.float32(0.036787942)
    """,
)
inverse_time_decay: Final = _schedule(
    "inverse_time_decay",
    "InverseTimeDecay",
    lambda rate, decay, progress: rate / (1 + decay * progress),
    """The rate over 1 + decay_rate * global_step / decay_steps; with `staircase` in steps of decay_steps.

    Examples:
        >>> await session.run(af.train.inverse_time_decay(0.1, global_step=10, decay_steps=10, decay_rate=1.0))
        np.float32(0.05)
    """,
)


def piecewise_constant(
    x: NumberLike, boundaries: Sequence[NumberLike], values: Sequence[NumberLike], name: str | None = None
) -> Tensor:
    """Return `values[0]` up to `boundaries[0]` inclusive, `values[1]` up to the next, and so on; the last value beyond.

    Raises:
        ValueError: the number of values is not that of boundaries plus one, `x` is no scalar, a boundary is not of the
            dtype of `x`, or the values differ in dtype.

    Examples:
        >>> await session.run(af.train.piecewise_constant(af.constant(15), [10, 20], [1.0, 0.5, 0.1]))
        np.float32(0.5)
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(f"{len(boundaries)} boundaries need {len(boundaries) + 1} values, not {len(values)}")
    with _scope("PiecewiseConstant", name, x, *boundaries, *values):
        place = convert_to_tensor(x)
        if not place.shape.is_compatible_with([]):
            raise ValueError(f"x must be a scalar, not of shape {place.shape}")
        rates = _of_one_dtype(values, None)
        if not boundaries:
            return rates[0]
        passed = greater(place, _of_one_dtype(boundaries, place.dtype))
        return gather(rates, reduce_sum(cast(passed, "int32")))


def _of_one_dtype(numbers: Sequence[NumberLike], dtype: DType | None) -> Tensor:
    """Return the numbers as a vector of that dtype, by default of the first one's. ValueError if another differs."""
    try:
        return stack([convert_to_tensor(number, dtype) for number in numbers])
    except TypeError as error:
        raise ValueError(f"boundaries must have the dtype of x, and values one dtype: {error}") from error


piecewise_constant_decay = piecewise_constant


def polynomial_decay(
    learning_rate: NumberLike,
    global_step: NumberLike,
    decay_steps: NumberLike,
    end_learning_rate: NumberLike = 0.0001,
    power: NumberLike = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return a rate that falls to `end_learning_rate` at `decay_steps`, and is constant from there on.

    (learning_rate - end_learning_rate) * (1 - global_step / decay_steps) ^ power + end_learning_rate. With `cycle`
    decay_steps is multiplied, each time it is passed, so that the rate rises again and falls more slowly.

    Examples:
        >>> await session.run(af.train.polynomial_decay(0.1, global_step=5, decay_steps=10, end_learning_rate=0.0))
        np.float32(0.05)
    """
    with _scope("PolynomialDecay", name, learning_rate, global_step, decay_steps, end_learning_rate, power):
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        step, steps = _as_step(global_step, rate), as_number(decay_steps, rate.dtype)
        end, power = as_number(end_learning_rate, rate.dtype), as_number(power, rate.dtype)
        if cycle:
            steps = steps * where(equal(step, 0), 1.0, ceil(step / steps))
        else:
            step = minimum(step, steps)
        return (rate - end) * pow(1 - step / steps, power) + end


def cosine_decay(
    learning_rate: NumberLike,
    global_step: NumberLike,
    decay_steps: NumberLike,
    alpha: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return a rate that falls along half a cosine to `alpha` times its start at `decay_steps`, then stays constant.

    Examples:
        >>> await session.run(af.train.cosine_decay(0.1, global_step=5, decay_steps=10))
        np.float32(0.049999997)
    """
    with _scope("CosineDecay", name, learning_rate, global_step, decay_steps):
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        steps = as_number(decay_steps, rate.dtype)
        completed = minimum(_as_step(global_step, rate), steps) / steps
        falling = 0.5 * (1 + cos(math.pi * completed))
        return rate * ((1 - alpha) * falling + alpha)


def cosine_decay_restarts(
    learning_rate: NumberLike,
    global_step: NumberLike,
    first_decay_steps: NumberLike,
    t_mul: NumberLike = 2.0,
    m_mul: NumberLike = 1.0,
    alpha: NumberLike = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return a rate that falls along half a cosine to `alpha` times its start, then restarts [Loshchilov, Hutter 2016].

    The first period takes `first_decay_steps`, each later one `t_mul` times the one before, and starts at `m_mul` times
    the start of the one before.

    Examples:
        >>> await session.run(af.train.cosine_decay_restarts(0.1, global_step=10, first_decay_steps=10))
        np.float32(0.1)
    """
    with _scope("SGDRDecay", name, learning_rate, global_step, first_decay_steps, t_mul, m_mul, alpha):
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        growth, fall, least = (as_number(value, rate.dtype) for value in (t_mul, m_mul, alpha))
        progress = _as_step(global_step, rate) / as_number(first_decay_steps, rate.dtype)
        if constant_value(growth) is None:
            steady = equal(growth, 1)
            growing = _growing(progress, where(steady, 2, growth))
            restarts, completed = (where(steady, x, y) for x, y in zip(_steady(progress), growing, strict=True))
        else:
            restarts, completed = _steady(progress) if constant_value(growth) == 1 else _growing(progress, growth)
        falling = 0.5 * pow(fall, restarts) * (1 + cos(math.pi * completed))
        return rate * ((1 - least) * falling + least)


def _steady(progress: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of finished periods of length 1, and the done share of the present one."""
    restarts = floor(progress)
    return restarts, progress - restarts


def _growing(progress: Tensor, growth: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same for periods each of which is `growth` times as long as the one before."""
    restarts = floor(log(1 - progress * (1 - growth)) / log(growth))
    length = pow(growth, restarts)
    return restarts, (progress - (1 - length) / (1 - growth)) / length


def linear_cosine_decay(
    learning_rate: NumberLike,
    global_step: NumberLike,
    decay_steps: NumberLike,
    num_periods: NumberLike = 0.5,
    alpha: NumberLike = 0.0,
    beta: NumberLike = 0.001,
    name: str | None = None,
) -> Tensor:
    """Return the rate times ((alpha + linear) * cosine + beta), constant from `decay_steps` on [Bello et al., 2017].

    linear falls from 1 to 0, and cosine oscillates between 1 and 0 for `num_periods` periods.

    Examples:
        >>> await session.run(af.train.linear_cosine_decay(0.1, global_step=5, decay_steps=10, beta=0.0))
        np.float32(0.025)
    """
    with _scope("LinearCosineDecay", name, learning_rate, global_step, decay_steps, num_periods, alpha, beta):
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        return _linear_cosine(rate, _as_step(global_step, rate), decay_steps, num_periods, alpha, beta, None)


def noisy_linear_cosine_decay(
    learning_rate: NumberLike,
    global_step: NumberLike,
    decay_steps: NumberLike,
    initial_variance: NumberLike = 1.0,
    variance_decay: NumberLike = 0.55,
    num_periods: NumberLike = 0.5,
    alpha: NumberLike = 0.0,
    beta: NumberLike = 0.001,
    name: str | None = None,
) -> Tensor:
    """Return `linear_cosine_decay` with normal noise of mean 0 added to the linear part at every step.

    The variance of the noise is initial_variance / (1 + global_step) ^ variance_decay.

    Examples:
        >>> rate = af.train.noisy_linear_cosine_decay(0.1, 5, 10, initial_variance=0.0, beta=0.0)
        >>> await session.run(rate)
        np.float32(0.025)
    """
    values = learning_rate, global_step, decay_steps, initial_variance, variance_decay, num_periods, alpha, beta
    with _scope("NoisyLinearCosineDecay", name, *values):
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        step = _as_step(global_step, rate)
        first, power = as_number(initial_variance, rate.dtype), as_number(variance_decay, rate.dtype)
        steps = as_number(decay_steps, rate.dtype)
        noise = random_normal([], dtype=rate.dtype) * sqrt(first / pow(1 + minimum(step, steps), power))
        return _linear_cosine(rate, step, steps, num_periods, alpha, beta, noise)


def _linear_cosine(
    rate: Tensor,
    step: Tensor,
    decay_steps: NumberLike,
    num_periods: NumberLike,
    alpha: NumberLike,
    beta: NumberLike,
    noise: Tensor | None,
) -> Tensor:
    steps, periods, high, low = (as_number(value, rate.dtype) for value in (decay_steps, num_periods, alpha, beta))
    completed = minimum(step, steps) / steps
    linear = 1 - completed if noise is None else 1 - completed + noise
    return rate * ((high + linear) * (0.5 * (1 + cos(2 * math.pi * periods * completed))) + low)
