"""Samples of the ops that move axes whose order only a run knows."""

import numpy as np

from aioflow.kernels.array.dynamic_axes import axes_last, permute

from . import sample

CUBE = np.arange(24.0).reshape(2, 3, 4) / 7


def back(x, perm):
    return x.transpose(np.argsort(perm))


def last(shape, axes):
    axes = np.ravel(axes) % len(shape)
    first = [axis for axis in range(len(shape)) if axis not in axes]
    ones = [1 if axis in axes else size for axis, size in enumerate(shape)]
    made = [*first, *axes], [*shape[first], np.prod(shape[axes])], ones
    return [np.array(each, shape.dtype) for each in made]


for perm in (np.array([2, 0, 1], np.int32), np.array([0, 1, 2])):
    sample("permute", permute, CUBE, perm, reference=lambda x, perm: x.transpose(perm))
    sample("permute", lambda x, perm: permute(x, perm, inverse=True), CUBE, perm, reference=back)
sample(
    "permute", permute, np.array([[b"a", b"b"], [b"c", b"d"]], object), np.array([1, 0]), reference=lambda x, perm: x.T
)
sample("permute", permute, np.float64(5), np.array([], np.int32), reference=lambda x, perm: x)
for axes in (np.int32(-1), np.array([2, 0], np.int32), np.array([], np.int32)):
    sample("axes_last", axes_last, np.array([2, 3, 4], np.int32), axes, reference=last)
sample("axes_last", axes_last, np.array([2, 0]), np.array([0]), reference=last)
