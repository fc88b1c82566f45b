"""The frames that a link has sent and that the peer may not have received yet, to be sent again over a new channel.

A position is a number of bytes: of all frames since the connection was made, in one direction. The peer tells its
position now and then, and the log forgets the frames before it. A frame that shows an array keeps that array alive.
"""

from collections import deque
from typing import Final

from aioflow.net.framing import Frame


class SentLog:
    """The frames from some position on.

    Attributes:
        end: the position after the last frame.
    """

    __slots__ = ("_frames", "_start", "end")

    def __init__(self) -> None:
        self.end = 0
        self._start = 0
        self._frames: Final[deque[Frame]] = deque()

    @property
    def nbytes(self) -> int:
        """Bytes of the frames that are kept."""
        return self.end - self._start

    def append(self, frame: Frame) -> None:
        """Keeps one more frame."""
        self._frames.append(frame)
        self.end += len(frame)

    def forget(self, position: int) -> None:
        """Drops the frames that the peer has received whole. ValueError if the position was never reached."""
        if position > self.end:
            raise ValueError(f"{position} bytes were received, and {self.end} were sent")
        while self._frames and self._start + len(self._frames[0]) <= position:
            self._start += len(self._frames.popleft())

    def keeps(self, position: int) -> bool:
        """Whether all frames after that position are kept, and it was reached."""
        return self._start <= position <= self.end

    def after(self, position: int) -> deque[Frame]:
        """The frames that the peer has not received, the first without its part before the position.

        ValueError if they are not kept.
        """
        if not self.keeps(position):
            raise ValueError(f"the bytes from {position} on are wanted, and those from {self._start} on are kept")
        self.forget(position)
        frames = self._frames.copy()
        if position > self._start:
            frames[0] = frames[0][position - self._start :]
        return frames


__all__ = ["SentLog"]
