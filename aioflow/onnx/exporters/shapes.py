"""How operations are written as nodes of ONNX: a function for each type of operation."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import Export, Exporter
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import int64

EXPORTERS: Final[dict[str, Exporter]] = {}
"""{type of operation: function}"""

_SAME: Final = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "elu": "Elu", "equal": "Equal", "erf": "Erf",
    "exp": "Exp", "floor": "Floor", "greater": "Greater", "greater_equal": "GreaterOrEqual", "identity": "Identity",
    "is_inf": "IsInf", "is_nan": "IsNaN", "less": "Less", "less_equal": "LessOrEqual", "log": "Log",
    "logical_and": "And", "logical_not": "Not", "logical_or": "Or", "logical_xor": "Xor", "maximum": "Max",
    "minimum": "Min", "multiply": "Mul", "negative": "Neg", "placeholder_with_default": "Identity", "pow": "Pow",
    "prevent_gradient": "Identity", "reciprocal": "Reciprocal", "relu": "Relu", "rint": "Round", "select": "Where",
    "selu": "Selu", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "softplus": "Softplus",
    "softsign": "Softsign", "sqrt": "Sqrt", "stop_gradient": "Identity", "subtract": "Sub", "tan": "Tan",
    "tanh": "Tanh",
}  # fmt: skip
"""Operations that ONNX has just so."""
_REDUCTIONS: Final = {
    "reduce_logsumexp": "ReduceLogSumExp", "reduce_max": "ReduceMax", "reduce_mean": "ReduceMean",
    "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd", "reduce_sum": "ReduceSum",
}  # fmt: skip


def exporter(type: str) -> Callable[[Exporter], Exporter]:
    """Declare the function for a type of operation."""

    def declare(function: Exporter) -> Exporter:
        EXPORTERS[type] = function
        return function

    return declare


def _names(export: Export, op: Operation) -> list[str]:
    return [export.name(tensor) for tensor in op.inputs]


def _same(type: str) -> Exporter:
    return lambda export, op: export.add(type, *_names(export, op))


EXPORTERS.update({name: _same(type) for name, type in _SAME.items()})


# Arithmetic


@exporter("divide")
def _(export: Export, op: Operation) -> str:
    if not op.inputs[0].dtype.is_floating:
        raise ValueError(f"ONNX divides {op.inputs[0].dtype.name} without fractions")
    return export.add("Div", *_names(export, op))


@exporter("square")
def _(export: Export, op: Operation) -> str:
    return export.add("Mul", *_names(export, op) * 2)


@exporter("squared_difference")
def _(export: Export, op: Operation) -> str:
    return export.add("Mul", *[export.add("Sub", *_names(export, op))] * 2)


@exporter("rsqrt")
def _(export: Export, op: Operation) -> str:
    return export.add("Reciprocal", export.add("Sqrt", *_names(export, op)))


@exporter("add_n")
def _(export: Export, op: Operation) -> str:
    return export.add("Sum", *_names(export, op))


@exporter("cast")
def _(export: Export, op: Operation) -> str:
    return export.add("Cast", *_names(export, op), to=NUMBERS[op.outputs[0].dtype])


@exporter("relu6")
def _(export: Export, op: Operation) -> str:
    dtype = op.inputs[0].dtype.np.type
    return export.add("Clip", *_names(export, op), export.initial(dtype(0)), export.initial(dtype(6)))


@exporter("leaky_relu")
def _(export: Export, op: Operation) -> str:
    return export.add("LeakyRelu", *_names(export, op), alpha=op.attrs["alpha"])


def _softmax(type: str) -> Exporter:
    return lambda export, op: export.add(type, *_names(export, op), axis=op.attrs["axis"])


EXPORTERS.update(softmax=_softmax("Softmax"), log_softmax=_softmax("LogSoftmax"))


@exporter("matmul")
def _(export: Export, op: Operation) -> str:
    sides = []
    for tensor, which in zip(op.inputs, "ab", strict=True):
        turned = op.attrs[f"transpose_{which}"] or op.attrs[f"adjoint_{which}"]
        name = export.name(tensor)
        sides.append(export.add("Transpose", name, perm=_swapped(tensor)) if turned else name)
    return export.add("MatMul", *sides)


def _swapped(tensor: Tensor) -> list[int]:
    rank = _rank(tensor)
    return [*range(rank - 2), rank - 1, rank - 2]


def _rank(tensor: Tensor) -> int:
    if tensor.spec.rank is None:
        raise ValueError(f"the rank of {tensor.name!r} must be known")
    return int(tensor.spec.rank)


# Reductions


def _reduced(type: str) -> Exporter:
    def export_reduction(export: Export, op: Operation) -> str:
        axis = op.attrs["axis"]
        axes = [] if axis is None else [export.integers([axis] if isinstance(axis, int) else axis)]
        return export.add(type, *_names(export, op), *axes, keepdims=int(bool(op.attrs["keepdims"])))

    return export_reduction


EXPORTERS.update({name: _reduced(type) for name, type in _REDUCTIONS.items()})


def _placed(type: str) -> Exporter:
    def export_place(export: Export, op: Operation) -> str:
        place = export.add(type, *_names(export, op), axis=op.attrs["axis"] or 0, keepdims=0)
        dtype = op.outputs[0].dtype
        return place if dtype is int64 else export.add("Cast", place, to=NUMBERS[dtype])

    return export_place


EXPORTERS.update(argmax=_placed("ArgMax"), argmin=_placed("ArgMin"))


# Shapes


@exporter("reshape")
def _(export: Export, op: Operation) -> str:
    return export.add("Reshape", export.name(op.inputs[0]), export.as_int64(op.inputs[1]), allowzero=1)


@exporter("shape")
def _(export: Export, op: Operation) -> str:
    sizes = export.add("Shape", *_names(export, op))
    dtype = op.outputs[0].dtype
    return sizes if dtype is int64 else export.add("Cast", sizes, to=NUMBERS[dtype])


@exporter("transpose")
def _(export: Export, op: Operation) -> str:
    perm = op.attrs["perm"]
    return export.add("Transpose", *_names(export, op), **({} if perm is None else {"perm": list(perm)}))


@exporter("expand_dims")
def _(export: Export, op: Operation) -> str:
    return export.add("Unsqueeze", *_names(export, op), export.integers([op.attrs["axis"]]))


@exporter("squeeze")
def _(export: Export, op: Operation) -> str:
    axis = op.attrs["axis"]
    axes = [axis] if isinstance(axis, int) else list(axis or ())
    return export.add("Squeeze", *_names(export, op), *([export.integers(axes)] if axes else []))


def _by_shape(type: str) -> Exporter:
    return lambda export, op: export.add(type, export.name(op.inputs[0]), export.as_int64(op.inputs[1]))


EXPORTERS.update(broadcast_to=_by_shape("Expand"), tile=_by_shape("Tile"))


@exporter("concat")
def _(export: Export, op: Operation) -> str:
    return export.add("Concat", *_names(export, op), axis=op.attrs["axis"])


@exporter("stack")
def _(export: Export, op: Operation) -> str:
    axis = op.attrs["axis"] % _rank(op.outputs[0])
    parts = [export.add("Unsqueeze", name, export.integers([axis])) for name in _names(export, op)]
    return export.add("Concat", *parts, axis=axis)


@exporter("split")
def _(export: Export, op: Operation) -> list[str]:
    count = op.attrs["num"]
    return export.add_all("Split", _names(export, op), count, axis=op.attrs["axis"], num_outputs=count)


@exporter("split_v")
def _(export: Export, op: Operation) -> list[str]:
    names = [export.name(op.inputs[0]), export.as_int64(op.inputs[1])]
    return export.add_all("Split", names, op.attrs["num"], axis=op.attrs["axis"])


@exporter("gather")
def _(export: Export, op: Operation) -> str:
    if op.attrs["batch_dims"]:
        raise ValueError("ONNX gathers without batches")
    return export.add("Gather", *_names(export, op), axis=op.attrs["axis"])


@exporter("pad")
def _(export: Export, op: Operation) -> str:
    modes = {"CONSTANT": "constant", "REFLECT": "reflect"}
    if op.attrs["mode"] not in modes:
        raise ValueError(f"ONNX does not pad by mode {op.attrs['mode']}")
    flat = export.as_int64(op.inputs[1])
    pairs = export.add("Transpose", export.add("Reshape", flat, export.integers([-1, 2])), perm=[1, 0])
    value = export.initial(np.asarray(op.attrs["constant_values"], op.inputs[0].dtype.np))
    pads = export.add("Reshape", pairs, export.integers([-1]))
    return export.add("Pad", export.name(op.inputs[0]), pads, value, mode=modes[op.attrs["mode"]])


@exporter("strided_slice")
def _(export: Export, op: Operation) -> str:
    entries = _every_axis(op.attrs["index"], _rank(op.inputs[0]))
    axes = [entry for entry in entries if entry is not None]
    bounds = [_bounds(entry) for entry in axes]
    columns = [export.integers([bound[part] for bound in bounds]) for part in range(3)]
    places = export.integers(range(len(axes)))
    y = export.name(op.inputs[0])
    if axes:
        y = export.add("Slice", y, columns[0], columns[1], places, columns[2])
    picked = [axis for axis, entry in enumerate(axes) if isinstance(entry, int)]
    if picked:
        y = export.add("Squeeze", y, export.integers(picked))
    left = [entry for entry in entries if not isinstance(entry, int)]
    new = [axis for axis, entry in enumerate(left) if entry is None]
    return export.add("Unsqueeze", y, export.integers(new)) if new else y


def _every_axis(index: Sequence[Any], rank: int) -> list[Any]:
    """The entries of an index without "...": integers, slices, and None for new axes."""
    if any(entry == "?" or (isinstance(entry, tuple) and "?" in entry) for entry in index):
        raise ValueError("a part of the index is known only in the run")
    count = sum(entry is not None and entry != "..." for entry in index)
    whole = [(None, None, None)] * (rank - count)
    place = list(index).index("...") if "..." in index else len(index)
    return [*index[:place], *whole, *index[place + 1 :]]


def _bounds(entry: Any) -> tuple[int, int, int]:
    """Start, end and step of an entry, as ONNX takes them."""
    if isinstance(entry, int):
        return entry, entry + 1 if entry != -1 else int64.max, 1
    start, end, step = entry
    forward = step is None or step > 0
    first = (0 if forward else int64.max) if start is None else start
    last = (int64.max if forward else int64.min) if end is None else end
    return first, last, 1 if step is None else step


# Images


def _channels_first(export: Export, name: str, op: Operation) -> str:
    return export.add("Transpose", name, perm=[0, 3, 1, 2]) if op.attrs["data_format"] == "NHWC" else name


def _as_given(export: Export, name: str, op: Operation) -> str:
    return export.add("Transpose", name, perm=[0, 2, 3, 1]) if op.attrs["data_format"] == "NHWC" else name


def _spatial(values: Sequence[Any], op: Operation) -> list[Any]:
    return list(values[1:3] if op.attrs["data_format"] == "NHWC" else values[2:])


def _sliding(op: Operation) -> dict[str, Any]:
    """Strides and padding as attributes."""
    padding, strides = op.attrs["padding"], _spatial(op.attrs["strides"], op)
    if isinstance(padding, str):
        return {"strides": strides, "auto_pad": {"SAME": "SAME_UPPER", "VALID": "VALID"}[padding]}
    pairs = _spatial(padding, op)
    return {"strides": strides, "pads": [before for before, _ in pairs] + [after for _, after in pairs]}


@exporter("conv2d")
def _(export: Export, op: Operation) -> str:
    window = export.add("Transpose", export.name(op.inputs[1]), perm=[3, 2, 0, 1])
    x = _channels_first(export, export.name(op.inputs[0]), op)
    y = export.add("Conv", x, window, **_sliding(op), dilations=_spatial(op.attrs["dilations"], op))
    return _as_given(export, y, op)


@exporter("depthwise_conv2d_native")
def _(export: Export, op: Operation) -> str:
    height, width, channels, times = [int(size or 0) for size in op.inputs[1].spec.sizes or ()]
    turned = export.add("Transpose", export.name(op.inputs[1]), perm=[2, 3, 0, 1])
    window = export.add("Reshape", turned, export.integers([channels * times, 1, height, width]))
    x = _channels_first(export, export.name(op.inputs[0]), op)
    dilations = _spatial(op.attrs["dilations"], op)
    return _as_given(export, export.add("Conv", x, window, **_sliding(op), dilations=dilations, group=channels), op)


def _pooled(type: str) -> Exporter:
    def export_pool(export: Export, op: Operation) -> str:
        x = _channels_first(export, export.name(op.inputs[0]), op)
        y = export.add(type, x, **_sliding(op), kernel_shape=_spatial(op.attrs["ksize"], op))
        return _as_given(export, y, op)

    return export_pool


EXPORTERS.update(avg_pool=_pooled("AveragePool"), max_pool=_pooled("MaxPool"))


@exporter("fused_batch_norm")
def _(export: Export, op: Operation) -> str:
    if op.attrs["is_training"]:
        raise ValueError("in training it depends on the batch: build the model with is_training=False")
    x, *vectors = _names(export, op)
    y = export.add("BatchNormalization", _channels_first(export, x, op), *vectors, epsilon=op.attrs["epsilon"])
    return _as_given(export, y, op)


@exporter("bias_add")
def _(export: Export, op: Operation) -> str:
    value, bias = _names(export, op)
    if (op.attrs["data_format"] or "N").startswith("NC"):
        bias = export.add("Unsqueeze", bias, export.integers(range(1, _rank(op.inputs[0]) - 1)))
    return export.add("Add", value, bias)
