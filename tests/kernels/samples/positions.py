"""Samples of positions by number."""

import numpy as np

from aioflow.kernels.array.gather import unravel_index
from tests.kernels.samples import sample


def unravelled(indices, dims):
    return np.array(np.unravel_index(indices, dims))


for indices in (np.array([22, 0, 7]), np.int64(5), np.zeros((0, 2), np.int64), np.array([[1, 2], [3, 23]])):
    sample("unravel_index", unravel_index, indices, np.array([2, 3, 4]), reference=unravelled)
sample("unravel_index", lambda i: unravel_index(i, [5]), np.array([4], np.int32), reference=lambda i: i[None])
