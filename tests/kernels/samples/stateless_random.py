import numpy as np

from aioflow.kernels.math import stateless_random as kernels
from aioflow.kernels.math.index_shuffle import random_index_shuffle
from aioflow.tensors.dtypes import float64, int32, int64
from tests.kernels.samples import sample

shape, seed = np.array([3, 0, 2], np.int32), np.array([5, -7], np.int64)
rows = np.log([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
rates = np.array([[0.5, 3.0], [20.0, 400.0]])

for op in (kernels.stateless_random_uniform, kernels.stateless_random_normal, kernels.stateless_truncated_normal):
    sample(op.name, lambda seed, op=op: op([2, 3], seed, float64), seed)
    sample(op.name, lambda shape, seed, op=op: op(shape, seed, float64), shape, seed)
sample(
    "stateless_random_uniform_int",
    lambda seed, low, high: kernels.stateless_random_uniform_int([4], seed, low, high),
    seed,
    np.array(-3),
    np.array(9),
)
sample(
    "stateless_random_uniform_full_int",
    lambda seed: kernels.stateless_random_uniform_full_int([2, 2], seed, int32),
    seed,
)
sample("stateless_shuffle", kernels.stateless_shuffle, np.arange(6.0).reshape(3, 2), seed, gradient=False)
sample("stateless_multinomial", lambda x, seed: kernels.stateless_multinomial(x, 4, seed), rows, seed, gradient=False)
sample("stateless_random_gamma", kernels.stateless_random_gamma, rates, seed, gradient=False)
sample("stateless_random_poisson", lambda x, seed: kernels.stateless_random_poisson(x, seed, int64), rates, seed)
sample(
    "stateless_random_binomial",
    lambda n, p, seed: kernels.stateless_random_binomial(n, p, seed, int64),
    np.array([5.0, 1000.0]),
    np.array([[0.3], [0.9]]),
    seed,
)
sample("stateless_fold_in", kernels.stateless_fold_in, seed, np.array(3, np.int32))
sample("random_index_shuffle", random_index_shuffle, np.array([0, 3, 9]), seed, np.array(9))
