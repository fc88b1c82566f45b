"""How boxes are selected, and how images are resized by area: by weights of their rows and of their columns."""

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import Export, exporter
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import float32, float64, int32


@exporter("select_boxes")
def _(export: Export, op: Operation) -> list[str]:
    """ONNX does so for batches and classes, and gives the places of boxes after those."""
    boxes, scores, count, overlap, least, sigma = op.inputs
    if constant_value(sigma) is None or float(np.ravel(constant_value(sigma))[0]):
        raise ValueError("ONNX leaves scores as they are: soft_nms_sigma must be 0")
    if boxes.dtype is not float32:
        raise ValueError(f"ONNX selects boxes of float32, not of {boxes.dtype.name}")
    zero, one, both = (export.integers(axes) for axes in ([0], [1], [0, 1]))
    batch = export.add("Unsqueeze", export.name(boxes), zero), export.add("Unsqueeze", export.name(scores), both)
    most = export.add("Reshape", export.as_int64(count), one)
    limits = [export.add("Reshape", export.name(each), one) for each in (overlap, least)]
    found = export.add("NonMaxSuppression", *batch, most, *limits)
    places = export.add("Squeeze", export.add("Slice", found, export.integers([2]), export.integers([3]), one), one)
    return [export.add("Cast", places, to=NUMBERS[int32]), export.add("Gather", export.name(scores), places)]


@exporter("resize_area")
def _(export: Export, op: Operation) -> str:
    """Each pixel is the sum of those that it covers, by how much of each: a product from both sides."""
    images, size = op.inputs
    dtype = op.outputs[0].dtype
    x = export.name(images)
    if images.dtype is not dtype:
        x = export.add("Cast", x, to=NUMBERS[dtype])
    first = export.add("Transpose", x, perm=[0, 3, 1, 2])
    wanted = export.as_int64(size)
    rows, columns = [_covered(export, op, first, wanted, axis) for axis in (0, 1)]
    made = export.add("MatMul", export.add("MatMul", rows, first), export.add("Transpose", columns, perm=[1, 0]))
    return export.add("Transpose", made, perm=[0, 2, 3, 1])


def _covered(export: Export, op: Operation, x: str, wanted: str, axis: int) -> str:
    """How much of each old pixel each new one covers along an axis: a matrix [new, old]."""
    old = export.add("Shape", x, start=2 + axis, end=3 + axis)
    new = export.add("Slice", wanted, export.integers([axis]), export.integers([axis + 1]))
    scale, one = _scale(export, op, old, new), export.initial(1.0)
    numbers = [_places(export, size) for size in (new, old)]
    number = export.add("Unsqueeze", numbers[0], export.integers([1]))
    start, stop = export.add("Mul", number, scale), export.add("Mul", export.add("Add", number, one), scale)
    last = export.add("Sub", _wide(export, old), one)
    low = export.add("Max", numbers[1], start)
    high = export.add("Min", export.add("Add", numbers[1], one), stop)
    covered = export.add("Max", export.add("Sub", high, low), export.initial(0.0))
    # What lies beyond the last pixel counts as more of it.
    beyond = export.add(
        "Max", export.add("Sub", stop, export.add("Max", start, _wide(export, old))), export.initial(0.0)
    )
    is_last = export.add("Equal", numbers[1], last)
    whole = export.add("Add", covered, export.add("Where", is_last, beyond, export.initial(0.0)))
    return export.add("Cast", export.add("Div", whole, scale), to=NUMBERS[op.outputs[0].dtype])


def _scale(export: Export, op: Operation, old: str, new: str) -> str:
    """How far apart new pixels lie, in old ones, as a vector of one number."""
    plain = export.add("Div", _wide(export, old), _wide(export, new))
    if not op.attrs["align_corners"]:
        return plain
    one = export.integers([1])
    gaps = [_wide(export, export.add("Sub", each, one)) for each in (old, new)]
    aligned = export.add("Div", gaps[0], export.add("Max", gaps[1], export.initial(1.0)))
    found = export.add("Where", export.add("Greater", new, one), aligned, plain)
    return export.add("Where", export.add("Equal", found, export.initial(0.0)), export.initial(1.0), found)


def _wide(export: Export, number: str) -> str:
    return export.add("Cast", number, to=NUMBERS[float64])


def _places(export: Export, size: str) -> str:
    """The numbers from 0 on, as many as the size, in double precision."""
    last = export.add("Squeeze", size, export.integers([0]))
    return _wide(export, export.add("Range", export.initial(np.int64(0)), last, export.initial(np.int64(1))))
