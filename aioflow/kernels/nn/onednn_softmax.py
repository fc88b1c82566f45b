"""Softmax, its logarithm and their gradients by oneDNN, for large arrays of float32.

The library does not define its results for NaN and infinity; NumPy computes arrays that contain them.
"""

import functools
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import MOST_AXES, Builder, Layout, Routine
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.kernels.nn.onednn_finite import is_finite
from aioflow.tensors.dtypes import Array, Namespace

Function = Callable[..., Array]
Binding = Callable[[Namespace, NodeView], Function]

SMALL: Final = 1 << 16
"""Elements up to which NumPy is not slower."""
_ACCURATE: Final = 0x30000
_LOGARITHM: Final = 0x30001
_INFERENCE: Final = 96
_TRAINING: Final = 64
_SRC, _DST, _DIFF_SRC, _DIFF_DST = 1, 17, 129, 145


def _forward(algorithm: int, shape: tuple[int, ...], axis: int, build: Builder) -> None:
    layout = build.layout(Layout.dense(shape))
    create = "dnnl_softmax_forward_primitive_desc_create"
    made = build.primitive(create, _INFERENCE, algorithm, layout, layout, axis)
    build.run(made, {_SRC: build.array(layout), _DST: build.array(layout)})


def _backward(algorithm: int, shape: tuple[int, ...], axis: int, build: Builder) -> None:
    layout = build.layout(Layout.dense(shape))
    forward = build.primitive("dnnl_softmax_forward_primitive_desc_create", _TRAINING, algorithm, layout, layout, axis)
    create = "dnnl_softmax_backward_primitive_desc_create"
    made = build.primitive(create, algorithm, layout, layout, layout, axis, forward)
    build.run(made, {_DIFF_DST: build.array(layout), _DST: build.array(layout), _DIFF_SRC: build.array(layout)})


def _found(
    lib: Library, build: Callable[[int, tuple[int, ...], int, Builder], None], algorithm: int, x: Array, axis: int
) -> Routine | None:
    if x.ndim > MOST_AXES:
        return None
    key = algorithm, x.shape, axis % x.ndim
    return ROUTINES.find(lib, (build, *key), functools.partial(build, *key))


def _softmax(algorithm: int, node: NodeView, lib: Library, otherwise: Function) -> Function:
    axis = node.attrs["axis"]

    def compute(logits: Array, out: Array | None = None) -> Array:
        if logits.size <= SMALL:
            return otherwise(logits, out)
        routine = _found(lib, _forward, algorithm, logits, axis)
        if routine is None or not is_finite(lib, logits):
            return otherwise(logits, out=out)
        y = _place(logits, out)
        routine(np.ascontiguousarray(logits), y)
        return _delivered(y, out)

    return compute


def _gradient(algorithm: int, node: NodeView, lib: Library, otherwise: Function) -> Function:
    """The gradient is products and sums, which need no finite operands; that of the logarithm has exp(y)."""
    axis = node.attrs["axis"]

    def compute(dy: Array, y: Array, out: Array | None = None) -> Array:
        if y.size <= SMALL:
            return otherwise(dy, y, out)
        routine = _found(lib, _backward, algorithm, y, axis) if dy.shape == y.shape else None
        if routine is None or (algorithm == _LOGARITHM and not is_finite(lib, y)):
            return otherwise(dy, y, out=out)
        dx = _place(y, None if out is y else out)
        routine(np.ascontiguousarray(dy), np.ascontiguousarray(y), dx)
        return _delivered(dx, out)

    return compute


def _place(x: Array, out: Array | None) -> Array:
    return out if out is not None and out.flags.c_contiguous else onednn_kernels.result(x.shape)


def _delivered(y: Array, out: Array | None) -> Array:
    if out is None or y is out:
        return y
    out[...] = y
    return out


def declare(logarithm: bool, ops: tuple[Op[Tensor], Op[Tensor]], plain: tuple[Binding, Binding]) -> None:
    """Declare the kernels of softmax or of its logarithm, and of its gradient, beside those by NumPy alone."""
    algorithm = _LOGARITHM if logarithm else _ACCURATE
    for op, bind, binding in zip(ops, (_softmax, _gradient), plain, strict=True):
        onednn_kernels.declare(op, functools.partial(bind, algorithm), binding, out=True)
