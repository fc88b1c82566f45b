"""Which checkpoints stay: the decision alone, for whoever saves them to carry out."""

import math
import os
import re
from collections.abc import Iterable
from typing import Final

_NUMBER: Final = re.compile(r"-\d+$")


class Retention:
    """The last checkpoints, and one every so many hours for ever. As TensorFlow's Saver does.

    Args:
        max_to_keep: how many of the last ones stay; all if 0.
        keep_checkpoint_every_n_hours: of those that would go, one for each so many hours stays.
        now: when that begins, in seconds.
    """

    def __init__(self, max_to_keep: int = 5, keep_checkpoint_every_n_hours: float = math.inf, now: float = 0.0) -> None:
        if max_to_keep < 0 or not keep_checkpoint_every_n_hours > 0:
            raise ValueError(
                f"max_to_keep is at least 0 and keep_checkpoint_every_n_hours more than 0, not {max_to_keep} and "
                f"{keep_checkpoint_every_n_hours}"
            )
        self._most: Final = max_to_keep
        self._every: Final = keep_checkpoint_every_n_hours * 3600
        self._next = now + self._every
        self._last: dict[str, tuple[str, float]] = {}
        self._earlier: list[tuple[str, float]] = []

    @property
    def last(self) -> list[tuple[str, float]]:
        """The last checkpoints, those that may go yet, and when they were saved; the newest last."""
        return [*self._last.values()]

    def recover(self, last: Iterable[tuple[str, float]]) -> None:
        """These are the last checkpoints, and when they were saved, as of a process that was there before."""
        self._earlier = []
        self._last = {_place(path): (path, time) for path, time in last}

    def find(self, earlier: Iterable[tuple[str, float]]) -> None:
        """The same of those that count only if they are of the series of the first that is saved.

        Others of the same folder may be another's.
        """
        self._earlier = [*earlier]

    def saved(self, path: str, now: float) -> list[str]:
        """A checkpoint was saved: the paths of those to delete, oldest first. One of the same path was replaced.

        Paths are the same if they lead to the same place, however they are spelled.
        """
        place = _place(path)
        self._count_earlier(series(place))
        self._last.pop(place, None)
        self._last[place] = path, now
        going = [*self._last][: -self._most] if self._most else []
        return [old for old, time in map(self._last.pop, going) if self._goes(time)]

    def _count_earlier(self, wanted: str) -> None:
        found = {place: (path, time) for path, time in self._earlier if series(place := _place(path)) == wanted}
        self._last, self._earlier = {**found, **self._last}, []

    def _goes(self, time: float) -> bool:
        if time <= self._next:
            return True
        self._next += self._every
        return False


def series(path: str) -> str:
    """What those are called that differ in their steps only: `model.ckpt` of `model.ckpt-7`."""
    return _NUMBER.sub("", path)


def _place(path: str) -> str:
    """The same for all spellings of a path, as far as that can be told without looking for links."""
    local = path.removeprefix("file://")
    return path.rstrip("/") if "://" in local else os.path.abspath(local)
