"""Local response normalisation by oneDNN, for float32."""

import functools
import math
from collections.abc import Callable
from ctypes import c_float, c_int64
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

_INFERENCE: Final = 96
_ACROSS_CHANNELS: Final = 0xAFF
_SRC, _DST = 1, 17
SMALL: Final = 1 << 15
"""Elements up to which NumPy is not slower."""


def _normalise(pixels: int, channels: int, size: int, numbers: tuple[float, float, float], build: Builder) -> None:
    """`size` channels are summed; `numbers` are alpha, beta and bias. The library divides alpha by `size`."""
    alpha, beta, bias = numbers
    layout = build.layout(Layout.dense((1, pixels, 1, channels)).channels_second())
    create, values = "dnnl_lrn_forward_primitive_desc_create", map(c_float, (alpha * size, beta, bias))
    made = build.primitive(create, _INFERENCE, _ACROSS_CHANNELS, layout, layout, c_int64(size), *values)
    build.run(made, {_SRC: build.array(layout), _DST: build.array(layout)})


def declare(op: Op[Tensor], plain: Binding) -> None:
    """Declare a kernel that falls back to `plain` where oneDNN cannot compute."""
    onednn_kernels.declare(op, _bind, plain)


def _bind(node: NodeView, lib: Library, otherwise: Function) -> Function:
    size = 2 * node.attrs["depth_radius"] + 1
    numbers = node.attrs["alpha"], node.attrs["beta"], node.attrs["bias"]

    def compute(x: Array) -> Array:
        key = math.prod(x.shape[:-1]), x.shape[-1], size, numbers
        build = functools.partial(_normalise, *key)
        routine = ROUTINES.find(lib, (_normalise, *key), build) if x.size > SMALL else None
        if routine is None:
            return otherwise(x)
        y = onednn_kernels.result(x.shape)
        routine(np.ascontiguousarray(x), y)
        return y

    return compute
