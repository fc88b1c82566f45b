import ml_dtypes
import numpy as np

from aioflow.kernels.math.sum_for_peers import sum_for_peers
from tests.kernels.samples import sample

x = np.array([[-2.75, 0.3, 1e-3], [np.pi, 100.125, -7.0]])
y = np.array([[1.5, -0.25, 2.0], [0.5, 3.0, 8.0]])
narrow = np.array([1.5, -2.0, 200.0], ml_dtypes.bfloat16)

sample("sum_for_peers", lambda *v: sum_for_peers(v), x, reference=lambda x: x)
sample("sum_for_peers", lambda *v: sum_for_peers(v), x, y, y, reference=lambda x, y, z: x + y + z)
sample("sum_for_peers", lambda *v: sum_for_peers(v, divisor=3), x, y, y, reference=lambda x, y, z: (x + y + z) / 3)
sample("sum_for_peers", lambda *v: sum_for_peers(v), *(np.array(v) for v in (1.5, 2.5)), reference=lambda *v: sum(v))
sample("sum_for_peers", lambda *v: sum_for_peers(v), np.zeros((0, 2)), np.zeros((0, 2)), reference=np.add)
sample("sum_for_peers", lambda *v: sum_for_peers(v, divisor=2), narrow, narrow, reference=lambda x, y: x)
