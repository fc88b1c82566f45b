"""An operator of each kind, made of the same numbers in aioflow and in TensorFlow."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np


class Numbers:
    """Tensors of a library, of numbers that follow from a seed; `parameters` holds each, and `values` its array.

    With `are_open` they are placeholders of unknown sizes.
    """

    def __init__(self, library: Any, dtype: Any, are_open: bool = False, seed: int = 5) -> None:
        self.library, self.dtype, self.are_open = library, np.dtype(dtype), are_open
        self.kind = library.as_dtype(self.dtype)
        self.random = np.random.RandomState(seed)
        self.parameters: list[Any] = []
        self.values: list[Any] = []

    def array(self, *shape: int) -> Any:
        """Random numbers, complex ones if the dtype is."""
        real, imaginary = self.random.randn(2, *shape)
        return (real + 1j * imaginary if self.dtype.kind == "c" else real).astype(self.dtype)

    def __call__(self, *shape: int) -> Any:
        return self.tensor(self.array(*shape))

    def positive(self, *shape: int) -> Any:
        """Positive numbers."""
        return self.tensor((np.abs(self.random.randn(*shape)) + 0.5).astype(self.dtype))

    def definite(self, size: int) -> Any:
        """A self-adjoint, positive definite matrix."""
        whole = self.array(size, size)
        return self.tensor((whole @ whole.conj().T + np.eye(size)).astype(self.dtype))

    def spectrum(self, *shape: int, axes: int = 1) -> Any:
        """The Fourier transform of random numbers along the last axes."""
        waves = np.fft.fftn(self.array(*shape), axes=range(-axes, 0))
        narrow = self.dtype in (np.float32, np.complex64)
        return self.tensor(waves.astype(np.complex64 if narrow else np.complex128))

    def tensor(self, values: Any) -> Any:
        """A parameter."""
        open_shape = [None] * values.ndim
        made = (
            self.library.placeholder(values.dtype.name, open_shape) if self.are_open else self.library.constant(values)
        )
        self.parameters.append(made)
        self.values.append(values)
        return made


Make = Callable[[Any, Numbers], Any]
SPD: Final = {"is_self_adjoint": True, "is_positive_definite": True}


def _full(linalg: Any, new: Numbers, *shape: int) -> Any:
    return linalg.LinearOperatorFullMatrix(new(*shape))


def _diag(linalg: Any, new: Numbers, *shape: int) -> Any:
    return linalg.LinearOperatorDiag(new(*shape))


def _definite(linalg: Any, new: Numbers, *shape: int) -> Any:
    return linalg.LinearOperatorDiag(new.positive(*shape), **SPD)


def _triangle(linalg: Any, new: Numbers) -> Any:
    rows = (
        [_full(linalg, new, 2, 2)],
        [_full(linalg, new, 2, 3, 2), _diag(linalg, new, 3)],
        [_full(linalg, new, 1, 2), _full(linalg, new, 1, 3), _full(linalg, new, 2, 1, 1)],
    )
    return linalg.LinearOperatorBlockLowerTriangular(rows)


def _updated(linalg: Any, new: Numbers) -> Any:
    base = _diag(linalg, new, 2, 3)
    return linalg.LinearOperatorLowRankUpdate(base, new(3, 2), diag_update=new(2), v=new(3, 2))


KINDS: Final[Mapping[str, Make]] = {
    "FullMatrix": lambda linalg, new: _full(linalg, new, 2, 3, 3),
    "FullMatrix, definite": lambda linalg, new: linalg.LinearOperatorFullMatrix(new.definite(3), **SPD),
    "FullMatrix, wide": lambda linalg, new: _full(linalg, new, 2, 3),
    "LowerTriangular": lambda linalg, new: linalg.LinearOperatorLowerTriangular(new(2, 3, 3)),
    "Diag": lambda linalg, new: _diag(linalg, new, 2, 3),
    "Diag, definite": lambda linalg, new: _definite(linalg, new, 3),
    "Identity": lambda linalg, new: linalg.LinearOperatorIdentity(3, dtype=new.kind),
    "Identity, batch": lambda linalg, new: linalg.LinearOperatorIdentity(3, [2], dtype=new.kind),
    "ScaledIdentity": lambda linalg, new: linalg.LinearOperatorScaledIdentity(3, new(2)),
    "ScaledIdentity, definite": lambda linalg, new: linalg.LinearOperatorScaledIdentity(3, new.positive(), **SPD),
    "Zeros": lambda linalg, new: linalg.LinearOperatorZeros(3, batch_shape=[2], dtype=new.kind),
    "Zeros, wide": lambda linalg, new: linalg.LinearOperatorZeros(
        2, 3, dtype=new.kind, is_square=False, is_self_adjoint=False
    ),
    "Householder": lambda linalg, new: linalg.LinearOperatorHouseholder(new(2, 3)),
    "Permutation": lambda linalg, new: linalg.LinearOperatorPermutation([2, 0, 1], new.kind),
    "Permutation, batch": lambda linalg, new: linalg.LinearOperatorPermutation([[1, 2, 0], [1, 0, 2]], new.kind),
    "Toeplitz": lambda linalg, new: linalg.LinearOperatorToeplitz(new(2, 3), new(2, 3)),
    "Toeplitz, one row": lambda linalg, new: linalg.LinearOperatorToeplitz(new(2, 3), new(3)),
    "Tridiag": lambda linalg, new: linalg.LinearOperatorTridiag(new(2, 3, 3)),
    "Tridiag, sequence": lambda linalg, new: linalg.LinearOperatorTridiag([new(3), new(3), new(3)], "sequence"),
    "Tridiag, matrix": lambda linalg, new: linalg.LinearOperatorTridiag(new(2, 2), "matrix"),
    "Circulant": lambda linalg, new: linalg.LinearOperatorCirculant(new.spectrum(2, 3), new.kind),
    "Circulant, definite": lambda linalg, new: linalg.LinearOperatorCirculant(
        new.tensor(np.array([6.0, 2.0, 4.0, 2.0], new.array(1).real.dtype)), new.kind, is_positive_definite=True
    ),
    "Circulant2D": lambda linalg, new: linalg.LinearOperatorCirculant2D(new.spectrum(2, 2, 3, axes=2), new.kind),
    "Circulant3D": lambda linalg, new: linalg.LinearOperatorCirculant3D(new.spectrum(2, 1, 3, axes=3), new.kind),
    "Adjoint": lambda linalg, new: linalg.LinearOperatorAdjoint(_full(linalg, new, 2, 3, 3)),
    "Inversion": lambda linalg, new: linalg.LinearOperatorInversion(_full(linalg, new, 2, 3, 3)),
    "Composition": lambda linalg, new: linalg.LinearOperatorComposition(
        [_full(linalg, new, 3, 3), _diag(linalg, new, 2, 3)]
    ),
    "Composition, wide": lambda linalg, new: linalg.LinearOperatorComposition(
        [_full(linalg, new, 2, 4), _full(linalg, new, 2, 4, 3)]
    ),
    "Kronecker": lambda linalg, new: linalg.LinearOperatorKronecker(
        [_full(linalg, new, 2, 2), _diag(linalg, new, 2, 3), _full(linalg, new, 1, 1)]
    ),
    "Kronecker, definite": lambda linalg, new: linalg.LinearOperatorKronecker(
        [_definite(linalg, new, 2), _definite(linalg, new, 3)]
    ),
    "BlockDiag": lambda linalg, new: linalg.LinearOperatorBlockDiag(
        [_full(linalg, new, 2, 2), _diag(linalg, new, 2, 3)]
    ),
    "BlockDiag, definite": lambda linalg, new: linalg.LinearOperatorBlockDiag(
        [_definite(linalg, new, 2), _definite(linalg, new, 1)]
    ),
    "BlockLowerTriangular": _triangle,
    "LowRankUpdate": _updated,
    "LowRankUpdate, definite": lambda linalg, new: linalg.LinearOperatorLowRankUpdate(
        _definite(linalg, new, 3), new(3, 2)
    ),
}
"""How to make an operator of each kind, from the `linalg` of a library."""


def arguments(shape: tuple[int, ...], new: Numbers) -> dict[str, Any]:
    """Arguments that fit an operator of that shape: matrices, vectors, and matrices of a batch of none."""
    *batch, rows, columns = shape
    return {
        "x": new.array(*batch, columns, 2),
        "y": new.array(*batch, rows, 2),
        "one": new.array(columns, 2),
        "more": new.array(4, *[1 for _ in batch], rows, 2),
        "u": new.array(*batch, columns),
        "v": new.array(*batch, rows),
        "z": new.array(4, *batch, rows, columns),
    }


def calls(operator: Any, name: str, given: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """A call of each method that an operator of that kind has, by a name of the call."""
    x, y, one, more, u, v, z = given.values()
    square = x.shape == y.shape
    turned = np.swapaxes(x.conj(), -1, -2)
    found: dict[str, Callable[[], Any]] = {
        "to_dense": operator.to_dense,
        "matmul": lambda: operator.matmul(x),
        "matmul, adjoint": lambda: operator.matmul(y, adjoint=True),
        "matmul, adjoint_arg": lambda: operator.matmul(turned, adjoint_arg=True),
        "matmul, one": lambda: operator.matmul(one),
        "matvec": lambda: operator.matvec(u),
        "matvec, adjoint": lambda: operator.matvec(v, adjoint=True),
        "add_to_tensor": lambda: operator.add_to_tensor(z[0]),
        "add_to_tensor, more": lambda: operator.add_to_tensor(z[:, :1] if z.ndim > 3 else z),
        "diag_part": operator.diag_part,
        "trace": operator.trace,
        "adjoint": lambda: operator.H.to_dense(),
        "shape_tensor": operator.shape_tensor,
        "batch_shape_tensor": operator.batch_shape_tensor,
        "sizes": lambda: [operator.range_dimension_tensor(), operator.domain_dimension_tensor()],
        "tensor_rank_tensor": operator.tensor_rank_tensor,
    }
    if not name.startswith("Zeros"):
        found["cond"] = operator.cond
    if square:
        found |= {"determinant": operator.determinant, "log_abs_determinant": operator.log_abs_determinant}
    if square and not name.startswith("Zeros"):
        found |= {
            "solve": lambda: operator.solve(y),
            "solve, adjoint": lambda: operator.solve(y, adjoint=True),
            "solve, more": lambda: operator.solve(more),
            "solvevec": lambda: operator.solvevec(v),
            "solvevec, adjoint": lambda: operator.solvevec(v, adjoint=True),
            "inverse": lambda: operator.inverse().to_dense(),
        }
    if operator.is_self_adjoint:
        found["eigvals"] = operator.eigvals
    if operator.is_self_adjoint and operator.is_positive_definite:
        found["cholesky"] = lambda: operator.cholesky().to_dense()
    return found
