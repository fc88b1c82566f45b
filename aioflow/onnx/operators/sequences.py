"""Sequences and optionals. The length of a sequence is known when the graph is built, or else only in the run."""

from collections.abc import Sequence
from typing import TypeAlias

from aioflow.graph.operation import Tensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import concat, split, stack
from aioflow.kernels.array.constants import constant, fill
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.shapes import squeeze
from aioflow.kernels.control.tensor_lists import tensor_list_put_rows
from aioflow.kernels.math.arithmetic import minimum, subtract
from aioflow.kernels.math.casting import cast
from aioflow.library.branches import switch_case
from aioflow.library.tensor_array import TensorArray
from aioflow.onnx.call import Call, Value
from aioflow.onnx.model import ValueType
from aioflow.onnx.operators.joining import even_sizes
from aioflow.onnx.operators.lists import (
    EmptySequence,
    as_array,
    erased,
    index_in,
    inserted,
    joined,
    length,
    list_of,
    mapped,
    split_up,
    stacked,
    tensors,
    with_first,
)
from aioflow.onnx.operators.values import (
    axis_of,
    from_front,
    known_ints,
    known_number,
    rank_of,
    scalar,
    size_at,
)
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float32, int64

Items: TypeAlias = "list[Value] | TensorArray"
"""A sequence."""

operator("SequenceConstruct", since=11)(lambda call, *items: list(items))
operator("SequenceEmpty", since=11)(lambda call: EmptySequence(call.dtype("dtype", float32)))


@operator("SequenceLength", since=11)
def _(call: Call, items: Items) -> Tensor:
    return length(items) if isinstance(items, TensorArray) else constant(len(items), int64)


@operator("SequenceInsert", since=11)
def _(call: Call, items: Items, item: Value, position: Tensor | None = None) -> Items:
    if isinstance(items, TensorArray) or _is_open(position):
        return inserted(as_array(items), item, position)
    place = len(items) if position is None else _place(position, len(items) + 1, len(items))
    return [*items[:place], item, *items[place:]]


@operator("SequenceErase", since=11)
def _(call: Call, items: Items, position: Tensor | None = None) -> Items:
    if isinstance(items, TensorArray) or _is_open(position):
        return erased(as_array(items), position)
    place = len(items) - 1 if position is None else _place(position, len(items), len(items))
    return [*items[:place], *items[place + 1 :]]


@operator("SequenceAt", since=11)
def _(call: Call, items: Items, position: Tensor) -> Value:
    if isinstance(items, TensorArray):
        return items.read(index_in(items, position))
    if known_number(position) is not None:
        return items[_place(position, len(items), len(items))]
    index = from_front(scalar(position), len(items))
    found: Value = switch_case(index, [lambda item=item: item for item in items])
    return found


def _is_open(position: Tensor | None) -> bool:
    """Whether only the run knows the position."""
    return position is not None and known_number(position) is None


def _place(position: Tensor, count: int, whole: int) -> int:
    """The place that a known position stands for. ValueError if it is out of range."""
    given = int(known_number(position))
    place = given + (whole if given < 0 else 0)
    if not 0 <= place < count:
        raise ValueError(f"position {given} lies outside of a sequence of {whole}")
    return place


@operator("ConcatFromSequence", since=11)
def _(call: Call, items: Items) -> Tensor:
    new, axis = call.flag("new_axis"), call.integer("axis")
    if isinstance(items, TensorArray):
        return stacked(items, axis) if new else joined(items, axis)
    if not items:
        raise ValueError("a sequence without elements cannot be joined")
    parts = tensors(items)
    place = axis_of(axis, rank_of(parts[0]) + new)
    return stack(parts, place) if new else concat(parts, place)


@operator("SplitToSequence", since=11)
def _(call: Call, x: Tensor, sizes: Tensor | None = None) -> Items:
    axis = axis_of(call.integer("axis", 0), rank_of(x))
    if sizes is not None:
        return _parts(x, sizes, axis)
    keep = call.flag("keepdims", True)
    whole = x.spec.sizes[axis] if x.spec.sizes else None
    if whole is None:
        return _single(x, axis, keep)
    parts = split(x, [1] * known.pieces(whole), axis)
    return list(parts) if keep else [squeeze(part, [axis]) for part in parts]


def _single(x: Tensor, axis: int, keep: bool) -> TensorArray:
    """The elements along one axis, whose number only the run knows."""
    if keep:
        return split_up(x, fill([size_at(x, axis)], constant(1, int64)), axis)
    return list_of(tensor_list_put_rows(number_range(cast(size_at(x, axis), int64)), with_first(x, axis)))


def _parts(x: Tensor, sizes: Tensor, axis: int) -> Items:
    if sizes.spec.rank == 1:
        given, count = known_ints(sizes), size_at(sizes, 0)
        if given is None and isinstance(count, Tensor):
            return split_up(x, sizes, axis)
        return list(split(x, sizes, axis, num=count) if given is None else split(x, given, axis))
    size, whole = known_number(sizes), x.spec.sizes[axis] if x.spec.sizes else None
    if size is not None and size < 1:
        raise ValueError(f"the parts of a sequence cannot have size {size}")
    if size is None or whole is None:
        return split_up(x, _lengths(cast(size_at(x, axis), int64), cast(scalar(sizes), int64)), axis)
    return list(split(x, even_sizes(x, axis, -(-whole // size)), axis))


def _lengths(whole: Tensor, size: Tensor) -> Tensor:
    """The lengths of parts that all but the last have one size."""
    return minimum(size, subtract(whole, number_range(constant(0, int64), whole, size)))


@operator("SequenceMap", since=17)
def _(call: Call, items: Items, *others: Value) -> tuple[Value, ...]:
    """The body applied to one item after the other; of other sequences it gets the item at the same place."""
    body, given = call.body("body"), [items, *others]
    if any(isinstance(each, TensorArray) for each in given):
        return _mapped(call, given)
    lengths = [len(each) for each in given if isinstance(each, list)]
    if len({*lengths}) > 1:
        raise ValueError(f"its sequences have {lengths} elements, and not all as many")
    rows = [
        call.build(body, [each[index] if isinstance(each, list) else each for each in given])
        for index in range(len(items))
    ]
    return tuple([list(column) for column in zip(*rows, strict=True)]) if rows else ([],) * len(body.outputs)


def _mapped(call: Call, given: list[Value]) -> tuple[TensorArray, ...]:
    """The same in a loop."""
    body = call.body("body")
    types = [*body.inputs.values()]
    places = [place for place, each in enumerate(given) if isinstance(each, (list, TensorArray))]
    arrays = [as_array(given[place], ValueType("sequence", element=types[place])) for place in places]

    def build(elements: Sequence[Tensor]) -> list[Tensor]:
        chosen = dict(zip(places, elements, strict=True))
        return tensors(call.build(body, [chosen.get(place, each) for place, each in enumerate(given)]))

    return tuple(mapped(arrays, build))
