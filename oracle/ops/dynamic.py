"""Axes, permutations and numbers that are fed, as values of a run."""

from collections.abc import Callable

import numpy as np

from oracle.draw import FLOAT, INTS, Call, Draw, call
from oracle.table import compare

MOVED = ("axes_last", "permute")


def along(*dtypes: str, least: int = 1, extra: int = 0) -> Callable[[Draw], Call]:
    """An array of one rank or more, and one of its axes, or of an array of `extra` more."""

    def drawn(d: Draw) -> Call:
        shape = d.shape(least)
        return call(d.array(d.dtype(*dtypes), shape), np.int32(d.axis([*shape, *[1] * extra])))

    return drawn


def over(d: Draw) -> Call:
    shape = d.shape(1)
    axes = [axis for axis in range(len(shape)) if d.pick(True, False)]
    return call(d.array(d.dtype(*FLOAT), shape), np.array(axes, np.int32), keepdims=d.pick(True, False))


for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_logsumexp"):
    compare(f"{name} of fed axes", over, ops=MOVED, rtol=64)
compare("argmax of a fed axis", along(*INTS), ops=MOVED)
compare("cumsum of a fed axis", along(*FLOAT), ops=MOVED, rtol=64)
compare("expand_dims of a fed axis", along(*FLOAT, *INTS, least=0, extra=1), ops=MOVED)
compare("reverse of a fed axis", along(*FLOAT), lambda lib, x, axis: lib.reverse(x, [axis]), ops=MOVED)
compare("concat of a fed axis", along(*FLOAT), lambda lib, x, axis: lib.concat([x, x * 2], axis), ops=MOVED)
compare(
    "split of a fed axis",
    along(*FLOAT),
    lambda lib, x, axis: lib.split(lib.concat([x, x * 2, x], axis), 3, axis)[1],
    ops=MOVED,
)
compare("roll of a fed axis", along(*FLOAT), lambda lib, x, axis: lib.roll(x, 2, axis), ops=MOVED)


def picked(d: Draw) -> Call:
    shape = d.shape(1, sides=(1, 4))
    axis = d.axis(shape)
    return call(d.array(d.dtype(*FLOAT), shape), d.ids(d.shape(0, 2), 0, shape[axis] - 1), np.int32(axis))


compare("gather of a fed axis", picked, lambda lib, x, ids, axis: lib.gather(x, ids, axis=axis), ops=MOVED)


def ordered(d: Draw) -> Call:
    shape = d.shape()
    return call(d.array(d.dtype(*FLOAT, *INTS), shape), d.rng().permutation(len(shape)).astype(np.int32))


compare("transpose of a fed permutation", ordered, lambda lib, x, perm: lib.transpose(x, perm), ops="permute")


def greatest(d: Draw) -> Call:
    shape = d.shape(1, sides=(1, 6))
    values = d.rng().permutation(int(np.prod(shape))).reshape(shape).astype(d.dtype(*FLOAT))
    return call(values, np.int32(d.integer(0, shape[-1])))


compare("nn.top_k of a fed number", greatest, lambda lib, x, k: lib.nn.top_k(x, k), ops="top_k")
