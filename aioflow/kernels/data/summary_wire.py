"""Summaries as bytes, in protocol buffers' encoding, as TensorBoard reads them; making one needs no TensorBoard.

Summary      1: Value, repeated
Value        1: tag   2: float   4: Image   5: Histogram   6: Audio   8: Tensor   9: Metadata
Image        1: height   2: width   3: channels   4: PNG
Audio        1: float, rate   2: channels   3: frames   4: WAV   5: kind
Histogram    1: min   2: max   3: count   4: sum   5: sum of squares   6: limits, packed   7: counts, packed
Tensor       see `tensor_wire`
Metadata     1: {1: plugin}   2: name to display   3: description
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from aioflow.files import message_wire as wire
from aioflow.files.message_wire import content, number, parts
from aioflow.kernels.data import tensor_wire
from aioflow.tensors.as_array import AnyArray

_TAG: Final = 1


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
    return _value(tag, content(8, tensor_wire.encode(value)) + content(9, metadata))


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
