"""What runs that may be repeated have changed on a task, so that a run that is repeated happens once.

The client gives each attempt of such a run a number of its own. While an attempt lasts, its task keeps the value that
each variable had before the attempt first changed it; updates then write into other memory, so nothing is copied for
that. If the attempt fails anywhere, the client asks all tasks to take it back before it begins the next attempt.

The invariant: of every run, a task that lives holds the effects of one attempt, the last one. The exceptions are told
by name: a variable that something else has changed since, and operations whose effects cannot be taken back, as those
on queues. A task that died has lost its variables, which are restored or initialized, and that is told, too.

A variable keeps the value before one attempt only, the last one that changed it. So all journals of a task together
hold at most one value for each variable, however many clients are gone without a word.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from aioflow import errors
from aioflow.dtypes import Array

_OWNERS: Final = 1000
"""A task remembers the attempts of so many owners."""
_ATTEMPTS: Final = 1000
"""A task remembers so many attempts of one owner that are not over."""


class Ticket(NamedTuple):
    """An attempt, as every task is told of it.

    Attributes:
        owner: a random number of whoever repeats runs, as a monitored session.
        number: the number of the attempt among those of its owner.
        settled: all attempts of the owner with lower numbers are over.
    """

    owner: int
    number: int
    settled: int


class Journaled(Protocol):
    """A variable, as far as a journal goes."""

    name: str

    def take_back(self, journal: "Journal", value: Array) -> bool:
        """It has that value again, unless something else has changed it since."""


class Journal:
    """What one attempt has changed on this task. Safe to use from any thread.

    Attributes:
        steps: the steps of the attempt that run here.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._before: Final[dict[Journaled, Array]] = {}
        self._undo: Final[list[Callable[[], object]]] = []
        self._left: Final[set[str]] = set()
        self._closed = False
        self._idle: Final = asyncio.Event()
        self._idle.set()
        self.steps: Final[set[int]] = set()

    def close(self) -> None:
        """Steps of the attempt change nothing more, and none begins."""
        with self._lock:
            self._closed = True

    def check(self) -> None:
        """AbortedError if the attempt was taken back."""
        if self._closed:
            raise errors.AbortedError("this attempt of the run was given up: another one takes its place")

    def begin(self, step: int) -> None:
        """A step of the attempt runs here until `end`."""
        self.check()
        self.steps.add(step)
        self._idle.clear()

    def end(self, step: int) -> None:
        """The step has ended."""
        self.steps.discard(step)
        if not self.steps:
            self._idle.set()

    async def idle(self) -> None:
        """Return when no step of the attempt runs here."""
        await self._idle.wait()

    def keep(self, state: Journaled, value: Array) -> None:
        """The attempt is about to change the variable for the first time. AbortedError if it was taken back."""
        with self._lock:
            self.check()
            self._before[state] = value

    def lose(self, state: Journaled) -> None:
        """Something else is about to change the variable: the change of the attempt cannot be taken back any more."""
        with self._lock:
            if self._before.pop(state, self) is not self:
                self._left.add(state.name)

    def undo(self, change: Callable[[], object]) -> None:
        """This takes back something else that the attempt has changed."""
        self._undo.append(change)

    def leaves(self, names: Iterable[str]) -> None:
        """The attempt has begun something of these names that cannot be taken back."""
        self._left.update(names)

    def take_back(self) -> tuple[str, ...]:
        """Everything is as it was before the attempt, after `close`. Gives the names of what is not."""
        with self._lock:
            before = dict(self._before)
            self._before.clear()
        for state, value in before.items():
            if not state.take_back(self, value):
                self._left.add(state.name)
        while self._undo:
            self._undo.pop()()
        return tuple(sorted(self._left))

    def forget(self) -> None:
        """The attempt is over: it will not be taken back."""
        with self._lock:
            self._before.clear()
            self._undo.clear()


class _Owner:
    """The attempts of one owner."""

    def __init__(self) -> None:
        self.settled = 0
        self.journals: Final[OrderedDict[int, Journal]] = OrderedDict()

    def settle(self, number: int) -> None:
        """All attempts before that one are over."""
        if number > self.settled:
            self.settled = number
            for old in [each for each in self.journals if each < number]:
                self.journals.pop(old).forget()

    def forget(self) -> None:
        """All attempts are over."""
        for journal in self.journals.values():
            journal.forget()


class Journals:
    """The journals of one task."""

    def __init__(self) -> None:
        self._owners: Final[OrderedDict[int, _Owner]] = OrderedDict()
        self._has_forgotten = False

    def of(self, ticket: Ticket) -> Journal:
        """The journal of an attempt. AbortedError if the attempt is over, or was taken back."""
        owner = self._owner(ticket.owner)
        owner.settle(ticket.settled)
        if ticket.number < owner.settled:
            raise errors.AbortedError(f"attempt {ticket.number} of a run is over")
        journal = owner.journals.get(ticket.number)
        if journal is None:
            journal = owner.journals[ticket.number] = Journal()
            if len(owner.journals) > _ATTEMPTS:
                owner.settle(next(iter(owner.journals)) + 1)
        journal.check()
        return journal

    def known(self, ticket: Ticket) -> Journal | None:
        """The journal of an attempt that is to be taken back; None if nothing is known of it any more."""
        if self._has_forgotten and ticket.owner not in self._owners:
            return None
        owner = self._owner(ticket.owner)
        owner.settle(ticket.settled)
        if ticket.number < owner.settled:
            return None
        return owner.journals.setdefault(ticket.number, Journal())

    def _owner(self, number: int) -> _Owner:
        found = self._owners.get(number)
        if found is None:
            found = self._owners[number] = _Owner()
            if len(self._owners) > _OWNERS:
                self._owners.popitem(last=False)[1].forget()
                self._has_forgotten = True
        self._owners.move_to_end(number)
        return found

    def __len__(self) -> int:
        return sum(len(owner.journals) for owner in self._owners.values())


__all__ = ["Journal", "Journaled", "Journals", "Ticket"]
