"""Attempts of runs that may be repeated, as whoever repeats them counts them.

An attempt is the current one of the asyncio tasks that begin its runs; sessions send its ticket with every run. What
the tasks of a cluster do with it is told in `journal`.
"""

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

from aioflow.journal import Ticket
from aioflow.plan import Signature


@dataclasses.dataclass(slots=True, eq=False)
class Attempt:
    """One attempt.

    Attributes:
        of: the attempts that it is one of.
        number: its number among them.
        open: whether runs may belong to it: not any more once it has ended, well or not.
        untracked: the call signatures of its runs that no task takes back.
    """

    of: "Attempts"
    number: int
    open: bool = True
    untracked: set[Signature] = dataclasses.field(default_factory=set)

    @property
    def ticket(self) -> Ticket:
        """What its runs tell the tasks."""
        return Ticket(self.of.owner, self.number, self.of.settled)


going: Final[set[Attempt]] = set()
"""The attempts that go on in this process: if there are none, no run has to look for its own."""


class Attempts:
    """The attempts of one who repeats runs.

    Attributes:
        owner: a random number that tells them from those of others.
    """

    def __init__(self) -> None:
        self.owner: Final = secrets.randbits(63)
        self._next = 1
        self._left: Final[dict[int, Attempt]] = {}

    @property
    def settled(self) -> int:
        """All attempts before this one are over."""
        return next(iter(self._left), self._next)

    @contextlib.contextmanager
    def one(self) -> Iterator[Attempt]:
        """Inside the block a new attempt is the current one. It has to be settled later."""
        made = self._left[self._next] = Attempt(self, self._next)
        self._next += 1
        going.add(made)
        token = _current.set(made)
        try:
            yield made
        finally:
            made.open = False
            going.discard(made)
            _current.reset(token)

    def is_settled(self, attempt: Attempt) -> bool:
        """Whether the attempt is over."""
        return attempt.number not in self._left

    def settle(self, attempt: Attempt) -> None:
        """The attempt is over: it has succeeded, or was taken back, or nobody repeats it."""
        self._left.pop(attempt.number, None)


_current: Final[ContextVar[Attempt | None]] = ContextVar("aioflow_attempt", default=None)


def current_attempt() -> Attempt | None:
    """The attempt that runs of this task belong to now; None if they are not repeated."""
    found = _current.get()
    return found if found is not None and found.open else None


def note_run(signature: Signature) -> None:
    """A run begins that no task will take back. If an attempt goes on, it remembers the run."""
    attempt = current_attempt()
    if attempt is not None:
        attempt.untracked.add(signature)


__all__ = ["Attempt", "Attempts", "current_attempt", "going", "note_run"]
