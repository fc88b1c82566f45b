"""Sequences whose length is known when the graph is built, and optionals."""

from aioflow.graph.operation import Tensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import concat, split, stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.shapes import squeeze
from aioflow.library.branches import switch_case
from aioflow.onnx.call import Call, Value
from aioflow.onnx.operators.joining import even_sizes
from aioflow.onnx.operators.values import (
    axis_of,
    from_front,
    known_ints,
    known_number,
    length_of,
    rank_of,
    scalar,
)
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import int64

operator("SequenceConstruct", since=11)(lambda call, *items: list(items))
operator("SequenceEmpty", since=11)(lambda call: [])
operator("SequenceLength", since=11)(lambda call, items: constant(len(items), int64))


@operator("SequenceInsert", since=11)
def _(call: Call, items: list[Value], item: Value, position: Tensor | None = None) -> list[Value]:
    place = len(items) if position is None else _place(position, len(items) + 1, len(items))
    return [*items[:place], item, *items[place:]]


@operator("SequenceErase", since=11)
def _(call: Call, items: list[Value], position: Tensor | None = None) -> list[Value]:
    place = len(items) - 1 if position is None else _place(position, len(items), len(items))
    return [*items[:place], *items[place + 1 :]]


@operator("SequenceAt", since=11)
def _(call: Call, items: list[Value], position: Tensor) -> Value:
    if known_number(position) is not None:
        return items[_place(position, len(items), len(items))]
    index = from_front(scalar(position), len(items))
    found: Value = switch_case(index, [lambda item=item: item for item in items])
    return found


def _place(position: Tensor, count: int, length: int) -> int:
    """The place that a position stands for. ValueError unless it is known when the graph is built, and in range."""
    given = known_number(position)
    if given is None:
        raise ValueError("the position in a sequence must be known when the graph is built")
    place = int(given) + (length if given < 0 else 0)
    if not 0 <= place < count:
        raise ValueError(f"position {given} lies outside of a sequence of {length}")
    return place


@operator("ConcatFromSequence", since=11)
def _(call: Call, items: list[Tensor]) -> Tensor:
    new = call.flag("new_axis")
    axis = axis_of(call.integer("axis"), rank_of(items[0]) + new)
    return stack(items, axis) if new else concat(items, axis)


@operator("SplitToSequence", since=11)
def _(call: Call, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    axis = axis_of(call.integer("axis", 0), rank_of(x))
    if sizes is not None:
        return _parts(x, sizes, axis)
    whole = x.spec.sizes[axis] if x.spec.sizes else None
    if whole is None:
        raise ValueError(f"axis {axis} is split into single elements, so that its size must be known")
    parts = split(x, [1] * known.pieces(whole), axis)
    return list(parts) if call.flag("keepdims", True) else [squeeze(part, [axis]) for part in parts]


def _parts(x: Tensor, sizes: Tensor, axis: int) -> list[Tensor]:
    if sizes.spec.rank == 1:
        given = known_ints(sizes)
        return list(split(x, sizes, axis, num=length_of(sizes)) if given is None else split(x, given, axis))
    size, whole = known_number(sizes), x.spec.sizes[axis] if x.spec.sizes else None
    if size is None or whole is None:
        raise ValueError("the number of parts of a sequence must be known when the graph is built")
    return list(split(x, even_sizes(x, axis, -(-whole // size)), axis))


@operator("SequenceMap", since=17)
def _(call: Call, items: list[Value], *others: Value) -> tuple[Value, ...]:
    """The body applied to one item after the other; of other sequences it gets the item at the same place."""
    body = call.body("body")
    rows = []
    for index, item in enumerate(items):
        given = [other[index] if isinstance(other, list) else other for other in others]
        rows.append(call.build(body, [item, *given]))
    return tuple([list(column) for column in zip(*rows, strict=True)]) if rows else ([],) * len(body.outputs)


# Optionals

operator("Optional", since=15)(lambda call, item=None: item)
operator("OptionalGetElement", since=15)(lambda call, item: item)
operator("OptionalHasElement", since=15)(lambda call, item=None: constant(item is not None))
