"""Samples for the ops of `kernels/training.py` that change no variable."""

import numpy as np

from aioflow.kernels.nn.optimizers import deduplicate_rows
from tests.kernels.samples import sample


def summed(values, indices):
    once = np.unique(indices)
    return [np.array([values[indices == index].sum(axis=0) for index in once]).reshape(-1, *values.shape[1:]), once]


for _values, _indices in [
    (np.arange(10.0).reshape(5, 2), [3, 0, 3, 2, 3]),
    (np.arange(4.0), [9, 2, 7, 0]),
    (np.arange(3.0), [1, 1, 1]),
    (np.zeros((0, 2)), []),
    (np.arange(12.0).reshape(2, 3, 2), [4, 4]),
]:
    sample("deduplicate_rows", deduplicate_rows, _values, np.array(_indices, np.int32), reference=summed)
sample("deduplicate_rows", deduplicate_rows, np.array([2, 3, 4]), np.array([5, 5, 1]), reference=summed)
