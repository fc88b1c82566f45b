"""How operations on shapes and places of elements are written."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.slicing import filled
from aioflow.onnx.exporting import EXPORTERS, Export, Exporter, exporter, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import int64


@exporter("reshape")
def _(export: Export, op: Operation) -> str:
    return export.add("Reshape", export.name(op.inputs[0]), export.as_int64(op.inputs[1]), allowzero=1)


@exporter("shape")
def _(export: Export, op: Operation) -> str:
    sizes = export.add("Shape", *export.names(op))
    dtype = op.outputs[0].dtype
    return sizes if dtype is int64 else export.add("Cast", sizes, to=NUMBERS[dtype])


@exporter("size")
def _(export: Export, op: Operation) -> str:
    count, dtype = export.add("Size", *export.names(op)), op.outputs[0].dtype
    return count if dtype is int64 else export.add("Cast", count, to=NUMBERS[dtype])


@exporter("rank")
def _(export: Export, op: Operation) -> str:
    return export.initial(np.asarray(rank_of(op.inputs[0]), op.outputs[0].dtype.np))


@exporter("shape_n")
def _(export: Export, op: Operation) -> list[str]:
    sizes, dtype = [export.add("Shape", name) for name in export.names(op)], op.outputs[0].dtype
    return [each if dtype is int64 else export.add("Cast", each, to=NUMBERS[dtype]) for each in sizes]


@exporter("identity_n")
def _(export: Export, op: Operation) -> list[str]:
    return [export.add("Identity", name) for name in export.names(op)]


@exporter("matrix_transpose")
def _(export: Export, op: Operation) -> str:
    rank = rank_of(op.inputs[0])
    return export.add("Transpose", *export.names(op), perm=[*range(rank - 2), rank - 1, rank - 2])


@exporter("transpose")
def _(export: Export, op: Operation) -> str:
    perm = op.attrs["perm"]
    return export.add("Transpose", *export.names(op), **({} if perm is None else {"perm": list(perm)}))


@exporter("expand_dims")
def _(export: Export, op: Operation) -> str:
    return export.add("Unsqueeze", *export.names(op), export.integers([op.attrs["axis"]]))


@exporter("squeeze")
def _(export: Export, op: Operation) -> str:
    axis = op.attrs["axis"]
    axes = [axis] if isinstance(axis, int) else list(axis or ())
    return export.add("Squeeze", *export.names(op), *([export.integers(axes)] if axes else []))


def _by_shape(type: str) -> Exporter:
    return lambda export, op: export.add(type, export.name(op.inputs[0]), export.as_int64(op.inputs[1]))


EXPORTERS.update(broadcast_to=_by_shape("Expand"), tile=_by_shape("Tile"))


@exporter("concat")
def _(export: Export, op: Operation) -> str:
    return export.add("Concat", *export.names(op), axis=op.attrs["axis"])


@exporter("stack")
def _(export: Export, op: Operation) -> str:
    axis = op.attrs["axis"] % rank_of(op.outputs[0])
    parts = [export.add("Unsqueeze", name, export.integers([axis])) for name in export.names(op)]
    return export.add("Concat", *parts, axis=axis)


@exporter("split")
def _(export: Export, op: Operation) -> list[str]:
    count = op.attrs["num"]
    return export.add_all("Split", export.names(op), count, axis=op.attrs["axis"], num_outputs=count)


@exporter("split_v")
def _(export: Export, op: Operation) -> list[str]:
    sizes, axis, count = constant_value(op.inputs[1]), op.attrs["axis"], op.attrs["num"]
    if sizes is None:
        return export.add_all("Split", [export.name(op.inputs[0]), export.as_int64(op.inputs[1])], count, axis=axis)
    rest = [None if part.spec.sizes is None else part.spec.sizes[axis] for part in op.outputs]
    found = [made if size < 0 else int(size) for size, made in zip(np.ravel(sizes), rest, strict=True)]
    known = [size for size in found if size is not None]
    if len(known) < len(found):
        raise ValueError(f"ONNX needs the size that takes the rest, and {op.inputs[0].spec} has an open one")
    return export.add_all("Split", [export.name(op.inputs[0]), export.integers(known)], count, axis=axis)


@exporter("gather")
def _(export: Export, op: Operation) -> str:
    """With batches ONNX gathers from the first axis after these: the axis goes there, and the axes before it back."""
    (x, indices), axis, rank = export.names(op), op.attrs["axis"], rank_of(op.inputs[0])
    if not op.attrs["batch_dims"]:
        return export.add("Gather", x, indices, axis=axis)
    picked = rank_of(op.inputs[1])
    batch, axis = op.attrs["batch_dims"] % picked, axis % rank
    turned = [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)]
    x = export.add("Transpose", x, perm=turned) if axis > batch else x
    rows = export.add("Unsqueeze", export.as_int64(op.inputs[1]), export.integers([-1]))
    found = export.add("GatherND", x, rows, batch_dims=batch)
    moved = range(picked, picked + axis - batch)
    order = [*range(batch), *moved, *range(batch, picked), *range(picked + axis - batch, picked + rank - batch - 1)]
    return export.add("Transpose", found, perm=order) if axis > batch else found


@exporter("pad")
def _(export: Export, op: Operation) -> str:
    modes = {"CONSTANT": "constant", "REFLECT": "reflect"}
    if op.attrs["mode"] not in modes:
        return _padded_by_itself(export, op)
    flat = export.as_int64(op.inputs[1])
    pairs = export.add("Transpose", export.add("Reshape", flat, export.integers([-1, 2])), perm=[1, 0])
    value = export.initial(np.asarray(op.attrs["constant_values"], op.inputs[0].dtype.np))
    pads = export.add("Reshape", pairs, export.integers([-1]))
    return export.add("Pad", export.name(op.inputs[0]), pads, value, mode=modes[op.attrs["mode"]])


def _padded_by_itself(export: Export, op: Operation) -> str:
    """Mirrored with the elements at the ends, which ONNX does not: the places along each axis are computed."""
    x, pads = export.name(op.inputs[0]), export.as_int64(op.inputs[1])
    zero, one = (export.initial(np.int64(number)) for number in (0, 1))
    for axis in range(rank_of(op.inputs[0])):
        size = export.add("Gather", export.add("Shape", x), export.initial(np.int64(axis)))
        before, after = (export.add("Gather", pads, export.initial(np.int64(2 * axis + end))) for end in (0, 1))
        places = export.add("Range", export.add("Neg", before), export.add("Add", size, after), one)
        low = export.add("Sub", export.add("Neg", places), one)
        high = export.add("Sub", export.add("Sub", export.add("Add", size, size), places), one)
        inside = export.add("Where", export.add("Less", places, zero), low, places)
        inside = export.add("Where", export.add("Less", places, size), inside, high)
        x = export.add("Gather", x, inside, axis=axis)
    return x


@exporter("strided_slice")
def _(export: Export, op: Operation) -> str:
    return _sliced(export, op, op.attrs["index"])


@exporter("dynamic_strided_slice")
def _(export: Export, op: Operation) -> str:
    names = [export.add("Reshape", export.as_int64(each), export.integers([1])) for each in op.inputs[1:]]
    return _sliced(export, op, filled(op.attrs["index"], [_InRun(name) for name in names]))


@dataclasses.dataclass(frozen=True, slots=True)
class _InRun:
    """A number of an index that is known in the run: the name of a vector that has it alone."""

    name: str


def _sliced(export: Export, op: Operation, index: Sequence[Any]) -> str:
    entries = _every_axis(index, rank_of(op.inputs[0]))
    axes = [entry for entry in entries if entry is not None]
    bounds = [_bounds(export, entry, op.inputs[0], axis) for axis, entry in enumerate(axes)]
    columns = [_vector(export, [bound[part] for bound in bounds]) for part in range(3)]
    places = export.integers(range(len(axes)))
    y = export.name(op.inputs[0])
    if axes:
        y = export.add("Slice", y, columns[0], columns[1], places, columns[2])
    picked = [axis for axis, entry in enumerate(axes) if not isinstance(entry, tuple)]
    if picked:
        y = export.add("Squeeze", y, export.integers(picked))
    left = [entry for entry in entries if entry is None or isinstance(entry, tuple)]
    new = [axis for axis, entry in enumerate(left) if entry is None]
    return export.add("Unsqueeze", y, export.integers(new)) if new else y


def _every_axis(index: Sequence[Any], rank: int) -> list[Any]:
    """The entries of an index without "...": integers, slices, and None for new axes."""
    count = sum(entry is not None and entry != "..." for entry in index)
    whole = [(None, None, None)] * (rank - count)
    place = list(index).index("...") if "..." in index else len(index)
    return [*index[:place], *whole, *index[place + 1 :]]


def _vector(export: Export, numbers: Sequence[Any]) -> str:
    """The name of a vector of numbers, of which some are known in the run."""
    if not any(isinstance(number, _InRun) for number in numbers):
        return export.integers(numbers)
    parts = [number.name if isinstance(number, _InRun) else export.integers([number]) for number in numbers]
    return export.add("Concat", *parts, axis=0)


def _bounds(export: Export, entry: Any, x: Tensor, axis: int) -> tuple[Any, Any, Any]:
    """Start, end and step of the entry for an axis, as ONNX takes them."""
    if isinstance(entry, _InRun):
        after = export.add("Add", entry.name, export.integers([1]))
        is_last = export.add("Equal", after, export.integers([0]))
        return entry, _InRun(export.add("Where", is_last, export.integers([int64.max]), after)), 1
    if isinstance(entry, int):
        return entry, entry + 1 if entry != -1 else int64.max, 1
    start, end, step = entry
    if isinstance(step, _InRun):
        raise ValueError("the step of a slice is known only in the run")
    forward = step is None or step > 0
    first = (0 if forward else int64.max) if start is None else start
    last = (int64.max if forward else int64.min) if end is None else end
    if not forward and (isinstance(first, _InRun) or first < -1):
        last = _end_backwards(export, x, axis, first, last)
    return first, last, 1 if step is None else step


def _end_backwards(export: Export, x: Tensor, axis: int, first: Any, last: Any) -> Any:
    """The end of a slice that goes backwards: one that begins before the first element is empty.

    ONNX begins it at the first element instead, so it ends after that. ONNX Runtime takes int64.max for no end at all.
    """
    nothing = int64.max - 1
    known = (x.spec.sizes or ())[axis : axis + 1]
    if isinstance(first, int) and known and known[0] is not None:
        return nothing if first < -known[0] else last
    place = export.add("Add", _vector(export, [first]), export.add("Shape", export.name(x), start=axis, end=axis + 1))
    is_before = export.add("Less", place, export.integers([0]))
    return _InRun(export.add("Where", is_before, export.integers([nothing]), _vector(export, [last])))


@exporter("fill")
def _(export: Export, op: Operation) -> str:
    return export.add("Expand", export.name(op.inputs[1]), export.as_int64(op.inputs[0]))


def _alike(number: int) -> Exporter:
    def export_alike(export: Export, op: Operation) -> str:
        value = export.initial(op.outputs[0].dtype.np.type(number))
        return export.add("Expand", value, export.add("Shape", *export.names(op)))

    return export_alike


EXPORTERS.update(zeros_like=_alike(0), ones_like=_alike(1))


@exporter("masked")
def _(export: Export, op: Operation) -> str:
    x, mask = export.names(op)
    return export.add("Where", mask, x, export.initial(op.inputs[0].dtype.np.type(0)))


@exporter("range")
def _(export: Export, op: Operation) -> str:
    return export.add("Range", *export.names(op))


@exporter("reverse")
def _(export: Export, op: Operation) -> str:
    axis = op.attrs["axis"]
    axes = [axis] if isinstance(axis, int) else list(axis)
    bounds = [export.integers([number] * len(axes)) for number in (-1, int64.min)]
    steps = export.integers([-1] * len(axes))
    if not axes:
        return export.name(op.inputs[0])
    return export.add("Slice", *export.names(op), *bounds, export.integers(axes), steps)
