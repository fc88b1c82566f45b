"""Keeps the sent frames of a link that the peer may not have received, to send them again over a new channel.

A position counts the bytes of all frames in one direction since the connection was made. The peer reports its position
now and then, and the log drops the frames before it. A frame that is a view of an array keeps the array alive.
"""

from collections import deque
from typing import Final

from aioflow.net.wire.framing import Frame


class SentLog:
    """The sent frames from some position on.

    Attributes:
        end: the position after the last frame.
    """

    __slots__ = ("_frames", "_start", "end")

    def __init__(self) -> None:
        self.end: int = 0
        self._start = 0
        self._frames: Final[deque[Frame]] = deque()

    @property
    def nbytes(self) -> int:
        """The bytes of the kept frames."""
        return self.end - self._start

    def append(self, frame: Frame) -> None:
        """Add a frame."""
        self._frames.append(frame)
        self.end += len(frame)

    def forget(self, position: int) -> None:
        """Drop the frames that the peer has received whole. ValueError if the position lies beyond the sent bytes."""
        if position > self.end:
            raise ValueError(f"the peer has received {position} bytes, but only {self.end} were sent")
        while self._frames and self._start + len(self._frames[0]) <= position:
            self._start += len(self._frames.popleft())

    def keeps(self, position: int) -> bool:
        """Whether all frames after that position are kept, and the position was reached."""
        return self._start <= position <= self.end

    def after(self, position: int) -> deque[Frame]:
        """The frames that the peer lacks, the first one without its part before the position.

        Raises ValueError if they are not kept.
        """
        if not self.keeps(position):
            raise ValueError(
                f"the peer needs the bytes from {position} on, but only those from {self._start} on are kept"
            )
        self.forget(position)
        frames = self._frames.copy()
        if position > self._start:
            frames[0] = frames[0][position - self._start :]
        return frames
