"""Rows sent to several tensors by number, and put together again; shapes as users check and combine them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import split
from aioflow.kernels.array.constants import identity
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import free, outputs, reshape_to, size
from aioflow.kernels.families import CPU, GPU, costs
from aioflow.kernels.math.segments import check_constants, check_range, unsorted_segment_sum
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape, as_shape, int32
from aioflow.tensors.object_arrays import full_array

Function = Callable[..., Any]


@op
def dynamic_partition(data: Spec, partitions: Indices, num_partitions: int) -> tuple[Spec, ...]:
    """One tensor for each number below `num_partitions`: the rows of `data` that `partitions` gives that number.

    The shape of `data` begins with that of `partitions`. InvalidArgumentError if a number is out of range.

    Examples:
        >>> await session.run(af.dynamic_partition([10, 20, 30], [1, 0, 1], 2))
        (array([20], dtype=int32), array([10, 30], dtype=int32))
    """
    known.integers(partitions, "partitions")
    if num_partitions < 1:
        raise ValueError(f"at least one partition is needed, not {num_partitions}")
    row = _row(data, partitions)
    return tuple(
        [Spec(data.dtype, TensorShape.vector(None).concatenate(row)) for _ in range(known.pieces(num_partitions))]
    )


def _row(data: Spec, numbers: Spec) -> TensorShape:
    """The shape of one row. ValueError if the shape of `data` does not begin with that of `numbers`."""
    if data.sizes is None or numbers.sizes is None:
        return dtypes.UNKNOWN
    first = TensorShape(data.sizes[: len(numbers.sizes)])
    if not first.is_compatible_with(numbers.shape):
        raise ValueError(f"data of shape {data.shape} does not begin with shape {numbers.shape}")
    return TensorShape(data.sizes[len(numbers.sizes) :])


@dynamic_partition.check
def _(data: Spec | Array, partitions: Spec | Array, num_partitions: int) -> None:
    check_constants(partitions, num_partitions, "partition")


@dynamic_partition.gradient
def _(op: Operation, *dys: Tensor) -> tuple[Tensor, None]:
    data, partitions = op.inputs
    places = reshape_to(range_(size(partitions)), partitions)
    parts = dynamic_partition(places, partitions, op.attrs["num_partitions"])
    return reshape_to(dynamic_stitch(parts, dys), data), None


dynamic_partition.moves = True


@dynamic_partition.kernel(CPU, fresh=True, binds=True)  # how large the parts are depends on values
def _(xp: Namespace, node: NodeView) -> Function:
    count = node.attrs["num_partitions"]

    def parts(data: Array, partitions: Array) -> list[Array]:
        depth = np.ndim(partitions)
        if data.shape[:depth] != np.shape(partitions):
            raise ValueError(f"data of shape {list(data.shape)} does not begin with shape {list(np.shape(partitions))}")
        check_range(xp, partitions, count, "partition")
        rows = xp.reshape(data, (math.prod(data.shape[:depth]), *data.shape[depth:]))
        numbers = xp.reshape(partitions, -1)
        return [rows[numbers == number] for number in range(count)]

    return outputs(node, parts)


@op
def dynamic_stitch(indices: Sequence[Indices], data: Sequence[T]) -> Spec:
    """The tensor whose row `indices[m][i]` is `data[m][i]`; the last of equal indices wins, and unnamed rows are 0.

    The number of rows is the highest index plus 1. The shape of each `data[m]` begins with that of `indices[m]`.

    Examples:
        >>> await session.run(af.dynamic_stitch([[0, 2], [1]], [[10, 30], [20]]))
        array([10, 20, 30], dtype=int32)
    """
    row = _stitched_row(indices, data)
    values = [known.gaps(spec) for spec in indices]
    numbers = [number for value in values for number in ((None,) if value is None else value)]
    count = None if None in numbers else 1 + max([number for number in numbers if number is not None], default=-1)
    return Spec(data[0].dtype, TensorShape.vector(count).concatenate(row))


def _stitched_row(indices: Sequence[Spec], data: Sequence[Spec]) -> TensorShape:
    if not data:
        raise ValueError("at least one tensor is needed")
    data[0].same_dtype(*data[1:])
    row = dtypes.UNKNOWN
    for numbers, rows in zip(indices, data, strict=True):
        row = row.merge_with(_row(rows, known.integers(numbers, "indices")))
    return row


@dynamic_stitch.check
def _(indices: Sequence[Spec | Array], data: Sequence[Spec | Array]) -> None:
    for numbers in indices:
        if not isinstance(numbers, Spec) and numbers.size and numbers.min() < 0:
            raise ValueError(f"index {numbers.min()} is negative")


@dynamic_stitch.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    count = len(op.inputs) // 2
    indices, data = op.inputs[:count], op.inputs[count:]
    sizes = [size(each) for each in indices]
    rows = unsorted_segment_sum(dy, stitched_places(indices), sum(sizes[1:], sizes[0]))
    parts = split(rows, sizes, num=count) if count > 1 else [rows]
    return (*[None] * count, *[reshape_to(part, each) for part, each in zip(parts, data, strict=True)])


dynamic_stitch.on_host("indices")


@dynamic_stitch.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    half = len(inputs) // 2
    indices, data = inputs[:half], inputs[half:]
    row = math.prod(data[0].shape[np.ndim(indices[0]) :])
    return _count(indices) * int(row) * int(data[0].dtype.itemsize)


dynamic_stitch.moves = True


@dynamic_stitch.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    def stitched(indices: Sequence[Array], data: Sequence[Array]) -> Array:
        row = data[0].shape[np.ndim(indices[0]) :]
        sizes = (_count(indices), *row)
        result = full_array(sizes, b"") if data[0].dtype.hasobject else xp.zeros(sizes, data[0].dtype)
        for numbers, rows in zip(indices, data, strict=True):
            if rows.shape != np.shape(numbers) + row:
                raise ValueError(
                    f"data of shape {list(rows.shape)} does not fit indices of shape {list(np.shape(numbers))} and "
                    f"rows of shape {list(row)}"
                )
            check_range(np, numbers, len(result))
            result[xp.asarray(numbers)] = rows
        return result

    return stitched


def _count(indices: Sequence[Array]) -> int:
    return 1 + max([int(numbers.max()) for numbers in indices if numbers.size], default=-1)


@op
def stitched_places(indices: Sequence[Indices]) -> Spec:
    """For each row of `dynamic_stitch`'s result, the number of its source row among all rows; -1 without a source."""
    for spec in indices:
        known.integers(spec, "indices")
    return Spec(int32, TensorShape.vector(None))


stitched_places.no_gradient("places do not vary smoothly")


@stitched_places.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    return _count(inputs) * np.dtype(np.int32).itemsize


@stitched_places.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Sequence[Array]) -> Array:
    result = xp.full(_count(indices), -1, np.int32)
    before = 0
    for numbers in indices:
        result[numbers] = xp.arange(before, before + numbers.size, dtype=np.int32).reshape(numbers.shape)
        before += numbers.size
    return result


for _op in (dynamic_partition, dynamic_stitch):
    costs(_op, 5.0)


@transactional
def batch_gather(params: TensorLike, indices: NumberLike, name: str | None = None) -> Tensor:
    """For each batch, the first axes of both, the slices of `params` that the last axis of `indices` names.

    Examples:
        >>> await session.run(af.batch_gather([[1, 2], [3, 4]], [[1], [0]]))
        array([[2],
               [3]], dtype=int32)
    """
    indices = convert_to_tensor(indices, preferred_dtype=int32)
    if not indices.spec.rank:
        raise ValueError(f"batch_gather needs indices of known rank, 1 or more, not of shape {indices.shape}")
    return gather(params, indices, batch_dims=indices.spec.rank - 1, name=name)


# Shapes


@op
def ensure_shape(x: Spec, shape: TensorShape) -> Spec:
    """`x`, with its shape checked against `shape` in the run. InvalidArgumentError if they differ.

    Examples:
        >>> await session.run(af.ensure_shape([1, 2], [2]))
        array([1, 2], dtype=int32)
    """
    merged = x.shape.merge_with(shape)
    return x if merged is x.shape else Spec(x.dtype, TensorShape(merged), x.known)


@ensure_shape.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return dy


@ensure_shape.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    wanted = as_shape(node.attrs["shape"])

    def checked(x: Array) -> Array:
        if not wanted.is_compatible_with(np.shape(x)):
            raise ValueError(f"the shape is {list(np.shape(x))}, not {wanted}")
        return x

    return checked


free(ensure_shape)


def guarantee_const(input: TensorLike, name: str | None = None) -> Tensor:
    """`input` unchanged. Plans fold constants without this hint.

    Examples:
        >>> await session.run(af.guarantee_const([1, 2]))
        array([1, 2], dtype=int32)
    """
    return identity(input, name=name)


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The shape that two shapes broadcast to, as far as they are known. ValueError if they cannot.

    Examples:
        >>> af.broadcast_static_shape(af.TensorShape([2, 1]), af.TensorShape([3]))
        TensorShape([2, 3])
    """
    return dtypes.broadcast_shapes(as_shape(shape_x), as_shape(shape_y))


@op
def broadcast_dynamic_shape(shape_x: Ints, shape_y: Ints) -> Spec:
    """The shape that two shapes, vectors of sizes, broadcast to. InvalidArgumentError if they cannot.

    Examples:
        >>> await session.run(af.broadcast_dynamic_shape([2, 1], [3]))
        array([2, 3], dtype=int32)
    """
    dtype = known.integers(shape_x, "shape_x").same_dtype(known.integers(shape_y, "shape_y")).dtype
    whole = dtypes.broadcast_shapes(known.shape(shape_x, "shape_x"), known.shape(shape_y, "shape_y"))
    return Spec(dtype, TensorShape.vector(whole.ndims), whole.sizes)


broadcast_dynamic_shape.no_gradient("sizes do not vary smoothly")
free(broadcast_dynamic_shape)


broadcast_dynamic_shape.on_host(outputs=True)


@broadcast_dynamic_shape.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, y: Array) -> Array:
    try:
        sizes = np.broadcast_shapes(tuple(x.tolist()), tuple(y.tolist()))
    except ValueError:
        raise ValueError(f"shapes {x.tolist()} and {y.tolist()} cannot be broadcast together") from None
    return np.array(sizes, x.dtype)
