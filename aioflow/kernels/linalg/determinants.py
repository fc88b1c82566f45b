"""Determinants of matrices, one matrix or a batch of them in the last two axes."""

from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.linalg.matrices import batch_of, cubic, is_zero, square
from aioflow.kernels.linalg.solvers import matrix_inverse
from aioflow.kernels.math.complex import complex, conj, imag, real
from aioflow.tensors.dtypes import Array, Namespace, Spec


@op
def matrix_determinant(input: Spec) -> Spec:
    """The determinant of each square matrix. Its gradient needs the inverse, which a singular matrix does not have.

    Examples:
        >>> await session.run(af.matrix_determinant([[1.0, 2.0], [3.0, 5.0]]))
        np.float32(-1.0)
    """
    return Spec(input.dtype, batch_of(square(input)))


@matrix_determinant.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return _along_inverse(op.inputs[0], dy * conj(op.outputs[0]))


def _along_inverse(x: Tensor, factor: Tensor) -> Tensor:
    """The adjoint of the inverse of each matrix, times its own factor: `1 / x` of determinants."""
    return matrix_inverse(x, adjoint=True) * factor[..., None, None]


matrix_determinant.kernel(CPU, GPU, fresh=True, binds=True)(lambda xp, node: xp.linalg.det)
cubic(matrix_determinant, 1.0)


@op
def log_matrix_determinant(input: Spec) -> tuple[Spec, Spec]:
    """The sign of each determinant, and the logarithm of its absolute value, both of the dtype of `input`.

    The sign is 0 and the logarithm -inf for a singular matrix; the sign of a complex one is on the unit circle.

    Examples:
        >>> await session.run(af.log_matrix_determinant([[2.0, 0.0], [0.0, 4.0]]))
        (np.float32(1.0), np.float32(2.0794415))
    """
    batch = batch_of(square(input))
    return Spec(input.dtype, batch), Spec(input.dtype, batch)


@log_matrix_determinant.gradient
def _(op: Operation, dsign: Tensor, dlog: Tensor) -> Tensor:
    x, sign = op.inputs[0], op.outputs[0]
    if not x.dtype.is_complex:
        return _along_inverse(x, dlog)
    turn = 0 if is_zero(dsign) else imag(dsign * conj(sign))
    return _along_inverse(x, complex(real(dlog), turn))


@log_matrix_determinant.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array) -> tuple[Array, Array]:
    sign, log = xp.linalg.slogdet(x)
    return sign, log.astype(x.dtype, copy=False)


cubic(log_matrix_determinant, 1.0)
slogdet = log_matrix_determinant


@transactional
def logdet(matrix: NumberLike, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of each matrix, which must be Hermitian and positive definite; it is real.

    Examples:
        >>> await session.run(af.linalg.logdet([[2.0, 0.0], [0.0, 4.0]]))
        np.float32(2.0794415)
    """
    chol: Any = OPERATORS["cholesky"](convert_to_tensor(matrix))
    logs = OPERATORS["log"](real(OPERATORS["matrix_diag_part"](chol)))
    return OPERATORS["multiply"](OPERATORS["reduce_sum"](logs, -1), 2, name=name)
