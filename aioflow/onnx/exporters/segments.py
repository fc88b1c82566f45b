"""How operations on segments, masks and places of elements are written: as elements added up at their places."""

from typing import Final

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import EXPORTERS, Export, Exporter, exporter, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import bool_, int64

_REDUCTIONS: Final = {"max": "max", "min": "min", "prod": "mul"}
"""ONNX's names of reductions, by those of segments."""


@exporter("unsorted_segment_sum")
def _(export: Export, op: Operation) -> str:
    data, ids, count = op.inputs
    return _summed(export, data, ids, export.add("Reshape", export.as_int64(count), export.integers([1])))


@exporter("segment_sum")
def _(export: Export, op: Operation) -> str:
    data, ids = op.inputs
    return _summed(export, data, ids, _highest(export, ids))


def _highest(export: Export, ids: Tensor) -> str:
    """The number of segments: one more than the highest id, as a vector."""
    known = export.add("Concat", export.as_int64(ids), export.integers([-1]), axis=0)
    return export.add("Add", export.add("ReduceMax", known, export.integers([0]), keepdims=1), export.integers([1]))


def _summed(export: Export, data: Tensor, ids: Tensor, count: str) -> str:
    return _scattered(export, (data, export.name(data)), ids, count, "add", 0)


def _scattered(export: Export, rows: tuple[Tensor, str], ids: Tensor, count: str, reduction: str, first: float) -> str:
    """The rows of each segment brought together, from `first` on.

    Those of negative ids go to one more row, which is cut off: ONNX counts from the end.
    """
    data, name = rows
    zero, places = export.integers([0]), export.as_int64(ids)
    numbers = export.add("Where", export.add("Less", places, zero), count, places)
    rest = export.add("Shape", name, start=rank_of(ids))
    sizes = export.add("Concat", export.add("Add", count, export.integers([1])), rest, axis=0)
    start = export.add("Expand", export.initial(data.dtype.np.type(first)), sizes)
    index = export.add("Unsqueeze", numbers, export.integers([-1]))
    made = export.add("ScatterND", start, index, name, reduction=reduction)
    return export.add("Slice", made, zero, count, zero)


def _counts(export: Export, data: Tensor, ids: Tensor, count: str) -> str:
    """How many rows each segment has, with axes of size 1 for those of a row."""
    ones = export.add("Expand", export.initial(data.dtype.np.type(1)), export.add("Shape", export.name(ids)))
    found = _scattered(export, (data, ones), ids, count, "add", 0)
    axes = rank_of(data) - rank_of(ids)
    return export.add("Unsqueeze", found, export.integers(range(1, 1 + axes))) if axes else found


def _reduced(export: Export, op: Operation, count: str, how: str, empty: float | None) -> str:
    """The rows of each segment brought together; `empty` where there are none, or what they begin with."""
    (data, ids), dtype = op.inputs[:2], op.inputs[0].dtype
    least, most = (-np.inf, np.inf) if dtype.is_floating else (dtype.min, dtype.max)
    first = {"mul": 1, "max": least, "min": most}[how]
    made = _scattered(export, (data, export.name(data)), ids, count, how, first)
    if empty is None or empty == first:
        return made
    none = export.add("Equal", _counts(export, data, ids, count), export.initial(dtype.np.type(0)))
    return export.add("Where", none, export.initial(dtype.np.type(empty)), made)


def _mean(export: Export, data: Tensor, rows: str, ids: Tensor, count: str, root: bool = False) -> str:
    """The sums of segments divided by their number of rows, or by the root of it."""
    one = export.initial(data.dtype.np.type(1))
    counts = export.add("Max", _counts(export, data, ids, count), one)
    divisor = export.add("Sqrt", counts) if root else counts
    return export.add("Div", _scattered(export, (data, rows), ids, count, "add", 0), divisor)


def _unsorted(how: str) -> Exporter:
    def export_segments(export: Export, op: Operation) -> str:
        dtype = op.inputs[0].dtype
        count = export.add("Reshape", export.as_int64(op.inputs[2]), export.integers([1]))
        return _reduced(export, op, count, how, {"mul": 1, "max": dtype.min, "min": dtype.max}[how])

    return export_segments


def _sorted(how: str, empty: float) -> Exporter:
    return lambda export, op: _reduced(export, op, _highest(export, op.inputs[1]), how, empty)


EXPORTERS.update({f"unsorted_segment_{name}": _unsorted(how) for name, how in _REDUCTIONS.items()})
EXPORTERS.update({f"segment_{name}": _sorted(how, int(how == "mul")) for name, how in _REDUCTIONS.items()})


@exporter("segment_sizes")
def _(export: Export, op: Operation) -> str:
    """In the dtype of the rows of segments, and 1 at least."""
    ids, rows = op.inputs
    count = export.add("Shape", export.name(rows), end=1)
    ones = export.add("Expand", export.initial(rows.dtype.np.type(1)), export.add("Shape", export.name(ids)))
    found = export.add(
        "Max", _scattered(export, (rows, ones), ids, count, "add", 0), export.initial(rows.dtype.np.type(1))
    )
    axes = range(1, rank_of(rows))
    return export.add("Unsqueeze", found, export.integers(axes)) if axes else found


@exporter("segment_mean")
def _(export: Export, op: Operation) -> str:
    data, ids = op.inputs
    return _mean(export, data, export.name(data), ids, _highest(export, ids))


def _looked_up(kind: str) -> Exporter:
    """Rows of a table that are looked up, as for the embeddings of a text's words."""

    def export_segments(export: Export, op: Operation) -> str:
        data, indices, ids, given = op.inputs
        number = export.add("Reshape", export.as_int64(given), export.integers([1]))
        open_count = export.add("Less", number, export.integers([0]))
        count = export.add("Where", open_count, _highest(export, ids), number)
        rows = export.add("Gather", export.name(data), export.as_int64(indices), axis=0)
        if kind == "sum":
            return _scattered(export, (data, rows), ids, count, "add", 0)
        return _mean(export, data, rows, ids, count, kind == "sqrt_n")

    return export_segments


EXPORTERS.update({f"sparse_segment_{kind}": _looked_up(kind) for kind in ("sum", "mean", "sqrt_n")})


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
    """ONNX picks elements from the first axis on: the axes before the mask go to the end before, and back after."""
    (x, mask), axis, rank = export.names(op), op.attrs["axis"] or 0, rank_of(op.inputs[0])
    places = export.add("Transpose", export.add("NonZero", mask), perm=[1, 0])
    if not axis:
        return export.add("GatherND", x, places)
    turned = export.add("Transpose", x, perm=[*range(axis, rank), *range(axis)])
    left = rank - rank_of(op.inputs[1]) + 1
    back = [*range(left - axis, left), *range(left - axis)]
    return export.add("Transpose", export.add("GatherND", turned, places), perm=back)


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
