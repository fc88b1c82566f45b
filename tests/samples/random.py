import numpy as np

from aioflow.dtypes import float64
from aioflow.kernels import random
from samples import sample

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
