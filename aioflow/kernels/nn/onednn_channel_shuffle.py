"""A shuffle of channels by oneDNN, which copies transposed channels several times as fast as NumPy."""

import functools
import math
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import Builder, Layout
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.tensors.dtypes import Array, Namespace

Function = Callable[..., Array]
Binding = Callable[[Namespace, NodeView], Function]

SMALL: Final = 1 << 13
"""Elements up to which NumPy is not slower."""


def _shuffle(rows: int, groups: int, each: int, build: Builder) -> None:
    """Reorder rows with groups of `each` channels."""
    sizes, channels = (rows, each, groups), each * groups
    source = build.array(build.layout(Layout(sizes, (channels, 1, each))))
    build.reorder(source, build.array(build.layout(Layout(sizes, (channels, groups, 1)))))


def declare(op: Op[Tensor], plain: Binding) -> None:
    """Declare a kernel that falls back to `plain` where oneDNN cannot compute, or is slower."""
    onednn_kernels.declare(op, _bind, plain)


def _bind(node: NodeView, lib: Library, otherwise: Function) -> Function:
    groups = node.attrs["groups"]

    def compute(x: Array) -> Array:
        key = math.prod(x.shape[:-1]), groups, x.shape[-1] // groups
        build = functools.partial(_shuffle, *key)
        routine = ROUTINES.find(lib, (_shuffle, *key), build) if x.size > SMALL else None
        if routine is None:
            return otherwise(x)
        y = onednn_kernels.result(x.shape)
        routine(np.ascontiguousarray(x), y)
        return y

    return compute
