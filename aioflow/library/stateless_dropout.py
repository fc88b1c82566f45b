"""Dropout whose random numbers follow from a seed of two integers."""

from collections.abc import Sequence

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
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
    with name_scope(name, "stateless_dropout", [x]) as scope:
        value = convert_to_tensor(x)
        if value.dtype not in FLOAT:
            raise ValueError(f"x must be floating to be scaled, not {value.dtype.name}")
        drop = drop_rate(None, rate)
        dtype = float32 if value.dtype in NARROW else value.dtype
        sizes = noise_sizes(value, noise_shape)
        return dropped(value, stateless_uniform(sizes, seed, dtype=dtype, alg=rng_alg or "auto_select"), drop, scope)
