"""Samples of summaries. What they say is read back by TensorBoard's own reader, in `test_summary.py`."""

import struct

import numpy as np

from aioflow.kernels.data import summary

from . import sample


def text(*parts):
    made = np.empty((), object)
    made[()] = b"".join(parts)
    return made


def value(*content):
    """A summary of one value, of less than 128 bytes."""
    whole = b"".join(content)
    return b"\n" + bytes([len(whole)]) + whole


NAMED = b"\n\x01a"
PICTURES = np.linspace(-1, 2, 24).reshape(2, 2, 2, 3)
SOUNDS = np.array([[0.0, 0.5, -1.0], [2.0, 0.0, 0.25]], np.float32)

for number in (np.array(2.5), np.array(-3, np.int32), np.array(0.0)):
    sample("scalar_summary", lambda x: summary.scalar_summary(x, "a"), number,
           reference=lambda x: text(value(NAMED, b"\x15", np.float32(x).tobytes())))  # fmt: skip
for values in (np.array([1.5, -2.0, 1.5]), np.zeros((0, 2)), np.array([[0, 1000]], np.int64)):
    sample("histogram_summary", lambda x: summary.histogram_summary(x, "a"), values)
sample("image_summary", lambda x: summary.image_summary(x, "a", 1), PICTURES)
sample("image_summary", lambda x: summary.image_summary(x, "a"), np.full((1, 2, 3, 1), 7, np.uint8))
sample("image_summary", lambda x: summary.image_summary(x, "a"), PICTURES[:0], reference=lambda x: text())
sample("audio_summary", lambda x, rate: summary.audio_summary(x, rate, "a"), SOUNDS, np.array(8000.0))
sample("audio_summary", lambda x, rate: summary.audio_summary(x, rate, "a", 1), SOUNDS[..., None], np.array(8000))
sample("tensor_summary", lambda x: summary.tensor_summary(x, "a", b"\x12\x01b"), np.array([1.5, 2.0]),
       reference=lambda x: text(value(NAMED, b"B\x1a\x08\x02\x12\x04\x12\x02\x08\x02\x22\x10", struct.pack("<2d", *x),
                                      b"J\x03\x12\x01b")))  # fmt: skip
sample("tensor_summary", lambda x: summary.tensor_summary(x, "a"), np.array([b"x", b""], object),
       reference=lambda x: text(value(NAMED, b"B\x0d\x08\x07\x12\x04\x12\x02\x08\x02B\x01xB\0", b"J\0")))  # fmt: skip
sample("merge_summary", lambda x, y: summary.merge_summary([x, y]),
       np.array([value(NAMED), value(b"\n\x01b")], object), text(value(b"\n\x01c")),
       reference=lambda x, y: text(*x.tolist(), y[()]))  # fmt: skip
sample("merge_summary", lambda x: summary.merge_summary([x]), np.zeros((0,), object), reference=lambda x: text())
