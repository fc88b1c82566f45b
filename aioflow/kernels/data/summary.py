"""Summary ops: values for TensorBoard, as strings that `af.summary.FileWriter` writes.

Each string is a Summary in protocol buffers' encoding, equal to TensorFlow's of the same op [F: core/kernels/
summary_op.cc]. A worker that makes summaries does not need TensorBoard. See `summary_wire`.
"""

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.op import Op, op
from aioflow.kernels.data import summary_wire, wav
from aioflow.kernels.families import CPU, costs
from aioflow.kernels.image import image_codecs
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import BOOL, FLOAT, INTEGER, NUMERIC, SCALAR, STRING, Array, Namespace, Spec, float32

_TEXT: Final = Spec(dtypes.string, SCALAR)
_SMALLEST, _LARGEST, _GROWS = 1e-12, 1e20, 1.1
_BLACK: Final = 1e-6
"""Pictures whose values are all smaller are black."""
_RED: Final = np.array([255, 0, 0, 255], np.uint8)


def _text(data: bytes) -> Array:
    made = np.empty((), object)
    made[()] = data
    return made


@op
def scalar_summary(values: Spec, tag: str) -> Spec:
    """The summary of a number."""
    values.only(FLOAT, INTEGER).with_rank(0, "values")
    return _TEXT


@scalar_summary.kernel(CPU, fresh=True)
def _(xp: Namespace, values: Array, *, tag: str) -> Array:
    return _text(summary_wire.scalar(tag, float(values)))


# Histograms


@functools.cache
def _limits() -> AnyArray:
    """TensorFlow's: from 1e-12 on each a tenth further from 0 than the one before, on both sides."""
    found, limit = [], _SMALLEST
    while limit < _LARGEST:
        found.append(limit)
        limit *= _GROWS
    positive = np.array([*found, np.finfo(np.float64).max])
    return np.concatenate([-positive[::-1], [0.0], positive])


@op
def histogram_summary(values: Spec, tag: str) -> Spec:
    """The summary of how many of the values lie where. InvalidArgumentError if some are not finite."""
    values.only(FLOAT, INTEGER)
    return _TEXT


@histogram_summary.kernel(CPU, fresh=True)
def _(xp: Namespace, values: Array, *, tag: str) -> Array:
    numbers = np.ravel(values).astype(np.float64)
    if not np.isfinite(numbers).all():
        nan, infinite = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
        text = f"the histogram {tag!r}: {nan} NaN and {infinite} infinite of {numbers.size} values"
        raise errors.InvalidArgumentError(text)
    limits = _limits()
    places = np.minimum(np.searchsorted(limits, numbers, "right"), len(limits) - 1)
    counts = np.bincount(places, minlength=len(limits))
    kept = _without_runs_of_nothing(counts)
    with np.errstate(over="ignore"):
        return _text(summary_wire.histogram(tag, numbers, limits[kept], counts[kept]))


def _without_runs_of_nothing(counts: AnyArray) -> AnyArray:
    """The places whose count is kept: of several in a row that are 0 the last."""
    empty = counts == 0
    followed = np.append(empty[1:], False)
    return np.flatnonzero(~(empty & followed))


# Pictures and sounds


def _tags(tag: str, kind: str, most: int, count: int) -> list[str]:
    """The tags of the first pictures or sounds of a batch."""
    numbers = range(min(most, count))
    return [f"{tag}/{kind}" if most == 1 else f"{tag}/{kind}/{number}" for number in numbers]


def _check_most(most: int, name: str) -> None:
    if most < 1:
        raise ValueError(f"{name} is 1 or more, not {most}")


@op
def image_summary(tensor: Spec, tag: str, max_images: int = 3) -> Spec:
    """The summary of the first images of a batch, [batch, height, width, 1, 3 or 4], as PNG.

    Floats are scaled: the largest value becomes 255; if some are negative, 0 becomes 128, and the value farthest from
    0 becomes 1 or 255. Pixels that are not finite are red. It needs Pillow: `pip install aioflow-engine[image]`.
    """
    sizes = tensor.only(FLOAT, frozenset({dtypes.uint8})).with_rank(4, "tensor").sizes
    if sizes is not None and sizes[3] not in (None, 1, 3, 4):
        raise ValueError(f"a picture has 1, 3 or 4 channels, not {sizes[3]}")
    _check_most(max_images, "max_outputs")
    return _TEXT


@image_summary.kernel(CPU, fresh=True)
def _(xp: Namespace, tensor: Array, *, tag: str, max_images: int) -> Array:
    height, width, channels = tensor.shape[1:]
    if channels not in (1, 3, 4) or not height * width:
        raise errors.InvalidArgumentError(f"pictures of shape {list(tensor.shape[1:])} cannot be shown")
    parts = [
        summary_wire.image(each, height, width, channels, image_codecs.encoded_png(_pixels(picture), -1))
        for each, picture in zip(_tags(tag, "image", max_images, len(tensor)), tensor, strict=False)
    ]
    return _text(b"".join(parts))


def _pixels(picture: AnyArray) -> AnyArray:
    """As uint8, [height, width, channels]."""
    if picture.dtype == np.uint8:
        return picture
    values = picture.astype(np.float32)
    finite = np.isfinite(values).all(-1, keepdims=True)
    values = np.where(finite, values, np.float32(0))
    low, high = values.min(), values.max()
    most, brightest, zero = (max(-low, high), 127, 128) if low < 0 else (high, 255, 0)
    scale = np.float32(0 if most < _BLACK else brightest / most)
    return np.where(finite, (values * scale + np.float32(zero)).astype(np.uint8), _RED[: values.shape[-1]])


@op
def audio_summary(tensor: Spec, sample_rate: Spec, tag: str, max_outputs: int = 3) -> Spec:
    """The summary of the first sounds of a batch, [batch, frames] or [batch, frames, channels], as WAV of 16 bits.

    Values outside -1 to 1 are clipped. `sample_rate` is in frames per second.
    """
    rank = tensor.only(frozenset({float32})).rank
    if rank not in (None, 2, 3):
        raise ValueError(f"sounds are [batch, frames] or [batch, frames, channels], not {tensor.shape}")
    sample_rate.only(FLOAT, INTEGER).with_rank(0, "sample_rate")
    _check_most(max_outputs, "max_outputs")
    return _TEXT


@audio_summary.kernel(CPU, fresh=True)
def _(xp: Namespace, tensor: Array, sample_rate: Array, *, tag: str, max_outputs: int) -> Array:
    sounds = tensor[..., None] if tensor.ndim == 2 else tensor
    rate = float(sample_rate)
    if sounds.ndim != 3 or not 1 <= rate < 1 << 31 or not 1 <= sounds.shape[-1] < 1 << 15:
        text = f"sounds of shape {list(tensor.shape)} at {rate:g} frames per second cannot be written"
        raise errors.InvalidArgumentError(text)
    parts = [
        summary_wire.audio(each, rate, sound.shape[1], sound.shape[0], wav.encoded(sound, round(rate)))
        for each, sound in zip(_tags(tag, "audio", max_outputs, len(sounds)), sounds, strict=False)
    ]
    return _text(b"".join(parts))


# Tensors and texts


@op
def tensor_summary(tensor: Spec, tag: str, metadata: bytes = b"") -> Spec:
    """The summary of a whole tensor; `metadata`, from `summary_wire.metadata`, selects its display."""
    tensor.only(NUMERIC, BOOL, STRING)
    return _TEXT


@tensor_summary.kernel(CPU, fresh=True)
def _(xp: Namespace, tensor: Array, *, tag: str, metadata: bytes) -> Array:
    return _text(summary_wire.tensor(tag, np.asarray(tensor), metadata))


@op
def merge_summary(inputs: Sequence[Spec]) -> Spec:
    """One summary with the values of all. InvalidArgumentError if two have one tag."""
    if not inputs:
        raise ValueError("at least one input is needed")
    for spec in inputs:
        spec.only(STRING)
    return _TEXT


@merge_summary.kernel(CPU, fresh=True)
def _(xp: Namespace, inputs: Sequence[Array]) -> Array:
    parts = [part for each in inputs for part in np.ravel(np.asarray(each, object)).tolist()]
    return _text(summary_wire.joined(parts))


_ALL: list[Op[Any]] = [
    scalar_summary, histogram_summary, image_summary, audio_summary, tensor_summary, merge_summary,
]  # fmt: skip
for _op in _ALL:
    _op.no_gradient("text does not vary smoothly")
costs(histogram_summary, 50.0)
costs(image_summary, 30.0)
costs(audio_summary, 10.0)
