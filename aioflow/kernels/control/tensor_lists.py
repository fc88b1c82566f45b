"""Lists of tensors as gradients have them: of any length, with gaps that stand for zeros.

The gradient of a TensorArray's flow is the list of the gradients of its elements, and of such lists the gradients are
lists again. Three ops make lists: of one tensor, of rows, of pieces. Three take them apart, with zeros in the place of
gaps. Each is the other's gradient.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.families import CPU, GPU, shape_vector
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, ListSpec, Namespace, Spec, TensorShape
from aioflow.tensors.tensor_list import UNWRITTEN, TensorList, is_gap

Function = Callable[..., Any]


def element_of(flow: Spec) -> Spec:
    """The Spec of one read of the list: a fresh Spec, since open sizes may differ between reads."""
    element = ListSpec.check(flow).element
    return element if element.shape.is_fully_defined() else Spec(element.dtype, TensorShape(element.sizes))


def count_of(indices: Spec) -> int | None:
    """The number of indices in a vector. TypeError or ValueError if it is not a vector of integers."""
    return known.length(indices, "indices")


def rows_of(spec: Spec, count: int | None) -> TensorShape:
    """The shape of one row of a tensor that has `count` of them. ValueError if it cannot have."""
    if spec.sizes is None:
        return dtypes.UNKNOWN
    if not spec.sizes:
        raise ValueError("a tensor of rank 0 has no rows")
    if None not in (count, spec.sizes[0]) and count != spec.sizes[0]:
        raise ValueError(f"{spec.sizes[0]} rows are given for {count} indices")
    return TensorShape(spec.sizes[1:])


# Lists made of tensors


@op(stateful=True, observes=True)
def tensor_list_empty(dtype: DType, shape: TensorShape, depth: int = 1) -> Spec:
    """A list of which every slot is a gap; with a depth above 1, of lists of lists of tensors."""
    spec = Spec(dtype, shape)
    for _ in range(depth):
        spec = ListSpec.record(spec)
    return spec


tensor_list_empty.no_gradient("it depends on nothing")
tensor_list_empty.kernel(CPU, GPU, binds=True)(lambda xp, node: TensorList)


def zero_list_like(flow: Tensor) -> Tensor:
    """The zero among the gradients of a list: a list without a written slot. It does not depend on `flow`'s value."""
    element, depth = ListSpec.check(flow.spec).element, 1
    while isinstance(element, ListSpec):
        element, depth = element.element, depth + 1
    return tensor_list_empty(element.dtype, element.shape, depth)


@op
def tensor_list_put(index: Ints, value: Spec) -> Spec:
    """A list with `value` in one slot."""
    _check_place(known.scalar(index, "index"))
    return ListSpec.record(value if value.known is None else Spec(value.dtype, value.shape))


def _check_place(index: int | None) -> None:
    if index is not None and index < 0:
        raise ValueError(f"index {index} is negative")


@tensor_list_put.gradient
def _(op: Operation, dflow: Tensor) -> tuple[None, Tensor]:
    return None, tensor_list_read(dflow, op.inputs[0], shape_vector(op.inputs[1]))


tensor_list_put.kernel(CPU, GPU, binds=True)(
    lambda xp, node: lambda index, value: TensorList().add_at(int(index), value)
)


@op
def tensor_list_put_rows(indices: Ints, value: Spec) -> Spec:
    """A list with each row of `value` in the slot of its index; rows of one index are added."""
    return ListSpec.record(Spec(value.dtype, rows_of(value, count_of(indices))))


@tensor_list_put_rows.gradient
def _(op: Operation, dflow: Tensor) -> tuple[None, Tensor]:
    return None, tensor_list_gather(dflow, op.inputs[0], shape_of_rows(op.inputs[1]))


def shape_of_rows(tensor: Tensor) -> Any:
    """The shape of a row as data: a list where it is known, else the op."""
    sizes = shape_vector(tensor)
    return sizes[1:] if isinstance(sizes, list) else shape(tensor)[1:]


@tensor_list_put_rows.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    def put(indices: Array, value: Array) -> TensorList:
        check_rows(indices, value)
        return TensorList().add_all(_added(indices.tolist(), rows(value)))

    return put


def check_rows(indices: Array, value: Array) -> None:
    """ValueError unless `value` has one row per index."""
    if value.ndim == 0 or len(indices) != len(value):
        raise ValueError(f"a value of shape {list(value.shape)} is given for {len(indices)} indices: one row for each")


def rows(value: Array) -> list[Array]:
    """The rows of an array; of a vector of text arrays of rank 0."""
    return [value[index, ...] for index in range(len(value))] if value.dtype.hasobject else list(value)


def _added(indices: Sequence[int], items: Iterable[Array]) -> dict[int, Array]:
    found: dict[int, Array] = {}
    for index, item in zip(indices, items, strict=True):
        found[index] = found[index] + item if index in found else item
    return found


@op
def tensor_list_put_pieces(value: Spec, lengths: Ints) -> Spec:
    """A list of the pieces of `value` along its first axis that have these lengths, in slots from 0 on."""
    count_of(lengths)
    return ListSpec.record(Spec(value.dtype, piece_of(value)))


def piece_of(value: Spec) -> TensorShape:
    """The shape of a piece along the first axis. ValueError for rank 0."""
    return TensorShape((None,)).concatenate(rows_of(value, None))


@tensor_list_put_pieces.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, None]:
    return tensor_list_concat(dflow, op.inputs[1], shape_of_rows(op.inputs[0])), None


@tensor_list_put_pieces.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return lambda value, lengths: TensorList.of(pieces(value, lengths.tolist()))


def pieces(value: Array, lengths: Sequence[int]) -> list[Array]:
    """The pieces of `value` along its first axis. ValueError if the lengths do not add up to its size."""
    if any(length < 0 for length in lengths) or value.ndim == 0 or sum(lengths) != len(value):
        raise ValueError(f"a value of shape {list(value.shape)} cannot be split into pieces of lengths {lengths}")
    found, start = [], 0
    for length in lengths:
        found.append(value[start : start + length])
        start += length
    return found


@op
def tensor_list_add(lists: Sequence[Spec]) -> Spec:
    """The sum of lists: each slot holds the sum of the values written to it."""
    if not lists:
        raise ValueError("at least one list is needed")
    total = ListSpec.record(ListSpec.check(lists[0]).element)
    for other in lists[1:]:
        total = total.common_with(ListSpec.check(other))
    return total


@tensor_list_add.gradient
def _(op: Operation, dflow: Tensor) -> list[Tensor]:
    return [dflow] * len(op.inputs)


@tensor_list_add.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return lambda lists: sum(lists[1:], lists[0])


# Tensors made of lists


@op
def tensor_list_read(flow: Spec, index: Ints, shape: Ints) -> Spec:
    """The value of a slot, or zeros of that shape if it is a gap, or beyond the end."""
    element = ListSpec.check(flow).element
    _check_place(known.scalar(index, "index"))
    return Spec(element.dtype, known.shape(shape))


@tensor_list_read.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return tensor_list_put(op.inputs[1], dy), None, None


@tensor_list_read.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype.np

    def read(flow: TensorList, index: Array, shape: Array) -> Array:
        item = _item(flow, int(index))
        return xp.zeros(tuple(shape.tolist()), dtype) if is_gap(item) else item

    return read


def _item(flow: TensorList, index: int) -> Any:
    return flow.item(index) if index < len(flow) else UNWRITTEN


@op
def tensor_list_gather(flow: Spec, indices: Ints, shape: Ints) -> Spec:
    """The values of the slots of these indices, stacked along a new first axis; zeros of that shape for gaps."""
    count = count_of(indices)
    return Spec(ListSpec.check(flow).element.dtype, TensorShape((count,)).concatenate(known.shape(shape)))


@tensor_list_gather.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return tensor_list_put_rows(op.inputs[1], dy), None, None


@tensor_list_gather.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype.np

    def gather(flow: TensorList, indices: Array, shape: Array) -> Array:
        result = xp.zeros((len(indices), *shape.tolist()), dtype)
        for place, index in enumerate(indices.tolist()):
            item = _item(flow, index)
            if not is_gap(item):
                result[place] = item
        return result

    return gather


@op
def tensor_list_concat(flow: Spec, lengths: Ints, shape: Ints) -> Spec:
    """The values of the first slots, concatenated along the first axis; zeros for gaps.

    `lengths` has the size along that axis of each, `shape` the other sizes.
    """
    sizes = known.vector(lengths, "lengths")
    whole = None if sizes is None else known.total(sizes)
    return Spec(ListSpec.check(flow).element.dtype, TensorShape((whole,)).concatenate(known.shape(shape)))


@tensor_list_concat.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return tensor_list_put_pieces(dy, op.inputs[1]), None, None


@tensor_list_concat.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype.np

    def concat(flow: TensorList, lengths: Array, shape: Array) -> Array:
        sizes = lengths.tolist()
        result = xp.zeros((sum(sizes), *shape.tolist()), dtype)
        for place, piece in enumerate(pieces(result, sizes)):
            item = _item(flow, place)
            if not is_gap(item):
                piece[...] = item
        return result

    return concat


add_lists = tensor_list_add
