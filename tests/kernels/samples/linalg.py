import itertools

import numpy as np

from aioflow.kernels.linalg import norms
from aioflow.kernels.linalg.row_product import row_product
from tests.kernels.samples import sample

random = np.random.default_rng(5)
a, b = random.standard_normal((2, 3)), random.standard_normal((3, 4))


def transposed(x):
    return np.swapaxes(x, -1, -2).copy()


for flip_a, flip_b in itertools.product((False, True), repeat=2):
    inputs = transposed(a) if flip_a else a, transposed(b) if flip_b else b
    sample(
        "matmul", lambda a, b, f=flip_a, g=flip_b: norms.matmul(a, b, f, g), *inputs,
        reference=lambda a, b, f=flip_a, g=flip_b: (a.T if f else a) @ (b.T if g else b),
    )  # fmt: skip
    complexes = inputs[0] + 0.5j, inputs[1] * (1 - 2j)
    sample(
        "matmul", lambda a, b, f=flip_a, g=flip_b: norms.matmul(a, b, adjoint_a=f, adjoint_b=g), *complexes,
        reference=lambda a, b, f=flip_a, g=flip_b: (a.conj().T if f else a) @ (b.conj().T if g else b),
    )  # fmt: skip
    batches = np.stack([inputs[0], inputs[0] * 2]), np.stack([inputs[1], inputs[1] + 1])
    for left, right in [batches, (inputs[0], batches[1]), (batches[0], inputs[1]), (batches[0][:, None], batches[1])]:
        sample(
            "matmul", lambda a, b, f=flip_a, g=flip_b: norms.matmul(a, b, f, g), left, right,
            reference=lambda a, b, f=flip_a, g=flip_b: (transposed(a) if f else a) @ (transposed(b) if g else b),
        )  # fmt: skip

integers = np.array([[1, 2], [3, 4]], np.int32)
sample("matmul", norms.matmul, integers, integers, reference=np.matmul)
sample("row_product", row_product, a[:1], b, reference=np.matmul)
sample("matmul", norms.matmul, np.ones((2, 0)), np.ones((0, 3)), reference=np.matmul)
sample("matmul", norms.matmul, np.ones((0, 3)), b, reference=np.matmul)
sample("matmul", norms.matmul, np.ones((0, 2, 3)), b, reference=np.matmul)

square = random.standard_normal((2, 3, 3))
sample("trace", norms.trace, square, reference=lambda x: np.trace(x, axis1=1, axis2=2))
sample("trace", norms.trace, b, reference=np.trace)
sample(
    "on_diagonal", lambda x: norms.on_diagonal(x, [2, 3, 3]), np.array([1.5, -2.5]),
    reference=lambda x: x[:, None, None] * np.eye(3),
)  # fmt: skip
sample("on_diagonal", lambda x: norms.on_diagonal(x, [2, 3]), np.array(1.5), reference=lambda x: x * np.eye(2, 3))
