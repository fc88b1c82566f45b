import numpy as np

from aioflow.kernels.array import select
from aioflow.kernels.math import comparison
from tests.kernels.samples import sample

x, y = np.array([[1.0, 2.0, np.nan], [0.0, -1.0, np.inf]]), np.array([1.0, 3.0, np.nan])
integers = np.array([[3, -4], [5, 7]], np.int8), np.array([3, 5], np.int8)
truths = np.array([[True, False], [True, True]]), np.array([False, True])

for op in (
    comparison.equal, comparison.not_equal, comparison.less, comparison.less_equal, comparison.greater,
    comparison.greater_equal,
):  # fmt: skip
    sample(op.name, op, x, y, reference=getattr(np, op.name))
    sample(op.name, op, *integers, reference=getattr(np, op.name))
for op in (comparison.logical_and, comparison.logical_or, comparison.logical_xor):
    sample(op.name, op, *truths, reference=getattr(np, op.name))
for op in (comparison.bitwise_and, comparison.bitwise_or, comparison.bitwise_xor):
    sample(op.name, op, *integers, reference=getattr(np, op.name))
sample("logical_not", comparison.logical_not, truths[0], reference=np.logical_not)
sample("invert", comparison.invert, integers[0], reference=np.invert)

condition = np.array([[True, False, True], [False, False, True]])
left, right = np.array([[1.5, -2.5, 3.5], [4.5, 0.5, -6.5]]), np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])

for inputs in [
    (condition, left, right),
    (condition, left, np.array(7.5)),
    (condition[0], left, right[:, :1]),
    (np.array(False), left, right),
    (condition, np.array(1.5), np.array(2.5)),
    (condition, left + 1j * right, right - 1j * left),
    (condition, truths[0][:, :1], truths[1][:1]),
    (condition[:0], left[:0], right[:0]),
]:
    sample("select", select.select, *inputs, reference=np.where)
random = np.random.default_rng(3)
large = random.random((80, 64)) < 0.5, random.standard_normal((80, 64)), random.standard_normal(64)
sample("select", select.select, *large, reference=np.where, gradient=False)
sample("masked", select.masked, left, condition, reference=lambda x, m: np.where(m, x, 0))
sample("masked", select.masked, left * 1j, condition[0], reference=lambda x, m: np.where(m, x, 0))
sample("where", select.where, condition, reference=np.argwhere)
sample("where", select.where, np.array([0, 3, 0, 5]), reference=np.argwhere)
sample("where", select.where, np.array(True), reference=lambda c: np.zeros((1, 0), np.int64))


def chosen_rows(condition, x, y):
    return np.where(condition[:, None], x, y)


sample("per_row", select.where, condition[:, 1] | condition[:, 2], left, right, reference=chosen_rows)
sample("per_row", select.where, np.array([True, False]), left[:, :1], right[0][None], reference=chosen_rows)
