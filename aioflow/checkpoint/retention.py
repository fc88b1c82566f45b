"""Decides which checkpoints to delete. The caller deletes them."""

import math
import os
import re
from collections.abc import Iterable
from typing import Final

_NUMBER: Final = re.compile(r"-\d+$")


class Retention:
    """Keeps the last checkpoints, and one every few hours for ever, as TensorFlow's Saver does.

    Args:
        max_to_keep: number of the last checkpoints to keep; 0 for all.
        keep_checkpoint_every_n_hours: of the older ones, one per this many hours stays.
        now: start of the first such period, in seconds.
    """

    def __init__(self, max_to_keep: int = 5, keep_checkpoint_every_n_hours: float = math.inf, now: float = 0.0) -> None:
        if max_to_keep < 0 or not keep_checkpoint_every_n_hours > 0:
            raise ValueError(
                f"max_to_keep must be at least 0 and keep_checkpoint_every_n_hours more than 0, not {max_to_keep} and "
                f"{keep_checkpoint_every_n_hours}"
            )
        self.max_to_keep: Final = max_to_keep
        self.every_hours: Final = keep_checkpoint_every_n_hours
        self._every: Final = keep_checkpoint_every_n_hours * 3600
        self._next = now + self._every
        self._last: dict[str, tuple[str, float]] = {}
        self._earlier: list[tuple[str, float]] = []

    @property
    def last(self) -> list[tuple[str, float]]:
        """(path, seconds when it was saved) of the checkpoints that may still be deleted, newest last."""
        return [*self._last.values()]

    def recover(self, last: Iterable[tuple[str, float]]) -> None:
        """Continue with the last checkpoints of an earlier process, given as (path, seconds when it was saved)."""
        self._earlier = []
        self._last = {_normalize(path): (path, time) for path, time in last}

    def find(self, earlier: Iterable[tuple[str, float]]) -> None:
        """Continue with those of the checkpoints that turn out to belong to the same series as the first one saved.

        The others in the folder may belong to another saver.
        """
        self._earlier = [*earlier]

    def saved(self, path: str, now: float) -> list[str]:
        """Note that a checkpoint was saved at `path`. Returns the paths to delete, oldest first.

        The same path twice counts as one replaced checkpoint, also if it is spelled in another way.
        """
        place = _normalize(path)
        self._count_earlier(series(place))
        self._last.pop(place, None)
        self._last[place] = path, now
        going = [*self._last][: -self.max_to_keep] if self.max_to_keep else []
        return [old for old, time in map(self._last.pop, going) if self._is_dropped(time)]

    def _count_earlier(self, wanted: str) -> None:
        found = {place: (path, time) for path, time in self._earlier if series(place := _normalize(path)) == wanted}
        self._last, self._earlier = {**found, **self._last}, []

    def _is_dropped(self, time: float) -> bool:
        if time <= self._next:
            return True
        self._next += self._every
        return False


def series(path: str) -> str:
    """Return the path without its step: `model.ckpt` for `model.ckpt-7`."""
    return _NUMBER.sub("", path)


def _normalize(path: str) -> str:
    """Return the same text for all spellings of a path, except through links, which it does not look up."""
    local = path.removeprefix("file://")
    return path.rstrip("/") if "://" in local else os.path.abspath(local)
