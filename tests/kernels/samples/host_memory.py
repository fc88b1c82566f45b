import numpy as np

from aioflow.kernels.control.transfer import swap_in, swap_out
from tests.kernels.samples import sample

values = np.array([[1.5, -2.0], [0.0, 7.25]])

sample("swap_out", swap_out, values, reference=lambda x: x)
sample("swap_in", swap_in, values, reference=lambda x: x)
