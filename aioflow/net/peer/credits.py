"""Back-pressure: what a peer is ready to receive."""

import asyncio
from collections import deque
from typing import Final

from aioflow.net.transport.channel import ClosedError, Reason


class Credits:
    """The bytes, or the requests, that a peer is ready to receive. A sender takes credit first; senders wait in order.

    Attributes:
        left: how many may be taken.
    """

    __slots__ = ("_closed", "_waiting", "_window", "left")

    def __init__(self, window: int) -> None:
        self._window: Final = window
        self.left: int = window
        self._waiting: Final[deque[tuple[int, asyncio.Future[None]]]] = deque()
        self._closed: Reason | None = None

    async def take(self, nbytes: int) -> None:
        """Wait for credit for `nbytes`, at most the window. A cancelled call takes none."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        if self.take_at_once(nbytes):
            return
        place = nbytes, asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place[1]
        except BaseException:
            if place in self._waiting:
                self._waiting.remove(place)
            elif not place[1].cancelled():
                self.left += nbytes
            self._serve()
            raise

    def take_at_once(self, nbytes: int) -> bool:
        """Take credit if it is there and no other sender waits for it."""
        if self._waiting or nbytes > self.left or self._closed is not None:
            return False
        self.left -= nbytes
        return True

    def give(self, nbytes: int) -> None:
        """Add credits for this many bytes; the credits never exceed the window."""
        self.left = min(self._window, self.left + nbytes)
        self._serve()

    def close(self, reason: Reason) -> None:
        """Fail all present and future calls of `take` with a ClosedError."""
        self._closed = self._closed or reason
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(ClosedError(reason))

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.left:
            nbytes, future = self._waiting.popleft()
            if not future.done():
                self.left -= nbytes
                future.set_result(None)
