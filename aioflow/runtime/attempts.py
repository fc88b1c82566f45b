"""Attempts of repeatable runs, numbered by the client that repeats them.

A context variable holds the current attempt of an asyncio task. Sessions send its ticket with every run that the task
begins. `journal` describes how the tasks of a cluster use the ticket.
"""

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

from aioflow.plan.pipeline import Signature
from aioflow.resources.journal import Ticket


@dataclasses.dataclass(slots=True, eq=False)
class Attempt:
    """One attempt.

    Attributes:
        of: the collection that it belongs to.
        number: its number in that collection.
        open: whether runs may join it; False once it has succeeded or failed.
        untracked: the call signatures of its runs that no task can take back.
    """

    of: "Attempts"
    number: int
    open: bool = True
    untracked: set[Signature] = dataclasses.field(default_factory=set)

    @property
    def ticket(self) -> Ticket:
        """The data that its runs send to the tasks."""
        return Ticket(self.of.owner, self.number, self.of.settled)


going: Final[set[Attempt]] = set()
"""The running attempts of this process. While this is empty, runs do not search for theirs."""


class Attempts:
    """The attempts of one owner: a monitored session that repeats runs.

    Attributes:
        owner: a random number that identifies the owner.
    """

    def __init__(self) -> None:
        self.owner: Final = secrets.randbits(63)
        self._next = 1
        self._left: Final[dict[int, Attempt]] = {}

    @property
    def settled(self) -> int:
        """The number of the oldest attempt that is not over, or of the next one."""
        return next(iter(self._left), self._next)

    @contextlib.contextmanager
    def one(self) -> Iterator[Attempt]:
        """Make a new attempt the current one inside the block. The caller settles it later."""
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
        """Record that the attempt is over: it has succeeded, was taken back, or will not be repeated."""
        self._left.pop(attempt.number, None)


_current: Final[ContextVar[Attempt | None]] = ContextVar("aioflow_attempt", default=None)


def current_attempt() -> Attempt | None:
    """The current attempt of this asyncio task; None if its runs are not repeated."""
    found = _current.get()
    return found if found is not None and found.open else None


def note_run(signature: Signature) -> None:
    """Record in the current attempt, if there is one, a run that no task can undo."""
    attempt = current_attempt()
    if attempt is not None:
        attempt.untracked.add(signature)
