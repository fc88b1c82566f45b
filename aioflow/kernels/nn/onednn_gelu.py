"""Gelu and its gradient by oneDNN, for arrays of floats: as exact as the formulas in float32.

It computes short arrays, too, on the calling thread. Parts of an array get the bits of the whole.
"""

import contextlib
import functools
from collections.abc import Callable
from ctypes import c_float
from typing import Any, Final

import numpy as np

from aioflow.devices.onednn import Library, available, library
from aioflow.devices.onednn_primitive import Builder, Layout
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.kernels.families import CPU
from aioflow.kernels.nn.onednn_finite import is_finite
from aioflow.tensors.dtypes import Array, Namespace, float32

Function = Callable[..., Array]

BY_TANH, BY_ERF = 0x2B, 0x31
"""oneDNN's numbers of the two functions."""
_ALONE: Final = 1 << 15
"""The most elements that the calling thread computes alone: to wake other threads takes as long."""
FAR: Final = 100.0
"""The slopes are exactly 0 and 1 from here on. Far beyond, the formulas take NaN from infinite parts."""
_TRAINING: Final = 64
_SRC, _DST, _DIFF_SRC, _DIFF_DST = 1, 17, 129, 145


def _forward(function: int, size: int, build: Builder) -> None:
    layout, zero = build.layout(Layout.dense((size,))), c_float(0)
    create = "dnnl_eltwise_forward_primitive_desc_create"
    made = build.primitive(create, _TRAINING, function, layout, layout, zero, zero)
    build.run(made, {_SRC: build.array(layout), _DST: build.array(layout)})


def _backward(function: int, size: int, build: Builder) -> None:
    layout, zero = build.layout(Layout.dense((size,))), c_float(0)
    create = "dnnl_eltwise_{}_primitive_desc_create"
    forward = build.primitive(create.format("forward"), _TRAINING, function, layout, layout, zero, zero)
    made = build.primitive(create.format("backward"), function, layout, layout, layout, zero, zero, forward)
    build.run(made, {place: build.array(layout) for place in (_DIFF_DST, _SRC, _DIFF_SRC)})


def declare(op: Op[Tensor], function: int, plain: Callable[[Namespace], Function], *, backward: bool) -> None:
    """Declare the kernel of gelu or of its gradient, beside that by NumPy alone.

    It writes into no input, because it may read them once more. So it is in no chain, whose threads and those of oneDNN
    would hinder each other.
    """
    build = functools.partial(_backward if backward else _forward, function)

    @op.kernel(CPU, fresh=True, binds=True, only={float32}, priority=2, when=available)
    def _(xp: Namespace, node: NodeView) -> Any:
        lib, otherwise = library(), plain(xp)
        return otherwise if lib is None else functools.partial(_compute, lib, (function, backward), build, otherwise)


def _compute(
    lib: Library, key: tuple[int, bool], build: Callable[..., None], otherwise: Function, *inputs: Array
) -> Array:
    shape, size = inputs[-1].shape, inputs[-1].size
    if not (shape and size) or inputs[0].shape != shape:
        return otherwise(*inputs)
    routine = ROUTINES.find(lib, (_compute, key, size), functools.partial(build, size))
    if routine is None:
        return otherwise(*inputs)
    y, (*dy, x) = onednn_kernels.result(shape), [np.ascontiguousarray(array) for array in inputs]
    with lib.one_thread() if size <= _ALONE else contextlib.nullcontext():
        routine(*dy, x, y)
        if not is_finite(lib, y):
            routine(*dy, np.clip(x, -FAR, FAR), y)
            if not dy:
                np.copyto(y, np.where(x > 0, x, x * 0), where=abs(x) > FAR)
    return y
