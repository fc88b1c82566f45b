"""Numbers of elements, and the positions they stand for."""

import math

from aioflow.graph.op import Indices, Ints, op
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.math.segments import check_constants, check_range
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape


@op
def unravel_index(indices: Indices, dims: Ints) -> Spec:
    """The positions of elements, given by their numbers, in an array of sizes `dims`, the last axis counting fastest.

    The shape is [len(dims), *indices.shape]. InvalidArgumentError if a number is out of range.
    """
    axes = TensorShape.vector(known.length(dims, "dims"))
    return Spec(known.integers(indices, "indices").dtype, axes.concatenate(indices.shape))


unravel_index.no_gradient("positions do not vary smoothly")


@unravel_index.check
def _(indices: Spec | Array, dims: Spec | Array) -> None:
    if not isinstance(dims, Spec):
        check_constants(indices, math.prod(known.plain(dims)))


@unravel_index.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, indices: Array, dims: Array) -> Array:
    sizes = known.plain(dims)
    check_range(xp, indices, math.prod(sizes))
    positions = xp.empty((len(sizes), *indices.shape), indices.dtype)
    for axis in range(len(sizes) - 1, -1, -1):
        positions[axis] = indices % (sizes[axis] or 1)
        indices = indices // (sizes[axis] or 1)
    return positions


OPERATORS["unravel_index"] = unravel_index
