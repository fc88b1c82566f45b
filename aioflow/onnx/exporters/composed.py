"""How operations that ONNX lacks are written, by several that it has."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import Export, declaration, exporter, rank_of
from aioflow.onnx.protobuf import package
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import DType, Spec, TensorShape, float64, int64

_LANCZOS: Final = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
"""Numbers c(i) by which Γ(z + 1) = √(2π) · t^(z + ½) · e^-t · (c(0) + Σ c(i) / (z + i)), with t = z + 7½."""


@exporter("atan2")
def _(export: Export, op: Operation) -> str:
    y, x = export.names(op)
    return angle_of(export, y, x, op.inputs[0].dtype)


def angle_of(export: Export, y: str, x: str, of: DType) -> str:
    """The angle of |x| and |y|, of which 0 and infinity are told apart, turned to the quadrant of the signs."""
    dtype = of.np.type
    zero, quarter = export.initial(dtype(0)), export.initial(dtype(math.pi / 4))
    high, wide = export.add("Abs", y), export.add("Abs", x)
    angle = export.add("Atan", export.add("Div", high, wide))
    for both, value in (("Equal", zero), ("IsInf", quarter)):
        tests = [export.add(both, each, *([zero] if both == "Equal" else [])) for each in (high, wide)]
        angle = export.add("Where", export.add("And", *tests), value, angle)
    left = export.add("Sub", export.initial(dtype(math.pi)), angle)
    turned = export.add("Where", _is_negative(export, x, zero), left, angle)
    return export.add("Where", _is_negative(export, y, zero), export.add("Neg", turned), turned)


def _is_negative(export: Export, x: str, zero: str) -> str:
    """Whether a number has the sign -, as -0 has."""
    below = [export.add("Less", each, zero) for each in (x, export.add("Reciprocal", x))]
    return export.add("Or", *below)


@exporter("lgamma")
def _(export: Export, op: Operation) -> str:
    """In double precision: Lanczos' sum from ½ on, and below log(π / |sin(πx)|) less the one of 1 - x."""
    (given,) = export.names(op)
    x = export.add("Cast", given, to=NUMBERS[float64])
    half, one = export.initial(0.5), export.initial(1.0)
    small, mirrored = export.add("Less", x, half), export.add("Sub", one, x)
    large = _log_gamma(export, export.add("Sub", export.add("Where", small, mirrored, x), one))
    rest = export.add("Mul", export.add("Sub", x, export.add("Floor", x)), export.initial(math.pi))
    sine = export.add("Log", export.add("Div", export.initial(math.pi), export.add("Abs", export.add("Sin", rest))))
    found = export.add("Where", small, export.add("Sub", sine, large), large)
    found = export.add("Where", export.add("IsInf", x), export.initial(math.inf), found)
    return export.add("Cast", found, to=NUMBERS[op.outputs[0].dtype])


def _log_gamma(export: Export, z: str) -> str:
    """The logarithm of Γ(z + 1), for z from -½ on."""
    series = export.initial(_LANCZOS[0])
    for i, number in enumerate(_LANCZOS[1:], 1):
        part = export.add("Div", export.initial(number), export.add("Add", z, export.initial(float(i))))
        series = export.add("Add", series, part)
    t = export.add("Add", z, export.initial(7.5))
    power = export.add("Mul", export.add("Add", z, export.initial(0.5)), export.add("Log", t))
    constant = export.initial(0.5 * math.log(2 * math.pi))
    return export.add("Add", export.add("Sub", power, t), export.add("Add", constant, export.add("Log", series)))


@exporter("linspace")
def _(export: Export, op: Operation) -> str:
    """Start + i · (stop - start) / (num - 1) in double precision; the last number, if it is not the first, is stop."""
    start, stop = (export.add("Cast", export.name(each), to=NUMBERS[float64]) for each in op.inputs[:2])
    num, zero, one = export.as_int64(op.inputs[2]), export.initial(np.int64(0)), export.initial(np.int64(1))
    last, places = export.add("Sub", num, one), export.add("Range", zero, num, one)
    gaps = export.add("Cast", export.add("Max", last, one), to=NUMBERS[float64])
    step = export.add("Div", export.add("Sub", stop, start), gaps)
    numbers = export.add("Add", start, export.add("Mul", export.add("Cast", places, to=NUMBERS[float64]), step))
    ends = export.add("And", export.add("Equal", places, last), export.add("Greater", places, zero))
    return export.add("Cast", export.add("Where", ends, stop, numbers), to=NUMBERS[op.outputs[0].dtype])


@exporter("cumprod")
def _(export: Export, op: Operation) -> str:
    return _cumulative(export, op, 1, lambda before, each: export.add("Mul", before, each))


@exporter("cumulative_logsumexp")
def _(export: Export, op: Operation) -> str:
    """The greater number, and log(1 + exp(the difference)), which is 0 if both are infinite."""
    dtype = op.inputs[0].dtype.np.type

    def both(before: str, each: str) -> str:
        more = export.add("Sub", export.add("Min", before, each), export.add("Max", before, each))
        known = export.add("Where", export.add("Equal", before, each), export.initial(dtype(0)), more)
        return export.add("Add", export.add("Max", before, each), export.add("Softplus", known))

    return _cumulative(export, op, -math.inf, both)


def _cumulative(export: Export, op: Operation, start: float, join: Callable[[str, str], str]) -> str:
    """A scan along the axis, before whose first slice there is one of `start`, so that it always has a slice.

    The results up to all slices but the last one are the exclusive ones, those from the first slice on the others.
    ONNX Runtime crashes where a scan along another axis than the first one has slices without elements.
    """
    x, axis, backwards = op.inputs[0], op.attrs["axis"] % rank_of(op.inputs[0]), int(op.attrs["reverse"])
    order = [axis, *[each for each in range(rank_of(x)) if each != axis]]
    slices = export.add("Transpose", export.name(x), perm=order) if axis else export.name(x)
    first = export.add("Expand", export.initial(x.dtype.np.type(start)), export.add("Shape", slices, start=1))
    row = export.add("Unsqueeze", first, export.integers([0]))
    whole = export.add("Concat", *((slices, row) if backwards else (row, slices)), axis=0)
    options = {"scan_input_directions": [backwards], "scan_output_directions": [backwards], "num_scan_inputs": 1}
    made = export.add_all("Scan", [first, whole], 2, body=_body(export, x, join), **options)[1]
    begin, end = (0, -1) if bool(op.attrs["exclusive"]) is not bool(backwards) else (1, int64.max)
    found = export.add("Slice", made, *[export.integers([number]) for number in (begin, end, 0)])
    return export.add("Transpose", found, perm=[order.index(each) for each in range(rank_of(x))]) if axis else found


def _body(export: Export, x: Tensor, join: Callable[[str, str], str]) -> object:
    """The body of the scan: (the result before, a slice) -> the result after, twice."""
    slices = Spec(x.dtype, TensorShape([None] * (rank_of(x) - 1)))
    before, each = export.unique("before"), export.unique("each")
    with export.body() as nodes:
        after = join(before, each)
        result = export.add("Identity", after)
    inputs, outputs = ([declaration(name, slices) for name in names] for names in ((before, each), (after, result)))
    return package().helper.make_graph(nodes, "body", inputs, outputs)


@exporter("saturate_to_integer")
def _(export: Export, op: Operation) -> str:
    """Beyond the limits, which a float may not have, ONNX casts as it likes."""
    (given,), dtype = export.names(op), op.outputs[0].dtype
    x = export.add("Cast", given, to=NUMBERS[float64])
    low, high = export.initial(np.float64(dtype.min)), export.initial(np.float64(dtype.max))
    above, below = export.add("GreaterOrEqual", x, high), export.add("LessOrEqual", x, low)
    outside = export.add("Or", export.add("Or", above, below), export.add("IsNaN", x))
    inside = export.add("Cast", export.add("Where", outside, export.initial(0.0), x), to=NUMBERS[dtype])
    least, most = (export.initial(dtype.np.type(number)) for number in (dtype.min, dtype.max))
    return export.add("Where", above, most, export.add("Where", below, least, inside))


@exporter("fake_quant")
def _(export: Export, op: Operation) -> str:
    """The formula of the kernel: limits that are moved so that 0 is a step, and a number of steps from the least."""
    (x, low, high), dtype = export.names(op), op.inputs[0].dtype.np.type
    first, last = dtype(op.attrs["narrow_range"]), dtype(2 ** op.attrs["num_bits"] - 1)
    start, end, zero, half = (export.initial(dtype(number)) for number in (first, last, 0, 0.5))
    step = export.add("Div", export.add("Sub", high, low), export.initial(dtype(last - first)))
    flat = export.add("Equal", step, zero)
    place = export.add("Where", flat, start, export.add("Sub", start, export.add("Div", low, step)))
    whole = export.add("Floor", place)
    up = export.add("GreaterOrEqual", export.add("Sub", place, whole), half)
    moved = export.add("Add", whole, export.add("Cast", up, to=NUMBERS[op.inputs[0].dtype]))
    origin = export.add("Min", export.add("Max", moved, start), end)
    least, most = (export.add("Mul", export.add("Sub", each, origin), step) for each in (start, end))
    inside = export.add("Sub", export.add("Min", export.add("Max", x, least), most), least)
    steps = export.add("Mul", inside, export.add("Reciprocal", step))
    rounded = export.add("Floor", export.add("Add", steps, half))
    return export.add("Where", flat, zero, export.add("Add", export.add("Mul", rounded, step), least))
