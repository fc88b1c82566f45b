"""Whether an array of floats is finite, by oneDNN, whose threads share the elements."""

import functools
import math
from typing import Final

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import Builder
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.kernels.nn import onednn_pooling
from aioflow.kernels.nn.onednn_convolution import images_layout
from aioflow.tensors.dtypes import Array

SMALL: Final = 1 << 16
"""Elements up to which NumPy is not slower."""
_ROWS, _FEW = 128, 16
"""The elements of one mean, at most and at least."""


def is_finite(lib: Library, x: Array) -> bool:
    """Whether all elements are finite. It may also be False where elements are so large that sums of them are not."""
    rows = math.gcd(x.size, _ROWS)
    if x.size <= SMALL or rows < _FEW or not x.flags.c_contiguous:
        return math.isfinite(x.max()) and math.isfinite(x.min())
    columns = x.size // rows
    routine = ROUTINES.find(lib, (_means, rows, columns), functools.partial(_means, rows, columns))
    if routine is None:
        return math.isfinite(x.max()) and math.isfinite(x.min())
    means = np.empty(columns, np.float32)
    routine(x, means)
    return bool(np.isfinite(means).all())


def _means(rows: int, columns: int, build: Builder) -> None:
    x, means = [build.array(build.layout(images_layout((1, each, 1, columns), True))) for each in (rows, 1)]
    onednn_pooling.add_means(build, x, means, (rows, 1))
