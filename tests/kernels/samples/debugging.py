import numpy as np

from aioflow.kernels.control import assertions, debugging
from tests.kernels.samples import sample

numbers = np.array([[-1.5, 0.5], [2.0, 3.0]])

sample("check_numerics", lambda x: debugging.check_numerics(x, "x"), numbers, reference=lambda x: x)
sample("check_numerics", lambda x: debugging.check_numerics(x, "x"), np.zeros((0, 2)), reference=lambda x: x)
sample("assert", lambda c, x: assertions.Assert(c, [x, "text"]), np.array(True), numbers, gradient=False)
for name, x, y in [
    ("assert_equal", numbers, numbers),
    ("assert_none_equal", numbers, numbers + 1),
    ("assert_less", numbers, np.array([2.5, 3.5])),
    ("assert_less_equal", numbers, np.array([2.0, 3.0])),
    ("assert_greater", numbers, np.array(-2.0)),
    ("assert_greater_equal", numbers, np.array(-1.5)),
]:
    build = getattr(assertions, name)
    sample(name, lambda x, y, build=build: build(x, y, [x]), x, y, gradient=False)
sample("assert_near", lambda x, y: assertions.assert_near(x, y, data=[x]), numbers, numbers, gradient=False)
for name, wanted in [("assert_rank", 2), ("assert_rank_at_least", 1), ("assert_rank_in", [0, 2])]:
    build = getattr(assertions, name)
    sample(name, lambda x, r, build=build: build(x, r, [x]), numbers, np.array(wanted, np.int32), gradient=False)
