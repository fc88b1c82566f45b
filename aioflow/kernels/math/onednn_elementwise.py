"""The logistic function of many floats by oneDNN, for `Config(fast_math=True)`: within 4 units in the last place.

Without AVX-512 NumPy's exp takes twice as long as oneDNN's whole logistic function. oneDNN's tanh is slower than
NumPy's there, since it looks up coefficients for each element, and its exp is too inexact.
"""

import contextlib
import functools
from collections.abc import Callable
from ctypes import c_float
from typing import Any, Final

import numpy as np

from aioflow.devices.onednn import available, library
from aioflow.devices.onednn_primitive import Builder, Layout
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels import onednn_kernels
from aioflow.kernels.families import CPU
from aioflow.tensors.dtypes import Array, Namespace, float32

SMALLEST: Final = 1 << 14
"""The number of elements from which on oneDNN is faster."""
LEAST: Final = -40.0
"""The least input for which the result is that good: oneDNN's logistic function tends to 0 too soon."""
_BLOCK: Final = 1 << 17
"""The most elements that the calling thread computes alone: other threads have their own blocks."""
_LOGISTIC: Final = 0x29
_INFERENCE: Final = 96
_SRC, _DST = 1, 17


def _forward(size: int, build: Builder) -> None:
    layout, zero = build.layout(Layout.dense((size,))), c_float(0)
    create = "dnnl_eltwise_forward_primitive_desc_create"
    made = build.primitive(create, _INFERENCE, _LOGISTIC, layout, layout, zero, zero)
    build.run(made, {_SRC: build.array(layout), _DST: build.array(layout)})


def logistic(x: Array, out: Array | None = None) -> Array | None:
    """1 / (1 + exp(-x)) of a contiguous array; None if oneDNN cannot compute it well."""
    lib = library()
    if lib is None or not x.flags.c_contiguous or (out is not None and not out.flags.c_contiguous):
        return None
    if not x.min() >= LEAST:  # NaN is not, either
        return None
    routine = ROUTINES.find(lib, (_forward, x.size), functools.partial(_forward, x.size))
    if routine is None:
        return None
    y = onednn_kernels.result(x.shape) if out is None else out
    with lib.one_thread() if x.size <= _BLOCK else contextlib.nullcontext():
        routine(x, y)
    return y


def declare(sigmoid: Op[Tensor], otherwise: Callable[[Namespace], Callable[..., Array]]) -> None:
    """Declare the fast kernel of the op beside that by NumPy alone."""

    @sigmoid.kernel(CPU, out=True, binds=True, only={float32}, priority=1, when=lambda: beats_numpy("exp"), fast=True)
    def _(xp: Namespace, node: NodeView) -> Any:
        exact = otherwise(xp)

        def compute(x: Array, out: Array | None = None) -> Array:
            y = logistic(x, out) if x.size >= SMALLEST else None
            return exact(x, out=out) if y is None else y

        return compute


def beats_numpy(function: str) -> bool:
    """Whether NumPy computes that function without the widest vectors of the processor: then oneDNN is faster."""
    found = np.lib.introspect.opt_func_info(f"^{function}$", "float32")
    targets = [kernel["current"] for kernels in found.values() for kernel in kernels.values()]
    return available() and not any("AVX512" in target or "X86_V4" in target for target in targets)
