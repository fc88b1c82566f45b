"""Encodes and decodes the frames of a websocket after its handshake [RFC 6455 sections 5.2 and 5.3]."""

import struct
from collections.abc import Callable, Container
from typing import Final, NamedTuple

import numpy as np

from aioflow.net.transport.masking import ZERO, unmask
from aioflow.net.wire.framing import Frame

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
SHARED: Final = 3
RETURNED: Final = 4
FORGOTTEN: Final = 5
DISCARDED: Final = 6
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10

STANDARD: Final = frozenset((CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
OF_ONE_HOST: Final = frozenset((BINARY, SHARED, RETURNED, FORGOTTEN, DISCARDED, CLOSE))
"""The kinds of frames between processes of one host, four of which the standard leaves to applications."""

LONGEST_HEAD: Final = 14
_LONGEST_CONTROL: Final = 125
_FINAL: Final = 0x80
_MASKED: Final = 0x80
_SHORT: Final = struct.Struct(">BBH")
_LONG: Final = struct.Struct(">BBQ")
_WHOLE_BINARY: Final = _FINAL | BINARY
_TWO_BYTES: Final = 126
"""Stands for a length in the two bytes that follow."""


class FrameError(Exception):
    """A received frame is malformed, or not allowed at this point."""


class Head(NamedTuple):
    """The decoded head of a frame.

    Attributes:
        opcode: the kind of frame.
        final: whether the frame ends a message.
        start: where the payload begins.
        end: where the payload ends.
        mask: the key that masks the payload; empty for none, and for one that changes nothing.
    """

    opcode: int
    final: bool
    start: int
    end: int
    mask: bytes


def head_at(
    data: memoryview, at: int, end: int, most: int, masked: bool, opcodes: Container[int] = STANDARD
) -> Head | None:
    """The head of the frame that begins at `at`, if it is there before `end`.

    FrameError if such a frame may not come: it is not one of the `opcodes`, it is `masked` or not, against the rule, or
    has more than `most` bytes.
    """
    if end - at < 2:
        return None
    first, second = data[at], data[at + 1]
    opcode, nbytes, start = first & 0x0F, second & 0x7F, at + 2
    if first & 0x70 or opcode not in opcodes:
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
    key = bytes(data[start - 4 : start])
    return Head(opcode, final, start, start + nbytes, b"" if key == ZERO else key)


def frame_head(opcode: int, nbytes: int, key: bytes) -> bytes:
    """The head of a whole frame. `key` masks the payload; it is empty for none."""
    flag = _MASKED if key else 0
    if nbytes <= _LONGEST_CONTROL:
        head = bytes((_FINAL | opcode, flag | nbytes))
    elif nbytes < 1 << 16:
        head = _SHORT.pack(_FINAL | opcode, flag | 126, nbytes)
    else:
        head = _LONG.pack(_FINAL | opcode, flag | 127, nbytes)
    return head + key


# Reading

_READ: Final = 1 << 18
"""Bytes that are read at a time, at most: they should still be in the processor's cache when they are copied on."""
_READ_HEAD: Final = 1 << 12
"""So many of a frame whose other bytes go straight to where they belong."""


class FrameReader:
    """Takes frames out of received bytes. A frame that was taken is valid until the next call of `room`.

    Attributes:
        at: the position of the next byte to take.
        filled: the position after the last received byte.
        left: bytes that have not come of a frame that is taken in parts.
    """

    def __init__(self, longest: int, masked: bool, opcodes: Container[int] = STANDARD) -> None:
        """Start without bytes.

        Args:
            longest: the most bytes of a frame.
            masked: whether the other end must mask its frames.
            opcodes: the kinds of frames that may come.
        """
        self.left: int = 0
        self._longest: Final = longest
        self._masked: Final = masked
        self._opcodes: Final = opcodes
        self._memory: Final = np.empty(longest + LONGEST_HEAD, np.uint8).data
        self.at: int = 0
        self.filled: int = 0
        self._most = _READ
        self._mask = b""
        """The mask of the remaining bytes."""
        self._parts: bytearray | None = None
        """The received parts of a fragmented message; a proxy may fragment messages."""

    def room(self) -> memoryview:
        """Return the memory into which the next bytes may be read."""
        left = self.filled - self.at
        if left and self.at:
            self._memory[:left] = self._memory[self.at : self.filled]
        self.at, self.filled = 0, left
        return self._memory[left : left + self._most]

    def add(self, nbytes: int) -> None:
        """Count bytes that were read into it."""
        self.filled += nbytes
        if nbytes == self._most:
            self._most = _READ

    @property
    def wants(self) -> int:
        """So many bytes that come next are all of one frame, to be read elsewhere and counted by `add_elsewhere`."""
        return 0 if self.at < self.filled else self.left

    def add_elsewhere(self, data: memoryview) -> None:
        """These are some of them. They are unmasked there."""
        self.left -= len(data)
        if self._mask:
            self._mask = unmask(data, self._mask)

    def take_short(self) -> Frame | None:
        """The payload of the next frame, if the frame is whole, short, unmasked and BINARY, as most are; else None.

        `take` takes the other frames.
        """
        at, filled, memory = self.at, self.filled, self._memory
        if at + 4 > filled or memory[at] != _WHOLE_BINARY or self.left or self._masked or self._parts is not None:
            return None
        start, nbytes = at + 2, memory[at + 1]
        if nbytes == _TWO_BYTES:
            start, nbytes = at + 4, memory[at + 2] << 8 | memory[at + 3]
        elif nbytes > _LONGEST_CONTROL:
            return None
        if start + nbytes > filled or nbytes > self._longest:
            return None
        self.at = start + nbytes
        return memory[start : self.at]

    def take(self, raw: Callable[[], int]) -> tuple[int, Frame] | None:
        """Return the opcode and the payload of the next frame; None until it has arrived.

        The frames of a fragmented message give CONTINUATION and no bytes, and the last of them BINARY and the whole
        payload. A frame of up to `raw()` bytes is taken part by part, as it arrives. FrameError for a frame that is
        malformed or not allowed.
        """
        if self.left:
            return self._take_part()
        head = head_at(self._memory, self.at, self.filled, self._longest, self._masked, self._opcodes)
        if head is None:
            return None
        if head.end <= self.filled:
            self.at = head.end
            payload = self._memory[head.start : head.end]
            if head.mask:
                unmask(payload, head.mask)
            return self._whole(head, payload)
        if head.opcode == BINARY and head.final and self._parts is None and head.end - head.start <= raw():
            self.at, self.left, self._mask = head.start, head.end - head.start, head.mask
            self._most = _READ_HEAD
            return self._take_part()
        return None

    def _take_part(self) -> tuple[int, Frame] | None:
        """Return the received part of a frame that is taken in parts."""
        start, self.at = self.at, min(self.at + self.left, self.filled)
        nbytes = self.at - start
        if not nbytes:
            return None
        self.left -= nbytes
        part = self._memory[start : self.at]
        if self._mask:
            self._mask = unmask(part, self._mask)
        return BINARY, part

    def _whole(self, head: Head, payload: Frame) -> tuple[int, Frame]:
        """A frame, or the message whose last part it is."""
        alone = head.opcode == BINARY and head.final and self._parts is None
        if alone or head.opcode not in (BINARY, CONTINUATION):
            return head.opcode, payload
        if (self._parts is None) is (head.opcode == CONTINUATION):
            raise FrameError("a continuation frame came without a fragmented message, or a new message within one")
        parts = self._parts = bytearray() if self._parts is None else self._parts
        parts += payload
        if len(parts) > self._longest:
            raise FrameError(f"a message of {len(parts)} bytes came in parts, {self._longest} are the most")
        if not head.final:
            return CONTINUATION, b""
        self._parts = None
        return BINARY, memoryview(parts)
