"""A client's session with a master: open, or being opened.

Acknowledgements from a client to its master: the tasks give back the takes of steps whose values are lost.

The client hands over the values of a step that took elements only after all its tasks have committed the step: see
`doubts`.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from aioflow import errors
from aioflow.devices.device import DeviceAttributes
from aioflow.net.peer.peer import Peer
from aioflow.net.wire.master_verbs import Acknowledge, CommitStep, StepDone
from aioflow.net.wire.schema import Answer, Request
from aioflow.waiting.handover import Handover

A = TypeVar("A", bound=Answer)


class RemoteHandover(Handover):
    """The handover of a step in a cluster; the tasks keep its takes and puts.

    Await `commit` before handing the values over, and call `forget` afterwards.

    Attributes:
        token: the number under which the master knows the step.
        uncommitted: whether the step still has to be committed.
    """

    __slots__ = ("_limit", "_peer", "_session", "token", "uncommitted")

    def __init__(self, peer: Peer, session: str, token: int, limit: float | None) -> None:
        """A handover for the step with that token, which may take `limit` seconds to commit."""
        super().__init__()
        self._peer: Final = peer
        self._session: Final = session
        self._limit: Final = limit
        self.token: Final = token
        self.uncommitted: bool = True

    async def answer_to(self, request: Request[A]) -> A:
        """Send a request that may take elements, commit its step, and hand the answer over by returning it."""
        try:
            answer = await self._peer.request(request)
            self.uncommitted = not isinstance(answer, StepDone) or answer.uncommitted
            is_held = self.uncommitted
            await self.commit()
        except BaseException as error:
            self.ended(error)
            raise
        if is_held:
            self.forget()
        return answer

    async def done(self, request: Request[A], deadline: float | None = None) -> A:
        """Send a request that takes no elements, so that it needs no commit, and acknowledge its answer."""
        try:
            answer = await self._peer.request(request, deadline=deadline)
        except BaseException as error:
            self.ended(error)
            raise
        self.forget()
        return answer

    async def commit(self, deadline: float | None = None) -> None:
        """Commit the step: from then on no task gives back its takes when this client is lost.

        Raises DeadlineExceededError after the deadline, or after the limit of the step.
        """
        if not self.uncommitted:
            return
        if deadline is None and self._limit is not None:
            deadline = asyncio.get_running_loop().time() + self._limit
        await self._peer.request(CommitStep(self._session, self.token), deadline=deadline)
        self.uncommitted = False

    def give_back(self) -> bool:
        """Tell the master that the values are lost. If the master is lost, tasks give back uncommitted steps."""
        self._tell(False)
        return True

    def forget(self) -> None:
        """Tell the master that the values are handed over. If the master is lost, committed steps stay."""
        self._tell(True)

    def _tell(self, received: bool) -> None:
        with contextlib.suppress(errors.OpError):
            self._peer.notify(Acknowledge(self._session, (self.token,), received))


@dataclasses.dataclass(slots=True, eq=False)
class OpenSession:
    """A session that is open at the master.

    Attributes:
        peer: the master.
        session: its id.
        devices: its devices.
        version: the number of operations that the master has.
        loop: its event loop.
        handles: the callables that the master has registered.
        extending: the task that sends it new operations, or has sent the last ones.
        tokens: the numbers of its next steps, which the client acknowledges.
    """

    peer: Peer
    session: str
    devices: Sequence[DeviceAttributes]
    version: int
    loop: asyncio.AbstractEventLoop
    handles: weakref.WeakKeyDictionary[Any, asyncio.Future[int]]
    extending: asyncio.Task[None] | None = None
    tokens: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1))

    def handover(self, limit: float | None) -> RemoteHandover:
        """The handover for the next step, which may take `limit` seconds to commit."""
        return RemoteHandover(self.peer, self.session, next(self.tokens), limit)


@dataclasses.dataclass(frozen=True, slots=True)
class Opening:
    """A session that is being opened, shared by all callers that need it.

    Attributes:
        deadline: the deadline of the caller that began it; None for a caller without one, which does not wait for a
            master that is down.
        since: the time of its start on the loop's clock.
        task: the asyncio task that opens it.
    """

    deadline: float | None
    since: float
    task: asyncio.Task[OpenSession]

    def may_succeed_within(self, deadline: float | None) -> bool:
        """Whether a caller with that deadline may still succeed after this attempt has failed."""
        if deadline is None or self.deadline is None:
            return deadline is not self.deadline
        return deadline > self.deadline
