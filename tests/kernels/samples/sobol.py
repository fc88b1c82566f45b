import numpy as np
from scipy.stats import qmc

from aioflow.kernels.math.sobol import sobol_sample
from aioflow.tensors.dtypes import float64
from tests.kernels.samples import sample


def reference(dim, count, skip):
    return qmc.Sobol(int(dim), scramble=False).fast_forward(int(skip) + 1).random(int(count))


for numbers in [(3, 5, 0), (1111, 40, 77)]:
    sample(
        "sobol_sample",
        lambda dim, count, skip: sobol_sample(dim, count, skip, float64),
        *[np.array(number, np.int32) for number in numbers],
        reference=reference,
    )
