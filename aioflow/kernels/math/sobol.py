"""Points of Sobol sequences, which fill a cube evenly."""

from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.families import CPU
from aioflow.kernels.math.sobol_directions import BITS, DIMENSIONS, directions
from aioflow.tensors.dtypes import Array, DType, Namespace, Spec, TensorShape, float32, float64

_MOST: Final = 2**31 - 1
"""The number of the last point of a sequence."""
_KINDS: Final = frozenset({float32, float64})
_NONE_LEFT_OUT: Any = 0


@op
def sobol_sample(dim: Ints, num_results: Ints, skip: Ints = _NONE_LEFT_OUT, dtype: DType = float32) -> Spec:
    """Points [num_results, dim] of the Sobol sequence of `dim` dimensions, from 0 up to but not 1.

    Joe and Kuo's direction numbers make them, for at most 1111 dimensions. The sequence has the order of Antonov and
    Saleev and begins with the point of which each coordinate is 1/2, after which `skip` points are left out.

    Raises:
        InvalidArgumentError: `dim` or `num_results` is below 1, `skip` is negative, or there are not that many.
        TypeError: the dtype is neither float32 nor float64.

    Examples:
        >>> await session.run(af.math.sobol_sample(2, 3))
        array([[0.5 , 0.5 ],
               [0.75, 0.25],
               [0.25, 0.75]], dtype=float32)
    """
    sizes = [known.scalar(value, what) for value, what in ((num_results, "num_results"), (dim, "dim"))]
    known.scalar(skip, "skip")
    return Spec(Spec(dtype).only(_KINDS).dtype, TensorShape(sizes))


@sobol_sample.check
def _(dim: Spec | Array, num_results: Spec | Array, skip: Spec | Array, *attrs: object) -> None:
    dimensions, points, skipped = (known.number(value) for value in (dim, num_results, skip))
    if dimensions is not None and not 1 <= dimensions <= DIMENSIONS:
        raise errors.InvalidArgumentError(f"dim must lie between 1 and {DIMENSIONS}, not be {dimensions}")
    if points is not None and points < 1:
        raise errors.InvalidArgumentError(f"num_results must be at least 1, not {points}")
    if skipped is not None and skipped < 0:
        raise errors.InvalidArgumentError(f"skip must be at least 0, not {skipped}")
    if (points or 0) + (skipped or 0) >= _MOST:
        raise errors.InvalidArgumentError(f"num_results + skip must be below {_MOST}, not {points} + {skipped}")


sobol_sample.no_gradient("the points do not follow from numbers with a gradient")


@sobol_sample.kernel(CPU, fresh=True)
def _(xp: Namespace, dim: Array, num_results: Array, skip: Array, *, dtype: DType) -> Array:
    first, count = int(skip) + 1, int(num_results)
    places = np.arange(first, first + count, dtype=np.uint32)
    gray = places ^ places >> np.uint32(1)
    points = np.zeros((count, int(dim)), np.uint32)
    for place in range((first + count).bit_length()):
        chosen = (gray >> np.uint32(place) & np.uint32(1)).astype(bool)
        points[chosen] ^= directions()[: int(dim), place]
    return (points * 2.0**-BITS).astype(dtype.np)
