"""Numbers stored as integers of few bits."""

import functools
from typing import Any

import numpy as np

from oracle.draw import Call, Draw, call
from oracle.table import Difference, compare, differs

BITS = (2, 4, 8, 16)


def within(d: Draw, *sizes: int) -> tuple[Any, Any]:
    """A lower and an upper limit, or vectors of these."""
    low = d.array("float32", sizes, -6, 3)
    return low, (low + d.array("float32", sizes, 1, 6)).astype(np.float32)


def options(d: Draw) -> dict[str, Any]:
    return {"num_bits": d.pick(*BITS), "narrow_range": d.pick(False, True)}


def with_numbers(d: Draw, count: int) -> Call:
    low, high = within(d)
    arrays = [d.array("float32", d.shape(1, 3), -8, 8)] * count
    return call(*arrays, min=float(low), max=float(high), **options(d))


def with_limits(d: Draw, count: int) -> Call:
    return call(*[d.array("float32", d.shape(0, 3), -8, 8)] * count, *within(d), **options(d))


def with_limits_of_channels(d: Draw, count: int) -> Call:
    size = d.integer(1, 4)
    shape = (*d.shape(0, 2), size)
    return call(*[d.array("float32", shape, -8, 8)] * count, *within(d, size), **options(d))


FORMS = {"args": with_numbers, "vars": with_limits, "vars_per_channel": with_limits_of_channels}
for kind, inputs in FORMS.items():
    for suffix, count, ops in (("", 1, "fake_quant"), ("_gradient", 2, "fake_quant_limits")):
        name = f"quantization.fake_quant_with_min_max_{kind}{suffix}"
        moves = True if count == 1 else "TensorFlow's gradients have no gradient"
        compare(name, functools.partial(inputs, count=count), ops=ops, gradient=moves)


TYPES = ("qint8", "quint8", "qint16", "quint16", "qint32")
MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


def stored(d: Draw) -> Call:
    mode, along = d.pick(*MODES), d.pick(False, True)
    shape = d.shape(1, 3, (1, 4))
    axis = d.integer(0, len(shape) - 1) if along and mode != "MIN_FIRST" else None
    limits = within(d) if axis is None else within(d, shape[axis])
    return call(
        d.array("float32", shape, -8, 8), *limits, T=d.pick(*TYPES), mode=mode, axis=axis,
        narrow_range=d.pick(False, True),
        round_mode=d.pick("HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN") if mode == "SCALED" else "HALF_AWAY_FROM_ZERO",
    )  # fmt: skip


def _stored(library: Any, x: Any, low: Any, high: Any, *, T: str, **attrs: Any) -> Any:
    q, *limits = library.quantization.quantize(x, low, high, getattr(library, T), **attrs)
    return library.cast(q, library.float32), *limits


def _there_and_back(library: Any, x: Any, low: Any, high: Any, *, T: str, **attrs: Any) -> Any:
    stored = library.quantization.quantize(x, low, high, getattr(library, T), **attrs)
    del attrs["round_mode"]
    return library.quantization.dequantize(*stored, **attrs)


WIDE = "TensorFlow computes 32-bit integers in float32, which overflows at the upper limit"
wide: tuple[Difference, ...] = differs(WIDE, lambda *arrays, T, **attrs: T == "qint32")
ONE_PLACE = "TensorFlow returns scalars as the limits of an axis with one place, against its own shape function"
NO_STEP = (
    "the only real number of integers without a sign is 0 if the limits are not above it; TensorFlow stores others"
)
odd: tuple[Difference, ...] = (
    *differs(ONE_PLACE, lambda x, *limits, axis=None, **attrs: axis is not None and x.shape[axis] == 1),
    *differs(
        NO_STEP,
        lambda x, low, high, *, T, mode, **attrs: T in ("quint8", "quint16") and mode == "SCALED" and high.min() <= 0,
    ),
)
compare("quantization.quantize", stored, _stored, ops="quantize", differs=wide + odd, gradient="integers have none")
compare(
    "quantization.dequantize", stored, _there_and_back, ops="dequantize", differs=wide, gradient="integers have none"
)


def rounded(d: Draw) -> Call:  # TensorFlow 2.21 fails where limits differ along an axis
    dtype = d.dtype("float32", "float64")
    return call(
        d.array(dtype, d.shape(1, 3, (1, 4)), -8, 8), *[each.astype(dtype) for each in within(d)],
        range_given=d.pick(False, True), signed_input=d.pick(False, True), num_bits=d.pick(*BITS),
        round_mode=d.pick("HALF_TO_EVEN", "HALF_UP"),
        narrow_range=d.pick(False, True),
    )  # fmt: skip


NOT_GIVEN = "TensorFlow cuts the gradient at limits that are not given"
NO_SIGN = "TensorFlow divides by 0 where integers have no sign and all numbers lie below 0"
below: tuple[Difference, ...] = differs(
    NO_SIGN, lambda x, *limits, range_given, signed_input, **attrs: not (range_given or signed_input) and x.min() < 0
)
compare("quantization.quantize_and_dequantize", rounded, differs=below)
compare(
    "quantization.quantize_and_dequantize_v2", rounded, ops=(),
    differs=below + differs(NOT_GIVEN, lambda *arrays, range_given, **attrs: not range_given),
)  # fmt: skip


def joined(d: Draw) -> Call:
    rank = d.integer(1, 3)
    shape, axis = [d.integer(1, 4) for _ in range(rank)], d.integer(0, rank - 1)
    shapes = [[d.integer(1, 4) if place == axis else size for place, size in enumerate(shape)] for _ in range(2)]
    return call(*[d.array("float32", each, -8, 8) for each in shapes], *within(d), *within(d), axis=axis)


def _joined(library: Any, x: Any, y: Any, *limits: Any, axis: int) -> Any:
    parts = [
        library.quantize_v2(value, low, high, library.quint8)
        for value, low, high in ((x, *limits[:2]), (y, *limits[2:]))
    ]
    q, *limits = library.quantization.quantized_concat(axis, *zip(*parts, strict=True))
    return library.cast(q, library.int32), *limits


compare("quantization.quantized_concat", joined, _joined, ops=(), gradient="integers have none")


def images(d: Draw) -> Call:
    shape = (d.integer(1, 2), d.integer(2, 5), d.integer(2, 5), d.integer(1, 2))
    step = d.integer(1, 2)
    return call(
        d.array("float32", shape, -8, 8), *within(d), strides=[1, step, step, 1], padding=d.pick("SAME", "VALID")
    )


def _bytes(library: Any, value: Any, low: Any, high: Any) -> Any:
    return library.quantize_v2(value, low, high, library.quint8, "MIN_FIRST")


def _whole(library: Any, stored: Any) -> Any:
    return library.cast(stored[0], library.int32), *stored[1:]


def _pooled(library: Any, x: Any, low: Any, high: Any, *, kind: str, **attrs: Any) -> Any:
    pool = getattr(library.nn, f"quantized_{kind}_pool")
    return _whole(library, pool(*_bytes(library, x, low, high), ksize=[1, 2, 2, 1], **attrs))


def convolved(d: Draw) -> Call:
    drawn = images(d)
    shape = (d.integer(1, 2), d.integer(1, 2), drawn.arrays[0].shape[3], d.integer(1, 2))
    return call(*drawn.arrays, d.array("float32", shape, -8, 8), *within(d), **drawn.attrs)


def _convolved(library: Any, x: Any, low: Any, high: Any, w: Any, *limits: Any, **attrs: Any) -> Any:
    stored, filters = _bytes(library, x, low, high), _bytes(library, w, *limits)
    return _whole(library, library.nn.quantized_conv2d(stored[0], filters[0], *stored[1:], *filters[1:], **attrs))


for kind in ("max", "avg"):
    compare(
        f"nn.quantized_{kind}_pool", images, functools.partial(_pooled, kind=kind), ops=(),
        gradient="integers have none",
    )  # fmt: skip
compare("nn.quantized_conv2d", convolved, _convolved, ops=(), gradient="integers have none")
