"""Decode and encode PNG, JPEG, GIF and BMP through Pillow, which is imported at first use.

The codecs read and check the size in an image's header before they decode. They refuse a PNG with fewer pixels than
its header states, and any truncated file.
"""

import io
import math
import struct
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.kernels.image import image_checks as checks
from aioflow.tensors.as_array import AnyArray

MOST_PIXELS: Final = 89_000_000
"""Pixels of one picture: more are refused. Pillow itself warns of little more."""
_STEEPEST: Final = 1032
"""No byte of deflate's becomes more bytes than this."""
_SMALL: Final = 1 << 12
"""Pixels that are counted in no time."""
_SPARSEST: Final = 1024
"""No byte of Huffman's code in a JPEG holds more pixels than this: each block of 64 takes at least a bit."""
_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_MARKS: Final = {"PNG": b"\x89PNG\r\n\x1a\n", "JPEG": b"\xff\xd8\xff", "GIF": b"GIF8", "BMP": b"BM"}


def kind_of(data: bytes) -> str | None:
    """The format by the first bytes: PNG, JPEG, GIF or BMP; None for any other."""
    return next((kind for kind, mark in _MARKS.items() if data.startswith(mark)), None)


def size_of(data: bytes, kind: str) -> tuple[int, int, int]:
    """Height, width and channels from the header. ValueError if the header is invalid."""
    try:
        if kind == "PNG":
            return _size_of_png(data)
        if kind == "JPEG":
            return _size_of_jpeg(data)
        if kind == "GIF":
            return *checks.size_of_gif(data), 3
        checks.check_bmp(data)
        width, height = struct.unpack_from("<ii", data, 18)
        return abs(height), abs(width), 3
    except (struct.error, IndexError):
        raise ValueError(f"the header of the {kind} is truncated at {len(data)} bytes") from None


def _size_of_png(data: bytes) -> tuple[int, int, int]:
    length, name, width, height, depth, colour = struct.unpack_from(">I4sIIBB", data, 8)
    if length != 13 or name != b"IHDR" or colour not in checks.SAMPLES:
        raise ValueError("the header of the PNG is damaged")
    if width * height * depth * checks.SAMPLES[colour] > 8 * _STEEPEST * len(data):
        raise ValueError(f"{len(data)} bytes cannot hold a PNG of {height} x {width} pixels: its header is forged")
    return height, width, {3: 3}.get(colour, checks.SAMPLES[colour])


def _size_of_jpeg(data: bytes) -> tuple[int, int, int]:
    at = 2
    while True:
        while data[at] != 0xFF:
            at += 1
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width, channels = struct.unpack_from(">HHB", data, at + 4)
            if marker < 0xC3 and height * width > _SPARSEST * len(data):
                raise ValueError(
                    f"{len(data)} bytes cannot hold a JPEG of {height} x {width} pixels: its header is forged"
                )
            return height, width, channels
        if marker in (0x01, *range(0xD0, 0xD9)):
            at += 1
        elif marker in (0xD9, 0xDA):
            raise ValueError("the JPEG has no header with its size")
        else:
            at += 1 + struct.unpack_from(">H", data, at + 1)[0]


def checked_size(data: bytes, kind: str) -> tuple[int, int, int]:
    """The same. InvalidArgumentError if the bytes are of another kind or the picture is too large."""
    if kind_of(data) != kind:
        found = kind_of(data) or f"no picture, it begins with {data[:8]!r}"
        raise errors.InvalidArgumentError(f"a {kind} is expected, and this is {found}")
    try:
        height, width, channels = size_of(data, kind)
    except ValueError as error:
        raise errors.InvalidArgumentError(str(error)) from None
    if height < 1 or width < 1 or height * width > MOST_PIXELS:
        raise errors.InvalidArgumentError(
            f"the {kind} has {height} x {width} pixels by its header; an image has 1 to {MOST_PIXELS}"
        )
    return height, width, channels


def pillow() -> Any:
    """Pillow's module of images. UnimplementedError if it is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise errors.UnimplementedError("images need Pillow: pip install aioflow-engine[image]") from None
    return Image


def decoded(data: bytes, kind: str, channels: int = 0, ratio: int = 1) -> AnyArray:
    """The pixels, [height, width, channels], of uint8, or of uint16 if the PNG has 16 bits of grey."""
    with _opened(data, kind) as picture:
        if kind == "PNG":
            _load_png(data, picture)
        if ratio > 1:
            picture = _reduced(picture, ratio)
        return _pixels(picture, channels)


def _load_png(data: bytes, picture: Any) -> None:
    """Decode all of its pixels. ValueError if there are fewer, or damaged ones.

    Rows that are missing stay black, so those of a large picture, which takes long, are counted only if the last is.
    """
    chunks = checks.chunks_of_png(data)
    picture.load()
    width, height = picture.size
    counted = checks.is_interlaced(data) or width * height < _SMALL
    if counted or not np.asarray(picture.crop((0, height - 1, width, height))).any():
        checks.check_pixels_of_png(data, chunks)


def _reduced(picture: Any, ratio: int) -> Any:
    """The JPEG at a fraction of its size, decoded at no more than that where the format can."""
    width, height = picture.size
    size = (-(-width // ratio), -(-height // ratio))
    picture.draft(None, size)
    return picture if picture.size == size else picture.resize(size)


def frames(data: bytes, channels: int = 3) -> AnyArray:
    """The pictures of an animated GIF, [frames, height, width, channels]."""
    with _opened(data, "GIF") as picture:
        count, height, width = checks.measured_gif(data)
        if count * height * width > MOST_PIXELS:
            raise errors.InvalidArgumentError(
                f"the GIF has {count} pictures of {height} x {width} pixels, together more than {MOST_PIXELS}; cut it "
                "into several files, or make the pictures smaller"
            )
        found = np.zeros((count, height, width, channels), np.uint8)
        for number in range(count):
            picture.seek(number)
            pixels = _pixels(picture, channels)
            found[number, : len(pixels), : pixels.shape[1]] = pixels  # a later picture may enlarge the screen
        return found


def bytes_of(data: bytes, kind: str | None, channels: int = 0, ratio: int = 1) -> int:
    """The bytes of the decoded pixels, from the header. ValueError if the header is invalid."""
    if kind is None or kind_of(data) != kind:
        raise ValueError(f"the bytes are not a {kind or 'PNG, JPEG, GIF or BMP'}")
    height, width, found = size_of(data, kind)
    return -(-height // ratio) * -(-width // ratio) * (channels or found)


def bytes_of_frames(data: bytes, channels: int = 3) -> int:
    """The same of all pictures of a GIF."""
    return math.prod(checks.measured_gif(data)) * channels


class _opened:
    """Opens an image with a checked header; converts errors in its block to InvalidArgumentError."""

    def __init__(self, data: bytes, kind: str) -> None:
        self._kind = kind
        checked_size(data, kind)
        image = pillow()
        try:
            self._picture = image.open(io.BytesIO(data), formats=[kind])
        except Exception as error:  # Pillow raises many types for damaged bytes
            raise self._error(error) from error

    def _error(self, error: BaseException) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"the {self._kind} cannot be decoded: {error}")

    def __enter__(self) -> Any:
        return self._picture

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._picture.close()
        if isinstance(error, Exception) and not isinstance(error, (errors.OpError, MemoryError)):
            raise self._error(error) from error


def _pixels(picture: Any, channels: int) -> AnyArray:
    mode = picture.mode
    if mode in ("I;16", "I;16B", "I"):  # 16 bits of grey
        grey = np.asarray(picture).astype(np.uint16)[..., None]
        if channels in (0, 1):
            return grey
        full = np.full_like(grey, 0xFFFF)
        return np.concatenate({2: [grey, full], 3: [grey] * 3, 4: [grey, grey, grey, full]}[channels], -1)
    wanted = _MODES[channels] if channels else _natural(picture)
    if mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")
    array = np.asarray(picture if picture.mode == wanted else picture.convert(wanted), np.uint8)
    return np.array(array if array.ndim == 3 else array[..., None])


def _natural(picture: Any) -> str:
    """The mode in which nothing is lost and nothing is added."""
    if picture.mode == "P":
        return "RGBA" if "transparency" in picture.info else "RGB"
    return {"1": "L", "L": "L", "LA": "LA", "RGBA": "RGBA", "PA": "RGBA"}.get(picture.mode, "RGB")


def encoded_png(pixels: AnyArray, compression: int) -> bytes:
    """The PNG of [height, width, channels] of uint8, or of uint16 with one channel."""
    image = pillow()
    flat = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    file = io.BytesIO()
    options = {} if compression < 0 else {"compress_level": compression}
    image.fromarray(np.ascontiguousarray(flat)).save(file, "PNG", **options)
    return file.getvalue()


def encoded_jpeg(pixels: AnyArray, **options: Any) -> bytes:
    """The JPEG of [height, width, 1 or 3] of uint8."""
    image = pillow()
    file = io.BytesIO()
    flat = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    image.fromarray(np.ascontiguousarray(flat)).save(file, "JPEG", **options)
    return file.getvalue()
