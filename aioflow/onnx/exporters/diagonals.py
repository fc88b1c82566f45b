"""How operations on diagonals of matrices are written: ONNX has none, and picks elements by their places."""

import numpy as np

from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import Export, exporter, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import DType


def _numbers(export: Export, count: str) -> str:
    """The numbers from 0 on, as many as that vector of one number says."""
    last = export.add("Squeeze", count, export.integers([0]))
    return export.add("Range", export.initial(np.int64(0)), last, export.initial(np.int64(1)))


def _size(export: Export, x: str, axis: int) -> str:
    """The size of an axis that is counted from the end, as a vector."""
    return export.add("Shape", x, start=axis, **({} if axis == -1 else {"end": axis + 1}))


def _places(export: Export, rows: str, columns: str, k: int) -> str:
    """Where the column is the row plus k: a matrix of flags."""
    shifted = export.add("Add", _numbers(export, rows), export.integers([k]))
    row = export.add("Unsqueeze", shifted, export.integers([1]))
    return export.add("Equal", row, export.add("Unsqueeze", _numbers(export, columns), export.integers([0])))


def _only_one(op: Operation) -> int:
    """The number of the diagonal. ValueError for several."""
    k = op.attrs["k"]
    ends = (k, k) if isinstance(k, int) else (k[0], k[-1])
    if ends[0] != ends[1]:
        raise ValueError(f"the diagonals {ends[0]} to {ends[1]} are written one by one: take them apart before")
    return int(ends[0])


def _part(export: Export, x: str, k: int) -> str:
    """The elements of diagonal k of each matrix."""
    above, before = export.integers([max(-k, 0)]), export.integers([max(k, 0)])
    rows, columns = _size(export, x, -2), _size(export, x, -1)
    left = [export.add("Sub", size, cut) for size, cut in ((rows, above), (columns, before))]
    numbers = _numbers(export, export.add("Min", *left))
    row, column = [export.add("Add", numbers, cut) for cut in (above, before)]
    places = export.add("Add", export.add("Mul", row, columns), column)
    batch = export.add("Shape", x, end=-2)
    flat = export.add("Reshape", x, export.add("Concat", batch, export.integers([-1]), axis=0))
    return export.add("Gather", flat, places, axis=-1)


def _spread(export: Export, x: str, dtype: DType) -> str:
    """Square matrices with the elements of the last axis on their diagonal, and zeros elsewhere."""
    size, zero = _size(export, x, -1), export.initial(dtype.np.type(0))
    column = export.add("Unsqueeze", x, export.integers([-1]))
    return export.add("Where", _places(export, size, size, 0), column, zero)


@exporter("matrix_diag_part")
def _(export: Export, op: Operation) -> str:
    return _part(export, export.name(op.inputs[0]), _only_one(op))


@exporter("trace")
def _(export: Export, op: Operation) -> str:
    return export.add("ReduceSum", _part(export, export.name(op.inputs[0]), 0), export.integers([-1]), keepdims=0)


@exporter("matrix_diag")
def _(export: Export, op: Operation) -> str:
    """A diagonal beside the main one lies in a matrix with as many more rows and columns."""
    k, dtype = _only_one(op), op.inputs[0].dtype
    if (op.attrs["num_rows"], op.attrs["num_cols"]) != (-1, -1) or op.attrs["padding_value"]:
        raise ValueError("the matrix is square and as small as can be, with zeros beside the diagonal")
    made = _spread(export, export.name(op.inputs[0]), dtype)
    if not k:
        return made
    pads = [0] * (rank_of(op.inputs[0]) - 1) + [max(-k, 0), max(k, 0)]
    after = [0] * (rank_of(op.inputs[0]) - 1) + [max(k, 0), max(-k, 0)]
    return export.add("Pad", made, export.integers([*pads, *after]), export.initial(dtype.np.type(0)))


@exporter("matrix_set_diag")
def _(export: Export, op: Operation) -> str:
    (x, diagonal), k = export.names(op), _only_one(op)
    rows, columns = _size(export, x, -2), _size(export, x, -1)
    shifted = export.add("Sub", _numbers(export, rows), export.integers([max(-k, 0)]))
    last = export.add("Sub", _size(export, diagonal, -1), export.integers([1]))
    inside = export.add("Min", export.add("Max", shifted, export.integers([0])), last)
    values = export.add("Unsqueeze", export.add("Gather", diagonal, inside, axis=-1), export.integers([-1]))
    return export.add("Where", _places(export, rows, columns, k), values, x)


@exporter("diag")
def _(export: Export, op: Operation) -> str:
    x, sizes = export.name(op.inputs[0]), export.add("Shape", export.name(op.inputs[0]))
    flat = export.add("Reshape", x, export.integers([-1]))
    made = _spread(export, flat, op.inputs[0].dtype)
    return export.add("Reshape", made, export.add("Concat", sizes, sizes, axis=0))


@exporter("diag_part")
def _(export: Export, op: Operation) -> str:
    x = export.name(op.inputs[0])
    sizes = export.add("Shape", x, end=rank_of(op.inputs[0]) // 2)
    count = export.add("ReduceProd", sizes, export.integers([0]), keepdims=1)
    square = export.add("Reshape", x, export.add("Concat", count, count, axis=0))
    return export.add("Reshape", _part(export, square, 0), sizes)


@exporter("eye")
def _(export: Export, op: Operation) -> str:
    rows, columns = [export.add("Reshape", export.as_int64(size), export.integers([1])) for size in op.inputs]
    return export.add("Cast", _places(export, rows, columns, 0), to=NUMBERS[op.outputs[0].dtype])
