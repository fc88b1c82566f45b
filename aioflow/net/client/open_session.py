"""A client's session with a master: open, or being opened."""

import asyncio
import dataclasses
import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from aioflow.devices.device import DeviceAttributes
from aioflow.net.client.acknowledge import RemoteHandover
from aioflow.net.peer.peer import Peer


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
        tokens: the numbers of its next steps, which the client acknowledges.
    """

    peer: Peer
    session: str
    devices: Sequence[DeviceAttributes]
    version: int
    loop: asyncio.AbstractEventLoop
    handles: weakref.WeakKeyDictionary[Any, asyncio.Future[int]]
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
