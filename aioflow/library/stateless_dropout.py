"""Dropout of random numbers that follow from a seed of two integers, or that a function makes."""

from collections.abc import Callable, Sequence
from functools import partial

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import identity
from aioflow.kernels.families import NARROW
from aioflow.library.control import name_scope
from aioflow.library.nn_functions import drop_rate, dropped, noise_sizes
from aioflow.library.stateless_random import stateless_uniform
from aioflow.tensors.dtypes import FLOAT, float32


@transactional
def stateless_dropout(
    x: NumberLike,
    rate: float | Tensor,
    seed: NumberLike,
    rng_alg: str | None = None,
    noise_shape: NumberLike | Sequence[int | None] | None = None,
    name: str | None = None,
) -> Tensor:
    """`x` with elements dropped with probability `rate`, as `af.nn.dropout` does; the seed decides which.

    Args:
        x: a floating tensor.
        rate: the probability to be dropped, from 0 up to but not 1; a number or a scalar tensor.
        seed: two integers.
        rng_alg: None, "auto_select" or "philox".
        noise_shape: the shape of the random decisions, as that of `af.nn.dropout`.
        name: the name of the operation.

    Examples:
        >>> (await session.run(af.nn.experimental.stateless_dropout(af.ones([1000]), 0.25, seed=[1, 2]))).max()
        np.float32(1.3333334)
    """
    sampler = partial(stateless_uniform, seed=seed, alg=rng_alg or "auto_select")
    return general_dropout(x, rate, sampler, noise_shape, name or "stateless_dropout")


@transactional
def general_dropout(
    x: NumberLike,
    rate: float | Tensor,
    uniform_sampler: Callable[..., Tensor],
    noise_shape: NumberLike | Sequence[int | None] | None = None,
    name: str | None = None,
) -> Tensor:
    """`x` with elements dropped with probability `rate`, as `af.nn.dropout` does; `uniform_sampler` decides which.

    Args:
        x: a floating tensor.
        rate: the probability to be dropped, from 0 up to but not 1; a number or a scalar tensor.
        uniform_sampler: called as `uniform_sampler(shape=, dtype=)`, returns random numbers from 0 up to but not 1. An
            element is kept where its number is `rate` or more. A `rate` that is the number 0 does not call it.
        noise_shape: the shape of the random decisions, as that of `af.nn.dropout`.
        name: the name of the operation.

    Examples:
        >>> half = lambda shape, dtype: af.constant([0.1, 0.9], dtype)
        >>> (await session.run(af.nn.experimental.general_dropout(af.ones([2]), 0.5, half))).tolist()
        [0.0, 2.0]
    """
    with name_scope(name, "dropout", [x]) as scope:
        value = convert_to_tensor(x)
        if value.dtype not in FLOAT:
            raise ValueError(f"x must be floating to be scaled, not {value.dtype.name}")
        drop = drop_rate(None, rate)
        if isinstance(drop, float) and drop == 0:
            return identity(value, name=scope)
        dtype = float32 if value.dtype in NARROW else value.dtype
        noise = uniform_sampler(shape=noise_sizes(value, noise_shape), dtype=dtype)
        return dropped(value, convert_to_tensor(noise, dtype), drop, scope)
