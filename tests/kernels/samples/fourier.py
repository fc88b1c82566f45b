import functools

import numpy as np

from aioflow.kernels.math.fourier import fourier_transform, real_fourier_transform, real_from_fourier_transform
from tests.kernels.samples import sample

random = np.random.default_rng(3)


def numbers(*shape):
    return random.standard_normal(shape)


def complexes(*shape):
    return numbers(*shape) + 1j * numbers(*shape)


for axes, shape in [((-1,), (2, 5)), ((-1,), (4,)), ((-2, -1), (3, 2, 4)), ((-3, -1), (2, 3, 3))]:
    for inverse, reference in [(False, np.fft.fftn), (True, np.fft.ifftn)]:
        sample(
            "fourier_transform", functools.partial(fourier_transform, axes=axes, inverse=inverse), complexes(*shape),
            reference=functools.partial(reference, axes=axes),
        )  # fmt: skip
    sample(
        "real_fourier_transform", functools.partial(real_fourier_transform, axes=axes), numbers(*shape),
        reference=functools.partial(np.fft.rfftn, axes=axes),
    )  # fmt: skip

for axes, shape, length in [((-1,), (2, 3), 5), ((-1,), (3,), 4), ((-2, -1), (3, 2, 1), 1), ((-3, -1), (2, 3, 3), 4)]:
    sizes = [*(shape[axis] for axis in axes[:-1]), length]
    sample(
        "real_from_fourier_transform",
        functools.partial(real_from_fourier_transform, length=length, axes=axes), complexes(*shape),
        reference=functools.partial(np.fft.irfftn, s=sizes, axes=axes),
    )  # fmt: skip
