"""What has come over a websocket: bytes as they were read, taken as frames."""

from typing import Final

import numpy as np

from aioflow.net.transport import websocket_frames as frames
from aioflow.net.transport.websocket_frames import FrameError, Head
from aioflow.net.wire.framing import Frame

_READ: Final = 1 << 18
"""Bytes that are read at a time, at most: they should still be in the processor's cache when they are copied on."""
_READ_HEAD: Final = 1 << 12
"""So many of a frame whose other bytes go straight to where they belong."""


class Arrivals:
    """Add to it what was read, and take the frames. What was taken is there until `room` is asked for again."""

    def __init__(self, longest: int, masked: bool) -> None:
        """Nothing yet.

        Args:
            longest: bytes that a frame may have.
            masked: whether the other end has to mask what it sends.
        """
        self._left = 0
        """Bytes that have not come of a frame that is taken in parts."""
        self._longest: Final = longest
        self._masked: Final = masked
        self._memory: Final = np.empty(longest + frames.LONGEST_HEAD, np.uint8).data
        self._at = self._filled = 0
        self._most = _READ
        self._mask = b""
        """What the bytes that are left are masked with."""
        self._parts: bytearray | None = None
        """What has come of a message that comes in parts, as somebody between may cut it."""

    def room(self) -> memoryview:
        """Where to what comes next may be read."""
        left = self._filled - self._at
        if self._at:
            self._memory[:left] = self._memory[self._at : self._filled]
            self._at, self._filled = 0, left
        return self._memory[left : left + self._most]

    def add(self, nbytes: int) -> None:
        """So much was read there."""
        self._filled += nbytes
        if nbytes == self._most:
            self._most = _READ

    @property
    def wants(self) -> int:
        """So many bytes that come next are all of one frame, to be read elsewhere and counted by `add_elsewhere`."""
        return 0 if self._mask or self._at < self._filled else self._left

    def add_elsewhere(self, nbytes: int) -> None:
        """So many of them were."""
        self._left -= nbytes

    def take(self, raw: int) -> tuple[int, Frame] | None:
        """The opcode and the payload of the next frame, if it is there.

        What came in several frames is BINARY with the last of them, CONTINUATION and empty with those before. A frame
        of up to `raw` bytes is taken as it comes, part by part. FrameError if a frame came that may not.
        """
        if self._left:
            return self._take_part()
        head = frames.head_at(self._memory, self._at, self._filled, self._longest, self._masked)
        if head is None:
            return None
        if head.end <= self._filled:
            self._at = head.end
            payload: Frame = self._memory[head.start : head.end]
            return self._whole(head, frames.masked(payload, head.mask) if head.mask else payload)
        if head.opcode == frames.BINARY and head.final and self._parts is None and head.end - head.start <= raw:
            self._at, self._left, self._mask = head.start, head.end - head.start, head.mask
            self._most = _READ if head.mask else _READ_HEAD
            return self._take_part()
        return None

    def _take_part(self) -> tuple[int, Frame] | None:
        """What is there of a frame that is taken in parts."""
        start, self._at = self._at, min(self._at + self._left, self._filled)
        nbytes = self._at - start
        if not nbytes:
            return None
        self._left -= nbytes
        part: Frame = self._memory[start : self._at]
        if self._mask:
            part, turn = frames.masked(part, self._mask), nbytes % 4
            self._mask = self._mask[turn:] + self._mask[:turn] if self._left else b""
        return frames.BINARY, part

    def _whole(self, head: Head, payload: Frame) -> tuple[int, Frame]:
        """A frame, or the message whose last part it is."""
        alone = head.opcode == frames.BINARY and head.final and self._parts is None
        if alone or head.opcode not in (frames.BINARY, frames.CONTINUATION):
            return head.opcode, payload
        if (self._parts is None) is (head.opcode == frames.CONTINUATION):
            raise FrameError("a part of a message came where none can be")
        parts = self._parts = bytearray() if self._parts is None else self._parts
        parts += payload
        if len(parts) > self._longest:
            raise FrameError(f"a message of {len(parts)} bytes came in parts, {self._longest} are the most")
        if not head.final:
            return frames.CONTINUATION, b""
        self._parts = None
        return frames.BINARY, memoryview(parts)
