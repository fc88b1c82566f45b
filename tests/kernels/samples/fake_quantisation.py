import numpy as np

from aioflow.kernels.math.fake_quantisation import fake_quant, fake_quant_limits
from tests.kernels.samples import sample

x = np.array([[-3.0, 0.11, 0.37], [5.0, 2.4, -0.2]])
limits = np.array([-1.0, 0.0, -2.0]), np.array([1.5, 3.0, 1.0])


def moved(low, high, bits=8, narrow=0):
    step = (high - low) / (2**bits - 1 - narrow)
    least = np.round(low / step) * step
    return least, least + (2**bits - 1 - narrow) * step


def nearest(x, low, high, bits=8):
    step = (high - low) / (2**bits - 1)
    return np.round(np.clip(x, *moved(low, high, bits)) / step) * step


sample("fake_quant", fake_quant, x, np.array(-1.0), np.array(1.5), reference=nearest, gradient=False)
sample("fake_quant", fake_quant, x, *limits, reference=nearest, gradient=False)
sample(
    "fake_quant_limits", lambda low, high: fake_quant_limits(low, high, 4, True), *limits,
    reference=lambda low, high: moved(low, high, 4, 1),
)  # fmt: skip
