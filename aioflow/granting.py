"""Puts that wait: granted first, made when the caller goes on.

A put that can be done at once is done at once. One that has to wait is granted what it needs as soon as there is
enough, and its change is made when the caller goes on: a caller that is cancelled until then has changed nothing.
Puts that come meanwhile wait behind those that are granted, so that all go in in the order they came.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from aioflow.waiting import Attempt, Outcome, Waitable

DONE: Final[Outcome] = (None, None)


class Granting(Waitable):
    """What puts are made at."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._granted: Final[dict[Put, None]] = {}

    def _is_granting(self) -> bool:
        """Whether puts that are granted are still to be made. Those of closed loops never are."""
        for put in [put for put in self._granted if put.stranded]:
            del self._granted[put]
        return bool(self._granted)

    def servers_of(self, attempt: Attempt) -> Collection[str] | None:
        """The names of the operations that have done what it waits for; None while that cannot be told."""
        return None if self._granted else super().servers_of(attempt)

    def _finish(self, attempt: Attempt) -> Outcome:
        assert isinstance(attempt, Put)
        self._granted.pop(attempt, None)
        return (None, self._gone()) if self._gone is not None else attempt.refused() or attempt.insert()

    def _give_back(self, attempt: Attempt) -> None:
        if isinstance(attempt, Put):
            self._granted.pop(attempt, None)
        else:
            self._return(attempt)

    def _return(self, attempt: Attempt) -> None:
        """What an attempt took is there again. The lock is held."""
        raise NotImplementedError


class Put(Attempt):
    """The putting of something, in one piece."""

    __slots__ = ("_place",)

    def __init__(
        self, what: str, place: Granting, who: Any = None, serve: Callable[[], Outcome | None] | None = None
    ) -> None:
        super().__init__(what, serve or there, who)
        self._place: Final = place

    def refused(self) -> Outcome | None:
        """The outcome if it cannot be put at all."""
        raise NotImplementedError

    def fits(self) -> bool:
        """Whether there is room for it, beside what is granted."""
        raise NotImplementedError

    def insert(self) -> Outcome:
        """Put it."""
        raise NotImplementedError

    def try_now(self) -> Outcome | None:
        """Put it if there is room. If the caller waits, it is granted."""
        if self.serve is not there:
            return self.serve()
        if (refused := self.refused()) is not None:
            return refused
        if self.future is None and self._place._granted and self._place._is_granting():
            return None
        return self.advance()

    def advance(self) -> Outcome | None:
        """The same, of one that is not refused and has to wait for no other."""
        if not self.fits():
            return None
        if self.future is None:
            return self.insert()
        self.granted = True
        self._place._granted[self] = None
        return DONE


def there() -> Outcome:
    """What serves puts as long as nothing has ended the place."""
    return DONE


__all__ = ["DONE", "Granting", "Put", "there"]
