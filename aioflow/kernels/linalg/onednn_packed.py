"""Products of many matrices with one matrix, which oneDNN packs once; and products to whose rows it adds a bias."""

import functools
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import AfterStep, Builder, Handle, Layout
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.kernels.linalg.onednn_matmul import SMALL
from aioflow.tensors.dtypes import Array

_MATMUL: Final = "dnnl_matmul_primitive_desc_create"
_SRC, _DST, _WEIGHTS, _BIAS = 1, 17, 33, 41
_OF_WEIGHTS: Final = 131


def multiplier(lib: Library, matrix: Array, rows: int, adds: bool) -> Callable[[Array, Array], None] | None:
    """A function (a, out) for contiguous arrays: out becomes a @ matrix, or out + a @ matrix if it `adds`.

    Args:
        lib: the library.
        matrix: the matrix to pack.
        rows: the number of rows of each `a`.
        adds: whether the product is added to `out`.

    Returns None if NumPy is as fast, or oneDNN has no optimised product.
    """
    if rows * matrix.size <= SMALL or matrix.dtype != np.float32:
        return None
    if not matrix.flags.forc:
        matrix = np.ascontiguousarray(matrix)
    layout = Layout(matrix.shape, tuple([step // matrix.itemsize for step in matrix.strides]))
    packing, product = [
        ROUTINES.find(lib, (build, layout, rows, adds), functools.partial(build, layout, rows, adds))
        for build in (_packing, _product)
    ]
    if packing is None or product is None:
        return None
    packed = np.empty(packing.elements(1), np.float32)
    packing(matrix, packed)
    return product.holding(packed)


def affine(lib: Library, a: Array, b: Array, bias: Array, out: Array) -> bool:
    """Write a @ b + bias to `out`, all of them contiguous, and say whether oneDNN could. Small ones stay with NumPy."""
    (rows, inner), columns = a.shape, b.shape[1]
    if rows * inner * columns <= SMALL or not a.dtype == b.dtype == bias.dtype == np.float32:
        return False
    sizes = rows, inner, columns
    routine = ROUTINES.find(lib, (_affine, sizes), functools.partial(_affine, sizes))
    if routine is None:
        return False
    routine(a, b, bias, out)
    return True


def _packing(layout: Layout, rows: int, adds: bool, build: Builder) -> None:
    """Take the matrix and its packed form."""
    packed = build.preferred_layout(_described(layout, rows, adds, build), _OF_WEIGHTS)
    build.reorder(build.array(build.layout(layout)), build.array(packed))


def _product(layout: Layout, rows: int, adds: bool, build: Builder) -> None:
    """Take `a`, the result, and the packed matrix."""
    made, (inner, columns) = _described(layout, rows, adds, build), layout.sizes
    a, out = [build.array(build.layout(Layout.dense(shape))) for shape in ((rows, inner), (rows, columns))]
    packed = build.array(build.preferred_layout(made, _OF_WEIGHTS))
    build.run(made, {_SRC: a, _DST: out, _WEIGHTS: packed})


def _described(layout: Layout, rows: int, adds: bool, build: Builder) -> Handle:
    inner, columns = layout.sizes
    a, out = [build.layout(Layout.dense(shape)) for shape in ((rows, inner), (rows, columns))]
    return build.primitive(_MATMUL, a, build.any_layout(layout.sizes), None, out, after=[AfterStep.sum()] * adds)


def _affine(sizes: tuple[int, int, int], build: Builder) -> None:
    rows, inner, columns = sizes
    shapes = (rows, inner), (inner, columns), (1, columns), (rows, columns)
    arrays = [build.layout(Layout.dense(shape)) for shape in shapes]
    made = build.primitive(_MATMUL, *arrays)
    places = [build.array(each) for each in arrays]
    build.run(made, dict(zip((_SRC, _WEIGHTS, _BIAS, _DST), places, strict=True)))
