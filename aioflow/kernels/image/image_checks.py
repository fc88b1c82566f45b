"""Checks that PNG, GIF and BMP files are complete: Pillow decodes damaged ones to fewer frames, or to black pixels."""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

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
