"""Frames of websockets, once the websocket is agreed on [RFC 6455 sections 5.2 and 5.3]."""

import os
import struct
from typing import Final, NamedTuple

import numpy as np

from aioflow.net.wire.framing import Frame

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10

LONGEST_HEAD: Final = 14
_LONGEST_CONTROL: Final = 125
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_SHORT: Final = struct.Struct(">BBH")
_LONG: Final = struct.Struct(">BBQ")
_SMALL: Final = 256
"""Bytes that are masked as one number: for so few, NumPy takes longer."""


class FrameError(Exception):
    """What came is no frame that may come here."""


class Head(NamedTuple):
    """What a frame begins with, and where the rest of it is.

    Attributes:
        opcode: which kind it is.
        final: whether it ends a message.
        start: where its payload begins.
        end: where it ends.
        mask: what the payload is masked with; empty for nothing.
    """

    opcode: int
    final: bool
    start: int
    end: int
    mask: bytes


def head_at(data: memoryview, at: int, end: int, most: int, masked: bool) -> Head | None:
    """The head of the frame that begins at `at`, if it is there before `end`.

    FrameError if such a frame may not come: it is `masked` or not, against the rule, or has more than `most` bytes.
    """
    if end - at < 2:
        return None
    first, second = data[at], data[at + 1]
    opcode, nbytes, start = first & 0x0F, second & 0x7F, at + 2
    if first & 0x70 or opcode not in (BINARY, CONTINUATION, TEXT, CLOSE, PING, PONG):
        raise FrameError("a frame of a kind came that is not agreed on")
    if bool(second & _MASKED) is not masked:
        raise FrameError("a frame came that is masked" if not masked else "a frame came that is not masked")
    if nbytes > _LONGEST_CONTROL:
        width = 2 if nbytes == 126 else 8
        start += width
        if end < start:
            return None
        nbytes = int.from_bytes(data[start - width : start], "big")
    final = bool(first & _FINAL)
    if opcode >= CLOSE and (nbytes > _LONGEST_CONTROL or not final):
        raise FrameError("a control frame came that is too long, or in parts")
    if nbytes > most:
        raise FrameError(f"a frame of {nbytes} bytes came, {most} are the most")
    if not masked:
        return Head(opcode, final, start, start + nbytes, b"")
    start += 4
    if end < start:
        return None
    return Head(opcode, final, start, start + nbytes, bytes(data[start - 4 : start]))


def masked(data: Frame, mask: bytes) -> Frame:
    """`data`, masked or unmasked with these 4 bytes."""
    nbytes = len(data)
    if nbytes <= _SMALL:
        repeated = mask * (nbytes // 4 + 1)
        number = int.from_bytes(data, "little") ^ int.from_bytes(repeated[:nbytes], "little")
        return number.to_bytes(nbytes, "little")
    found = np.empty(-(-nbytes // 4), "<u4")
    found.view(np.uint8)[:nbytes] = np.frombuffer(data, np.uint8)
    np.bitwise_xor(found, np.frombuffer(mask, "<u4"), out=found)
    return found.view(np.uint8)[:nbytes].data


def frame(opcode: int, data: Frame, mask: bool) -> tuple[bytes, Frame]:
    """The head and the payload of a frame that is whole; both ends of a websocket know who of them has to `mask`."""
    nbytes, flag = len(data), _MASKED if mask else 0
    if nbytes <= _LONGEST_CONTROL:
        head = bytes((_FINAL | opcode, flag | nbytes))
    elif nbytes < 1 << 16:
        head = _SHORT.pack(_FINAL | opcode, flag | 126, nbytes)
    else:
        head = _LONG.pack(_FINAL | opcode, flag | 127, nbytes)
    if not mask:
        return head, data
    key = os.urandom(4)
    return head + key, masked(data, key)
