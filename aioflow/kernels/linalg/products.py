"""Products of vectors, and of matrices with vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.op import T, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, broadcast_gradient, elements
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.complex import conj
from aioflow.tensors.dtypes import NUMERIC, Array, Namespace, Spec


@op
def cross(a: T, b: T) -> Spec:
    """The vector product of the vectors of three numbers in the last axes of a and b, whose other axes broadcast."""
    a.only(NUMERIC).same_dtype(b)
    for spec in (a, b):
        if spec.rank == 0 or (spec.sizes is not None and spec.sizes[-1] not in (None, 3)):
            raise ValueError(f"the last axis must have size 3, the shape is {spec.shape}")
    return Spec(a.dtype, a.broadcast(b))


broadcast_gradient(cross, lambda z, a, b, dz: (cross(conj(b), dz), cross(dz, conj(a))))


@cross.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, a: Array, b: Array) -> Array:
    if a.shape[-1:] != (3,) or b.shape[-1:] != (3,):
        raise errors.InvalidArgumentError(f"the last axes must have size 3, the shapes are {a.shape} and {b.shape}")
    shape = a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape)
    z = xp.empty(shape, a.dtype)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        part = a[..., j] * b[..., k]
        part -= a[..., k] * b[..., j]
        z[..., i] = part
    return z


@cross.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return 3 * elements(outputs[0])


@transactional
def matvec(
    a: NumberLike,
    b: NumberLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of each matrix in a with a vector, the last axis of b. The hints of sparseness change nothing."""
    matrix = convert_to_tensor(a)
    columns = OPERATORS["expand_dims"](convert_to_tensor(b, matrix.dtype), -1)
    found = matmul(matrix, columns, transpose_a=transpose_a, adjoint_a=adjoint_a)
    return OPERATORS["squeeze"](found, [-1], name=name)


def adjoint(matrix: NumberLike, name: str | None = None) -> Tensor:
    """The conjugate transpose of each matrix."""
    return OPERATORS["matrix_transpose"](matrix, conjugate=True, name=name)
