"""Operators that filter periodic signals: matrices whose rows are one row, moved on and on."""

from typing import ClassVar

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import no_op, ones
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.control.assertions import assert_equal, assert_less_equal, assert_positive
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.complex import imag, real
from aioflow.kernels.math.elementwise import abs, log
from aioflow.kernels.math.fourier import fourier_transform
from aioflow.kernels.math.reduction import reduce_max, reduce_prod, reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import complex_of, conjugate, elements, leading, matrices
from aioflow.library.linear_operators.description import hints_of, require
from aioflow.library.linear_operators.dispatch import adjoint_of, inverse_of
from aioflow.library.linear_operators.operator import LinearOperator, ratio
from aioflow.tensors.dtypes import DType, DTypeLike, complex64, int32
from aioflow.tensors.shape import TensorShape


class CirculantOperator(LinearOperator):
    """What operators share that multiply each frequency of a signal by an element of a spectrum."""

    _depth: ClassVar[int]
    """The number of axes of a signal."""

    def __init__(
        self,
        spectrum: NumberLike,
        input_output_dtype: DTypeLike = complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        arguments = dict(locals())
        require("is_square", is_square, True, "a circulant operator is always square")
        label = name or type(self).__name__
        with name_scope(label, values=[spectrum]):
            self._spectrum = elements(spectrum, "spectrum", self._depth)
        if not self._spectrum.dtype.is_complex:
            what = "an operator with a real spectrum is always self-adjoint"
            is_self_adjoint = require("is_self_adjoint", is_self_adjoint, True, what)
        hints = is_non_singular, is_self_adjoint, is_positive_definite, True
        super().__init__(input_output_dtype, [self._spectrum], *hints, label, arguments)

    @property
    def spectrum(self) -> Tensor:
        """The spectra, [*batch, *block_shape]."""
        return self._spectrum

    @property
    def block_depth(self) -> int:
        """The number of axes of a signal: 1 for circulant matrices, 2 for blocks of them, 3 for blocks of blocks."""
        return self._depth

    @property
    def block_shape(self) -> TensorShape:
        """The shape of a signal, as far as it is known."""
        found: TensorShape = self._spectrum.shape[-self._depth :]
        return found

    def block_shape_tensor(self) -> Tensor:
        """The shape of a signal, as a vector."""
        known = self.block_shape
        return convert_to_tensor(known, int32) if known.is_fully_defined() else shape(self._spectrum)[-self._depth :]

    @transactional
    def convolution_kernel(self, name: str = "convolution_kernel") -> Tensor:
        """The signals that have these spectra, of the operator's dtype; they are the first columns of the matrices."""
        with self._scope(name):
            return cast(self._kernel(), self.dtype)

    @transactional
    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Operation:
        """An operation that fails with InvalidArgumentError unless the matrices are real, up to the precision."""
        with self._scope(name):
            kernel = self._kernel()
            most = reduce_max(abs(kernel)) * (5 * float(np.finfo(kernel.dtype.real.np).eps))
            message = "a spectrum is not Hermitian"
            return assert_less_equal(abs(imag(kernel)), most * cast(self._rows(), most.dtype), message=message)

    def _shape(self) -> TensorShape:
        size = None if self.block_shape.ndims is None else self.block_shape.num_elements()
        return matrices(leading(self._spectrum.shape, self._depth), size, size)

    def _shape_tensor(self) -> Tensor:
        whole = shape(self._spectrum)
        size = reshape(reduce_prod(whole[-self._depth :]), [1])
        return concat([whole[: -self._depth], size, size], 0)

    def _kernel(self) -> Tensor:
        """The signals of the spectra, as complex numbers."""
        axes = tuple(range(-self._depth, 0))
        return fourier_transform(cast(self._spectrum, self._complex()), axes, inverse=True)

    def _complex(self) -> DType:
        return complex_of(self._spectrum.dtype)

    def _flat(self) -> Tensor:
        """The spectra, each as a vector."""
        if self._depth == 1:
            return self._spectrum
        return reshape(self._spectrum, concat([shape(self._spectrum)[: -self._depth], [-1]], 0))

    def _filtered(self, x: Tensor, factor: Tensor, divide: bool) -> Tensor:
        """`x`, each of whose frequencies is multiplied or divided by the factor of that frequency."""
        given, axes = shape(x), tuple(range(-self._depth - 1, -1))
        blocks = cast(x, self._complex())
        if self._depth > 1:
            blocks = reshape(blocks, concat([given[:-2], self.block_shape_tensor(), given[-1:]], 0))
        by = expand_dims(cast(factor, self._complex()), -1)
        waves = fourier_transform(blocks, axes)
        signals = fourier_transform(waves / by if divide else waves * by, axes, inverse=True)
        if self._depth > 1:
            found = shape(signals)
            signals = reshape(signals, concat([found[: -self._depth - 1], given[-2:]], 0))
        return cast(signals, self.dtype)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return self._filtered(x, conjugate(self._spectrum, adjoint), False)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return self._filtered(rhs, conjugate(self._spectrum, adjoint), True)

    def _determinant(self) -> Tensor:
        return reduce_prod(self._flat(), -1)

    def _log_abs_determinant(self) -> Tensor:
        return reduce_sum(log(abs(self._flat())), -1)

    def _trace(self) -> Tensor:
        return cast(reduce_sum(self._flat(), -1), self.dtype)

    def _diag_part(self) -> Tensor:
        each = expand_dims(self._trace() / cast(self._rows(), self.dtype), -1)
        return each * ones(reshape(self._rows(), [1]), self.dtype)

    def _eigvals(self) -> Tensor:
        return self._flat()

    def _cond(self) -> Tensor:
        return ratio(abs(self._flat()))

    def _assert_positive_definite(self) -> Operation:
        message = (
            "a circulant matrix is not positive definite: the real part of an element of its spectrum is not positive"
        )
        return assert_positive(real(self._spectrum), message=message)

    def _assert_self_adjoint(self) -> Operation:
        if not self._spectrum.dtype.is_complex:
            return no_op()
        message = "a circulant matrix is not its own adjoint: its spectrum is not real"
        return assert_equal(imag(self._spectrum), 0, message=message)


class LinearOperatorCirculant(CirculantOperator):
    """The operator of a circulant matrix, or of a batch of them, [*batch, N, N]: A[i, j] = kernel[(i - j) % N].

    The spectrum is the Fourier transform of the kernel. A product or a solution takes time in N log N for each column.
    The matrix is real if the spectrum is that of a real kernel; only then may `input_output_dtype` be real. The hints
    are those of `LinearOperator`.

    Args:
        spectrum: floating or complex numbers, [*batch, N].
        input_output_dtype: the dtype of the elements, to which all results are cast.
        is_non_singular: whether it has an inverse: no element of the spectrum is 0.
        is_self_adjoint: whether it is its own adjoint; True for a real spectrum.
        is_positive_definite: whether the real part of each element of the spectrum is positive.
        is_square: not False.
        name: a scope for all operations.

    Raises:
        TypeError: `spectrum` has another dtype.
        ValueError: it has too few axes, or hints contradict each other or the dtype.

    Examples:
        >>> operator = af.linalg.LinearOperatorCirculant([6.0, 4.0, 2.0, 4.0], input_output_dtype=af.float32)
        >>> await session.run(operator.to_dense())
        array([[4., 1., 0., 1.],
               [1., 4., 1., 0.],
               [0., 1., 4., 1.],
               [1., 0., 1., 4.]], dtype=float32)
    """

    _depth: ClassVar[int] = 1

    def __init__(
        self,
        spectrum: NumberLike,
        input_output_dtype: DTypeLike = complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant",
    ) -> None:
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(spectrum, input_output_dtype, *hints, name)


class LinearOperatorCirculant2D(CirculantOperator):
    """The operator of a block circulant matrix, or of a batch of them, [*batch, N, N], that filters images.

    Each column of an argument is an image of N0 * N1 = N elements, whose Fourier transform of two axes is multiplied by
    the spectrum. The arguments and errors are those of `LinearOperatorCirculant`, but `spectrum` is [*batch, N0, N1].

    Examples:
        >>> operator = af.linalg.LinearOperatorCirculant2D([[4.0, 2.0]], input_output_dtype=af.float32)
        >>> await session.run(operator.to_dense())
        array([[3., 1.],
               [1., 3.]], dtype=float32)
    """

    _depth: ClassVar[int] = 2

    def __init__(
        self,
        spectrum: NumberLike,
        input_output_dtype: DTypeLike = complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant2D",
    ) -> None:
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(spectrum, input_output_dtype, *hints, name)


class LinearOperatorCirculant3D(CirculantOperator):
    """The operator of a nested block circulant matrix, or of a batch of them, [*batch, N, N], that filters volumes.

    Each column of an argument is a volume of N0 * N1 * N2 = N elements, whose Fourier transform of three axes is
    multiplied by the spectrum. The arguments and errors are those of `LinearOperatorCirculant`, but `spectrum` is
    [*batch, N0, N1, N2].

    Examples:
        >>> operator = af.linalg.LinearOperatorCirculant3D([[[4.0, 2.0]]], input_output_dtype=af.float32)
        >>> await session.run(operator.matvec([1.0, 0.0]))
        array([3., 1.], dtype=float32)
    """

    _depth: ClassVar[int] = 3

    def __init__(
        self,
        spectrum: NumberLike,
        input_output_dtype: DTypeLike = complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant3D",
    ) -> None:
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(spectrum, input_output_dtype, *hints, name)


@adjoint_of.of(CirculantOperator)
def _adjoint(operator: CirculantOperator) -> LinearOperator:
    return type(operator)(conjugate(operator.spectrum, True), operator.dtype, **hints_of(operator))


@inverse_of.of(CirculantOperator)
def _inverse(operator: CirculantOperator) -> LinearOperator:
    return type(operator)(1 / operator.spectrum, operator.dtype, **hints_of(operator))
