import numpy as np

import aioflow as af
from tests.kernels.samples import sample

X = np.array([[0.5, -1.5, 2.0]])
N = np.array([3, 1], np.int32)


def same(x):
    return x


sample("constant", lambda: af.constant([[1.5, 2.5]], af.float64), reference=lambda: np.array([[1.5, 2.5]]))
sample("constant", lambda: af.constant([1, 2], shape=[2, 2]), reference=lambda: np.array([[1, 2], [2, 2]]))
sample("constant", lambda: af.constant(["a", b"b"]), reference=lambda: np.array([b"a", b"b"], object))
sample("placeholder_with_default", lambda x: af.placeholder_with_default(x, [1, None]), X, reference=same)
for name, build in {"identity": af.identity, "stop_gradient": af.stop_gradient}.items():
    sample(name, build, X, reference=same)
    sample(name, build, N, reference=same)
    sample(name, build, np.array(2.5), reference=same)
sample("prevent_gradient", lambda x: af.prevent_gradient(x, "not here"), X, reference=same, gradient=False)
sample("identity_n", lambda x, n: af.identity_n([x, n]), X, N, reference=lambda x, n: (x, n))
sample("no_op", af.no_op)
