"""The gradient of the rectified linear unit by oneDNN, for large arrays of float32."""

import functools
from collections.abc import Callable
from ctypes import c_float
from typing import Any, Final

from aioflow.devices.onednn import available, library
from aioflow.devices.onednn_primitive import Builder, Layout
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.kernels.families import CPU
from aioflow.tensors.dtypes import Array, Namespace, float32

Function = Callable[..., Array]

SMALL: Final = 1 << 17
"""The number of elements up to which NumPy computes: about as fast, and compute threads split such parts."""
_TRAINING: Final = 64
_OF_RESULT: Final = 0x100
_DST, _DIFF_SRC, _DIFF_DST = 17, 129, 145


def _backward(size: int, build: Builder) -> None:
    layout, zero = build.layout(Layout.dense((size,))), c_float(0)
    forward = build.primitive(
        "dnnl_eltwise_forward_primitive_desc_create", _TRAINING, _OF_RESULT, layout, layout, zero, zero
    )
    create = "dnnl_eltwise_backward_primitive_desc_create"
    made = build.primitive(create, _OF_RESULT, layout, layout, layout, zero, zero, forward)
    build.run(made, {_DIFF_DST: build.array(layout), _DST: build.array(layout), _DIFF_SRC: build.array(layout)})


def declare(relu_grad: Op[Tensor], plain: Callable[[Namespace, NodeView], Function]) -> None:
    """Declare the kernel beside that by NumPy alone."""

    @relu_grad.kernel(CPU, out=True, binds=True, only={float32}, priority=1, when=available)
    def _(xp: Namespace, node: NodeView) -> Any:
        lib, otherwise = library(), plain(xp, node)

        def compute(dy: Array, y: Array, out: Array | None = None) -> Array:
            size = dy.size
            if size <= SMALL or dy.shape != y.shape or not (dy.flags.c_contiguous and y.flags.c_contiguous):
                return otherwise(dy, y, out=out)
            routine = ROUTINES.find(lib, (_backward, size), functools.partial(_backward, size)) if lib else None
            if routine is None or (out is not None and not out.flags.c_contiguous):
                return otherwise(dy, y, out=out)
            dx = onednn_kernels.result(dy.shape) if out is None else out
            routine(dy, y, dx)
            return dx

        return otherwise if lib is None else compute
