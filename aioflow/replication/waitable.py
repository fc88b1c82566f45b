"""Lets steps wait for decisions on replicas. Each replica waits in its own line, so that no replica delays another.

If several replicas wait to lead, the one with the lowest number does, usually the chief.

A replica is present while its call of `present` waits. When that call is cancelled, for whatever reason its run has
ended, the replica is lost. So the quorum notices the end of a replica as soon as its run ends, and goes on without it.

An ending step gets no result. When a task is lost, all steps of its session are ended at once, and its replica leaves
when the first of them has ended. Another step of that replica may still wait in the line. If that step became the
leader, its loss would go unnoticed, and all other replicas would wait for it.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from aioflow import errors
from aioflow.replication.quorum import Decision, Quorum, Ticket
from aioflow.replication.staleness import StalenessBound
from aioflow.waiting.lines import Attempt, Outcome, Waitable, WaiterLine, wake

Check = Callable[[], None]
"""Raises an OpError if the waiting step has ended, or is being ended."""


def _accept() -> None:
    """Accept a caller without a step, which waits as long as its asyncio task."""


class Membership(Protocol):
    """A decision that depends on the present replicas."""

    def leave(self, replica: int) -> None:
        """The replica leaves as planned."""

    def lose(self, replica: int) -> None:
        """The replica is lost."""


class WaitableReplicas(Waitable):
    """Replicas that wait for a decision. Safe to use from any event loop or thread of the process."""

    def __init__(self, name: str, members: Membership, signature: Any) -> None:
        super().__init__(name)
        self.signature: Final = signature
        self._members: Final = members
        self._lines_by_name: Final[dict[tuple[str, int], WaiterLine]] = {}
        self._marks: Final[dict[int, object]] = {}

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Lock the decision for a change. Afterwards wakes the waiters whose wait is over, also after an error."""
        served: list[Attempt] = []
        try:
            with self._lock:
                if self._gone is not None:
                    raise self._gone()
                try:
                    yield
                finally:
                    served = self._serve()
        finally:
            wake(served)

    async def present(self, replica: int, who: Any = None) -> None:
        """Keep the replica present until this call is cancelled.

        AbortedError if the same replica becomes present elsewhere.
        """
        mark = object()
        with self.changing():
            self._marks[replica] = mark
            self._join(replica)
        try:
            await self._wait("be present as", replica, functools.partial(self._check_replaced, replica, mark), who)
        finally:
            self._end_presence(replica, mark)

    def count(self) -> int:
        """Return the number of present replicas."""
        with self.changing():
            return len(self._marks)

    def _join(self, replica: int) -> None:
        """Expect the replica, if the decision depends on that."""

    def _check_replaced(self, replica: int, mark: object) -> None:
        if self._marks.get(replica) is not mark:
            raise errors.AbortedError(f"replica {replica} is now present elsewhere: it was started twice")

    def _end_presence(self, replica: int, mark: object) -> None:
        with self._lock:
            if self._marks.get(replica) is not mark:
                return
            del self._marks[replica]
            self._members.lose(replica)
            served = self._serve()
        wake(served)

    def leave(self, replica: int) -> None:
        """Note that the replica leaves as planned; no other replica waits for it from now on."""
        with self.changing():
            self._members.leave(replica)

    async def _wait(self, what: str, replica: int, ask: Callable[[], Any], who: Any, check: Check = _accept) -> Any:
        """Wait until `ask` returns a value other than None, or raises. It is called only if `check` passes."""
        serve = functools.partial(_attempt, check, ask)
        return await self.attempt(self._line(what, replica), Attempt(f"{what} replica {replica} of", serve, who))

    def _line(self, what: str, replica: int) -> WaiterLine:
        with self._lock:
            line = self._lines_by_name.get((what, replica))
            if line is None:
                line = self._lines_by_name[what, replica] = WaiterLine()
                self._lines = tuple([line for _, line in sorted(self._lines_by_name.items(), key=lambda item: item[0])])
            return line

    def _dropped_error(self) -> BaseException:
        return errors.CancelledError(f"{self.name!r} is gone: its container was reset or its session closed")


def _attempt(check: Check, ask: Callable[[], Any]) -> Outcome | None:
    try:
        check()
        found = ask()
    except errors.OpError as error:
        return None, error
    return None if found is None else (found, None)


class WaitableQuorum(WaitableReplicas):
    """Replicas of synchronous training.

    Args:
        name: its name in errors.
        quorum: the decisions.
        signature: the arguments of its creation, compared when it is opened again.
    """

    def __init__(self, name: str, quorum: Quorum, signature: Any = None) -> None:
        super().__init__(name, quorum, signature)
        self.quorum: Final = quorum

    def _join(self, replica: int) -> None:
        self.quorum.join(replica)

    async def admit(self, replica: int, who: Any = None, check: Check = _accept) -> int:
        """Wait until training is open and no step is being applied. Returns the step that the replica may begin."""
        step: int = await self._wait("admit", replica, functools.partial(self.quorum.admit, replica), who, check)
        return step

    async def settle(self, ticket: Ticket, who: Any = None, check: Check = _accept) -> tuple[int, bool]:
        """Wait for the next step. Returns its number, and whether the gradient was accepted in its own step."""

        def ask() -> tuple[int, bool] | None:
            accepted = self.quorum.settle(ticket)
            return None if accepted is None or self.quorum.step is None else (self.quorum.step, accepted)

        found: tuple[int, bool] = await self._wait("settle", ticket.replica, ask, who, check)
        return found

    async def lead(self, replica: int, who: Any = None, check: Check = _accept) -> Decision:
        """Wait until a step is decided and no other replica leads. Returns the gradients to apply.

        OutOfRangeError if the replica has left.
        """
        found: Decision = await self._wait("lead as", replica, functools.partial(self.quorum.lead, replica), who, check)
        return found

    def fail(self, replica: int, why: str) -> None:
        """Record why a run of the leading replica failed."""
        with self.changing():
            self.quorum.fail(replica, why)

    async def hold(self, mark: int, who: Any = None) -> None:
        """Let no step begin to be applied until this call is cancelled."""
        with self.changing():
            self.quorum.hold(mark)
        try:
            await self._wait("hold a step boundary as", 0, lambda: None, who)
        finally:
            with self._lock:
                self.quorum.release(mark)
                served = self._serve()
            wake(served)

    async def held(self, mark: int, who: Any = None) -> None:
        """Wait until the mark is set and no step is being applied. AbortedError if a step was applied in part."""
        await self._wait("be held as", 0, lambda: True if self.quorum.held(mark) else None, who)

    def __repr__(self) -> str:
        return f"<WaitableQuorum {self.name!r} {self.quorum!r}>"


class WaitableStalenessBound(WaitableReplicas):
    """Replicas of asynchronous training.

    Args:
        name: its name in errors.
        turns: the decisions.
        signature: the arguments of its creation, compared when it is opened again.
    """

    def __init__(self, name: str, turns: StalenessBound, signature: Any = None) -> None:
        super().__init__(name, turns, signature)
        self.turns: Final = turns

    async def read(self, replica: int, who: Any = None, check: Check = _accept) -> int:
        """Wait until the replica may read the variables. Returns the number of updates that it sees."""
        seen: int = await self._wait("read as", replica, functools.partial(self.turns.read, replica), who, check)
        return seen

    async def apply(self, replica: int, ticket: int, who: Any = None, check: Check = _accept) -> int:
        """Wait until the replica may update the variables. Returns the number of its update."""
        ask = functools.partial(self.turns.apply, replica, ticket)
        number: int = await self._wait("apply as", replica, ask, who, check)
        return number

    def __repr__(self) -> str:
        return f"<WaitableTurns {self.name!r} {self.turns!r}>"
