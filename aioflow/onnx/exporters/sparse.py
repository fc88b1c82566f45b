"""How operations on sparse tensors are written: their parts are dense tensors, of places, values and the shape."""

import numpy as np

from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import Export, exporter, rank_of


def _zero(export: Export, tensor: Tensor) -> str:
    return export.initial(tensor.dtype.np.type(0))


@exporter("sparse_to_dense")
def _(export: Export, op: Operation) -> str:
    """Places may be a vector of numbers, or a number, and one value may stand for all."""
    indices, shape, values, default = op.inputs
    places = export.as_int64(indices)
    if rank_of(indices) < 2:
        places = export.add("Reshape", places, export.integers([-1, 1]))
    value = export.name(values)
    if rank_of(values) == 0:
        value = export.add("Expand", value, export.add("Shape", places, end=1))
    whole = export.add("Expand", export.name(default), export.as_int64(shape))
    return export.add("ScatterND", whole, places, value)


@exporter("sparse_reduce_sum")
def _(export: Export, op: Operation) -> str:
    """The values are added up in a dense tensor."""
    dense, axis = _dense(export, op), op.attrs["axis"]
    axes = [] if axis is None else [export.integers([axis] if isinstance(axis, int) else axis)]
    options = {"keepdims": int(bool(op.attrs["keepdims"])), "noop_with_empty_axes": int(bool(axes))}
    return export.add("ReduceSum", dense, *axes, **options)


def _dense(export: Export, op: Operation) -> str:
    indices, values, shape = op.inputs[:3]
    zeros = export.add("Expand", _zero(export, values), export.as_int64(shape))
    return export.add("ScatterND", zeros, export.as_int64(indices), export.name(values), reduction="add")


@exporter("sparse_dense_matmul")
def _(export: Export, op: Operation) -> str:
    """Each value times the row of its column, added to the row of the result that it lies in."""
    indices, values, shape, b = op.inputs
    turned, zero, one = op.attrs["adjoint_a"], export.integers([0]), export.integers([1])
    columns = export.add_all("Split", [export.as_int64(indices)], 2, axis=1, num_outputs=2)
    row, column = reversed(columns) if turned else columns
    other = export.add("Transpose", export.name(b), perm=[1, 0]) if op.attrs["adjoint_b"] else export.name(b)
    rows = export.add("Gather", other, export.add("Squeeze", column, one), axis=0)
    products = export.add("Mul", rows, export.add("Unsqueeze", export.name(values), one))
    height = export.add("Gather", export.as_int64(shape), one if turned else zero, axis=0)
    sizes = export.add("Concat", height, export.add("Shape", other, start=1), axis=0)
    return export.add("ScatterND", export.add("Expand", _zero(export, values), sizes), row, products, reduction="add")


def _flat(export: Export, indices: Tensor, shape: Tensor, axes: int) -> tuple[str, str]:
    """The numbers of places when the first axes are one, and how many there are, as a vector."""
    begin, end, one = export.integers([0]), export.integers([axes]), export.integers([1])
    sizes = export.add("Slice", export.as_int64(shape), begin, end)
    parts = export.add_all("Split", [sizes], axes, axis=0, num_outputs=axes) if axes > 1 else [sizes]
    steps = [one]
    for part in reversed(parts[1:]):
        steps.insert(0, export.add("Mul", part, steps[0]))
    places = export.add("Slice", export.as_int64(indices), begin, end, one)
    products = export.add("Mul", places, export.add("Concat", *steps, axis=0))
    numbers = export.add("ReduceSum", products, one, keepdims=0)
    return numbers, export.add("ReduceProd", sizes, begin, keepdims=1)


def _rank(shape: Tensor) -> int:
    count = (shape.spec.sizes or [None])[0]
    if count is None:
        raise ValueError("the rank of the sparse tensor must be known")
    return int(count)


@exporter("sparse_order")
def _(export: Export, op: Operation) -> list[str]:
    """By the numbers of places in the flat tensor; of equal ones the first comes first."""
    indices, shape = op.inputs
    numbers, _ = _flat(export, indices, shape, _rank(shape))
    order = export.add_all("TopK", [numbers, export.add("Shape", numbers)], 2, axis=0, largest=0)[1]
    return [export.add("Gather", export.name(indices), order, axis=0), order]


@exporter("sparse_softmax")
def _(export: Export, op: Operation) -> str:
    indices, values, shape = op.inputs
    row, count = _flat(export, indices, shape, _rank(shape) - 1)
    value = export.name(values)
    lowest = export.add("Expand", export.initial(values.dtype.np.type(-np.inf)), count)
    highest = export.add("ScatterElements", lowest, row, value, reduction="max")
    powers = export.add("Exp", export.add("Sub", value, export.add("Gather", highest, row, axis=0)))
    zeros = export.add("Expand", _zero(export, values), count)
    sums = export.add("ScatterElements", zeros, row, powers, reduction="add")
    return export.add("Div", powers, export.add("Gather", sums, row, axis=0))
