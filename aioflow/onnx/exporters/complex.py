"""How complex numbers are written: as pairs of tensors, of real and of imaginary parts.

ONNX computes with real numbers alone. It joins no parts to complex numbers, and takes none apart: the inputs and
outputs of a model are parts, or complex tensors whose elements are only moved. Operations that move elements or add
them up are written twice, once for each part.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from aioflow.graph.operation import Operation
from aioflow.onnx.exporters.composed import angle_of
from aioflow.onnx.exporters.math import turned_side
from aioflow.onnx.exporting import COMPLEX_EXPORTERS, EXPORTERS, ComplexExporter, Export, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import DType

Pair: TypeAlias = tuple[str, str]
"""The names of a real and of an imaginary part."""

_MOVING: Final = (
    "boolean_mask", "broadcast_to", "concat", "dynamic_strided_slice", "ensure_shape", "expand_dims", "gather",
    "gather_nd", "identity", "identity_n", "matrix_transpose", "pad", "reshape", "reverse", "reverse_sequence", "roll",
    "select", "slice", "split", "split_v", "squeeze", "stack", "stop_gradient", "strided_slice", "tile", "transpose",
    "unstack",
)  # fmt: skip
"""Operations that move elements, which ONNX has for complex numbers, too."""
_LINEAR: Final = (
    "add", "add_n", "cumsum", "diag", "diag_part", "fill", "masked", "matrix_diag", "matrix_diag_part",
    "matrix_set_diag", "negative", "ones_like", "reduce_mean", "reduce_sum", "segment_sum", "subtract", "trace",
    "unsorted_segment_sum", "zeros_like",
)  # fmt: skip
"""Other operations that do to each part what they do to the whole."""


def _moved(export: Export, op: Operation) -> Any:
    """Complex inputs of the model stay whole."""
    tensors = [tensor for tensor in op.inputs if tensor.dtype.is_complex]
    whole = tensors and all(export.is_whole(tensor) for tensor in tensors) and not op.attrs.get("conjugate")
    return EXPORTERS[op.type](export, op) if whole else _by_parts(export, op)


def _by_parts(export: Export, op: Operation) -> list[Any]:
    tensors = [tensor for tensor in dict.fromkeys(op.inputs) if tensor.dtype.is_complex]
    found = []
    for number in range(2):
        with export.part(number, tensors):
            made = EXPORTERS[op.type](export, op)
        found.append([made] if isinstance(made, str) else made)
    if op.attrs.get("conjugate"):
        found[1] = [export.add("Neg", name) for name in found[1]]
    return list(zip(*found, strict=True))


COMPLEX_EXPORTERS.update(dict.fromkeys(_MOVING, _moved))
COMPLEX_EXPORTERS.update(dict.fromkeys(_LINEAR, _by_parts))


def _exporter(type: str) -> Callable[[ComplexExporter], ComplexExporter]:
    def declare(function: ComplexExporter) -> ComplexExporter:
        COMPLEX_EXPORTERS[type] = function
        return function

    return declare


def _one(dtype: DType, export: Export, number: float = 1.0) -> str:
    """A number of the dtype of the parts."""
    return export.initial(dtype.real.np.type(number))


# Variables and parts


@_exporter("constant")
def _(export: Export, op: Operation) -> list[Any]:
    return []  # it is written when a node first uses it


@_exporter("read_variable")
def _(export: Export, op: Operation) -> Pair:
    return export.pairs[op.inputs[0]]


@_exporter("complex")
def _(export: Export, op: Operation) -> Pair:
    """The parts may broadcast to each other."""
    real, imaginary = export.names(op)
    if op.inputs[0].spec.sizes == op.inputs[1].spec.sizes and None not in (op.inputs[0].spec.sizes or (None,)):
        return real, imaginary
    zero = _one(op.inputs[0].dtype, export, 0)
    zeros = [export.add("Expand", zero, export.add("Shape", name)) for name in (imaginary, real)]
    return export.add("Add", real, zeros[0]), export.add("Add", imaginary, zeros[1])


@_exporter("real")
def _(export: Export, op: Operation) -> str:
    return export.parts(op.inputs[0])[0]


@_exporter("imag")
def _(export: Export, op: Operation) -> str:
    return export.parts(op.inputs[0])[1]


@_exporter("conj")
def _(export: Export, op: Operation) -> Pair:
    real, imaginary = export.parts(op.inputs[0])
    return real, export.add("Neg", imaginary)


@_exporter("angle")
def _(export: Export, op: Operation) -> str:
    real, imaginary = export.parts(op.inputs[0])
    return angle_of(export, imaginary, real, op.outputs[0].dtype)


@_exporter("abs")
def _(export: Export, op: Operation) -> str:
    """The larger part times the root of 1 and the square of the quotient, which does not overflow."""
    parts, dtype = [export.add("Abs", name) for name in export.parts(op.inputs[0])], op.inputs[0].dtype
    large, small, zero = export.add("Max", *parts), export.add("Min", *parts), _one(dtype, export, 0)
    ratio = export.add("Div", small, large)
    root = export.add("Sqrt", export.add("Add", _one(dtype, export), export.add("Mul", ratio, ratio)))
    simple = export.add("Or", export.add("Equal", large, zero), export.add("IsInf", large))
    return export.add("Where", simple, large, export.add("Mul", large, root))


@_exporter("cast")
def _(export: Export, op: Operation) -> Any:
    given, made = op.inputs[0], op.outputs[0].dtype
    parts = export.parts(given) if given.dtype.is_complex else (export.name(given),)
    if not made.is_complex:
        return export.add("Cast", parts[0], to=NUMBERS[made])
    found = [export.add("Cast", name, to=NUMBERS[made.real]) for name in parts]
    if len(found) == 1:
        found.append(export.add("Expand", _one(made, export, 0), export.add("Shape", found[0])))
    return tuple(found)


# Arithmetic


@_exporter("multiply")
def _(export: Export, op: Operation) -> Pair:
    return _product(export, "Mul", *[export.parts(tensor) for tensor in op.inputs])


@_exporter("square")
def _(export: Export, op: Operation) -> Pair:
    return _product(export, "Mul", *[export.parts(op.inputs[0])] * 2)


def _product(export: Export, type: str, a: Pair, b: Pair) -> Pair:
    real = export.add("Sub", export.add(type, a[0], b[0]), export.add(type, a[1], b[1]))
    return real, export.add("Add", export.add(type, a[0], b[1]), export.add(type, a[1], b[0]))


@_exporter("matmul")
def _(export: Export, op: Operation) -> Pair:
    sides = []
    for side, tensor in zip("ab", op.inputs, strict=True):
        real, imaginary = [turned_side(export, op, side, name) for name in export.parts(tensor)]
        sides.append((real, export.add("Neg", imaginary) if op.attrs[f"adjoint_{side}"] else imaginary))
    return _product(export, "MatMul", *sides)


@_exporter("divide")
def _(export: Export, op: Operation) -> Pair:
    """R. L. Smith's formula: the larger part of the divisor is divided by first, so that no square overflows."""
    (a, b), (c, d) = [export.parts(tensor) for tensor in op.inputs]
    wide = export.add("GreaterOrEqual", export.add("Abs", c), export.add("Abs", d))
    large, small = export.add("Where", wide, c, d), export.add("Where", wide, d, c)
    ratio = export.add("Div", small, large)
    divisor = export.add("Add", large, export.add("Mul", small, ratio))
    x, y = export.add("Where", wide, a, b), export.add("Where", wide, b, a)
    real = export.add("Add", x, export.add("Mul", y, ratio))
    rest = export.add("Sub", y, export.add("Mul", x, ratio))
    imaginary = export.add("Where", wide, rest, export.add("Neg", rest))
    return export.add("Div", real, divisor), export.add("Div", imaginary, divisor)


@_exporter("exp")
def _(export: Export, op: Operation) -> Pair:
    real, imaginary = export.parts(op.inputs[0])
    size = export.add("Exp", real)
    waves = export.add("Cos", imaginary), export.add("Sin", imaginary)
    return export.add("Mul", size, waves[0]), export.add("Mul", size, waves[1])


def _equal(export: Export, op: Operation) -> str:
    pairs = zip(*[export.parts(tensor) for tensor in op.inputs], strict=True)
    return export.add("And", *[export.add("Equal", *pair) for pair in pairs])


COMPLEX_EXPORTERS["equal"] = _equal
COMPLEX_EXPORTERS["not_equal"] = lambda export, op: export.add("Not", _equal(export, op))


# Fourier


@_exporter("fourier_transform")
def _(export: Export, op: Operation) -> Pair:
    return _transformed(export, export.parts(op.inputs[0]), op.attrs["axes"], op.attrs["inverse"])


def _transformed(export: Export, pair: Pair, axes: tuple[int, ...], inverse: bool) -> Pair:
    """The transform along axes that are counted from the end; ONNX has the parts along a last axis of its own."""
    last = export.integers([-1])
    x = export.add("Concat", *[export.add("Unsqueeze", name, last) for name in pair], axis=-1)
    for axis in axes:
        x = _along(export, x, axis, inverse=int(inverse))
    return _apart(export, x)


def _along(export: Export, x: str, axis: int, **options: int) -> str:
    """The transform along one axis. ONNX wants a batch before the axes, and has a pair's axis behind them."""
    batch = export.integers([0])
    place = export.initial(np.int64(axis - 1))
    made = export.add("DFT", export.add("Unsqueeze", x, batch), "", place, **options)
    return export.add("Squeeze", made, batch)


def _apart(export: Export, x: str) -> Pair:
    real, imaginary = export.add_all("Split", [x], 2, axis=-1, num_outputs=2)
    last = export.integers([-1])
    return export.add("Squeeze", real, last), export.add("Squeeze", imaginary, last)


@_exporter("real_fourier_transform")
def _(export: Export, op: Operation) -> Pair:
    *axes, last = op.attrs["axes"]
    x = export.add("Unsqueeze", export.name(op.inputs[0]), export.integers([-1]))
    half = _apart(export, _along(export, x, last, onesided=1))
    return _transformed(export, half, tuple(axes), inverse=False) if axes else half


@_exporter("real_from_fourier_transform")
def _(export: Export, op: Operation) -> str:
    """The other half of the frequencies are the conjugates of the given ones, turned round."""
    *axes, last = op.attrs["axes"]
    half = export.parts(op.inputs[0])
    if axes:
        half = _transformed(export, half, tuple(axes), inverse=True)
    one, two = export.integers([1]), export.integers([2])
    length = export.add("Reshape", export.as_int64(op.inputs[1]), one)
    count = export.add("Div", export.add("Sub", length, one), two)
    place = export.integers([rank_of(op.inputs[0]) + last])
    turned = [export.add("Slice", name, count, export.integers([0]), place, export.integers([-1])) for name in half]
    rest = turned[0], export.add("Neg", turned[1])
    axis = rank_of(op.inputs[0]) + last
    real, imaginary = (export.add("Concat", *each, axis=axis) for each in zip(half, rest, strict=True))
    return _transformed(export, (real, imaginary), (last,), inverse=True)[0]
