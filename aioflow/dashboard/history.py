"""Series of numbers in bounded memory: the older a number, the coarser it is kept.

A series has levels. New numbers go into the first one. When a level is full, its two oldest numbers become one, their
mean, in the next level, so each level has half the resolution of the one before it and twice its length in time. What
the last level cannot hold is forgotten: after 127 times as many numbers as a level holds.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from aioflow.dashboard.messages import History, SeriesHistory, clip

LEVELS: Final = 7
LENGTH: Final = 120
"""Numbers of a level: with two numbers a second, the levels hold two hours."""
MOST: Final = 128
"""The most series that are kept; further series are left out."""


class Series:
    """The numbers of one series."""

    def __init__(self) -> None:
        self._levels: Final = [deque[tuple[float, float]]() for _ in range(LEVELS)]

    def add(self, time: float, value: float) -> None:
        """Add a number, which is newer than all others."""
        point = time, value
        for level in self._levels:
            level.append(point)
            if len(level) <= LENGTH:
                return
            first, second = level.popleft(), level.popleft()
            point = second[0], (first[1] + second[1]) / 2

    def message(self) -> SeriesHistory:
        """All its numbers, the oldest first."""
        points = [point for level in reversed(self._levels) for point in level]
        return SeriesHistory(tuple([time for time, _ in points]), tuple([value for _, value in points]))


class SeriesTable:
    """Series by name."""

    def __init__(self) -> None:
        self._series: Final[dict[str, Series]] = {}

    def known(self, values: Mapping[str, float]) -> dict[str, float]:
        """The numbers without those of series for which there is no room."""
        found = {clip(name): value for name, value in values.items()}
        room = MOST - len(self._series)
        for name in [name for name in found if name not in self._series]:
            if room > 0:
                self._series[name] = Series()
                room -= 1
            else:
                del found[name]
        return found

    def add(self, time: float, values: Mapping[str, float]) -> None:
        """Add numbers of series that are known."""
        for name, value in values.items():
            self._series[name].add(time, value)

    def restart(self, history: History) -> None:
        """Replace all series by those of the history."""
        self._series.clear()
        for name in self.known(dict.fromkeys(history.series, 0.0)):
            points = history.series[name]
            for time, value in zip(points.times, points.values, strict=True):
                self._series[name].add(time, value)

    def message(self) -> History:
        """All numbers of all series."""
        return History({name: series.message() for name, series in self._series.items()})
