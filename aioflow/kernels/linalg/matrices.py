"""Shared parts of ops on matrices: tensors whose last two axes are rows and columns, with batch axes before."""

from collections.abc import Callable, Sequence
from typing import Any, Final, SupportsInt

import numpy as np

from aioflow import errors
from aioflow.graph.convert import constant_value
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import elements, sum_along
from aioflow.tensors.dtypes import (
    Array,
    Namespace,
    Sizes,
    Spec,
    TensorShape,
    broadcast_shapes,
    complex64,
    complex128,
    float32,
    float64,
    merge_sizes,
)

Function = Callable[..., Any]

LINEAR: Final = frozenset((float32, float64, complex64, complex128))
"""The dtypes that LAPACK computes in; narrower floats are too coarse for it."""
_OPEN_SIZE: Final = 32

# Shape rules


def matrices(x: Spec) -> Spec:
    """`x` itself, if its last two axes can be those of matrices that LAPACK takes."""
    if x.rank is not None and x.rank < 2:
        raise ValueError(f"a matrix has at least rank 2, the shape is {x.shape}")
    return x.only(LINEAR)


def square(x: Spec) -> Spec:
    """The same for square matrices; with both sizes, if one is known."""
    sizes = matrices(x).sizes
    if sizes is None:
        return x
    rows, columns = sizes[-2:]
    if None not in (rows, columns) and rows != columns:
        raise ValueError(f"a square matrix is needed, the shape is {x.shape}")
    size = merge_sizes(rows, columns)
    return x if rows == columns else x.with_shape((*sizes[:-2], size, size))


def batch_of(x: Spec) -> TensorShape:
    """The shape of the axes before the last two."""
    return TensorShape(None if x.sizes is None else x.sizes[:-2])


def solution(matrix: Spec, rhs: Spec) -> Spec:
    """The x with `matrix` x = `rhs`, for square matrices; batches broadcast by NumPy's rule."""
    matrix = square(matrix)
    matrices(rhs).same_dtype(matrix)
    if matrix.sizes is None or rhs.sizes is None:
        return Spec(rhs.dtype)
    size, rows = matrix.sizes[-1], rhs.sizes[-2]
    if None not in (size, rows) and size != rows:
        raise ValueError(f"{size} equations have right hand sides of {size} rows, not {rows}")
    mine = batch_of(rhs)
    batch = broadcast_shapes(mine, batch_of(matrix))
    whole = batch.concatenate((merge_sizes(size, rows), rhs.sizes[-1]))
    return Spec(rhs.dtype, rhs.shape if batch is mine and whole == rhs.shape else whole)


def lesser(a: int | None, b: int | None) -> int | None:
    """The lesser of two sizes, as far as it is known."""
    return 0 if 0 in (a, b) else None if a is None or b is None else min(a, b)


# Costs


def cubic(made: Op[Any], factor: float) -> None:
    """Declare that it costs `factor` additions for each element of the matrices and each of their columns."""

    def cost(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
        columns = inputs[0].sizes[-1] if inputs[0].sizes else None
        return factor * elements(inputs[0]) * (_OPEN_SIZE if columns is None else columns)

    made.cost(cost)


# Gradients


def unbatched(operand: Tensor, gradient: Tensor, other: Tensor) -> Tensor:
    """`gradient` summed over the batch axes along which `operand` was broadcast to go with `other`."""
    if other.spec.rank == 2 or gradient.spec.rank == operand.spec.rank == 2:
        return gradient
    sizes: Sizes | None = other.spec.sizes
    return sum_along(operand, gradient, None if sizes is None else (*sizes[:-2], 1, 1))


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    return OPERATORS["matrix_transpose"](x, conjugate=True)


def hermitian(x: Tensor) -> Tensor:
    """The mean of each matrix and its adjoint."""
    return (x + adjoint(x)) * 0.5


def product(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    """The matrix product of a and b, or of their adjoints."""
    return OPERATORS["matmul"](a, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


def derivative(function: Function, x: Tensor, dy: Tensor) -> Tensor:
    """The gradient of a function of square matrices that is a power series.

    The upper right block of the function of [[x, d], [0, x]] is its derivative along d.
    """
    turned = adjoint(x)
    known = None if turned.spec.sizes is None else turned.spec.sizes[-1]
    size = OPERATORS["shape"](turned)[-1] if known is None else known
    concat = OPERATORS["concat"]
    above, below = concat([turned, dy], -1), concat([OPERATORS["zeros_like"](turned), turned], -1)
    return function(concat([above, below], -2))[..., :size, size:]  # type: ignore[no-any-return]


def sides(x: Tensor) -> tuple[int | None, int | None]:
    """The numbers of rows and of columns, as far as they are known."""
    return (None, None) if x.spec.sizes is None else (x.spec.sizes[-2], x.spec.sizes[-1])


def lesser_side(x: Tensor) -> Any:
    """The lesser of the numbers of rows and of columns: a number where it is known, else a tensor."""
    count = lesser(*sides(x))
    return OPERATORS["reduce_min"](OPERATORS["shape"](x)[-2:]) if count is None else count


def is_zero(tensor: Tensor) -> bool:
    """Whether the tensor is zero by construction in the graph, as the zeros that stand for an unused gradient."""
    if tensor.op.type == "zeros_like":
        return True
    value = constant_value(tensor)
    return value is not None and not np.any(value)


# Kernels


def flipped(x: Array) -> Array:
    """The conjugate transpose of each matrix of an array."""
    x = x.swapaxes(-1, -2)
    return x.conj() if x.dtype.kind == "c" else x


def guarded(xp: Namespace, function: Function, complaint: str, suspect: Function | None = None) -> Function:
    """`function` of matrices, with an error that names the matrix on which LAPACK fails.

    Args:
        xp: the array namespace. A GPU is not synchronised: its libraries give NaN for such a matrix.
        function: called with the matrices and further arguments.
        complaint: the fault of such a matrix, as "is singular".
        suspect: a function that fails for such a matrix alone; `function` by default.
    """
    if xp is not np:
        return function

    def compute(x: Array, *rest: Array) -> Any:
        try:
            return function(x, *rest)
        except np.linalg.LinAlgError as error:
            if "square" in str(error):
                check_square(x)
            raise _blamed(x, suspect or function, complaint) or error from error

    return compute


def _blamed(x: Array, function: Function, complaint: str) -> errors.InvalidArgumentError | None:
    """The error that names the first matrix for which `function` fails; None if it fails for none."""
    if x.ndim < 2:
        return None
    for place in np.ndindex(x.shape[:-2]):
        try:
            function(x[place])
        except np.linalg.LinAlgError:
            finite = np.isfinite(x[place]).all()
            wrong = complaint if finite else "has elements that are not finite"
            return errors.InvalidArgumentError(f"{named(place)} {wrong}")
    return None


def named(place: Sequence[SupportsInt]) -> str:
    """The matrix at this place of the batch, for messages."""
    return f"matrix {[int(index) for index in place]} of the batch" if place else "the matrix"


def check_square(x: Array) -> None:
    """InvalidArgumentError unless the last two axes are those of square matrices."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise errors.InvalidArgumentError(f"a square matrix is needed, the shape is {list(x.shape)}")
