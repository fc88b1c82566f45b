"""How operations that share rows out, count them and find their places are written."""

import numpy as np

from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import EXPORTERS, Export, Exporter, exporter, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import int32, int64


@exporter("dynamic_partition")
def _(export: Export, op: Operation) -> list[str]:
    data, parts = export.name(op.inputs[0]), export.as_int64(op.inputs[1])
    return [
        _where(export, data, export.add("Equal", parts, export.integers([each]))) for each in range(len(op.outputs))
    ]


def _where(export: Export, data: str, flags: str) -> str:
    """The rows of the data where the flags are set."""
    return export.add("GatherND", data, export.add("Transpose", export.add("NonZero", flags), perm=[1, 0]))


@exporter("dynamic_stitch")
def _(export: Export, op: Operation) -> str:
    """The last of equal indices wins: each row of the result is that of the greatest place that leads to it."""
    count, zero = len(op.inputs) // 2, export.integers([0])
    indices, data = op.inputs[:count], op.inputs[count:]
    flat = [export.add("Reshape", export.as_int64(each), export.integers([-1])) for each in indices]
    rows = [_rows(export, *pair) for pair in zip(data, indices, strict=True)]
    to, source = export.add("Concat", *flat, axis=0), export.add("Concat", *rows, axis=0)
    highest = export.add("ReduceMax", export.add("Concat", to, export.integers([-1]), axis=0), zero, keepdims=1)
    places = export.add("Range", export.initial(np.int64(1)), *_after(export, to))
    none = export.add("Expand", zero, export.add("Add", highest, export.integers([1])))
    last = export.add("ScatterElements", none, to, places, reduction="max")
    gap = export.add("Expand", _zero(export, op.outputs[0]), export.add("Shape", source, start=1))
    whole = export.add("Concat", export.add("Unsqueeze", gap, zero), source, axis=0)
    return export.add("Gather", whole, last)


def _zero(export: Export, tensor: Tensor) -> str:
    return export.initial(tensor.dtype.np.type(0))


def _after(export: Export, vector: str) -> list[str]:
    """The end and the step of a range from 1 on with a number for each element."""
    one = export.initial(np.int64(1))
    return [export.add("Add", export.add("Size", vector), one), one]


def _rows(export: Export, data: Tensor, indices: Tensor) -> str:
    """The data with one axis in place of those of the indices."""
    rest = export.add("Shape", export.name(data), start=rank_of(indices))
    return export.add("Reshape", export.name(data), export.add("Concat", export.integers([-1]), rest, axis=0))


@exporter("invert_permutation")
def _(export: Export, op: Operation) -> str:
    x = export.as_int64(op.inputs[0])
    numbers = export.add("Range", export.initial(np.int64(0)), export.add("Size", x), export.initial(np.int64(1)))
    found = export.add("ScatterElements", numbers, x, numbers)
    return found if op.inputs[0].dtype is int64 else export.add("Cast", found, to=NUMBERS[op.inputs[0].dtype])


@exporter("searchsorted")
def _(export: Export, op: Operation) -> str:
    """How many elements of the row are less, or on the right side not greater."""
    row, values = export.names(op)
    before = "Less" if op.attrs["side"] == "left" else "LessOrEqual"
    pair = export.add("Unsqueeze", row, export.integers([-2])), export.add("Unsqueeze", values, export.integers([-1]))
    flags = export.add("Cast", export.add(before, *pair), to=NUMBERS[int64])
    found = export.add("ReduceSum", flags, export.integers([-1]), keepdims=0)
    return export.add("Cast", found, to=NUMBERS[op.outputs[0].dtype])


@exporter("setdiff1d")
def _(export: Export, op: Operation) -> list[str]:
    x, y = export.names(op)
    equal = export.add("Equal", export.add("Unsqueeze", x, export.integers([1])), y)
    counts = export.add("Cast", equal, to=NUMBERS[int32])
    found = export.add("ReduceSum", counts, export.integers([1]), keepdims=0)
    only = export.add("Equal", found, export.initial(np.int32(0)))
    places = export.add("Squeeze", export.add("NonZero", only), export.integers([0]))
    return [export.add("Compress", x, only, axis=0), export.add("Cast", places, to=NUMBERS[op.outputs[1].dtype])]


@exporter("nth_element")
def _(export: Export, op: Operation) -> str:
    x = export.name(op.inputs[0])
    largest = int(op.attrs["reverse"])
    ordered = export.add_all("TopK", [x, export.add("Shape", x, start=-1)], 2, axis=-1, largest=largest)[0]
    return export.add("Gather", ordered, export.as_int64(op.inputs[1]), axis=-1)


@exporter("in_top_k")
def _(export: Export, op: Operation) -> str:
    """Fewer than k are greater than the one at the target, the target is one of them, and all of them are finite."""
    x, targets, zero, one = export.name(op.inputs[0]), export.as_int64(op.inputs[1]), *map(export.integers, ([0], [1]))
    classes = export.add("Shape", x, start=1)
    low = export.add("GreaterOrEqual", targets, zero)
    inside = export.add("And", low, export.add("Less", targets, classes))
    chosen = export.add("Where", inside, targets, zero)
    own = export.add("GatherElements", x, export.add("Unsqueeze", chosen, one), axis=1)
    better = export.add("Cast", export.add("Greater", x, own), to=NUMBERS[int64])
    few = export.add("Less", export.add("ReduceSum", better, one, keepdims=0), export.as_int64(op.inputs[2]))
    bad = export.add("Cast", export.add("Or", export.add("IsInf", x), export.add("IsNaN", x)), to=NUMBERS[int64])
    good = export.add("Equal", export.add("ReduceSum", bad, one, keepdims=0), zero)
    return export.add("And", export.add("And", inside, few), good)


@exporter("bincount")
def _(export: Export, op: Operation) -> str:
    arr, weights, zero = export.as_int64(op.inputs[0]), export.name(op.inputs[1]), export.integers([0])
    flat = export.add("Reshape", arr, export.integers([-1]))
    weights = export.add("Reshape", weights, export.integers([-1]))
    least, most = [export.add("Reshape", export.as_int64(each), export.integers([1])) for each in op.inputs[2:]]
    highest = export.add("ReduceMax", export.add("Concat", flat, export.integers([-1]), axis=0), zero, keepdims=1)
    count = export.add("Max", export.add("Add", highest, export.integers([1])), least)
    limited = export.add("Where", export.add("Less", most, zero), count, export.add("Min", count, most))
    # One more element, which is cut off, has the sum of all others.
    places = export.add("Min", flat, limited)
    sums = export.add("Expand", _zero(export, op.outputs[0]), export.add("Add", limited, export.integers([1])))
    found = export.add("ScatterElements", sums, places, weights, reduction="add")
    return export.add("Slice", found, zero, limited, zero)


@exporter("confusion_matrix")
def _(export: Export, op: Operation) -> str:
    labels, predictions = [export.as_int64(each) for each in op.inputs[:2]]
    every = export.add("Concat", labels, predictions, export.integers([-1]), axis=0)
    highest = export.add("ReduceMax", every, export.integers([0]), keepdims=1)
    given = export.add("Reshape", export.as_int64(op.inputs[3]), export.integers([1]))
    as_many = export.add("Add", highest, export.integers([1]))
    count = export.add("Where", export.add("Less", given, export.integers([0])), as_many, given)
    zeros = export.add("Expand", _zero(export, op.outputs[0]), export.add("Concat", count, count, axis=0))
    columns = [export.add("Unsqueeze", name, export.integers([1])) for name in (labels, predictions)]
    places = export.add("Concat", *columns, axis=1)
    return export.add("ScatterND", zeros, places, export.name(op.inputs[2]), reduction="add")


@exporter("per_row")
def _(export: Export, op: Operation) -> str:
    condition = op.inputs[0]
    ranks = [rank_of(each) for each in op.inputs]
    if ranks[0] != 1 or ranks[1] != ranks[2] or ranks[1] < 2:
        return export.name(condition)
    return export.add("Unsqueeze", export.name(condition), export.integers(range(1, ranks[1])))


def _scattered(reduction: str) -> Exporter:
    def export_scatter(export: Export, op: Operation) -> str:
        tensor, indices, updates = op.inputs
        value = export.name(updates)
        if reduction == "sub":
            value = export.add("Neg", value)
        how = "add" if reduction == "sub" else reduction
        return export.add("ScatterND", export.name(tensor), export.as_int64(indices), value, reduction=how)

    return export_scatter


EXPORTERS.update({f"tensor_scatter_{each}": _scattered(each) for each in ("sub", "max", "min")})
