"""Decides whether a dead task restarts, and after which delay."""

from collections import deque
from typing import Final

WINDOW: Final = 600.0
"""Seconds after which a death no longer counts."""
_FIRST: Final = 0.5
_LONGEST: Final = 30.0
"""Seconds before a restart: before the first one, and at most."""


class Restarts:
    """The deaths of one task. Each death within ten minutes doubles the delay of the next restart.

    Args:
        most: the most restarts within that time; 0 for none.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._deaths: Final[deque[float]] = deque()

    def delay(self, now: float) -> float | None:
        """Record a death at `now`, in seconds. Returns the delay before the restart; None if there is no restart."""
        while self._deaths and self._deaths[0] <= now - WINDOW:
            self._deaths.popleft()
        if len(self._deaths) >= self._most:
            return None
        self._deaths.append(now)
        wait: float = min(_LONGEST, _FIRST * 2 ** (len(self._deaths) - 1))
        return wait
