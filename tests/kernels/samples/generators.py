import numpy as np

from aioflow.kernels.math import generator_numbers as kernels
from aioflow.tensors.dtypes import float64, int32, int64, uint64
from tests.kernels.samples import sample

shape, state = np.array([3, 0, 2], np.int32), np.array([5, -7, 9], np.int64)

for op in (kernels.generator_uniform, kernels.generator_normal, kernels.generator_truncated_normal):
    sample(op.name, lambda state, op=op: op([2, 3], state, float64), state)
    sample(op.name, lambda shape, state, op=op: op(shape, state, float64), shape, state)
sample(
    "generator_uniform_int",
    lambda state, low, high: kernels.generator_uniform_int([4], state, low, high),
    state,
    np.array(-3),
    np.array(9),
)
for dtype in (int32, uint64):
    sample(
        "generator_uniform_full_int",
        lambda state, dtype=dtype: kernels.generator_uniform_full_int([2, 2], state, dtype),
        state,
    )
sample(
    "generator_binomial",
    lambda n, p, state: kernels.generator_binomial(n, p, state, int64),
    np.array([5.0, 1000.0]),
    np.array([[0.3], [0.9]]),
    state,
)
