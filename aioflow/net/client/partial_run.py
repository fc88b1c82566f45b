"""A partial run over the tasks of a cluster, as a client has it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.graph.operation import Operation, Tensor
from aioflow.net.client.open_session import OpenSession
from aioflow.net.wire.master_verbs import PartialRun
from aioflow.runtime.partial_run import only_tensors
from aioflow.tensors.dtypes import Array


class RemotePartialRun:
    """The handle of a partial run over the tasks of a cluster; see `aioflow.runtime.partial_run.PartialRun`."""

    def __init__(self, found: OpenSession, handle: str, limit: float | None) -> None:
        """Wrap the partial run with that handle. `limit` is the time limit for the commit of each call, in seconds."""
        self._found: Final = found
        self._handle: Final = handle
        self._limit: Final = limit
        self.give_up: Callable[[], object] = _nothing
        """Tells the master that the run is given up."""

    def stop_request(self) -> PartialRun:
        """The request that gives it up."""
        return PartialRun(self._found.session, self._handle)

    async def call(self, fetches: Iterable[Tensor | Operation], feeds: Mapping[Tensor, Array]) -> Sequence[Array]:
        """Give feeds, and return fetches as soon as they are there. Cancelling ends the whole partial run."""
        names = []
        for element in fetches:
            if isinstance(element, Operation):
                raise errors.InvalidArgumentError(only_tensors(element))
            names.append(element.name)
        if not names and not feeds:
            return ()
        handover = self._found.handover(self._limit)
        given = {tensor.name: value for tensor, value in feeds.items()}
        asked = PartialRun(self._found.session, self._handle, given, tuple(names), handover.token)
        try:
            values: Sequence[Array] = (await handover.answer_to(asked)).values
        except asyncio.CancelledError:
            self.give_up()  # the master may know nothing of this call
            raise
        return values

    async def stop(self) -> None:
        """End it if it still runs, and wait until nothing of it is left. If the master is lost, that is so."""
        with contextlib.suppress(errors.UnavailableError):
            await self._found.peer.request(self.stop_request())


def _nothing() -> None:
    pass
