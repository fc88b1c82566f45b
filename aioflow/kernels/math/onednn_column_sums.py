"""Sums along the first axes of many floats by oneDNN, as the product with a row of ones.

NumPy adds row by row on one thread, which is slow for short rows.
"""

import functools
import math
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.kernels.linalg.onednn_matmul import faster
from aioflow.kernels.math.broadcasting import axes_of
from aioflow.tensors.dtypes import Array, Namespace

Reduce = Callable[[Array], Array]

SMALL: Final = 1 << 17
"""Elements up to which NumPy is not slower."""
_COUNTS: Final = 16
"""The numbers of rows for which a row of ones is kept."""


def declare(op: Op[Tensor], plain: Callable[[Namespace, NodeView], Reduce]) -> None:
    """Declare a kernel that falls back to `plain` for other axes, and where NumPy is as fast."""
    onednn_kernels.declare(op, _bind, plain)


def _bind(node: NodeView, lib: Library, otherwise: Reduce) -> Reduce:
    axis, rank, keep = node.attrs["axis"], node.input_specs[0].rank, bool(node.attrs["keepdims"])
    axes = axes_of(axis, rank) if axis is not None and rank is not None else ()
    count = len(axes)
    if not 0 < count < (rank or 0) or sorted(axes) != list(range(count)):
        return otherwise
    product = faster(lib, np.dot)

    def sums(x: Array) -> Array:
        if x.size <= SMALL or not x.flags.c_contiguous:
            return otherwise(x)
        rows = x.reshape(math.prod(x.shape[:count]), -1)
        return product(_ones(len(rows)), rows).reshape((1,) * (count if keep else 0) + x.shape[count:])

    return sums


@functools.lru_cache(_COUNTS)
def _ones(count: int) -> Array:
    row = np.ones((1, count), np.float32)
    row.flags.writeable = False
    return row
