"""A partial run over the tasks of a cluster, as a client has it."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.dtypes import Array
from aioflow.net.master_verbs import PartialRun
from aioflow.net.peer import Peer
from aioflow.node import Operation, Tensor
from aioflow.partial import only_tensors


class RemotePartialRun:
    """The handle of a partial run over the tasks of a cluster; see `aioflow.partial.PartialRun`."""

    def __init__(self, peer: Peer, session: str, handle: str) -> None:
        self._peer: Final = peer
        self._session: Final = session
        self._handle: Final = handle

    def request(self, feeds: Mapping[str, Array], fetches: tuple[str, ...]) -> PartialRun:
        """What goes on with it; what gives it up, if nothing is fed or fetched."""
        return PartialRun(self._session, self._handle, feeds, fetches)

    async def call(self, fetches: Iterable[Tensor | Operation], feeds: Mapping[Tensor, Array]) -> Sequence[Array]:
        """Give feeds, and return fetches as soon as they are there. Cancelling ends the whole partial run."""
        names = []
        for element in fetches:
            if isinstance(element, Operation):
                raise errors.InvalidArgumentError(only_tensors(element))
            names.append(element.name)
        if not names and not feeds:
            return ()
        asked = self.request({tensor.name: value for tensor, value in feeds.items()}, tuple(names))
        values: Sequence[Array] = (await self._peer.request(asked)).values
        return values

    async def stop(self) -> None:
        """End it if it still runs, and wait until nothing of it is left. If the master is lost, that is so."""
        with contextlib.suppress(errors.UnavailableError):
            await self._peer.request(self.request({}, ()))


__all__ = ["RemotePartialRun"]
