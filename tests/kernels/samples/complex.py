import numpy as np

from aioflow.kernels.math import complex
from tests.kernels.samples import sample

z = np.array([[0.4 + 0.7j, -1.2 + 0.3j], [0.8 - 1.1j, 2.1 + 0.2j]])

for op, function, reference in [
    ("conj", complex.conj, np.conj),
    ("real", complex.real, np.real),
    ("imag", complex.imag, np.imag),
    ("angle", complex.angle, np.angle),
]:
    sample(op, function, z, reference=reference)
    sample(op, function, np.array(1.5 - 0.5j), reference=reference)

sample("angle", complex.angle, z.real, reference=np.angle)

sample("complex", complex.complex, z.real, z.imag, reference=lambda x, y: x + 1j * y)
sample("complex", complex.complex, z.real, np.array(0.3), reference=lambda x, y: x + 1j * y)
sample("complex", complex.complex, z.real[:, :1], z.imag[0], reference=lambda x, y: x + 1j * y)
