"""Records in the master which tasks took part in an attempt of a run, to undo it on them."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from aioflow import errors
from aioflow.net.peer.peer import Peer
from aioflow.net.peer.peers import Peers, RequestTarget
from aioflow.net.wire.fields import ticket_of
from aioflow.net.wire.worker_verbs import AttemptTakenBack, TakeBack
from aioflow.net.worker.plan_shares import Share, lasting

_MOST: Final = 1000
"""The most attempts whose tasks a session remembers."""
Attempt = tuple[int, ...]


class _Part(NamedTuple):
    """The part of one task in an attempt.

    Attributes:
        incarnation: the incarnation of the task; None if it was not connected, so that the share did not begin.
        share: the share of the step that the task runs.
    """

    incarnation: int | None
    share: Share


class AttemptTasks:
    """The tasks of the attempts of one session."""

    def __init__(self, peers: Peers) -> None:
        self._peers: Final = peers
        self._parts: Final[OrderedDict[Attempt, dict[str, list[_Part]]]] = OrderedDict()

    def record(self, attempt: Attempt, shares: Mapping[str, Share]) -> None:
        """Record that these tasks will take part in the attempt. Forgets attempts that are over."""
        if not attempt:
            return
        owner, number, settled = ticket_of(attempt)
        for old in [each for each in self._parts if each[0] == owner and each[1] < settled]:
            del self._parts[old]
        parts = self._parts.setdefault((owner, number), {})
        if len(self._parts) > _MOST:
            self._parts.popitem(last=False)
        for task, share in shares.items():
            parts.setdefault(task, []).append(_Part(_incarnation(self._peers.connected(task)), share))

    async def take_back(
        self, attempt: Attempt, tasks: Iterable[str], connected: Iterable[str], deadline: float | None
    ) -> tuple[str, ...]:
        """Undo the attempt on its tasks and on the given ones. Returns the names of the effects that remain.

        Args:
            attempt: the ticket of the attempt, as numbers.
            tasks: further tasks, which have to be reachable.
            connected: tasks that are asked, too, if they are connected: another master may have run the attempt.
            deadline: the deadline for undoing it.

        Raises:
            af.errors.UnavailableError: a task, which the error names, cannot be reached.
        """
        owner, number, _ = ticket_of(attempt)
        parts = self._parts.get((owner, number), {})
        needed = dict.fromkeys([*parts, *tasks])
        others = [task for task in connected if task not in needed and self._peers.connected(task) is not None]
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
        """The names of the effects that the task did not undo; after a restart, all that it may have had."""
        peer = await self._peers.of(task)
        answer: Any = await peer.request(TakeBack(attempt), deadline=deadline)
        assert isinstance(answer, AttemptTakenBack)
        gone = [part.share for part in parts if part.incarnation not in (None, _incarnation(peer))]
        return (*answer.left, *[name for share in gone for name in lasting(share.parts)])


def _incarnation(peer: RequestTarget | None) -> int | None:
    """The incarnation of a connected task; 0 for the master's own task, which lives as long as the master."""
    return None if peer is None else peer.remote.incarnation if isinstance(peer, Peer) else 0
