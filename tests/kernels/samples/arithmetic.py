import numpy as np

from aioflow.kernels.math import arithmetic
from tests.kernels.samples import sample

x = np.array([[1.3, -0.7, 2.1], [0.4, 1.9, -1.2]])
y = np.array([[0.8, 1.1, -0.6], [1.7, -2.2, 0.9]])
row, column = np.array([0.75, -1.65, 2.35]), np.array([[1.2], [-0.5]])
base = np.array([[0.5, 1.3, 2.2], [0.9, 3.1, 1.7]])
complexes = np.array([0.4 + 0.7j, -1.2 + 0.3j, 0.8 - 1.1j])
integers = np.array([[7, -7, 5], [0, 3, -4]], np.int32), np.array([2, -3, 4], np.int32)

for op, reference in [
    (arithmetic.add, np.add),
    (arithmetic.subtract, np.subtract),
    (arithmetic.multiply, np.multiply),
    (arithmetic.divide, np.divide),
    (arithmetic.maximum, np.maximum),
    (arithmetic.minimum, np.minimum),
    (arithmetic.squared_difference, lambda x, y: np.abs(x - y) ** 2),
    (arithmetic.mod, np.mod),
    (arithmetic.floordiv, np.floor_divide),
]:
    for inputs in [(x, y), (x, row), (column, row), (x, np.array(0.45)), (row, x[:, None])]:
        sample(op.__name__, op, *inputs, reference=reference)
    sample(op.__name__, op, *integers, reference=reference)
    sample(op.__name__, op, np.zeros((0, 3)), row, reference=reference)
    sample(op.__name__, op, np.zeros((2, 0)), column, reference=reference)

for op, reference in [
    (arithmetic.add, np.add),
    (arithmetic.subtract, np.subtract),
    (arithmetic.multiply, np.multiply),
    (arithmetic.divide, np.divide),
    (arithmetic.squared_difference, lambda x, y: np.abs(x - y).astype(complex) ** 2),
    (arithmetic.pow, np.power),
]:
    sample(op.__name__, op, complexes, complexes[::-1].copy() + 0.3, reference=reference)
    sample(op.__name__, op, complexes, complexes[:1] * 0.8, reference=reference)

for exponents in (x, row, np.array(1.5)):
    sample("pow", arithmetic.pow, base, exponents, reference=np.power)
for exponent in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0):
    sample("pow", lambda x, e=exponent: arithmetic.pow(x, e), base, reference=lambda x, e=exponent: np.power(x, e))
sample("pow", lambda x: arithmetic.pow(x, 2), np.array([0.0, -1.5]), reference=np.square)
sample("pow", arithmetic.pow, *map(np.abs, integers), reference=np.power)

sample("add_n", lambda *v: arithmetic.add_n(v), x, reference=lambda x: x)
sample("add_n", lambda *v: arithmetic.add_n(v), x, y, reference=np.add)
sample("add_n", lambda *v: arithmetic.add_n(v), x, y, base, reference=lambda x, y, z: x + y + z)
sample("add_n", lambda *v: arithmetic.add_n(v), *(np.array(v) for v in (1.5, 2.5, 3.5)), reference=lambda *v: sum(v))

texts = np.array([[b"a", b"\xff"], [b"", b"d"]], object)
for other in (texts, texts[0], np.array(b"x", object)):
    sample("string_add", arithmetic.add, texts, other, reference=np.add)
