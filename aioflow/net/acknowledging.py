"""A client tells its master which values it has: what a step took for them is given back otherwise.

Values for which a step took something are handed over only when all its tasks have committed the step, see `doubts`.
"""

import asyncio
import contextlib
from typing import Final, TypeVar

from aioflow import errors
from aioflow.handover import Handover
from aioflow.net.kinds import Answer, Request
from aioflow.net.master_verbs import Acknowledge, CommitStep, StepDone
from aioflow.net.peer import Peer

A = TypeVar("A", bound=Answer)


class RemoteHandover(Handover):
    """What a step of a cluster has taken, as long as its values are not handed over.

    Await `commit` before they are handed over, and call `forget` when they are.

    Attributes:
        token: by which the master knows the step.
        uncommitted: whether the step has to be committed.
    """

    __slots__ = ("_limit", "_peer", "_session", "token", "uncommitted")

    def __init__(self, peer: Peer, session: str, token: int, limit: float | None) -> None:
        """Nothing is known of a step with that token. It has so many seconds to be committed."""
        super().__init__()
        self._peer: Final = peer
        self._session: Final = session
        self._limit: Final = limit
        self.token: Final = token
        self.uncommitted = True

    async def answer_to(self, request: Request[A]) -> A:
        """The answer to a request that may take something, which is handed over by returning it."""
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

    async def commit(self, deadline: float | None = None) -> None:
        """The values may be handed over: no task gives back what the step took, even if this client is lost.

        By the deadline, or within the limit of the step; DeadlineExceededError otherwise.
        """
        if not self.uncommitted:
            return
        if deadline is None and self._limit is not None:
            deadline = asyncio.get_running_loop().time() + self._limit
        await self._peer.request(CommitStep(self._session, self.token), deadline=deadline)
        self.uncommitted = False

    def give_back(self) -> bool:
        """Nobody gets the values. If the master is lost, what was not committed is given back without this."""
        self._tell(False)
        return True

    def forget(self) -> None:
        """The values are handed over. If the master is lost, what was committed stays as it is without this."""
        self._tell(True)

    def _tell(self, received: bool) -> None:
        with contextlib.suppress(errors.OpError):
            self._peer.note(Acknowledge(self._session, (self.token,), received))


__all__ = ["RemoteHandover"]
