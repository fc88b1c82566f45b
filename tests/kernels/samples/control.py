"""Samples of branches and loops."""

import numpy as np

import aioflow as af
from aioflow.kernels.control.structured import completed
from aioflow.kernels.control.tensor_lists import tensor_list_put, tensor_list_read
from tests.kernels.samples import sample

X = np.array([[0.5, -1.0, 2.0]])
Y = np.array([1.5, 0.25])
YES, NO = np.array(True), np.array(False)


def branches(x, p):
    return af.cond(p, lambda: x * af.sin(x), lambda: af.cond(p, lambda: x, lambda: x * x * x))


def powers(x, n):
    return af.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * af.sin(x) + x), [0, x])[1]


def nested(x, n):
    def row(i, y):
        inner = af.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * x), [0, y])[1]
        return i + 1, af.cond(af.equal(i % 2, 0), lambda: inner + y, lambda: af.sin(inner))

    return af.while_loop(lambda i, y: i < n, row, [0, x * 0.5], maximum_iterations=3)[1]


def powers_in_numpy(x, n):
    y = x
    for _ in range(n):
        y = y * np.sin(x) + x
    return y


def nested_in_numpy(x, n):
    y = x * 0.5
    for i in range(min(n, 3)):
        inner = y * x**i
        y = np.sin(inner) if i % 2 else inner + y
    return y


def running_sums(x):
    sums = af.TensorArray(af.float64, size=2, element_shape=[])
    return af.while_loop(
        lambda i, total, found: i < 2,
        lambda i, total, found: (i + 1, total + x[i], found.write(i, (total + x[i]) * x[i])),
        [0, x[0] * 0, sums],
    )[2].stack()


sample("cond", branches, X, YES, reference=lambda x, p: x * np.sin(x))
sample("cond", branches, X, NO, reference=lambda x, p: x**3)
for _count in (0, 1, 4):
    sample("while_loop", powers, X, np.array(_count, np.int32), reference=powers_in_numpy)
    sample("while_loop", nested, X, np.array(_count, np.int32), reference=nested_in_numpy)
sample("while_loop", running_sums, Y, reference=lambda x: np.cumsum(x) * x)
sample(
    "completed",
    lambda x, y: tensor_list_read(
        completed(tensor_list_put(0, x), af.TensorArray(af.float64, 2).unstack(y).flow), 1, []
    ),
    np.array(3.0),
    Y,
    reference=lambda x, y: np.array(0.0),
    gradient=False,
)
