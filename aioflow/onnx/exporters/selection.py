"""How operations that pick elements are written, by their places or by their values."""

from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import Export, exporter, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import int32, int64


@exporter("top_k")
def _(export: Export, op: Operation) -> list[str]:
    count = export.add("Reshape", export.as_int64(op.inputs[1]), export.integers([1]))
    values, places = export.add_all("TopK", [export.name(op.inputs[0]), count], 2, sorted=int(op.attrs["sorted"]))
    return [values, export.add("Cast", places, to=NUMBERS[int32])]


@exporter("sort")
def _(export: Export, op: Operation) -> str:
    return _in_order(export, op)[0]


@exporter("argsort")
def _(export: Export, op: Operation) -> str:
    return export.add("Cast", _in_order(export, op)[1], to=NUMBERS[int32])


def _in_order(export: Export, op: Operation) -> list[str]:
    """All elements along an axis in order, and their places; of equal ones the first comes first, in ONNX too."""
    x, axis = export.name(op.inputs[0]), op.attrs["axis"]
    count = export.add("Gather", export.add("Shape", x), export.integers([axis]), axis=0)
    return export.add_all("TopK", [x, count], 2, axis=axis, largest=int(op.attrs["direction"] == "DESCENDING"))


@exporter("one_hot")
def _(export: Export, op: Operation) -> str:
    """ONNX counts a negative index from the end, and aioflow has no such place: it becomes the depth, which is none."""
    depth, pair = export.as_int64(op.inputs[1]), export.integers([1])
    indices = export.as_int64(op.inputs[0])
    known = export.add("Where", export.add("Less", indices, export.integers([0])), depth, indices)
    on, off = (export.add("Reshape", export.name(value), pair) for value in op.inputs[2:])
    return export.add("OneHot", known, depth, export.add("Concat", off, on, axis=0), axis=op.attrs["axis"])


@exporter("gather_nd")
def _(export: Export, op: Operation) -> str:
    return export.add("GatherND", export.name(op.inputs[0]), export.as_int64(op.inputs[1]))


@exporter("scatter_nd")
def _(export: Export, op: Operation) -> str:
    indices, updates, shape = op.inputs
    zeros = export.add("Expand", export.initial(updates.dtype.np.type(0)), export.as_int64(shape))
    return export.add("ScatterND", zeros, export.as_int64(indices), export.name(updates), reduction="add")


@exporter("tensor_scatter_update")
def _(export: Export, op: Operation) -> str:
    tensor, indices, updates = op.inputs
    return export.add("ScatterND", export.name(tensor), export.as_int64(indices), export.name(updates))


@exporter("tensor_scatter_add")
def _(export: Export, op: Operation) -> str:
    tensor, indices, updates = op.inputs
    return export.add("ScatterND", export.name(tensor), export.as_int64(indices), export.name(updates), reduction="add")


@exporter("where")
def _(export: Export, op: Operation) -> str:
    return export.add("Transpose", export.add("NonZero", *export.names(op)), perm=[1, 0])


@exporter("unstack")
def _(export: Export, op: Operation) -> list[str]:
    axis, count = op.attrs["axis"], len(op.outputs)
    parts = export.add_all("Split", export.names(op), count, axis=axis, num_outputs=count)
    return [export.add("Squeeze", part, export.integers([axis])) for part in parts]


@exporter("slice")
def _(export: Export, op: Operation) -> str:
    """A size of -1 goes on to the end."""
    begin, size = (export.as_int64(tensor) for tensor in op.inputs[1:])
    rest = export.add("Less", size, export.integers([0]))
    end = export.add("Where", rest, export.integers([int64.max]), export.add("Add", begin, size))
    axes = export.integers(range(rank_of(op.inputs[0])))
    return export.add("Slice", export.name(op.inputs[0]), begin, end, axes)
