"""The product of matrices, one or a batch of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.devices import onednn
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, NARROW, elements, sum_along
from aioflow.kernels.linalg import onednn_matmul
from aioflow.kernels.linalg.onednn_row_product import of_row
from aioflow.kernels.math.complex import conj
from aioflow.tensors.dtypes import NUMERIC, UNKNOWN, Array, Namespace, Spec, TensorShape, float32, merge_sizes

Product = Callable[..., Array]


@op
def matmul(
    a: T,
    b: T,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
) -> Spec:
    """The matrix product of a and b, each optionally transposed, or transposed and conjugated.

    Tensors of higher rank are batches of matrices in their last two axes; the axes before broadcast by NumPy's rule.
    Narrow floats are multiplied as float32 on the CPU and rounded once. That a or b is sparse is a
    hint without meaning.

    Examples:
        >>> await session.run(af.matmul([[1, 2]], [[3], [4]]))
        array([[11]], dtype=int32)
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("a matrix is either transposed or adjoint, not both")
    a.only(NUMERIC).same_dtype(b)
    for spec in (a, b):
        if spec.rank is not None and spec.rank < 2:
            raise ValueError(f"a matrix has at least rank 2, the shape is {spec.shape}")
    return Spec(a.dtype, product_shape(a, b, transpose_a or adjoint_a, transpose_b or adjoint_b))


def product_shape(a: Spec, b: Spec, flip_a: bool, flip_b: bool) -> TensorShape:
    """The shape of the product of two matrices or batches. ValueError if they do not fit."""
    if a.sizes is None or b.sizes is None:
        return UNKNOWN
    rows, inner = a.sizes[-2:][:: -1 if flip_a else 1]
    other, columns = b.sizes[-2:][:: -1 if flip_b else 1]
    try:
        merge_sizes(inner, other)
    except ValueError:
        raise ValueError(f"the inner sizes {inner} and {other} differ") from None
    if not flip_a and len(b.sizes) == 2 and columns is not None and columns == inner:
        return a.shape
    batch = Spec(a.dtype, TensorShape(a.sizes[:-2])).broadcast(Spec(b.dtype, TensorShape(b.sizes[:-2])))
    return batch.concatenate((rows, columns))


@matmul.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    a, b = op.inputs
    flip_a, flip_b, adjoint_a, adjoint_b = _flips(op.attrs)
    x, y = a if adjoint_a else conj(a), b if adjoint_b else conj(b)
    da = matmul(y, dy, flip_b, True) if flip_a else matmul(dy, y, transpose_b=not flip_b)
    if _is_layer(a, b) and not flip_a:
        inner, columns = (b.spec.sizes or ())[:: -1 if flip_b else 1]
        x, dy = OPERATORS["reshape"](x, [-1, inner]), OPERATORS["reshape"](dy, [-1, columns])
    db = matmul(dy, x, True, flip_a) if flip_b else matmul(x, dy, transpose_a=not flip_a)
    da, db = conj(da) if adjoint_a else da, conj(db) if adjoint_b else db
    return _unbatched(a, da, b), _unbatched(b, db, a)


def _flips(attrs: Any) -> tuple[bool, bool, bool, bool]:
    adjoint_a, adjoint_b = attrs["adjoint_a"], attrs["adjoint_b"]
    return attrs["transpose_a"] or adjoint_a, attrs["transpose_b"] or adjoint_b, adjoint_a, adjoint_b


def _is_layer(a: Tensor, b: Tensor) -> bool:
    """Whether a batch of matrices meets one matrix of known size: then its gradient is one product, not a batch."""
    return b.spec.rank == 2 and (a.spec.rank or 0) > 2 and all(size for size in b.spec.sizes or (None,))


def _unbatched(operand: Tensor, gradient: Tensor, other: Tensor) -> Tensor:
    """`gradient` summed over the batch axes that `operand` was broadcast along."""
    if other.spec.rank == 2 or gradient.spec.rank == operand.spec.rank == 2:
        return gradient
    sizes = other.spec.sizes
    return sum_along(operand, gradient, None if sizes is None else (*sizes[:-2], 1, 1))


@matmul.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    flipped = attrs["transpose_a"] or attrs["adjoint_a"]
    inner = UNKNOWN if inputs[0].sizes is None else TensorShape(inputs[0].sizes[-2 if flipped else -1 :][:1])
    return 2 * elements(outputs[0]) * elements(Spec(inputs[0].dtype, inner))


@matmul.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Product:
    a, b = node.input_specs
    product = matrix_product(xp) if a.rank == b.rank == 2 else _batched(matrix_product(xp), xp.matmul)
    return _flipped(xp, product, node)


@matmul.kernel(CPU, fresh=True, binds=True, only=NARROW, priority=1)
def _(xp: Namespace, node: NodeView) -> Product:
    product, dtype = _flipped(xp, _batched(matrix_product(xp), xp.matmul), node), node.output_specs[0].dtype.np
    return lambda a, b: product(a.astype(xp.float32), b.astype(xp.float32)).astype(dtype)


@matmul.kernel(CPU, out=True, binds=True, only={float32}, priority=1, when=onednn.available)
def _(xp: Namespace, node: NodeView) -> Product:
    (a, b), lib = node.input_specs, onednn.library()
    if lib is None:
        dot, matmul = matrix_product(xp), xp.matmul
    else:
        dot, matmul = onednn_matmul.faster(lib, matrix_product(xp)), onednn_matmul.faster_batches(lib, xp.matmul)
    if a.rank != 2 or b.rank != 2:
        return _flipped(xp, _batched(dot, matmul), node)
    if lib is None or onednn_matmul.is_small(a, node.output_specs[0]):
        return _flipped(xp, matrix_product(xp), node)
    return _flipped(xp, dot, node) if any(_flips(node.attrs)) else of_row(lib, dot, a, b, onednn_matmul.SMALL)


def matrix_product(xp: Namespace) -> Product:
    """The product of two matrices; by NumPy's own method of arrays: half the overhead of `matmul` for small ones."""
    matmul: Product = xp.matmul
    if xp is not np:
        return matmul
    dot = xp.ndarray.dot

    def product(a: Array, b: Array, out: Array | None = None) -> Array:
        if out is None:
            return dot(a, b)
        return dot(a, b, out) if out.flags.c_contiguous else matmul(a, b, out=out)

    return product


def _batched(dot: Product, matmul: Product) -> Product:
    """The product of batches; by one big product where all matrices of a batch meet the same one."""

    def product(a: Array, b: Array, out: Array | None = None) -> Array:
        if a.ndim > 2 and b.ndim > 2:
            return matmul(a, b, out=out)
        if a.ndim < 2 or b.ndim < 2:
            raise errors.InvalidArgumentError(f"matrices have at least rank 2, not {a.ndim} and {b.ndim}")
        if out is not None or a.ndim == 2 or not a.flags.c_contiguous:
            return matmul(a, b, out=out)
        *batch, inner = a.shape
        return dot(a.reshape(math.prod(batch), inner), b).reshape(*batch, b.shape[1])

    return product


def _flipped(xp: Namespace, product: Product, node: NodeView) -> Product:
    """`product` of a and b, transposed or conjugated by the flags; transposes are views, which BLAS accepts."""
    flip_a, flip_b, adjoint_a, adjoint_b = _flips(node.attrs)
    is_complex = node.output_specs[0].dtype.is_complex
    if is_complex and (adjoint_a or adjoint_b):
        plain = product

        def product(a: Array, b: Array, out: Array | None = None) -> Array:
            return plain(a.conj() if adjoint_a else a, b.conj() if adjoint_b else b, out)

    if not (flip_a or flip_b):
        return product
    if not flip_b:
        return lambda a, b, out=None: product(a.swapaxes(-1, -2), b, out)
    if not flip_a:
        return lambda a, b, out=None: product(a, b.swapaxes(-1, -2), out)
    return lambda a, b, out=None: product(a.swapaxes(-1, -2), b.swapaxes(-1, -2), out)


OPERATORS["matmul"] = matmul
