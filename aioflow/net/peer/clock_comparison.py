"""Compares the clock of this task's traces with that of a peer, by pings and their answers."""

import asyncio
import math
import time
from typing import Final

_FORGETS: Final = 1.1
"""The shortest round trip grows by this factor each time: an old one says little about clocks that drift."""


class ClockComparison:
    """The round trips to one peer. They are timed by the loop's clock.

    Attributes:
        round_trip: seconds from the last ping to its pong; None before the first.
        offset: seconds by which the peer's clock was ahead of this one then.
    """

    def __init__(self) -> None:
        self.round_trip: float | None = None
        self.offset: float = 0.0
        self._shortest = math.inf
        self._pinged = 0.0, 0.0
        """When the peer was asked the last time: on the loop's clock, and on that of traces."""

    @staticmethod
    def now() -> float:
        """The time on the clock of this task's traces."""
        return time.perf_counter()

    def ping(self) -> float:
        """The time on the loop's clock, at which the peer is asked now."""
        self._pinged = asyncio.get_running_loop().time(), self.now()
        return self._pinged[0]

    def pong(self, asked: float, clock: float) -> None:
        """The peer has answered what it was asked at that time, with its clock."""
        self.round_trip = asyncio.get_running_loop().time() - asked
        if asked == self._pinged[0]:
            now = self.now()
            trip = now - self._pinged[1]
            if trip < self._shortest:  # the offset is known the better the shorter the trip
                self.offset = clock - (now + self._pinged[1]) / 2
            self._shortest = min(trip, _FORGETS * self._shortest)
