import numpy as np
from scipy import special

from aioflow.kernels.nn import gelu
from tests.kernels.samples import sample

x, dy = np.array([[-3.0, -0.5, 0.25], [1.0, 2.5, 0.0]]), np.array([[1.0, -2.0, 0.5], [3.0, 0.25, 1.0]])
scale = np.sqrt(2 / np.pi)


def by_tanh(x):
    return 0.5 * x * (1 + np.tanh(scale * (x + 0.044715 * x**3)))


def tanh_slope(dy, x):
    x = np.clip(x, -100, 100)  # beyond, the slope is 0 or 1
    inner = np.tanh(scale * (x + 0.044715 * x**3))
    return dy * 0.5 * (1 + inner + x * (1 - inner**2) * scale * (1 + 3 * 0.044715 * x**2))


def erf_slope(dy, x):
    x = np.clip(x, -100, 100)
    return dy * (special.ndtr(x) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))


sample("gelu_tanh", gelu.gelu_tanh, x, reference=by_tanh)
sample("gelu_tanh_grad", gelu.gelu_tanh_grad, dy, x, reference=tanh_slope)
sample("gelu_erf", gelu.gelu_erf, x, reference=lambda x: x * special.ndtr(x))
sample("gelu_erf_grad", gelu.gelu_erf_grad, dy, x, reference=erf_slope)
