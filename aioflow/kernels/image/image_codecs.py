"""Decode and encode PNG, JPEG, GIF and BMP through Pillow, which is imported at first use.

The codecs read and check the size in an image's header before they decode. They refuse a PNG with fewer pixels than
its header states, and any truncated file, which Pillow would decode to fewer frames or to black pixels.
"""

import io
import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.tensors.as_array import AnyArray

SAMPLES: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Samples of a pixel, by PNG's type of colour."""
_PASSES: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Of each pass of an interlaced PNG: its first column and row, the distance of its columns and rows."""
_PIECE: Final = 1 << 16
"""Bytes that are decompressed at a time."""


def chunks_of_png(data: bytes) -> list[memoryview]:
    """The chunks of pixels, after all chunks were compared with their checksums. ValueError if they disagree."""
    view, at = memoryview(data), 8
    pixels: list[memoryview] = []
    while True:
        if at + 12 > len(data):
            raise ValueError(f"it is truncated at byte {len(data)}")
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            raise ValueError(f"a chunk of {length} bytes at byte {at} is truncated at byte {len(data)}")
        if zlib.crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            raise ValueError(f"a chunk of {length} bytes at byte {at} disagrees with its checksum")
        if name == b"IDAT":
            pixels.append(view[at + 8 : end])
        if name == b"IEND":
            return pixels
        at = end + 4


def is_interlaced(data: bytes) -> bool:
    """Whether the rows of a PNG come in several passes, by its header."""
    return bool(data[28])


def check_pixels_of_png(data: bytes, chunks: list[memoryview]) -> None:
    """ValueError if the chunks hold fewer pixels than the header states."""
    wanted, held = sum(_passes(data)), 0
    stream = zlib.decompressobj()
    for chunk in chunks:
        piece: bytes | memoryview = chunk
        while len(piece) and held < wanted and not stream.eof:
            held += len(stream.decompress(piece, _PIECE))
            piece = stream.unconsumed_tail
    if held < wanted:
        raise ValueError(f"it holds {held} bytes of pixels, and its size takes {wanted}")


def _passes(data: bytes) -> Iterator[int]:
    """The bytes of each pass, one pass if not interlaced; each row begins with one byte for its filter."""
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    for left, top, across, down in _PASSES if is_interlaced(data) else [(0, 0, 1, 1)]:
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            yield rows * (1 + -(-columns * depth * SAMPLES[colour] // 8))


def check_bmp(data: bytes) -> None:
    """ValueError if the BMP is not compressed and has too few bytes for the size in its header."""
    width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    wanted = (abs(width) * bits + 7) // 8 * abs(height)
    if compression not in (1, 2) and wanted > len(data):
        raise ValueError(
            f"{len(data)} bytes cannot hold a BMP of {abs(height)} x {abs(width)} pixels: its header is forged"
        )


def measured_gif(data: bytes) -> tuple[int, int, int]:
    """The number of frames, and the height and width that contain all of them, without decoding.

    ValueError if the GIF ends before its trailer.
    """
    try:
        sizes = list(_sizes_of_gif(data))
    except (IndexError, struct.error):
        raise ValueError(f"it is truncated at byte {len(data)}") from None
    return len(sizes) - 1, *sizes[-1]


def size_of_gif(data: bytes) -> tuple[int, int]:
    """The height and width of the first picture. Raises ValueError, IndexError or struct.error if it is damaged."""
    sizes = _sizes_of_gif(data)
    screen = next(sizes)
    return next(sizes, screen)


def _sizes_of_gif(data: bytes) -> Iterator[tuple[int, int]]:
    """The height and width of the screen, then those after each picture, which enlarges a screen it does not fit."""
    width, height = struct.unpack_from("<HH", data, 6)
    yield height, width
    at = _behind_colours(data, 10) + 2
    while data[at] != 0x3B:
        if data[at] == 0x21:
            at = _behind_blocks(data, at + 2)
        elif data[at] == 0x2C:
            left, top, across, down = struct.unpack_from("<HHHH", data, at + 1)
            height, width = max(height, top + down), max(width, left + across)
            yield height, width
            at = _behind_blocks(data, _behind_colours(data, at + 9) + 1)
        else:
            raise ValueError(f"neither a picture nor its end is at byte {at}")


def _behind_colours(data: bytes, at: int) -> int:
    """Where the table of colours ends whose flags stand there."""
    flags = data[at]
    return at + 1 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)


def _behind_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += 1 + data[at]
    return at + 1


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
            return *size_of_gif(data), 3
        check_bmp(data)
        width, height = struct.unpack_from("<ii", data, 18)
        return abs(height), abs(width), 3
    except (struct.error, IndexError):
        raise ValueError(f"the header of the {kind} is truncated at {len(data)} bytes") from None


def _size_of_png(data: bytes) -> tuple[int, int, int]:
    length, name, width, height, depth, colour = struct.unpack_from(">I4sIIBB", data, 8)
    if length != 13 or name != b"IHDR" or colour not in SAMPLES:
        raise ValueError("the header of the PNG is damaged")
    if width * height * depth * SAMPLES[colour] > 8 * _STEEPEST * len(data):
        raise ValueError(f"{len(data)} bytes cannot hold a PNG of {height} x {width} pixels: its header is forged")
    return height, width, {3: 3}.get(colour, SAMPLES[colour])


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
    chunks = chunks_of_png(data)
    picture.load()
    width, height = picture.size
    counted = is_interlaced(data) or width * height < _SMALL
    if counted or not np.asarray(picture.crop((0, height - 1, width, height))).any():
        check_pixels_of_png(data, chunks)


def _reduced(picture: Any, ratio: int) -> Any:
    """The JPEG at a fraction of its size, decoded at no more than that where the format can."""
    width, height = picture.size
    size = (-(-width // ratio), -(-height // ratio))
    picture.draft(None, size)
    return picture if picture.size == size else picture.resize(size)


def frames(data: bytes, channels: int = 3) -> AnyArray:
    """The pictures of an animated GIF, [frames, height, width, channels]."""
    with _opened(data, "GIF") as picture:
        count, height, width = measured_gif(data)
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
    return math.prod(measured_gif(data)) * channels


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
