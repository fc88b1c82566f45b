"""Dilated windows by blocks: space becomes batch, and comes back."""

from collections.abc import Callable, Sequence

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.array.space_to_batch import batch_to_space_nd, space_to_batch_nd
from aioflow.kernels.math.arithmetic import floordiv, mod
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import int32

# Dilation by blocks


@transactional
def required_space_to_batch_paddings(
    input_shape: NumberLike, block_shape: NumberLike, base_paddings: NumberLike | None = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return paddings of at least `base_paddings` that make sizes multiples of blocks; and the crops that undo them.

    Args:
        input_shape: the sizes, a vector of integers.
        block_shape: the sizes of the blocks, a vector of the same length.
        base_paddings: pairs of least paddings, one for each size; 0 by default.
        name: the name of the scope.

    Returns:
        (paddings, crops), pairs for `space_to_batch_nd` and `batch_to_space_nd`; the crops leave the base paddings.

    Examples:
        >>> paddings, crops = af.required_space_to_batch_paddings([5, 4], [2, 2])
        >>> await session.run([paddings, crops])
        [array([[0, 1],
               [0, 0]], dtype=int32), array([[0, 1],
               [0, 0]], dtype=int32)]
    """
    with name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        blocks = convert_to_tensor(block_shape, preferred_dtype=int32)
        sizes = convert_to_tensor(input_shape, blocks.dtype)
        sizes.shape.with_rank(1).merge_with(blocks.shape.with_rank(1))
        before = after = zeros_like(blocks)
        if base_paddings is not None:
            base = convert_to_tensor(base_paddings, blocks.dtype)
            before, after = base[:, 0], base[:, 1]
        more = mod(blocks - mod(sizes + before + after, blocks), blocks)
        return stack([before, after + more], 1), stack([zeros_like(more), more], 1)


@transactional
def with_space_to_batch(
    input: NumberLike,
    dilation_rate: NumberLike,
    padding: str,
    op: Callable[..., Tensor],
    filter_shape: NumberLike | None = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Return the result of `op` for dilated windows: divides the input into batches in which windows are dense.

    Args:
        input: [batch, *sizes, ...].
        dilation_rate: the distance between elements of a window along each axis, a vector.
        padding: "SAME" or "VALID".
        op: called with (input, the number of axes, padding); it uses dense windows.
        filter_shape: the sizes of the window along these axes, needed for "SAME".
        spatial_dims: the axes, ascending; by default those after the first, or after the channels if these are second.
        data_format: "N...C" or "NC...".

    Examples:
        >>> def pool(x, *_):
        ...     return af.nn.max_pool(x, 2, 1, "VALID")
        >>> x = np.ones((1, 6, 6, 1), np.float32)
        >>> af.nn.with_space_to_batch(x, [2, 2], "VALID", pool, filter_shape=[2, 2]).shape
        TensorShape([1, None, None, 1])
    """
    x = convert_to_tensor(input)
    rates = convert_to_tensor(dilation_rate, preferred_dtype=int32)
    count = rates.shape.with_rank(1).as_list()[0]
    if count is None or padding not in ("SAME", "VALID"):
        raise ValueError(f"padding must be 'SAME' or 'VALID', not {padding!r}, and the length of dilation_rate known")
    first = 2 if data_format is not None and data_format.startswith("NC") else 1
    axes = list(range(first, first + count) if spatial_dims is None else spatial_dims)
    if axes != sorted({*axes}) or len(axes) != count or axes[0] < 1:
        raise ValueError(f"spatial_dims {axes} must be {count} rising axes after the first")
    known = constant_value(rates)
    if known is not None and (known == 1).all():
        return op(x, count, padding)
    if padding == "VALID":
        filter_shape = None
    elif filter_shape is None:
        raise ValueError("filter_shape is needed for padding 'SAME'")
    with name_scope(None, "with_space_to_batch", [x]):
        base = None if filter_shape is None else _same(convert_to_tensor(filter_shape, rates.dtype), rates)
        sizes = shape(x, out_type=rates.dtype)
        along = stack([sizes[axis] for axis in axes])
        paddings, crops = required_space_to_batch_paddings(along, rates, base)
        blocks, whole, cuts = (_for_all(values, axes) for values in (rates, paddings, crops))
        return batch_to_space_nd(op(space_to_batch_nd(x, blocks, whole), count, "VALID"), blocks, cuts)


def _same(window: Tensor, rates: Tensor) -> Tensor:
    reach = (window[: rates.shape.as_list()[0]] - 1) * rates
    return stack([floordiv(reach, 2), reach - floordiv(reach, 2)], 1)


def _for_all(values: Tensor, axes: Sequence[int]) -> Tensor:
    """Return for each axis from the second to the last named one its value; 1 or no padding for others."""
    pairs = values.shape.ndims == 2
    each = [values[axes.index(axis)] if axis in axes else ([0, 0] if pairs else 1) for axis in range(1, axes[-1] + 1)]
    return stack(each)
