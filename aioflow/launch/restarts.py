"""How soon, and how often, a task that died is started again."""

from collections import deque
from typing import Final

WINDOW: Final = 600.0
"""Seconds: deaths that are longer ago do not count."""
_FIRST: Final = 0.5
_LONGEST: Final = 30.0
"""Seconds that a task waits before it is started again: the first time, and at most."""


class Restarts:
    """The deaths of one task. Each within ten minutes makes the next wait twice as long.

    Args:
        most: how often it may be started again within that time; 0 for never.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._deaths: Final[deque[float]] = deque()

    def delay(self, now: float) -> float | None:
        """The task died at `now`, in seconds. Returns how long to wait, None if it is not to be started again."""
        while self._deaths and self._deaths[0] <= now - WINDOW:
            self._deaths.popleft()
        if len(self._deaths) >= self._most:
            return None
        self._deaths.append(now)
        wait: float = min(_LONGEST, _FIRST * 2 ** (len(self._deaths) - 1))
        return wait


__all__ = ["WINDOW", "Restarts"]
