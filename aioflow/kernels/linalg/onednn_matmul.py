"""Products of matrices of float32 by oneDNN, where it is faster than NumPy's.

Small products stay with NumPy: its BLAS uses one thread and its call costs less; for large ones oneDNN is faster. All
products for which NumPy's BLAS would use more threads belong to oneDNN, because the thread pools of two libraries
disturb each other: a training step of large products by oneDNN and one small product by NumPy on two cores took three
times as long.
"""

import functools
import math
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.devices.onednn import Library, check
from aioflow.devices.onednn_primitive import Builder, Layout, address
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.devices.onednn_scratch import LINE, SCRATCH
from aioflow.kernels import onednn_kernels
from aioflow.resources.variable_memory import LONG, VECTOR
from aioflow.tensors.dtypes import Array, Spec

Product = Callable[..., Array]

SMALL: Final = 1 << 18
"""Multiplications up to which NumPy's BLAS computes a product on one thread."""
_SLOW: Final = 1 << 23
"""Multiplications from which dnnl_sgemm is slow at a transposed `b`."""
_SRC, _DST, _WEIGHTS = 1, 17, 33
_GAP: Final = 16
"""The numbers between the rows of a copy whose columns fall on different lines."""
_ROWS, _INNER = 32, 128
"""The rows of a and of b from which a copy of b costs less than it saves."""
_WORTH: Final = 1 << 14
"""The numbers of b for each row of a up to which it does."""
_EITHER: Final = 0.0038
"""The sum of 1 / rows and 1 / columns up to which dnnl_sgemm packs b wherever it begins."""
_COLUMNS, _DEPTH = 128, 256
"""The columns and the rows of b from which a copy of a costs less than it saves."""


def faster(lib: Library, dot: Product, small: int = SMALL) -> Product:
    """`dot`, the product of two matrices, by oneDNN if it is not `small`. They may be transposed views."""
    sgemm, arranged = lib.sgemm, _as_it_is if lib.avx512 else _arranged

    def product(a: Array, b: Array, out: Array | None = None) -> Array:
        if a.size * b.shape[1] <= small or a.shape[1] != b.shape[0] or not a.dtype == b.dtype == np.float32:
            return dot(a, b, out)
        (a, flip_a), (b, flip_b) = _flat(a), _flat(b)
        rows, inner = a.shape[:: -1 if flip_a else 1]
        columns = b.shape[0 if flip_b else 1]
        place = _place((rows, columns), out, a, b)
        if flip_b and not flip_a and rows * columns * inner > _SLOW:
            routine = ROUTINES.find(
                lib, (_by_columns, rows, columns, inner), functools.partial(_by_columns, rows, columns, inner)
            )
            if routine is not None:
                routine(a, b, place)
                return _delivered(place, out)
        a, step, b = (_as_it_is if flip_b else arranged)(a, b, flip_a)
        status = sgemm(
            b"T" if flip_a else b"N", b"T" if flip_b else b"N", rows, columns, inner,
            1.0, address(a), step, address(b), b.shape[1], 0.0, address(place), columns,
        )  # fmt: skip
        check("dnnl_sgemm", status)
        return _delivered(place, out)

    return product


def is_small(a: Spec, product: Spec) -> bool:
    """Whether the sizes of `a` and of the product of two matrices are known, and leave it to NumPy."""
    count, sizes = a.shape.num_elements(), product.sizes or (None,)
    if count is None or sizes[-1] is None:
        return False
    return count * sizes[-1] <= SMALL


def faster_batches(lib: Library, matmul: Product) -> Product:
    """`matmul`, the products of two batches of matrices, by oneDNN if the matrices are large and need no broadcast."""

    def products(a: Array, b: Array, out: Array | None = None) -> Array:
        (rows, inner), columns = a.shape[-2:], b.shape[-1]
        if rows * inner * columns <= SMALL:
            return matmul(a, b, out=out)
        batch = a.shape[:-2]
        fit = batch == b.shape[:-2] and b.shape[-2] == inner
        if not (fit and math.prod(batch) and a.dtype == b.dtype == np.float32):
            return matmul(a, b, out=out)
        (a, of_a), (b, of_b) = laid(a), laid(b)
        routine = ROUTINES.find(lib, (_by_matrix, of_a, of_b), functools.partial(_by_matrix, of_a, of_b))
        place = _place((*batch, rows, columns), out, a, b)
        if routine is None:
            matmul(a, b, out=place)
        else:
            routine(a, b, place)
        return _delivered(place, out)

    return products


def laid(x: Array) -> tuple[Array, Layout]:
    """The batch, and how it lies in memory. Only one whose rows and columns both have gaps is copied."""
    if x.flags.c_contiguous:
        return x, Layout.dense(x.shape)
    if not _is_readable(x):
        x = np.ascontiguousarray(x)
    return x, Layout(x.shape, tuple([step // x.itemsize for step in x.strides]))


def _is_readable(x: Array) -> bool:
    """Whether the rows or the columns are free of gaps, and no two elements share memory."""
    end = step = x.itemsize
    if step not in x.strides[-2:]:
        return False
    for step, size in sorted(zip(x.strides, x.shape, strict=True)):
        if step < end or step % x.itemsize:
            return False
        end = step * size
    return True


def _by_matrix(of_a: Layout, of_b: Layout, build: Builder) -> None:
    """The products of two batches."""
    of_c = Layout.dense((*of_a.sizes[:-1], of_b.sizes[-1]))
    a, b, c = map(build.layout, (of_a, of_b, of_c))
    made = build.primitive("dnnl_matmul_primitive_desc_create", a, b, None, c)
    places = build.array(a), build.array(b), build.array(c)
    build.run(made, dict(zip((_SRC, _WEIGHTS, _DST), places, strict=True)))


def _flat(x: Array) -> tuple[Array, bool]:
    """The matrix without gaps in memory, or its transpose, and whether it is that."""
    if x.flags.c_contiguous:
        return x, False
    return (x.T, True) if x.flags.f_contiguous else (np.ascontiguousarray(x), False)


def _as_it_is(a: Array, b: Array, flip_a: bool) -> tuple[Array, int, Array]:
    """The matrices, and between them the distance of the rows of `a`."""
    return a, a.shape[1], b


def _arranged(a: Array, b: Array, flip_a: bool) -> tuple[Array, int, Array]:
    """The same, or copies in scratch memory that dnnl_sgemm multiplies faster. The product has the same bits.

    A transposed `a` of long rows gets gaps between them. A `b` of long rows begins where dnnl_sgemm packs it: between
    two multiples of the bytes of a vector. With AVX-512 it has other kernels.
    """
    (inner, columns), rows = b.shape, a.shape[1 if flip_a else 0]
    spread = flip_a and not rows % LONG and columns >= _COLUMNS and inner >= _DEPTH
    packed = not columns % LONG and _is_worth_packing(rows, inner, columns) and not b.ctypes.data % VECTOR
    if not spread and not packed:
        return _as_it_is(a, b, flip_a)
    width = rows + _GAP if spread else 0
    shift = inner * width + VECTOR // 8
    numbers = _scratch(shift + (b.size if packed else 0))
    if spread:
        a = _copied(a, numbers[: inner * width].reshape(inner, width)[:, :rows])
    if packed:
        b = _copied(b, numbers[shift:].reshape(b.shape))
    return a, width or a.shape[1], b


def _is_worth_packing(rows: int, inner: int, columns: int) -> bool:
    if rows < _ROWS or inner < _INNER:
        return False
    return inner * columns <= _WORTH * rows and rows + columns > _EITHER * rows * columns


def _scratch(count: int) -> Array:
    """Return `count` numbers of scratch memory, aligned to a line of the cache."""
    memory = SCRATCH.take(4 * count + LINE)
    begin = -memory.ctypes.data % LINE
    numbers: Array = memory[begin : begin + 4 * count].view(np.float32)
    return numbers


def _copied(x: Array, place: Array) -> Array:
    np.copyto(place, x)
    return place


def _place(shape: tuple[int, ...], out: Array | None, a: Array, b: Array) -> Array:
    """Where to write: `out` if that is possible while `a` and `b` are read."""
    if out is None or not out.flags.c_contiguous or address(out) in (address(a), address(b)):
        return onednn_kernels.result(shape)
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
