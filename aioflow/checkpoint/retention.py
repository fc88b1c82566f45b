"""Which checkpoints stay: the decision alone, for whoever saves them to carry out."""

import math
from collections.abc import Iterable
from typing import Final


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
        self._last: dict[str, float] = {}

    @property
    def last(self) -> list[tuple[str, float]]:
        """The last checkpoints, those that may go yet, and when they were saved; the newest last."""
        return [*self._last.items()]

    def recover(self, last: Iterable[tuple[str, float]]) -> None:
        """These are the last checkpoints, and when they were saved, as of a process that was there before."""
        self._last = dict(last)

    def saved(self, path: str, now: float) -> list[str]:
        """A checkpoint was saved: the paths of those to delete, oldest first. One of the same path was replaced."""
        self._last.pop(path, None)
        self._last[path] = now
        going = [*self._last.items()][: -self._most] if self._most else []
        return [old for old, time in going if self._goes(old, time)]

    def _goes(self, path: str, time: float) -> bool:
        del self._last[path]
        if time <= self._next:
            return True
        self._next += self._every
        return False


__all__ = ["Retention"]
