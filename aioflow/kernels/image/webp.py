"""Decode WebP strings to pixels, through Pillow: `pip install aioflow-engine[image]`.

The op refuses an image, before decoding, whose header states more than 89 million pixels.
"""

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.op import op
from aioflow.kernels.families import CPU
from aioflow.kernels.image.image_codecs import MOST_PIXELS, pillow
from aioflow.tensors.dtypes import STRING, Array, DType, Namespace, Spec, TensorShape, uint8

_ALPHA: Final = 0x10
_ANIMATION: Final = 0x02
Header = tuple[int, int, int, int]
"""Frames, height, width and channels."""


@op
def decode_webp(contents: Spec, channels: int = 0, dtype: DType = uint8) -> Spec:
    """The pixels of the pictures of a WebP, uint8 [pictures, height, width, channels]: one without animation.

    Args:
        contents: the WebP, a string.
        channels: 3 for RGB, 4 for RGB and opacity, which must be those of the file; 0 for either. An animation has 4.
        dtype: uint8.

    Raises:
        ValueError: `channels` is another number.
        InvalidArgumentError: in the run: the string is not a WebP, damaged, too large, or has other channels.

    Examples:
        >>> import base64
        >>> data = base64.b64decode("UklGRhwAAABXRUJQVlA4TA8AAAAvAAAAAAcQ/Y/+ByKi/wEA")
        >>> await session.run(af.image.decode_webp(data))
        array([[[[255,   0,   0]]]], dtype=uint8)
    """
    contents.only(STRING).with_rank(0, "contents")
    if channels not in (0, 3, 4):
        raise ValueError(f"channels of a WebP are 0, 3 or 4, not {channels}")
    if dtype is not uint8:
        raise TypeError(f"a WebP is decoded to uint8, not to {dtype.name}")
    return Spec(uint8, TensorShape([None, None, None, channels or None]))


decode_webp.no_gradient("a string has no gradient")


@decode_webp.makes
def _(inputs: Sequence[Array], attrs: Any) -> int:
    frames, height, width, channels = header_of(_bytes(inputs[0]))
    return frames * height * width * channels


@decode_webp.kernel(CPU, fresh=True)
def _(xp: Namespace, contents: Array, *, channels: int, dtype: DType) -> Array:
    data = _bytes(contents)
    try:
        header = header_of(data)
    except ValueError as error:
        raise errors.InvalidArgumentError(str(error)) from None
    count, height, width, found = header
    if count * height * width > MOST_PIXELS:
        raise errors.InvalidArgumentError(
            f"the WebP has {count} x {height} x {width} pixels by its header, and at most {MOST_PIXELS} are decoded"
        )
    if channels not in (0, found):
        raise errors.InvalidArgumentError(f"the WebP has {found} channels, not {channels}: give channels=0 for either")
    return _decoded(data, header)


def _bytes(value: Array) -> bytes:
    return bytes(value[()] if isinstance(value, np.ndarray) else value)


def _decoded(data: bytes, header: Header) -> Array:
    image = pillow()
    pixels = np.empty(header, np.uint8)
    try:
        with image.open(io.BytesIO(data), formats=["WEBP"]) as picture:
            for place in range(header[0]):
                picture.seek(place)
                pixels[place] = np.asarray(picture.convert("RGBA" if header[3] == 4 else "RGB"))
    except (errors.OpError, MemoryError):
        raise
    except Exception as error:  # Pillow raises many types for damaged bytes
        raise errors.InvalidArgumentError(f"the WebP cannot be decoded: {error}") from error
    return pixels


def header_of(data: bytes) -> Header:
    """The number of pictures, height, width and channels, from the headers alone. ValueError if they are damaged."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        raise ValueError(f"a WebP is expected, and the bytes begin with {data[:8]!r}")
    try:
        chunks = list(_chunks(data))
        name, start = chunks[0]
        if name == b"VP8X":
            animated = data[start] & _ANIMATION
            frames = sum(name == b"ANMF" for name, _ in chunks) if animated else 1
            width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (start + 4, start + 7))
            return frames, height, width, 4 if animated or data[start] & _ALPHA else 3
        if name == b"VP8L" and data[start] == 0x2F:
            (bits,) = struct.unpack_from("<I", data, start + 1)
            return 1, (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1, 4 if bits >> 28 & 1 else 3
        if name == b"VP8 " and data[start + 3 : start + 6] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, start + 6)
            return 1, height & 0x3FFF, width & 0x3FFF, 3
    except (struct.error, IndexError):
        raise ValueError(f"the WebP is truncated at {len(data)} bytes") from None
    raise ValueError("the header of the WebP is damaged")


def _chunks(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The name of each chunk, and where its content begins. struct.error if one is truncated."""
    at, end = 12, min(8 + int(struct.unpack_from("<I", data, 4)[0]), len(data))
    while at + 8 <= end or at == 12:
        name, size = struct.unpack_from("<4sI", data, at)
        if at + 8 + size > len(data):
            raise struct.error
        yield name, at + 8
        at += 8 + size + (size & 1)
