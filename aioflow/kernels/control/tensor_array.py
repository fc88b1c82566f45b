"""TensorArray's ops. Each takes the list, called the flow, as a value; an op that changes it returns a new flow."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.control import unwritten
from aioflow.kernels.control.tensor_lists import (
    check_rows,
    count_of,
    element_of,
    piece_of,
    pieces,
    rows,
    rows_of,
    shape_of_rows,
    tensor_list_concat,
    tensor_list_gather,
    tensor_list_put,
    tensor_list_put_pieces,
    tensor_list_put_rows,
    tensor_list_read,
)
from aioflow.kernels.families import CPU, GPU, shape_vector
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DType, ListSpec, Namespace, Spec, TensorShape
from aioflow.tensors.object_arrays import concatenate_arrays, full_array
from aioflow.tensors.tensor_list import CLEARED, TensorList, is_gap

Function = Callable[..., Any]
Check = Callable[[TensorList, Array], None]
_READ_TWICE: Final = "was cleared by an earlier read: pass clear_after_read=False to read it more than once"


_MOST: Final = 2**31 - 1
"""The most slots: the number of slots is an int32."""


def _check_length(length: int) -> None:
    if not 0 <= length <= _MOST:
        raise ValueError(f"a TensorArray cannot have {length:,} slots; the limit is {_MOST:,}")


@op(stateful=True, observes=True)
def tensor_array(
    size: Ints,
    dtype: DType,
    element_shape: TensorShape,
    dynamic_size: bool = False,
    clear_after_read: bool = True,
    infer_shape: bool = True,
) -> Spec:
    """A list of `size` unwritten slots for tensors of that dtype and shape."""
    length = known.scalar(size, "size")
    if length is not None:
        _check_length(length)
    if dtype is dtypes.resource:
        raise TypeError("a TensorArray holds tensors, not resources")
    element = Spec(dtype, TensorShape(element_shape))
    return ListSpec(
        element, length, dynamic_size=dynamic_size, clear_after_read=clear_after_read, infer_shape=infer_shape
    )


tensor_array.no_gradient("its slots are unwritten")


@tensor_array.kernel(CPU, GPU)
def _(xp: Namespace, size: Array) -> TensorList:
    length = int(size)
    _check_length(length)
    return TensorList(length)


@op
def tensor_array_size(flow: Spec) -> Spec:
    """How many slots there are."""
    return Spec(dtypes.int32, dtypes.SCALAR, ListSpec.check(flow).size)


tensor_array_size.no_gradient("it counts slots and reads no values")
tensor_array_size.on_host(outputs=True)
tensor_array_size.kernel(CPU, GPU, fresh=True)(lambda xp, flow: np.array(len(flow), np.int32))


# Writing


def _written(flow: ListSpec, dtype: DType, shape: TensorShape) -> ListSpec:
    """The list once such a tensor is in it. TypeError or ValueError if it cannot be."""
    element = flow.element
    if dtype is not element.dtype:
        raise TypeError(f"the TensorArray holds {element.dtype.name}, and the value is {dtype.name}; use af.cast")
    if not shape.is_compatible_with(element.shape):
        mend = "; pass infer_shape=False if the shapes may differ" if flow.infer_shape else ""
        raise ValueError(f"the TensorArray holds tensors of shape {element.shape}, and the value has {shape}{mend}")
    return flow.with_item(Spec(dtype, element.shape.merge_with(shape))) if flow.infer_shape else flow


def _check_place(index: int | None, flow: ListSpec, grows: bool = False) -> None:
    """ValueError for an index that is surely out of range."""
    if index is None:
        return
    if index < 0:
        raise ValueError(f"index {index} is negative")
    if index >= _MOST:
        raise ValueError(_too_high(index))
    if flow.size is not None and index >= flow.size:
        mend = "; pass dynamic_size=True to let it grow" if grows else ""
        raise ValueError(f"index {index} is out of range for size {flow.size}{mend}")


def _too_high(index: int) -> str:
    return f"index {index:,} is too high: a TensorArray has at most {_MOST:,} slots; number them from 0"


def _check_places(indices: Spec, flow: ListSpec, grows: bool = False) -> None:
    for index in known.vector(indices, "indices") or ():
        _check_place(index, flow, grows)


def _room(node: NodeView) -> Callable[[TensorList, int], None]:
    """The function that raises IndexError for an index at which a list cannot be written."""
    dynamic = ListSpec.check(node.input_specs[0]).dynamic_size

    def check(flow: TensorList, index: int) -> None:
        if not 0 <= index < len(flow) and (index < 0 or not dynamic):
            mend = "" if dynamic else "; pass dynamic_size=True to let it grow"
            raise IndexError(f"index {index} is out of range for size {len(flow)}{mend}")
        if index >= _MOST:
            raise IndexError(_too_high(index))

    return check


def _fits(flow: ListSpec, shape: TensorShape) -> Check | None:
    """A check of the shape of values against the list's, which raises ValueError; None if the Specs already agree."""
    element, same = flow.element.shape, flow.infer_shape
    if shape.is_fully_defined() and (element.is_fully_defined() or not same):
        return None

    def check(held: TensorList, value: Array) -> None:
        given = np.shape(value)
        if not element.is_compatible_with(given):
            raise ValueError(f"the TensorArray holds tensors of shape {element}, and the value has {list(given)}")
        other = held.example() if same else None
        if other is not None and np.shape(other) != given:
            raise ValueError(
                f"the TensorArray holds a tensor of shape {list(np.shape(other))}, and the value has {list(given)}; "
                "pass infer_shape=False if the shapes may differ"
            )

    return check


@op
def tensor_array_write(flow: Spec, index: Ints, value: Spec) -> Spec:
    """The list with `value` in the slot `index`, which is written once.

    InvalidArgumentError if it is written already or out of range, or if the shape is not that of the others.
    """
    spec = ListSpec.check(flow)
    _check_place(known.scalar(index, "index"), spec, grows=True)
    return _written(spec, value.dtype, value.shape)


@tensor_array_write.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, None, Tensor]:
    _, index, value = op.inputs
    return dflow, None, tensor_list_read(dflow, index, shape_vector(value))


@tensor_array_write.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    room, fits = _room(node), _fits(ListSpec.check(node.input_specs[0]), node.input_specs[2].shape)

    def write(flow: TensorList, index: Array, value: Array) -> TensorList:
        place = int(index)
        if fits is not None:
            fits(flow, value)
        room(flow, place)
        return flow.write(place, value)

    return write


@op
def tensor_array_scatter(flow: Spec, indices: Ints, value: Spec) -> Spec:
    """The list with each row of `value` in the slot of its index. Errors as in `tensor_array_write`."""
    spec = ListSpec.check(flow)
    _check_places(indices, spec, grows=True)
    return _written(spec, value.dtype, rows_of(value, count_of(indices)))


@tensor_array_scatter.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, None, Tensor]:
    _, indices, value = op.inputs
    return dflow, None, tensor_list_gather(dflow, indices, shape_of_rows(value))


@tensor_array_scatter.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    room, spec = _room(node), node.input_specs[2]
    fits = _fits(ListSpec.check(node.input_specs[0]), spec.shape[1:])

    def scatter(flow: TensorList, indices: Array, value: Array) -> TensorList:
        check_rows(indices, value)
        items = dict(zip(_distinct(indices.tolist()), rows(value), strict=True))
        return _write_all(flow, items, room, fits)

    return scatter


def _distinct(indices: list[int]) -> list[int]:
    if len(set(indices)) < len(indices):
        twice = next(index for place, index in enumerate(indices) if index in indices[:place])
        raise ValueError(f"index {twice} is given twice: a slot is written once")
    return indices


def _write_all(
    flow: TensorList, items: dict[int, Array], room: Callable[[TensorList, int], None], fits: Check | None
) -> TensorList:
    for index in (min(items), max(items)) if items else ():
        room(flow, index)
    for item in items.values() if fits is not None else ():
        fits(flow, item)  # type: ignore[misc]
    return flow.write_all(items)


@op
def tensor_array_split(flow: Spec, value: Spec, lengths: Ints) -> Spec:
    """The list with the pieces of `value` along its first axis that have these lengths in its slots, from 0 on."""
    spec = ListSpec.check(flow)
    piece, sizes = piece_of(value), known.vector(lengths, "lengths")
    if sizes is None or None in sizes:
        return _written(spec, value.dtype, piece)
    _check_lengths(sizes, known.size_at(value, 0), spec.size, spec.infer_shape)
    if len(set(sizes)) == 1:
        piece = TensorShape(sizes[:1]).concatenate(piece[1:])
    return _written(spec, value.dtype, piece)


def _check_lengths(lengths: Sequence[Any], whole: int | None, slots: int | None, same: bool) -> None:
    """ValueError if pieces of these lengths do not make up a value, do not fit the slots, or differ though `same`."""
    if any(length < 0 for length in lengths) or whole not in (None, sum(lengths)):
        rows = "" if whole is None else f" of {whole} rows"
        raise ValueError(f"a value{rows} cannot be split into pieces of lengths {list(lengths)}")
    if slots not in (None, len(lengths)):
        raise ValueError(f"{len(lengths)} pieces do not fit {slots} slots; pass dynamic_size=True to let it grow")
    if same and len(set(lengths)) > 1:
        raise ValueError(f"pieces of lengths {list(lengths)} differ in shape: pass infer_shape=False")


@tensor_array_split.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, Tensor, None]:
    _, value, lengths = op.inputs
    return dflow, tensor_list_concat(dflow, lengths, shape_of_rows(value)), None


@tensor_array_split.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    spec = ListSpec.check(node.input_specs[0])
    room, fits = _room(node), _fits(spec, piece_of(node.input_specs[1]))

    def split(flow: TensorList, value: Array, lengths: Array) -> TensorList:
        sizes = lengths.tolist()
        _check_lengths(sizes, len(value), None if spec.dynamic_size else len(flow), spec.infer_shape)
        return _write_all(flow, dict(enumerate(pieces(value, sizes))), room, fits)

    return split


@op
def tensor_array_clear(flow: Spec, indices: Ints) -> Spec:
    """The list without the tensors of these slots, which cannot be read or written again. Takes one index as well."""
    spec = ListSpec.check(flow)
    if indices.rank == 0:
        _check_place(known.scalar(indices, "index"), spec)
    else:
        _check_places(indices, spec)
    return spec


@tensor_array_clear.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, None]:
    return dflow, None


tensor_array_clear.kernel(CPU, GPU, binds=True)(
    lambda xp, node: lambda flow, indices: flow.clear(indices.tolist() if indices.ndim else (int(indices),))
)


# Reading


def _read(flow: TensorList, index: int) -> Any:
    """The value of a slot, or UNWRITTEN. IndexError if it is out of range, ValueError if it was cleared."""
    item = flow.item(index)
    if item is CLEARED:
        raise ValueError(f"index {index} {_READ_TWICE}")
    return item


def _filler(xp: Namespace, spec: Spec) -> Callable[[TensorList, int], Array]:
    """The function that makes zeros for an unwritten slot. It raises ValueError where their shape is not known."""
    flow = ListSpec.check(spec)
    element, dtype = flow.element.shape, flow.element.dtype.np

    def zeros(held: TensorList, index: int) -> Array:
        sizes = element.sizes
        other = None if element.is_fully_defined() or not flow.infer_shape else held.example()
        if other is None and not element.is_fully_defined():
            raise ValueError(
                f"index {index} is not written, and a zero for it cannot be made: the shape of the elements is known "
                f"as {element}; write it before it is read, or pass element_shape"
            )
        shape: Any = sizes if other is None else np.shape(other)
        return full_array(shape, b"") if dtype.hasobject else xp.zeros(shape, dtype)

    return zeros


@op
def tensor_array_read(flow: Spec, index: Ints) -> Spec:
    """The value of the slot `index`; zeros if it is unwritten and the shape of the elements is known.

    InvalidArgumentError if it is out of range or was cleared.
    """
    _check_place(known.scalar(index, "index"), ListSpec.check(flow))
    return element_of(flow)


@tensor_array_read.gradient
def _(op: Operation, dy: Tensor | None) -> tuple[Tensor | None, None]:
    return None if dy is None else tensor_list_put(op.inputs[1], dy), None


@tensor_array_read.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    zeros = _filler(xp, node.input_specs[0])

    def read(flow: TensorList, index: Array) -> Array:
        place = int(index)
        item = _read(flow, place)
        return zeros(flow, place) if is_gap(item) else item

    return read


@op
def tensor_array_gather(flow: Spec, indices: Ints) -> Spec:
    """The values of the slots of these indices, stacked along a new first axis; all must have one shape."""
    _check_places(indices, ListSpec.check(flow))
    element = element_of(flow)
    return Spec(element.dtype, TensorShape((count_of(indices),)).concatenate(element.shape))


@tensor_array_gather.gradient
def _(op: Operation, dy: Tensor | None) -> tuple[Tensor | None, None]:
    return None if dy is None else tensor_list_put_rows(op.inputs[1], dy), None


@tensor_array_gather.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    zeros, element = _filler(xp, node.input_specs[0]), ListSpec.check(node.input_specs[0]).element

    def gather(flow: TensorList, indices: Array) -> Array:
        unwritten.check_gaps(flow, indices)
        items = _filled(flow, indices.tolist(), zeros)
        if not items and not element.shape.is_fully_defined():
            raise ValueError(f"no index to gather, and the shape of the elements is only known as {element.shape}")
        return _stacked(xp, items, element)

    return gather


tensor_array_gather.bytes_rule = unwritten.bytes_gathered


def _filled(flow: TensorList, indices: Sequence[int], zeros: Callable[[TensorList, int], Array]) -> list[Array]:
    items = [_read(flow, index) for index in indices]
    if any(is_gap(item) for item in items):
        items = [zeros(flow, i) if is_gap(item) else item for i, item in zip(indices, items, strict=True)]
    return items


def _stacked(xp: Namespace, items: list[Array], element: Spec) -> Array:
    """Arrays of one shape side by side. ValueError if their shapes differ."""
    dtype = element.dtype.np
    if items and xp is np and not dtype.hasobject:
        try:
            return np.array(items, dtype)  # takes a third of the time of np.stack
        except ValueError:
            _check_same(items)
            raise
    _check_same(items)
    if items and not dtype.hasobject:
        return xp.stack(items)
    if items and np.ndim(items[0]):
        return concatenate_arrays(items).reshape(len(items), *items[0].shape)
    result = xp.empty((len(items), *(np.shape(items[0]) if items else element.shape.as_list())), dtype)
    for place, item in enumerate(items):
        result[place] = item
    return result


def _check_same(items: Sequence[Array]) -> None:
    shapes = sorted({np.shape(item) for item in items})
    if len(shapes) > 1:
        raise ValueError(f"elements of shapes {', '.join(str(list(shape)) for shape in shapes)} cannot be stacked")


@op
def tensor_array_concat(flow: Spec) -> tuple[Spec, ...]:
    """The values of all slots, concatenated along the first axis, and the size of each along that axis."""
    spec = ListSpec.check(flow)
    element = spec.element.shape
    if element.sizes == ():
        raise ValueError("elements of rank 0 cannot be concatenated; use stack")
    length = None if element.sizes is None or not spec.infer_shape else element.sizes[0]
    whole = None if None in (length, spec.size) else length * spec.size  # type: ignore[operator]
    shape = TensorShape((whole,)).concatenate(element[1:])
    return Spec(spec.element.dtype, shape), Spec(dtypes.int64, TensorShape.vector(spec.size))


@tensor_array_concat.gradient
def _(op: Operation, dy: Tensor | None, dlengths: None) -> Tensor | None:
    return None if dy is None else tensor_list_put_pieces(dy, op.outputs[1])


tensor_array_concat.on_host(outputs=(1,))


@tensor_array_concat.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    zeros, element = _filler(xp, node.input_specs[0]), ListSpec.check(node.input_specs[0]).element

    def concat(flow: TensorList) -> tuple[Array, Array]:
        unwritten.check_gaps(flow)
        items = _filled(flow, range(len(flow)), zeros)
        if not items:
            return _nothing(xp, element), np.zeros(0, np.int64)
        rests = {np.shape(item)[1:] for item in items}
        if len(rests) > 1 or not all(np.ndim(item) for item in items):
            shapes = ", ".join(str(list(np.shape(item))) for item in items)
            raise ValueError(f"elements of shapes {shapes} cannot be concatenated along their first axis")
        sizes = [len(item) for item in items]
        if element.dtype is dtypes.string:
            whole = concatenate_arrays(items).reshape(sum(sizes), *items[0].shape[1:])
        else:
            whole = xp.concatenate(items)
        return whole, np.array(sizes, np.int64)

    return concat


tensor_array_concat.bytes_rule = unwritten.bytes_concatenated


def _nothing(xp: Namespace, element: Spec) -> Array:
    rest = element.shape[1:]
    if not rest.is_fully_defined():
        raise ValueError(f"no slot to concatenate, and the shape of the elements is only known as {element.shape}")
    return xp.empty((0, *rest.as_list()), element.dtype.np)
