"""Products of many matrices with the same ones, which oneDNN packs once; and products to whose rows it adds a bias."""

import functools
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import AfterStep, Builder, Handle, Layout, Routine
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.kernels.linalg.onednn_matmul import SMALL, laid
from aioflow.tensors.dtypes import Array

_MATMUL: Final = "dnnl_matmul_primitive_desc_create"
_SRC, _DST, _WEIGHTS, _BIAS = 1, 17, 33, 41
_OF_WEIGHTS: Final = 131


class Product(NamedTuple):
    """The products of a matrix with each of several matrices, and what follows before they are written.

    Attributes:
        matrices: the matrices, all of one shape and with the same steps in memory.
        result: the layout of the result, [matrices, rows, columns].
        after: the steps that follow; they take no arrays.
    """

    matrices: Sequence[Array]
    result: Layout
    after: tuple[AfterStep, ...] = ()


class _Problem(NamedTuple):
    """A product, with the number and the layout of its matrices."""

    number: int
    matrix: Layout
    result: Layout
    after: tuple[AfterStep, ...]

    def given(self, build: Builder) -> Handle:
        """The layout of one of the matrices."""
        (rows, columns), steps = self.matrix
        return build.layout(Layout((1, rows, columns), (rows * columns, *steps)))

    def left(self, build: Builder) -> Handle:
        """The layout of the matrix that is multiplied."""
        return build.layout(Layout.dense((1, self.result.sizes[1], self.matrix.sizes[0])))

    def primitive(self, build: Builder) -> Handle:
        """The descriptor of the primitive."""
        packed = build.any_layout((self.number, *self.matrix.sizes))
        return build.primitive(_MATMUL, self.left(build), packed, None, build.layout(self.result), after=self.after)

    def packed(self, build: Builder) -> Handle:
        """The layout of the matrices that the primitive prefers."""
        return build.preferred_layout(self.primitive(build), _OF_WEIGHTS)


def multiplier(lib: Library, *products: Product) -> Routine | None:
    """A function (a, *outs) that writes these products of a contiguous matrix `a`, one after the other.

    Of `outs` it takes the addresses alone. Returns None if oneDNN has no optimised product.
    """
    matrices = [laid(matrix) for product in products for matrix in product.matrices]
    problems = tuple([_Problem(len(each.matrices), laid(each.matrices[0])[1], *each[1:]) for each in products])
    packing, multiply = [
        ROUTINES.find(lib, (build, problems), functools.partial(build, problems)) for build in (_packing, _products)
    ]
    if packing is None or multiply is None:
        return None
    packed = [np.empty(packing.elements(len(matrices) + place), np.float32) for place in range(len(problems))]
    packing(*[matrix for matrix, _ in matrices], *packed)
    return multiply.holding(*packed)


def affine(lib: Library, a: Array, b: Array, bias: Array, out: Array) -> bool:
    """Write a @ b + bias to `out`, and say whether oneDNN could. Small ones stay with NumPy.

    All but `b` are contiguous.
    """
    if len(a) * b.size <= SMALL or not a.dtype == b.dtype == bias.dtype == np.float32:
        return False
    b, layout = laid(b)
    routine = ROUTINES.find(lib, (_affine, len(a), layout), functools.partial(_affine, len(a), layout))
    if routine is None:
        return False
    routine(a, b, bias, out)
    return True


def _packing(problems: Sequence[_Problem], build: Builder) -> None:
    """Take the matrices of all products, and then the packed ones of each product."""
    given = [[build.array(problem.given(build)) for _ in range(problem.number)] for problem in problems]
    for problem, matrices in zip(problems, given, strict=True):
        packed = build.array(problem.packed(build))
        for place, matrix in enumerate(matrices):
            build.reorder(matrix, build.piece(packed, (1, *problem.matrix.sizes), (place, 0, 0)))


def _products(problems: Sequence[_Problem], build: Builder) -> None:
    """Take `a`, the results, and the packed matrices of each product."""
    a = build.array(problems[0].left(build))
    outs = [build.array(build.layout(problem.result)) for problem in problems]
    for problem, out in zip(problems, outs, strict=True):
        build.run(problem.primitive(build), {_SRC: a, _DST: out, _WEIGHTS: build.array(problem.packed(build))})


def _affine(rows: int, of_b: Layout, build: Builder) -> None:
    inner, columns = of_b.sizes
    dense = [Layout.dense(shape) for shape in ((rows, inner), (1, columns), (rows, columns))]
    a, bias, out = map(build.layout, dense)
    b = build.layout(of_b)
    places = [build.array(each) for each in (a, b, bias, out)]
    build.run(build.primitive(_MATMUL, a, b, bias, out), dict(zip((_SRC, _WEIGHTS, _BIAS, _DST), places, strict=True)))
