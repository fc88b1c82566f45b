"""Segment sums and means of rows looked up by index, as for the embeddings of a text's words."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.shapes import shape_of
from aioflow.kernels.families import CPU, costs
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.segments import (
    bytes_to_highest,
    check_constants,
    check_ids,
    check_range,
    check_sorted,
    divided,
    gather_segments,
    reduced_rows,
    segment_sizes,
    wide_for,
)
from aioflow.tensors.dtypes import COMPLEX, FLOAT, NUMERIC, Array, DType, Namespace, Spec, TensorShape

_SIZES: Final[dict[str, Callable[[Array], Array] | None]] = {"sum": None, "mean": np.asarray, "sqrt_n": np.sqrt}
"""The divisor of the sum of a segment, as a function of its number of rows."""


def _family(kind: str, doc: str, example: str, *families: frozenset[DType]) -> Callable[..., Tensor]:
    """The public function of the op that divides sums by the divisor in `_SIZES`."""

    def rule(data: Spec, indices: Indices, segment_ids: Indices, num_segments: Ints) -> Spec:
        places, ids = (
            known.integers(spec, what).with_rank(1, what)
            for spec, what in ((indices, "indices"), (segment_ids, "segment_ids"))
        )
        places.shape.merge_with(ids.shape)
        if data.rank == 0:
            raise ValueError("data has no rows: its shape is []")
        count = known.scalar(num_segments, "num_segments")
        rows = TensorShape.vector(None if count is None or count < 0 else count)
        return Spec(data.only(*families).dtype, rows.concatenate(data.shape[1:]))

    name = f"sparse_segment_{kind}"
    rule.__doc__ = doc
    made: Op[Tensor] = op(name=name)(rule)
    _declare(made, kind)

    def call(data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None) -> Tensor:
        return made(data, indices, segment_ids, -1 if num_segments is None else num_segments, name=name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""{doc.rstrip()}

    Examples:
        >>> await session.run(af.{name}([[1.0], [2.0], [4.0]], [0, 2], [0, 0]))
        array([[{example}]], dtype=float32)
    """
    return call


def _declare(made: Op[Tensor], kind: str) -> None:
    size = _SIZES[kind]

    @made.gradient
    def _(op: Operation, dy: Tensor) -> tuple[IndexedSlices, None, None, None]:
        data, indices, ids, _ = op.inputs
        if size is not None:
            counts = segment_sizes(ids, dy)
            dy = dy / (sqrt(counts) if kind == "sqrt_n" else counts)
        return IndexedSlices(gather_segments(dy, ids), indices, shape_of(data)), None, None, None

    @made.kernel(CPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
        dtype = node.output_specs[0].dtype
        wide = wide_for(dtype, True)

        def sums(data: Array, indices: Array, ids: Array, num_segments: Array) -> Array:
            check_sorted(ids, len(indices))
            check_range(np, indices, len(data))
            count = int(ids[-1]) + 1 if ids.size else 0
            if num_segments >= 0:
                count = int(num_segments)
                check_ids(np, ids, count)
            rows = data.take(indices, axis=0).astype(wide, copy=False)
            result, present, sizes = reduced_rows(np.add, rows, ids, count, 0, wide)
            if size is not None:
                result[present] = divided(result[present], size(sizes))
            return result.astype(dtype.np, copy=False)

        return sums

    @made.makes
    def _(inputs: Sequence[Array], attrs: Any) -> int:
        data, _, ids, count = inputs
        return bytes_to_highest(data, ids if count < 0 else np.array([count - 1]))

    @made.check
    def _(data: Spec | Array, indices: Spec | Array, ids: Spec | Array, num_segments: Spec | Array) -> None:
        sizes, count = known.sizes_of(data), known.number(num_segments)
        check_constants(indices, None if sizes is None else sizes[0])
        if not isinstance(ids, Spec):
            check_sorted(ids, len(ids))
            check_ids(np, ids, len(ids) and int(ids[-1]) + 1 if count is None or count < 0 else count)

    costs(made, 2.0)


_HOW = """

    There are as many rows as the highest id asks for, or `num_segments`; those of no id are 0. The ids, a vector, are
    in rising order, with one index for each. The gradient for `data` is an `IndexedSlices`. InvalidArgumentError if an
    index is out of range, or if the ids are negative, not in rising order, or not below `num_segments`.
    """

sparse_segment_sum: Final = _family(
    "sum", "Row s is the sum of the rows of `data` at those `indices` whose segment id is s." + _HOW, "5.", NUMERIC
)
sparse_segment_mean: Final = _family(
    "mean",
    "Row s is the mean of the rows of `data` at those `indices` whose segment id is s." + _HOW,
    "2.5",
    FLOAT,
    COMPLEX,
)
sparse_segment_sqrt_n: Final = _family(
    "sqrt_n",
    "Row s is the sum of the rows of `data` at those `indices` whose segment id is s, over the square root of their "
    "number." + _HOW,
    "3.535534", FLOAT, COMPLEX,
)  # fmt: skip
