"""How operations on segments, masks and places of elements are written: as elements added up at their places."""

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import Export, exporter, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import bool_, int64


@exporter("unsorted_segment_sum")
def _(export: Export, op: Operation) -> str:
    data, ids, count = op.inputs
    return _summed(export, data, ids, export.add("Reshape", export.as_int64(count), export.integers([1])))


@exporter("segment_sum")
def _(export: Export, op: Operation) -> str:
    data, ids = op.inputs
    known = export.add("Concat", export.as_int64(ids), export.integers([-1]), axis=0)
    last = export.add("ReduceMax", known, export.integers([0]), keepdims=1)
    return _summed(export, data, ids, export.add("Add", last, export.integers([1])))


def _summed(export: Export, data: Tensor, ids: Tensor, count: str) -> str:
    """The sums of rows. Those of negative ids are added to one more row, which is cut off: ONNX counts from the end."""
    zero, places = export.integers([0]), export.as_int64(ids)
    rows = export.add("Where", export.add("Less", places, zero), count, places)
    rest = export.add("Shape", export.name(data), start=rank_of(ids))
    sizes = export.add("Concat", export.add("Add", count, export.integers([1])), rest, axis=0)
    zeros = export.add("Expand", export.initial(data.dtype.np.type(0)), sizes)
    index = export.add("Unsqueeze", rows, export.integers([-1]))
    sums = export.add("ScatterND", zeros, index, export.name(data), reduction="add")
    return export.add("Slice", sums, zero, count, zero)


@exporter("unravel_index")
def _(export: Export, op: Operation) -> str:
    indices, dims = op.inputs
    axes = (dims.spec.sizes or [None])[0]
    if axes is None:
        raise ValueError("the number of axes must be known")
    left, sizes, parts = export.as_int64(indices), export.as_int64(dims), list[str]()
    for axis in reversed(range(axes)):
        size = export.add("Gather", sizes, export.initial(np.int64(axis)), axis=0)
        parts.insert(0, export.add("Unsqueeze", export.add("Mod", left, size), export.integers([0])))
        left = export.add("Div", left, size)
    return export.add("Cast", export.add("Concat", *parts, axis=0), to=NUMBERS[op.outputs[0].dtype])


@exporter("sequence_mask")
def _(export: Export, op: Operation) -> str:
    lengths, most = export.as_int64(op.inputs[0]), constant_value(op.inputs[1])
    count = export.as_int64(op.inputs[1])
    if most is None or most < 0:
        every = export.add(
            "Concat", export.add("Reshape", lengths, export.integers([-1])), export.integers([0]), axis=0
        )
        longest = export.add("ReduceMax", every, export.integers([0]), keepdims=0)
        count = export.add("Where", export.add("Less", count, export.initial(np.int64(0))), longest, count)
    places = export.add("Range", export.initial(np.int64(0)), count, export.initial(np.int64(1)))
    mask = export.add("Less", places, export.add("Unsqueeze", lengths, export.integers([-1])))
    dtype = op.outputs[0].dtype
    return mask if dtype is bool_ else export.add("Cast", mask, to=NUMBERS[dtype])


@exporter("boolean_mask")
def _(export: Export, op: Operation) -> str:
    if op.attrs["axis"]:
        raise ValueError(f"ONNX picks elements from the first axis on, not from axis {op.attrs['axis']}")
    x, mask = export.names(op)
    return export.add("GatherND", x, export.add("Transpose", export.add("NonZero", mask), perm=[1, 0]))


@exporter("unique")
def _(export: Export, op: Operation) -> list[str]:
    """ONNX Runtime finds distinct integers only in int64."""
    wide, (of, numbers) = op.inputs[0].dtype.is_integer, [output.dtype for output in op.outputs]
    x = export.as_int64(op.inputs[0]) if wide else export.name(op.inputs[0])
    values, _, places, _ = export.add_all("Unique", [x], 4, sorted=0)
    if wide and of is not int64:
        values = export.add("Cast", values, to=NUMBERS[of])
    return [values, places if numbers is int64 else export.add("Cast", places, to=NUMBERS[numbers])]


@exporter("roll")
def _(export: Export, op: Operation) -> str:
    x, axis = export.name(op.inputs[0]), op.attrs["axis"]
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = export.add("Reshape", export.as_int64(op.inputs[1]), export.integers([-1]))
    for place, each in enumerate(axes):
        shape = export.add("Shape", x)
        size = export.add("Gather", shape, export.initial(np.int64(each)), axis=0)
        shift = export.add("Gather", shifts, export.initial(np.int64(place)), axis=0)
        numbers = export.add("Range", export.initial(np.int64(0)), size, export.initial(np.int64(1)))
        x = export.add("Gather", x, export.add("Mod", export.add("Sub", numbers, shift), size), axis=each)
    return x


@exporter("reverse_sequence")
def _(export: Export, op: Operation) -> str:
    batch, seq = op.attrs["batch_axis"], op.attrs["seq_axis"] % rank_of(op.inputs[0])
    if {batch % rank_of(op.inputs[0]), seq} != {0, 1}:
        raise ValueError("ONNX reverses sequences along the first two axes alone")
    lengths = export.as_int64(op.inputs[1])
    return export.add("ReverseSequence", export.name(op.inputs[0]), lengths, batch_axis=1 - seq, time_axis=seq)


@exporter("matrix_band_part")
def _(export: Export, op: Operation) -> str:
    """The lower triangle of the upper one, each from another diagonal; a negative number keeps all."""
    found = export.name(op.inputs[0])
    for tensor, upper in zip(op.inputs[1:], (1, 0), strict=True):
        number = constant_value(tensor)
        if number is None:
            raise ValueError("the diagonals of a band are known only in the run")
        if number >= 0:
            found = export.add("Trilu", found, export.initial(np.int64(-number if upper else number)), upper=upper)
    return found
