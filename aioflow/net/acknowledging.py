"""A client tells its master which values it has: what a step took for them is given back otherwise."""

import contextlib
from typing import Final, TypeVar

from aioflow import errors
from aioflow.handover import Handover
from aioflow.net.kinds import Answer, Request
from aioflow.net.master_verbs import Acknowledge
from aioflow.net.peer import Peer

A = TypeVar("A", bound=Answer)


class RemoteHandover(Handover):
    """What a step of a cluster has taken, as long as its values are not handed over. Call `forget` when they are."""

    __slots__ = ("_peer", "_session", "token")

    def __init__(self, peer: Peer, session: str, token: int) -> None:
        super().__init__()
        self._peer: Final = peer
        self._session: Final = session
        self.token: Final = token

    async def answer_to(self, request: Request[A]) -> A:
        """The answer to a request, which is handed over by returning it."""
        try:
            answer = await self._peer.request(request)
        except BaseException as error:
            self.ended(error)
            raise
        self.forget()
        return answer

    def give_back(self) -> bool:
        """Nobody gets the values. A master that is lost gives back what it was not told of."""
        with contextlib.suppress(errors.OpError):
            self._tell(False)
        return True

    def forget(self) -> None:
        """The values are handed over. UnavailableError if the master is lost: then nobody is to have them."""
        self._tell(True)

    def _tell(self, received: bool) -> None:
        self._peer.note(Acknowledge(self._session, (self.token,), received))


__all__ = ["RemoteHandover"]
