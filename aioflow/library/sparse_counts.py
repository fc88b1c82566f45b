"""How often integers occur, all together or row by row, as a sparse tensor."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import ones_like, zeros_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import boolean_mask
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape, shape, size
from aioflow.kernels.array.sorting import argsort, unique
from aioflow.kernels.control.assertions import assert_non_negative
from aioflow.kernels.math.arithmetic import floordiv, floormod, maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.reduction import reduce_max
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.library.control import control_dependencies, name_scope
from aioflow.tensors.dtypes import int64

Numbers = NumberLike | SparseTensor


@transactional
def sparse_bincount(
    values: Numbers,
    weights: Numbers | None = None,
    axis: int | None = 0,
    minlength: NumberLike | None = None,
    maxlength: NumberLike | None = None,
    binary_output: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """How often each integer from 0 on occurs in `values`: a sparse vector of counts, or a matrix with a row for each.

    Args:
        values: integers from 0 on; a tensor, or a sparse one, of which only the values count.
        weights: numbers that are summed up in place of counting, in the form of `values`.
        axis: 0 or None to count all together, -1 to count each row of a matrix.
        minlength: the least length of the result, unless `maxlength` is given.
        maxlength: the length of the result; integers from there on are left out.
        binary_output: whether the result is 1 for all that occur.
        name: the name of the operations.

    Raises:
        InvalidArgumentError: in the run: a value is below 0.

    Examples:
        >>> counts = af.sparse.bincount([[1, 1, 3], [0, 3, 3]], axis=-1)
        >>> await session.run(af.sparse.to_dense(counts))
        array([[0, 2, 0, 1],
               [1, 0, 0, 2]], dtype=int32)
    """
    if axis not in (0, None, -1):
        raise ValueError(f"axis is 0, None or -1, not {axis}")
    if weights is not None and binary_output:
        raise ValueError("weights have no effect on a binary output; give one of the two")
    with name_scope(name, "count"):
        given, rows, count = _flat(values, axis == -1)
        numbers = cast(given, int64)
        with control_dependencies([assert_non_negative(numbers, message="only values from 0 on are counted")]):
            length = _length(numbers, minlength, maxlength)
        each = ones_like(given) if weights is None else _flat(weights, False)[0]
        kept = less(numbers, length)
        numbers, rows, each = (boolean_mask(part, kept) for part in (numbers, rows, each))
        keys = rows * length + numbers
        order = argsort(keys)
        found, places = unique(gather(keys, order))
        sums = unsorted_segment_sum(gather(each, order), places, size(found))
        sums = ones_like(sums) if binary_output else sums
        if count is None:
            return SparseTensor(expand_dims(found, 1), sums, reshape(length, [1]))
        divisor = maximum(length, 1)
        indices = stack([floordiv(found, divisor), floormod(found, divisor)], 1)
        return SparseTensor(indices, sums, stack([count, length]))


def _flat(values: Numbers, by_rows: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """The numbers in one vector, the row of each, and the number of rows; all in one row, and None, unless by rows."""
    if isinstance(values, SparseTensor):
        numbers, rows, count = values.values, values.indices[:, 0], values.dense_shape[0]
        return (numbers, rows, count) if by_rows else (numbers, zeros_like(rows), None)
    dense = convert_to_tensor(values)
    numbers = reshape(dense, [-1])
    if not by_rows or dense.shape.ndims == 1:
        return numbers, zeros_like(numbers, dtype=int64), None
    dense.spec.with_rank(2, "values")
    sizes = shape(dense, out_type=int64)
    return numbers, reshape(broadcast_to(expand_dims(range_(sizes[0]), 1), sizes), [-1]), sizes[0]


def _length(numbers: Tensor, least: NumberLike | None, most: NumberLike | None) -> Tensor:
    """The length of the counts of `numbers`."""
    if most is not None:
        return cast(convert_to_tensor(most), int64)
    length = reduce_max(concat([numbers + 1, [0]], 0))
    return length if least is None else maximum(length, cast(convert_to_tensor(least), int64))
