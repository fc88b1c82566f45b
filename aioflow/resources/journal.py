"""Journals of the changes that repeatable runs make on a task, by which a failed attempt is undone.

The client numbers the attempts of a run. During an attempt, a task keeps the value of each variable from before the
attempt's first change. It copies nothing for that: updates write into other memory. If the attempt fails on any task,
the client asks all tasks to undo it before the next attempt begins. So a repeated run happens once.

The invariant: a live task holds the effects of only one attempt of a run, the last one. Exceptions are reported by
name: variables that something else has changed since, and operations whose effects cannot be undone, like those on
barriers. A dead task has lost its variables; restoring or initializing them is reported, too.

A variable keeps only the value from before the last attempt that changed it. So all journals of a task together hold at
most one value for each variable, however many clients have vanished.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from aioflow import errors
from aioflow.tensors.dtypes import Array

_OWNERS: Final = 1000
"""The most owners whose attempts a task remembers."""
_ATTEMPTS: Final = 1000
"""The most open attempts that a task remembers for one owner."""


class Ticket(NamedTuple):
    """The identity of an attempt, as the client sends it to every task.

    Attributes:
        owner: a random number that identifies the owner of the runs, such as a monitored session.
        number: the number of the attempt among those of its owner.
        settled: a number; all attempts of the owner with lower numbers are over.
    """

    owner: int
    number: int
    settled: int


class Journaled(Protocol):
    """The interface of a variable to a journal."""

    name: str

    def take_back(self, journal: "Journal", value: Array) -> bool:
        """Restore that value. Returns False, and restores nothing, if something else has changed the variable since."""


class Journal:
    """The changes of one attempt on this task. Safe to use from any thread.

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
        """Refuse further steps and first changes of variables of the attempt."""
        with self._lock:
            self._closed = True

    def check(self) -> None:
        """Raise AbortedError if the attempt is being undone."""
        if self._closed:
            raise errors.AbortedError("this attempt of the run is cancelled: another one replaces it")

    def begin(self, step: int) -> None:
        """Record a step of the attempt that runs here until `end`. AbortedError if the attempt is being undone."""
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
        """Keep the value of a variable before its first change. AbortedError if the attempt is being undone."""
        with self._lock:
            self.check()
            self._before[state] = value

    def lose(self, state: Journaled) -> None:
        """Drop the kept value before something else changes the variable: the change can no longer be undone."""
        with self._lock:
            if self._before.pop(state, self) is not self:
                self._left.add(state.name)

    def undo(self, change: Callable[[], object]) -> None:
        """Register a function that undoes another change of the attempt."""
        self._undo.append(change)

    def leaves(self, names: Iterable[str]) -> None:
        """Record the names of begun operations whose effects cannot be undone."""
        self._left.update(names)

    def take_back(self) -> tuple[str, ...]:
        """Undo the changes of the attempt, after `close`. Returns the names of the effects that remain."""
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
        """Drop the kept values, because the attempt is over and will not be undone."""
        with self._lock:
            self._before.clear()
            self._undo.clear()


class _Owner:
    """The attempts of one owner."""

    def __init__(self) -> None:
        self.settled = 0
        self.journals: Final[OrderedDict[int, Journal]] = OrderedDict()

    def settle(self, number: int) -> None:
        """Record that all attempts before that one are over."""
        if number > self.settled:
            self.settled = number
            for old in [each for each in self.journals if each < number]:
                self.journals.pop(old).forget()

    def forget(self) -> None:
        """Drop the journals of all attempts."""
        for journal in self.journals.values():
            journal.forget()


class Journals:
    """The journals of one task."""

    def __init__(self) -> None:
        self._owners: Final[OrderedDict[int, _Owner]] = OrderedDict()
        self._has_forgotten = False

    def of(self, ticket: Ticket) -> Journal:
        """The journal of an attempt. AbortedError if the attempt is over, or is being undone."""
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
        """The journal of an attempt to undo; None if the task has forgotten the attempt."""
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
