"""Empty rows filled with one value each."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.gather import gather, scatter_nd
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import boolean_mask
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.sparse.sparse_parts import sparse_fill
from aioflow.library.control import name_scope
from aioflow.library.ragged.partitions import integers
from aioflow.tensors.dtypes import int64


@transactional
def ragged_fill_empty_rows(
    value_rowids: TensorLike,
    values: TensorLike,
    nrows: TensorLike,
    default_value: TensorLike,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return rows in which each empty one has the default value.

    Args:
        value_rowids: the row of each value, an int64 vector.
        values: the values, a vector.
        nrows: the number of rows.
        default_value: the value of empty rows.
        name: the name scope.

    Returns:
        The row of each value, the values, which rows were empty, and for each given value its new place.

    Raises:
        InvalidArgumentError: in the run: a row is none of `nrows`.

    Examples:
        >>> rows, values, empty, places = af.ragged_fill_empty_rows([0, 2], [5, 6], 3, -1)
        >>> await session.run([rows, values])
        [array([0, 1, 2]), array([ 5, -1,  6], dtype=int32)]
    """
    with name_scope(name, "RaggedFillEmptyRows"):
        ids, found = integers(value_rowids, "value_rowids", like=int64), convert_to_tensor(values)
        found.shape.with_rank(1).assert_is_compatible_with(ids.shape)
        rows = integers(nrows, "nrows", rank=0, like=int64)
        indices, places, empty = sparse_fill(expand_dims(ids, 1), reshape(rows, [1]))
        default = reshape(convert_to_tensor(default_value, found.dtype), [1])
        filled = gather(concat([found, default], 0), places)
        count = shape(found, out_type=int64)[0]
        given = less(places, count)
        new = boolean_mask(range_(shape(places, out_type=int64)[0]), given)
        old = expand_dims(boolean_mask(places, given), 1)
        return indices[:, 0], filled, empty, scatter_nd(old, new, expand_dims(count, 0))


@transactional
def ragged_fill_empty_rows_grad(
    reverse_index_map: TensorLike, grad_values: TensorLike, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the values and of the default value of `ragged_fill_empty_rows`.

    Args:
        reverse_index_map: the new place of each value.
        grad_values: the gradient of the filled values, a vector.
        name: the name scope.

    Examples:
        >>> slopes, slope = af.ragged_fill_empty_rows_grad([0, 2], [1.0, 2.0, 4.0])
        >>> await session.run([slopes, slope])
        [array([1., 4.], dtype=float32), np.float32(2.0)]
    """
    with name_scope(name, "RaggedFillEmptyRowsGrad"):
        places, slopes = integers(reverse_index_map, "reverse_index_map"), convert_to_tensor(grad_values)
        slopes.shape.assert_has_rank(1)
        own = gather(slopes, places)
        taken = scatter_nd(expand_dims(places, 1), own, shape(slopes, out_type=places.dtype))
        return own, reduce_sum(slopes - taken)
