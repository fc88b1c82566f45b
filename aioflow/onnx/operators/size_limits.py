"""Limits on the sizes of results that follow from numbers of a model.

An operator that builds a vector for each axis checks all sizes before: the vectors alone could take all memory, though
no tensor could have the sizes together.
"""

import math
from collections.abc import Sequence

from aioflow.graph.building import get_default_graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal, less_equal, logical_and
from aioflow.kernels.math.reduction import reduce_all, reduce_prod
from aioflow.onnx.tensors import LARGEST, MOST_AXES
from aioflow.tensors.dtypes import DType, float64, int64


def check_known_sizes(sizes: Sequence[int | None], dtype: DType) -> None:
    """ValueError if no result of that dtype can have these sizes, of which None is not known."""
    known = [1 if size is None else size for size in sizes]
    nbytes = math.prod([max(size, 1) for size in known]) * dtype.size
    if min(known, default=0) < 0 or nbytes > LARGEST:
        shape = ", ".join("?" if size is None else str(size) for size in sizes)
        raise ValueError(
            f"the result would have the sizes [{shape}]: sizes are 0 or greater, and a result has at most "
            f"{LARGEST:,} bytes"
        )


def after_size_check(value: Tensor, sizes: Tensor, dtype: DType) -> Tensor:
    """`value`. The run raises InvalidArgumentError if no result of that dtype can have `sizes`, a vector of int64."""
    count = reduce_prod(cast(maximum(sizes, constant(1, int64)), float64))
    fits = logical_and(
        reduce_all(greater_equal(sizes, constant(0, int64))),
        less_equal(count, constant(LARGEST / dtype.size, float64)),
    )
    rule = f"sizes are 0 or greater, and a result has at most {LARGEST:,} bytes: the result would have the sizes"
    with get_default_graph().control_dependencies([Assert(fits, [rule, sizes], MOST_AXES)]):
        return identity(value)
