import numpy as np
import scipy.special

from aioflow.kernels.math import broadcasting, cumulative, reduction
from tests.kernels.samples import sample

x = np.array([[[1.3, -0.7], [2.1, 0.4], [1.9, -1.2]], [[0.8, 1.1], [-0.6, 1.7], [-2.2, 0.9]]])
integers = np.array([[3, -4, 5], [7, 0, -2]], np.int32)
truths = np.array([[True, False, True], [True, True, True]])
complexes = np.array([[0.4 + 0.7j, -1.2 + 0.3j], [0.8 - 1.1j, 2.1 + 0.2j]])
with_zeros = np.array([[0.0, 2.0, 3.0], [1.5, 0.5, 2.5], [0.0, 0.0, 4.0]])
AXES = [(None, False), (None, True), (1, False), (-1, True), ((0, 2), False), ((2, 0), True), ((), False)]


def reduce(op, reference, inputs, axis=None, keepdims=None, gradient=True):
    sample(
        op.name, lambda x: op(x, axis, keepdims), inputs,
        reference=lambda x: reference(x, axis=axis, keepdims=bool(keepdims)), gradient=gradient,
    )  # fmt: skip


for op, reference in [
    (reduction.reduce_sum, np.sum),
    (reduction.reduce_mean, np.mean),
    (reduction.reduce_prod, np.prod),
    (reduction.reduce_max, np.max),
    (reduction.reduce_min, np.min),
    (reduction.reduce_logsumexp, scipy.special.logsumexp),
    (reduction.count_nonzero, np.count_nonzero),
]:
    for axis, keepdims in AXES:
        if (op, axis) not in [(reduction.reduce_logsumexp, ()), (reduction.count_nonzero, ())]:
            reduce(op, reference, x, axis, keepdims)
    reduce(op, reference, x[:0], 1)
    reduce(op, reference, np.array(2.5))

for op, reference in [(reduction.reduce_sum, np.sum), (reduction.reduce_max, np.max), (reduction.reduce_min, np.min)]:
    reduce(op, lambda x, r=reference, **kw: r(x, **kw).astype(np.int32), integers, 0)
reduce(reduction.reduce_mean, lambda x, **kw: np.trunc(np.mean(x, **kw)), integers, 1)
reduce(reduction.count_nonzero, np.count_nonzero, integers, 1, True)
reduce(reduction.count_nonzero, np.count_nonzero, np.array([[b"", b"a"], [b"b", b"c"]], object), 1)
reduce(reduction.reduce_sum, np.sum, x[:0], 0)
reduce(reduction.reduce_prod, np.prod, x[:0], 0)
reduce(reduction.reduce_prod, np.prod, with_zeros)
reduce(reduction.reduce_prod, np.prod, with_zeros, 1)
reduce(reduction.reduce_prod, np.prod, with_zeros, (1, 0), True)
for op, reference in [
    (reduction.reduce_sum, np.sum),
    (reduction.reduce_mean, np.mean),
    (reduction.reduce_prod, np.prod),
]:
    reduce(op, reference, complexes, 1)

for op, reference in [(reduction.reduce_all, np.all), (reduction.reduce_any, np.any)]:
    for inputs, axis, keepdims in [
        (truths, None, False),
        (truths, 0, True),
        (~truths, 1, False),
        (truths[:0], 0, False),
    ]:
        reduce(op, reference, inputs, axis, keepdims)

sample("l2_loss", reduction.l2_loss, x, reference=lambda x: 0.5 * np.sum(x * x))

for op, reference in [(reduction.argmax, np.argmax), (reduction.argmin, np.argmin)]:
    sample(op.name, op, x, reference=lambda x, r=reference: r(x, 0))
    sample(op.name, lambda x, o=op: o(x, -1, output_type="int32"), x, reference=lambda x, r=reference: r(x, -1))
    sample(op.name, lambda x, o=op: o(x, 1), integers, reference=lambda x, r=reference: r(x, 1))

# Along an axis


def along(reference, start, exclusive, reverse):
    """The running sum or product along the last axis."""

    def run(x):
        x = x[..., ::-1] if reverse else x
        first = np.full((*x.shape[:-1], 1), start, x.dtype)
        y = reference(np.concatenate([first, x[..., :-1]], -1) if exclusive else x, axis=-1)
        return y[..., ::-1] if reverse else y

    return run


for op, reference, start in [(cumulative.cumsum, np.cumsum, 0), (cumulative.cumprod, np.cumprod, 1)]:
    for inputs in (x, with_zeros, complexes):
        for exclusive in (True, False):  # a short run tries the first alone
            for reverse in (True, False):
                sample(
                    op.name, lambda x, o=op, e=exclusive, r=reverse: o(x, -1, e, r), inputs,
                    reference=along(reference, start, exclusive, reverse),
                )  # fmt: skip
    sample(op.name, op, x, reference=lambda x, r=reference: r(x, axis=0))
    sample(op.name, lambda x, o=op: o(x, 1), np.zeros((2, 0)), reference=lambda x: x)

sample("shift", lambda x: cumulative._shift(x, 0), x, reference=lambda x: np.concatenate([x[:1] * 0, x[:-1]]))
sample("shift", lambda x: cumulative._shift(x, 0, True), x, reference=lambda x: np.concatenate([x[1:], x[:1] * 0]))


def recurrence(a, u, lag=False):
    s = u.copy()
    for i in range(1, len(s)):
        s[i] += a[i - 1 if lag else i] * s[i - 1]
    return s


five = np.array([[1.3, -0.7], [0.0, 0.4], [1.9, -1.2], [0.8, 1.1], [-0.6, 1.7]])
factors = five[::-1].copy() + 0.1
sample("recurrence", lambda a, u: cumulative.recurrence(a, u, 0), factors, five, reference=recurrence)
sample(
    "recurrence", lambda a, u: cumulative.recurrence(a, u, 0, lag=True), factors, five,
    reference=lambda a, u: recurrence(a, u, lag=True),
)  # fmt: skip
sample(
    "recurrence", lambda a, u: cumulative.recurrence(a, u, 1, reverse=True), factors.T.copy(), five.T.copy(),
    reference=lambda a, u: recurrence(a.T[::-1], u.T[::-1])[::-1].T,
)  # fmt: skip

# Broadcasting


def summed(x, shape):
    lead = x.ndim - len(shape)
    ones = tuple(lead + i for i, size in enumerate(shape) if size == 1)
    return x.sum(axis=(*range(lead), *ones)).reshape(shape)


for shape in [(3, 2), (2,), (1, 2), (2, 1, 2), (2, 3, 1), (), (1, 1, 1), (2, 3, 2)]:
    sample(
        "sum_to_shape", lambda x, s: broadcasting.sum_to_shape(x, s), x, np.array(shape, np.int32),
        reference=lambda x, s: summed(x, s.tolist()),
    )  # fmt: skip
    sample(
        "sum_to_shape", lambda x, s=shape: broadcasting.sum_to_shape(x, list(s)), x,
        reference=lambda x, s=shape: summed(x, s),
    )  # fmt: skip


for axis, keepdims in AXES[:-1]:
    for mean in (False, True):

        def spread(y, axis=axis, keepdims=keepdims, mean=mean):
            y = y if keepdims or axis is None else np.expand_dims(y, axis)
            return np.broadcast_to(y, x.shape) / (x.size // y.size if mean else 1)

        sample(
            "spread", lambda y, a=axis, k=keepdims, m=mean: broadcasting.spread(y, list(x.shape), a, k, m),
            x.sum(axis=axis, keepdims=keepdims), reference=spread,
        )  # fmt: skip
