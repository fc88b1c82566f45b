"""Declares kernels by oneDNN beside those that need NumPy alone: for float32 on a CPU, where oneDNN is installed."""

import math
from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np

from aioflow.devices.onednn import Library, available, library
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.kernels.families import CPU
from aioflow.resources.buffers import BUFFERS
from aioflow.tensors.dtypes import Array, DType, Namespace, float32

Function = Callable[..., Any]
"""Computes the outputs of a node from its inputs."""
_FLOAT32: Final = np.dtype(np.float32)
_LARGE: Final = 1 << 18
"""Elements. Larger results use the memory of earlier values again."""


def declare(
    op: Op[Any],
    bind: Callable[[NodeView, Library, Function], Function],
    plain: Callable[[Namespace, NodeView], Function],
    *,
    out: bool = False,
    beside: Collection[DType] = (),
) -> None:
    """Declare a kernel for float32.

    Args:
        op: its op.
        bind: (node, library, otherwise) -> the function of a node, which calls `otherwise` where oneDNN cannot compute,
            or is slower.
        plain: the kernel that needs NumPy alone.
        out: whether the function takes an `out`.
        beside: dtypes that inputs beside the floats may have.
    """

    @op.kernel(CPU, out=out, fresh=True, binds=True, only={float32, *beside}, priority=2, when=available)
    def _(xp: Namespace, node: NodeView) -> Function:
        lib, otherwise = library(), plain(xp, node)
        return otherwise if lib is None else bind(node, lib, otherwise)


def result(shape: tuple[int, ...]) -> Array:
    """A float32 array of any content, for a kernel to fill."""
    return BUFFERS.empty(shape, _FLOAT32) if math.prod(shape) > _LARGE else np.empty(shape, np.float32)
