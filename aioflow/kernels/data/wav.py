"""Sounds as WAV files of 16-bit samples, and back."""

import struct
from typing import Final

import numpy as np

from aioflow.graph.op import op
from aioflow.kernels import known
from aioflow.kernels.families import CPU, costs
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, STRING, Array, Namespace, Spec, TensorShape, float32, int32

_FULL: Final = 32768.0
"""The sample that stands for 1, one more than the highest."""
_HEADER: Final = struct.Struct("<4sI4s4sIHHIIHH4sI")
_CHUNK: Final = struct.Struct("<4sI")
_FORMAT: Final = struct.Struct("<HHIIHH")
_PCM: Final = 1
_MOST_BYTES: Final = (1 << 32) - 1 - _HEADER.size


@op
def encode_wav(audio: Spec, sample_rate: Spec) -> Spec:
    """The WAV file, with 16 bits for a sample, of a sound [samples, channels]. Numbers beyond -1 and 1 are clipped.

    Args:
        audio: float32 samples of each channel.
        sample_rate: samples per second, int32.

    Examples:
        >>> wav = af.audio.encode_wav([[0.0], [0.5]], 8000)
        >>> await session.run(af.audio.decode_wav(wav).audio)
        array([[0. ],
               [0.5]], dtype=float32)
    """
    audio.only(frozenset({float32})).with_rank(2, "audio")
    known.integers(sample_rate, "sample_rate").with_rank(0, "sample_rate")
    return Spec(dtypes.string, SCALAR)


@op(name="decode_wav")
def decoded_wav(contents: Spec, desired_channels: int = -1, desired_samples: int = -1) -> tuple[Spec, Spec]:
    """The samples of a WAV file of 16 bits, [samples, channels] from -1 to 1, and their number per second."""
    contents.only(STRING).with_rank(0, "contents")
    for wanted, least, what in ((desired_channels, 1, "desired_channels"), (desired_samples, 0, "desired_samples")):
        if wanted < least and wanted != -1:
            raise ValueError(f"{what} is -1 for those of the file, or {least} or more, not {wanted}")
    sizes = [None if wanted < 0 else wanted for wanted in (desired_samples, desired_channels)]
    return Spec(float32, TensorShape(sizes)), Spec(int32, SCALAR)


encode_wav.no_gradient("a file does not vary smoothly")
decoded_wav.no_gradient("a file does not vary smoothly")
costs(encode_wav, 10.0)
costs(decoded_wav, 10.0)


@encode_wav.kernel(CPU, fresh=True)
def _(xp: Namespace, audio: Array, sample_rate: Array) -> Array:
    made = np.empty((), object)
    made[()] = encoded(audio, int(sample_rate))
    return made


def encoded(sound: Array, rate: int) -> bytes:
    """The WAV file of a sound [samples, channels]. ValueError if a WAV file cannot hold it."""
    samples, channels = sound.shape
    if not 0 < rate < 1 << 31 or not 1 <= channels < 1 << 15 or 2 * sound.size > _MOST_BYTES:
        raise ValueError(f"{samples} samples of {channels} channels at {rate} per second cannot be written as WAV")
    data: bytes = np.clip(np.rint(np.nan_to_num(sound) * _FULL), -_FULL, _FULL - 1).astype("<i2").tobytes()
    frame = 2 * channels
    return (
        _HEADER.pack(
            b"RIFF", _HEADER.size - 8 + len(data), b"WAVE", b"fmt ", 16,
            _PCM, channels, rate, rate * frame & 0xFFFFFFFF, frame, 16, b"data", len(data),
        )
        + data
    )  # fmt: skip


@decoded_wav.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, *, desired_channels: int, desired_samples: int) -> tuple[Array, Array]:
    file = bytes(contents[()] if isinstance(contents, np.ndarray) else contents)
    samples, rate = _samples(file)
    found = samples.astype(np.float32) / np.float32(_FULL)
    sizes = [
        size if wanted < 0 else wanted
        for size, wanted in zip(found.shape, (desired_samples, desired_channels), strict=True)
    ]
    return _fitted(found, *sizes), np.asarray(rate, np.int32)


def _fitted(found: Array, samples: int, channels: int) -> Array:
    """A sound with that many samples, silent at the end, and channels, the last one repeated."""
    if found.shape == (samples, channels):
        return found
    made = np.zeros((samples, channels), np.float32)
    count = min(samples, len(found))
    made[:count] = found[:count, np.minimum(np.arange(channels), found.shape[1] - 1)]
    return made


def _samples(file: bytes) -> tuple[Array, int]:
    """The samples [samples, channels] of a file, and their rate. ValueError if it is no WAV file of 16 bits."""
    if file[:4] != b"RIFF" or file[8:12] != b"WAVE":
        raise ValueError(f"{len(file)} bytes that begin with {file[:12]!r} are no WAV file")
    place, form = 12, None
    while place + _CHUNK.size <= len(file):
        name, size = _CHUNK.unpack_from(file, place)
        place += _CHUNK.size
        if place + size > len(file):
            raise ValueError(f"a part {name!r} of {size} bytes is cut off after {len(file) - place}")
        if name == b"fmt ":
            form = _form(file[place : place + size])
        if name == b"data" and form is not None:
            return _frames(file[place : place + size], form[0]), form[1]
        place += size + size % 2
    raise ValueError("the WAV file has no samples" if form else "the WAV file states no format")


def _form(part: bytes) -> tuple[int, int]:
    """The number of channels and the rate. ValueError for other samples than those of 16 bits."""
    if len(part) < _FORMAT.size:
        raise ValueError(f"the format of a WAV file has {_FORMAT.size} bytes, not {len(part)}")
    kind, channels, rate, _, _, bits = _FORMAT.unpack_from(part)
    if kind != _PCM or bits != 16 or not channels:
        raise ValueError(
            f"only WAV files of 16-bit PCM are decoded, not of kind {kind} with {bits} bits of {channels} channels"
        )
    return channels, rate


def _frames(data: bytes, channels: int) -> Array:
    if len(data) % (2 * channels):
        raise ValueError(f"{len(data)} bytes are no samples of 16 bits for each of {channels} channels")
    return np.frombuffer(data, "<i2").reshape(-1, channels)
