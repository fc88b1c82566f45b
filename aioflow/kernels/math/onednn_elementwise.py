"""Fast functions of many floats by oneDNN, for `Config(fast_math=True)`: within 4 units in the last place."""

import functools
from collections.abc import Callable
from ctypes import c_float
from typing import Any, Final

import numpy as np

from aioflow.devices.onednn import available, library
from aioflow.devices.onednn_primitive import ROUTINES, Builder, Layout
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.families import CPU
from aioflow.tensors.dtypes import Array, Namespace, float32

TANH: Final = 0x21
LOGISTIC: Final = 0x29
SMALLEST: Final = 1 << 14
"""The number of elements from which on oneDNN is faster."""
_BLOCK: Final = 1 << 17
"""Up to so many elements are computed by the calling thread alone: others have blocks of their own."""
LEAST: Final = {LOGISTIC: -40.0}
"""The least inputs for which the results are that good: oneDNN's logistic function tends to 0 too soon."""
_INFERENCE: Final = 96
_SRC, _DST = 1, 17


def _forward(kind: int, size: int, build: Builder) -> None:
    layout, zero = build.layout(Layout.dense((size,))), c_float(0)
    made = build.primitive("dnnl_eltwise_forward_primitive_desc_create", _INFERENCE, kind, layout, layout, zero, zero)
    build.run(made, {_SRC: build.array(layout), _DST: build.array(layout)})


def apply(kind: int, x: Array, out: Array | None = None) -> Array | None:
    """The function of a contiguous array; None if oneDNN cannot compute it well."""
    lib = library()
    if lib is None or not x.flags.c_contiguous or (out is not None and not out.flags.c_contiguous):
        return None
    if kind in LEAST and not x.min() >= LEAST[kind]:  # NaN is not, either
        return None
    routine = ROUTINES.find(lib, (_forward, kind, x.size), functools.partial(_forward, kind, x.size))
    if routine is None:
        return None
    y = np.empty(x.shape, np.float32) if out is None else out
    if x.size > _BLOCK:
        routine(x, y)
    else:
        with lib.one_thread():
            routine(x, y)
    return y


def declare(
    made: Op[Tensor],
    kind: int,
    plain: Callable[[Namespace, NodeView], Callable[..., Array]],
    when: Callable[[], bool] = available,
) -> None:
    """Declare the fast kernel of an op beside that by NumPy alone."""

    @made.kernel(CPU, out=True, binds=True, only={float32}, priority=1, when=when, fast=True)
    def _(xp: Namespace, node: NodeView) -> Any:
        otherwise = plain(xp, node)

        def compute(x: Array, out: Array | None = None) -> Array:
            y = apply(kind, x, out) if x.size >= SMALLEST else None
            return otherwise(x, out=out) if y is None else y

        return compute


def beats_numpy(function: str) -> bool:
    """Whether NumPy computes that function without the widest vectors of the processor: then oneDNN is faster."""
    found = np.lib.introspect.opt_func_info(f"^{function}$", "float32")
    targets = [kernel["current"] for kernels in found.values() for kernel in kernels.values()]
    return available() and not any("AVX512" in target or "X86_V4" in target for target in targets)
