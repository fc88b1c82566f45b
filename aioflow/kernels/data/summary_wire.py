"""Summaries as bytes, in protocol buffers' encoding, as TensorBoard reads them; making one needs no TensorBoard.

Summary      1: Value, repeated
Value        1: tag   2: float   4: Image   5: Histogram   6: Audio   8: Tensor   9: Metadata
Image        1: height   2: width   3: channels   4: PNG
Audio        1: float, rate   2: channels   3: frames   4: WAV   5: kind
Histogram    1: min   2: max   3: count   4: sum   5: sum of squares   6: limits, packed   7: counts, packed
Tensor       1: dtype   2: Shape   4: bytes of numbers   8: string, repeated
Shape        2: {1: size}, repeated
Metadata     1: {1: plugin}   2: name to display   3: description
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from aioflow.kernels.data import message_wire as wire
from aioflow.kernels.data.message_wire import content, number, parts
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import as_dtype

_TAG: Final = 1
NUMBERS: Final = {
    dtypes.float32: 1, dtypes.float64: 2, dtypes.int32: 3, dtypes.uint8: 4, dtypes.int16: 5, dtypes.int8: 6,
    dtypes.string: 7, dtypes.complex64: 8, dtypes.int64: 9, dtypes.bool_: 10, dtypes.bfloat16: 14, dtypes.uint16: 17,
    dtypes.complex128: 18, dtypes.float16: 19, dtypes.resource: 20, dtypes.uint32: 22, dtypes.uint64: 23,
    dtypes.float8_e5m2: 24, dtypes.float8_e4m3fn: 25,
}  # fmt: skip
"""The numbers of TensorFlow's DataType."""


# Fields


def _single(field: int, value: float) -> bytes:
    with np.errstate(over="ignore"):  # a larger value becomes infinite
        return wire.varint(field << 3 | wire.FOUR) + struct.pack("<f", np.float32(value))


def _double(field: int, value: float) -> bytes:
    return wire.varint(field << 3 | wire.EIGHT) + struct.pack("<d", value)


def _doubles(field: int, values: AnyArray) -> bytes:
    return content(field, values.astype("<f8").tobytes())


# Values


def _value(tag: str, fields: bytes) -> bytes:
    """A summary of one value."""
    return content(1, content(_TAG, tag.encode()) + fields)


def scalar(tag: str, value: float) -> bytes:
    """The summary of a number."""
    return _value(tag, _single(2, value))


def image(tag: str, height: int, width: int, channels: int, png: bytes) -> bytes:
    """The summary of a picture."""
    size = number(1, height) + number(2, width) + number(3, channels)
    return _value(tag, content(4, size + content(4, png)))


def audio(tag: str, rate: float, channels: int, frames: int, wav: bytes) -> bytes:
    """The summary of a sound."""
    form = _single(1, rate) + number(2, channels) + number(3, frames)
    return _value(tag, content(6, form + content(4, wav) + content(5, b"audio/wav")))


def histogram(tag: str, values: AnyArray, limits: AnyArray, counts: AnyArray) -> bytes:
    """The summary of many numbers; `counts[i]` of them lie below `limits[i]` and not below the limit before."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    numbers = (low, high, float(values.size), float(values.sum()), float((values * values).sum()))
    facts = b"".join([_double(field, number) for field, number in enumerate(numbers, 1)])
    return _value(tag, content(5, facts + _doubles(6, limits) + _doubles(7, counts)))


def tensor(tag: str, value: AnyArray, metadata: bytes) -> bytes:
    """The summary of a whole array, of numbers or strings."""
    kind = as_dtype(value.dtype)
    sizes = b"".join([content(2, number(1, size)) for size in value.shape])
    if kind is dtypes.string:
        data = b"".join([content(8, bytes(item)) for item in value.ravel().tolist()])
    else:
        data = content(4, value.astype(value.dtype.newbyteorder("<")).tobytes())
    return _value(tag, content(8, number(1, NUMBERS[kind]) + content(2, sizes) + data) + content(9, metadata))


def metadata(plugin: str = "", display_name: str = "", description: str = "") -> bytes:
    """The display settings of a tensor for TensorBoard: the plugin's name, a title, a description in Markdown."""
    fields_set = [(2, display_name.encode()), (3, description.encode())]
    if plugin:
        fields_set.insert(0, (1, content(1, plugin.encode())))
    return b"".join([content(field, text) for field, text in fields_set if text])


# Reading


def tags_of(summary: bytes) -> Iterator[str]:
    """The tags of its values. ValueError if it is not a summary."""
    for value in parts(summary, (0, len(summary)), 1):
        for begin, end in parts(summary, value, _TAG):
            yield summary[begin:end].decode(errors="backslashreplace")


def joined(summaries: Iterable[Any]) -> bytes:
    """One summary with the values of all. ValueError if a tag occurs twice, or one of them is not a summary."""
    parts, known = [], set()
    for part in map(bytes, summaries):
        for tag in tags_of(part):
            if tag in known:
                raise ValueError(f"two of the summaries have the tag {tag!r}: build them in scopes of different names")
            known.add(tag)
        parts.append(part)
    return b"".join(parts)
