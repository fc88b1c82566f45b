"""The product of two matrices of float32 by oneDNN, where it is faster than NumPy's.

Small products stay with NumPy: its BLAS uses one thread and its call costs less; for large ones oneDNN is faster. One
library should also compute all large operations, because the thread pools of two libraries disturb each other.
"""

import functools
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.devices.onednn import Library, check
from aioflow.devices.onednn_primitive import ROUTINES, Builder, Layout
from aioflow.tensors.dtypes import Array

Product = Callable[..., Array]

SMALL: Final = 1 << 19
"""Multiplications up to which NumPy's product is not slower."""
_SRC, _DST, _WEIGHTS = 1, 17, 33


def faster(lib: Library, dot: Product) -> Product:
    """`dot`, the product of two matrices, by oneDNN if they are large. They may be transposed views."""
    sgemm = lib.sgemm

    def product(a: Array, b: Array, out: Array | None = None) -> Array:
        if a.size * b.shape[1] <= SMALL or a.shape[1] != b.shape[0] or not a.dtype == b.dtype == np.float32:
            return dot(a, b, out)
        (a, flip_a), (b, flip_b) = _flat(a), _flat(b)
        rows, inner = a.shape[:: -1 if flip_a else 1]
        columns = b.shape[0 if flip_b else 1]
        place = _place(rows, columns, out, a, b)
        if flip_b and not flip_a and rows * columns * inner > 16 * SMALL:
            routine = ROUTINES.find(
                lib, (_by_columns, rows, columns, inner), functools.partial(_by_columns, rows, columns, inner)
            )
            if routine is not None:
                routine(a, b, place)
                return _delivered(place, out)
        status = sgemm(
            b"T" if flip_a else b"N", b"T" if flip_b else b"N", rows, columns, inner,
            1.0, a.ctypes.data, a.shape[1], b.ctypes.data, b.shape[1], 0.0, place.ctypes.data, columns,
        )  # fmt: skip
        check("dnnl_sgemm", status)
        return _delivered(place, out)

    return product


def _flat(x: Array) -> tuple[Array, bool]:
    """The matrix without gaps in memory, or its transpose, and whether it is that."""
    if x.flags.c_contiguous:
        return x, False
    return (x.T, True) if x.flags.f_contiguous else (np.ascontiguousarray(x), False)


def _place(rows: int, columns: int, out: Array | None, a: Array, b: Array) -> Array:
    """Where to write: `out` if that is possible while `a` and `b` are read."""
    if out is None or not out.flags.c_contiguous or out.ctypes.data in (a.ctypes.data, b.ctypes.data):
        return np.empty((rows, columns), np.float32)
    return out


def _delivered(place: Array, out: Array | None) -> Array:
    if out is None or place is out:
        return place
    out[...] = place
    return out


def _by_columns(rows: int, columns: int, inner: int, build: Builder) -> None:
    """The product with a transposed matrix, for which dnnl_sgemm is slow."""
    a = build.layout(Layout((rows, inner), (inner, 1)))
    b = build.layout(Layout((inner, columns), (1, inner)))
    c = build.layout(Layout((rows, columns), (columns, 1)))
    made = build.primitive("dnnl_matmul_primitive_desc_create", a, b, None, c)
    places = build.array(a), build.array(b), build.array(c)
    build.run(made, dict(zip((_SRC, _WEIGHTS, _DST), places, strict=True)))
