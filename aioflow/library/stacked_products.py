"""Gradients of captures of a loop that are a product of matrices in each iteration, as one product after the loop.

A weight by which each iteration multiplies has the gradient a₁ᵀb₁ + a₂ᵀb₂ + ..., a sum of arrays as large as the
weight. If the factors have few rows, the backward loop lists them instead, and one product of all rows is the sum. The
graph of the gradient has that form, so the sum has one order, and the same bits however the graph runs.
"""

from collections.abc import Mapping
from typing import NamedTuple

from aioflow.graph.operation import Tensor
from aioflow.kernels.linalg.matmul import matmul


class Factors(NamedTuple):
    """Two matrices of known shapes. The gradient in this iteration is the transpose of `a` times `b`."""

    a: Tensor
    b: Tensor

    @property
    def nbytes(self) -> int:
        """The bytes of both."""
        return bytes_of(self.a) + bytes_of(self.b)


def stacked_factors(gradients: Mapping[int, Tensor], room: int) -> dict[int, Factors]:
    """Return the factors of the gradients that pay as one product after the loop: they take less memory than those.

    Args:
        gradients: the gradients in one iteration.
        room: the most bytes that all factors of one iteration may take.
    """
    found: dict[int, Factors] = {}
    for index, gradient in gradients.items():
        factors = _factors_of(gradient)
        if factors is not None and factors.nbytes < bytes_of(gradient) and factors.nbytes <= room:
            found[index] = factors
            room -= factors.nbytes
    return found


def product_of_stacks(a: Tensor, b: Tensor) -> Tensor:
    """Return the sum of the products, given the factors of all iterations, one below the other."""
    return matmul(a, b, transpose_a=True)


def bytes_of(tensor: Tensor) -> int:
    """Return the bytes of a tensor; 0 if its shape is not known."""
    spec = tensor.spec
    return (spec.shape.num_elements() or 0) * spec.dtype.size if spec.shape.is_fully_defined() else 0


def _factors_of(gradient: Tensor) -> Factors | None:
    """The factors, if the gradient is such a product."""
    op = gradient.op
    if op.type != "matmul" or not op.attrs["transpose_a"] or op.attrs["transpose_b"] or op.attrs["adjoint_b"]:
        return None
    factors = Factors(*op.inputs)
    known = all(each.spec.rank == 2 and each.spec.shape.is_fully_defined() for each in factors)
    return factors if known else None
