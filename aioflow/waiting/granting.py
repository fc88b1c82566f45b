"""Puts that wait for room: the object grants the room first, and the woken caller makes the change.

A put with enough room is done at once. A put that must wait is granted its room as soon as there is enough. The
change is made when its caller resumes, so a caller that is cancelled before has changed nothing. Later puts wait behind
the granted ones, so all puts of one loop are made in the order of their calls. Callers on several loops resume in any
order, and so do callers whose room another thread has made.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from aioflow.waiting.lines import Attempt, Outcome, Waitable

DONE: Final[Outcome] = (None, None)


class Granting(Waitable):
    """A queue or staging area whose puts are granted."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._granted: Final[dict[Put, None]] = {}

    def _is_granting(self) -> bool:
        """Whether some granted put is not made yet. Puts of closed loops do not count: they are never made."""
        for put in [put for put in self._granted if put.is_orphaned]:
            del self._granted[put]
        return bool(self._granted)

    def servers_of(self, attempt: Attempt) -> Collection[str] | None:
        """The names of the operations that have served such attempts; None, for unknown, while puts are granted."""
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
        """Put back the elements that an attempt took; a subclass defines how. The caller holds the lock."""
        raise NotImplementedError


class Put(Attempt):
    """The attempt to put something, all at once."""

    __slots__ = ("_place",)

    def __init__(
        self, what: str, place: Granting, who: Any = None, serve: Callable[[], Outcome | None] | None = None
    ) -> None:
        super().__init__(what, serve or serve_puts, who)
        self._place: Final = place

    def refused(self) -> Outcome | None:
        """The outcome if it can never be put; None otherwise. A subclass defines it."""
        raise NotImplementedError

    def fits(self) -> bool:
        """Whether there is room beside the granted puts. A subclass defines this."""
        raise NotImplementedError

    def insert(self) -> Outcome:
        """Put it. A subclass defines how."""
        raise NotImplementedError

    def try_now(self) -> Outcome | None:
        """Put if there is room. If the caller is waiting already, grant it the room instead."""
        if self.serve is not serve_puts:
            return self.serve()
        if (refused := self.refused()) is not None:
            return refused
        if self.future is None and self._place._granted and self._place._is_granting():
            return None
        return self.advance()

    def advance(self) -> Outcome | None:
        """Do the same for a put that is not refused and has no granted put before it."""
        if not self.fits():
            return None
        if self.future is None:
            return self.insert()
        self.granted = True
        self._place._granted[self] = None
        return DONE


def serve_puts() -> Outcome:
    """Serves puts until the place is closed or gone."""
    return DONE
