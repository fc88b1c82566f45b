import numpy as np

from aioflow.kernels.math import random, random_distributions
from aioflow.tensors.dtypes import float64
from tests.kernels.samples import sample

rows = np.log([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])

for op in (random._uniform, random._normal, random._truncated):
    sample(op.name, lambda op=op: op([2, 3], float64, 1, 2))
    sample(op.name, lambda shape, op=op: op(shape, float64, 1, 2), np.array([3, 0, 2], np.int32))
    sample(op.name, lambda op=op: op([], float64, 1, 2))
sample("random_uniform_int", lambda: random.random_uniform([4], -3, 5, "int32", seed=1))
sample(
    "random_uniform_int",
    lambda low, high: random.random_uniform([2, 2], low, high, "int64", seed=1),
    np.array(3),
    np.array(9),
)
sample("random_shuffle", lambda x: random.random_shuffle(x, seed=1), np.arange(6.0).reshape(3, 2), gradient=False)
sample("multinomial", lambda x: random.multinomial(x, 4, seed=1), rows, gradient=False)

rates = np.array([[0.5, 3.0], [20.0, 400.0]])
sample(
    "random_gamma", lambda a: random_distributions.random_gamma([3], a, dtype=a.dtype, seed=1), rates, gradient=False
)
sample(
    "random_gamma",
    lambda n, a: random_distributions._gamma(n, a, 1, 2),
    np.array([0, 2], np.int32),
    rates[0],
    gradient=False,
)
sample("random_gamma", lambda a: random_distributions._gamma([], a, 1, 2), np.array(0.1), gradient=False)
sample("random_poisson", lambda rate: random_distributions.random_poisson(rate, [3], rate.dtype, seed=1), rates)
sample(
    "random_poisson",
    lambda n, rate: random_distributions.random_poisson(rate, n, "int64", seed=1),
    np.array([2, 0], np.int32),
    np.array([1, 100]),
)
