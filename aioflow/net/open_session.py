"""A session of a client with a master: open, or being opened."""

import asyncio
import dataclasses
import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from aioflow.devices.device import DeviceAttributes
from aioflow.net.acknowledging import RemoteHandover
from aioflow.net.peer import Peer


@dataclasses.dataclass(slots=True, eq=False)
class OpenSession:
    """A session that the master has made.

    Attributes:
        peer: the master.
        session: its id.
        devices: what it runs on.
        version: how many operations the master knows.
        loop: the loop that it is used on.
        handles: the calls that are ready there.
        tokens: by which its steps are acknowledged.
    """

    peer: Peer
    session: str
    devices: Sequence[DeviceAttributes]
    version: int
    loop: asyncio.AbstractEventLoop
    handles: weakref.WeakKeyDictionary[Any, asyncio.Future[int]]
    tokens: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1))

    def handover(self, limit: float | None) -> RemoteHandover:
        """What one more step will have taken, which has so many seconds to be committed."""
        return RemoteHandover(self.peer, self.session, next(self.tokens), limit)


@dataclasses.dataclass(frozen=True, slots=True)
class Opening:
    """A session that is being opened, for all who need it meanwhile.

    Attributes:
        deadline: that of whoever began it; None for one who waits for nobody.
        since: when it began, on the loop's clock.
        task: what opens it.
    """

    deadline: float | None
    since: float
    task: asyncio.Task[OpenSession]

    def may_succeed_within(self, deadline: float | None) -> bool:
        """Whether another with that deadline may still open it, when this one could not in its own time."""
        if deadline is None or self.deadline is None:
            return deadline is not self.deadline
        return deadline > self.deadline


__all__ = ["OpenSession", "Opening"]
