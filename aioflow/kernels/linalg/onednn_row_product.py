"""The product of one row and a matrix of known size, by a call of dnnl_sgemm whose arguments are prepared.

Such a product takes some twenty microseconds, and Python's part of a call in the middle of a model is slow, since the
weights drive it out of the caches. So the sizes are converted once, when a node is bound. dnnl_sgemm takes a sixth more
than the time of reading the matrix, as do primitives that get it in a layout of their own.
"""

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.devices.onednn import Library, check
from aioflow.devices.onednn_primitive import pointer
from aioflow.tensors.dtypes import Array, Spec

Product = Callable[..., Array]

_FLOAT32: Final = np.dtype(np.float32)
_AS_IT_IS, _ONE, _WHOLE, _NOTHING = ctypes.c_char(b"N"), ctypes.c_int64(1), ctypes.c_float(1), ctypes.c_float(0)


def of_row(lib: Library, general: Product, a: Spec, b: Spec, small: int = 0) -> Product:
    """`general`, a product by dnnl_sgemm, with a shorter way to the same bits if these Specs let `a` be one row.

    That is the case if `b` has more than `small` numbers.
    """
    inner, columns = b.sizes or (None, None)
    if inner is None or columns is None or inner * columns <= small or a.sizes is None or a.sizes[0] not in (1, None):
        return general
    return _prepared(lib, general, inner, columns)


def _prepared(lib: Library, general: Product, inner: int, columns: int) -> Product:
    of_a, of_b, of_y, sgemm = (1, inner), (inner, columns), (1, columns), lib.sgemm
    depth, width = ctypes.c_int64(inner), ctypes.c_int64(columns)

    def product(a: Array, b: Array, out: Array | None = None) -> Array:
        if a.shape != of_a or b.shape != of_b or a.dtype is not _FLOAT32 or b.dtype is not _FLOAT32 or out is not None:
            return general(a, b, out)
        y = np.empty(of_y, _FLOAT32)
        try:
            status = sgemm(
                _AS_IT_IS, _AS_IT_IS, _ONE, width, depth,
                _WHOLE, pointer(a), depth, pointer(b), width, _NOTHING, pointer(y), width,
            )  # fmt: skip
        except ValueError:  # one has gaps
            return general(a, b)
        if status:
            check("dnnl_sgemm", status)
        return y

    return product
