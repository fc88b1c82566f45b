"""Which tasks have to take an attempt of a run back, as the master of its session knows."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from aioflow import errors
from aioflow.net.fields import ticket_of
from aioflow.net.parts import Share, lasting
from aioflow.net.peer import Peer
from aioflow.net.peers import Asked, Peers
from aioflow.net.worker_verbs import AttemptTakenBack, TakeBack

_MOST: Final = 1000
"""A session remembers the tasks of so many attempts."""
Attempt = tuple[int, ...]


class _Part(NamedTuple):
    """What one task had to do with an attempt.

    Attributes:
        incarnation: of the task; None if it was not connected, so that the part did not begin there.
        share: what it ran, or was about to run.
    """

    incarnation: int | None
    share: Share


class AttemptTasks:
    """Those of one session."""

    def __init__(self, peers: Peers) -> None:
        self._peers: Final = peers
        self._parts: Final[OrderedDict[Attempt, dict[str, list[_Part]]]] = OrderedDict()

    def note(self, attempt: Attempt, shares: Mapping[str, Share]) -> None:
        """These tasks are about to take part in the attempt. Of attempts that are over, nothing is remembered."""
        if not attempt:
            return
        owner, number, settled = ticket_of(attempt)
        for old in [each for each in self._parts if each[0] == owner and each[1] < settled]:
            del self._parts[old]
        parts = self._parts.setdefault((owner, number), {})
        if len(self._parts) > _MOST:
            self._parts.popitem(last=False)
        for task, share in shares.items():
            parts.setdefault(task, []).append(_Part(_incarnation(self._peers.there(task)), share))

    async def take_back(
        self, attempt: Attempt, tasks: Iterable[str], connected: Iterable[str], deadline: float | None
    ) -> tuple[str, ...]:
        """The attempt is taken back on the tasks that took part in it, and on those given. Gives what could not be.

        Args:
            attempt: which.
            tasks: further tasks that have to be there.
            connected: of these the tasks that are connected are told, too: another master may have run the attempt.
            deadline: when it has to be done.

        Raises:
            af.errors.UnavailableError: one of the tasks, named, is not there.
        """
        owner, number, _ = ticket_of(attempt)
        parts = self._parts.get((owner, number), {})
        needed = dict.fromkeys([*parts, *tasks])
        others = [task for task in connected if task not in needed and self._peers.there(task) is not None]
        left: set[str] = set()
        for task in [*needed, *others]:
            try:
                left.update(await self._ask(task, attempt, parts.get(task, ()), deadline))
            except (errors.UnavailableError, errors.AbortedError):
                if task in needed:
                    raise
        return tuple(sorted(left))

    async def _ask(
        self, task: str, attempt: Attempt, parts: Iterable[_Part], deadline: float | None
    ) -> tuple[str, ...]:
        """What the task could not take back; of one that was started anew, what it may have done and nothing tells."""
        peer = await self._peers.of(task)
        answer: Any = await peer.request(TakeBack(attempt), deadline=deadline)
        assert isinstance(answer, AttemptTakenBack)
        gone = [part.share for part in parts if part.incarnation not in (None, _incarnation(peer))]
        return (*answer.left, *[name for share in gone for name in lasting(share.parts)])


def _incarnation(peer: Asked | None) -> int | None:
    """The incarnation of a task that is connected; of the master's own task, which lives as long as this, 0."""
    return None if peer is None else peer.it.incarnation if isinstance(peer, Peer) else 0


__all__ = ["AttemptTasks"]
