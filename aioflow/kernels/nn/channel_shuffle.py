"""A shuffle of channels between their groups, as networks with convolutions in groups have it, in one op.

Plans make it of a reshape, a transpose and a reshape. oneDNN copies the transposed channels several times as fast as
NumPy.
"""

import functools
import math
from typing import Final

import numpy as np

from aioflow.devices.onednn import available, library
from aioflow.devices.onednn_primitive import ROUTINES, Builder, Layout
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.nn.activation import Function
from aioflow.tensors.dtypes import Array, Namespace, Spec, float32

SMALL: Final = 1 << 13
"""Elements up to which NumPy is not slower."""


@op
def channel_shuffle(input: T, groups: int) -> Spec:
    """`input` with the channels of `groups` groups taken in turn: the first of each, the second of each ..."""
    sizes = input.sizes
    if sizes and sizes[-1] is not None and sizes[-1] % groups:
        raise ValueError(f"{sizes[-1]} channels cannot be divided into {groups} groups")
    return input


channel_shuffle.no_gradient("a plan makes it of operations that have gradients")


@channel_shuffle.kernel(CPU, GPU, fresh=True, binds=True)
def _plain(xp: Namespace, node: NodeView) -> Function:
    groups = node.attrs["groups"]

    def compute(x: Array) -> Array:
        seen = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
        return xp.ascontiguousarray(xp.swapaxes(seen, -1, -2)).reshape(x.shape)

    return compute


def _shuffle(rows: int, groups: int, each: int, build: Builder) -> None:
    """Reorder rows with groups of `each` channels."""
    sizes, channels = (rows, each, groups), each * groups
    source = build.array(build.layout(Layout(sizes, (channels, 1, each))))
    build.reorder(source, build.array(build.layout(Layout(sizes, (channels, groups, 1)))))


@channel_shuffle.kernel(CPU, fresh=True, binds=True, only={float32}, priority=2, when=available)
def _(xp: Namespace, node: NodeView) -> Function:
    lib, otherwise, groups = library(), _plain(xp, node), node.attrs["groups"]
    if lib is None:
        return otherwise

    def compute(x: Array) -> Array:
        if x.size <= SMALL:
            return otherwise(x)
        key = math.prod(x.shape[:-1]), groups, x.shape[-1] // groups
        routine = ROUTINES.find(lib, (_shuffle, *key), functools.partial(_shuffle, *key))
        if routine is None:
            return otherwise(x)
        y = np.empty(x.shape, np.float32)
        routine(np.ascontiguousarray(x), y)
        return y

    return compute
