"""Decides whether a process that does not answer a handshake is lost or busy.

The system accepts connections for a process whose loop is blocked, and for a stopped one. Its monitor tells the two
apart. It answers questions at the UDP port that has the number of the process's TCP port, so the address of the process
is enough to ask. If no answer comes, for example because a firewall drops UDP, only the time counts.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from aioflow import errors
from aioflow.net.transport.channel import Network
from aioflow.net.transport.liveness import Liveness, MonitorMessage


class DialLiveness:
    """The signs of life of one process while it is dialled."""

    def __init__(self) -> None:
        self._liveness: Liveness | None = None
        self._began: Final = asyncio.get_running_loop().time()

    @property
    def busy(self) -> str:
        """A text with how long its loop has been busy; empty if it turns, or is unknown."""
        return "" if self._liveness is None else self._liveness.busy(asyncio.get_running_loop().time(), self._began)

    @contextlib.asynccontextmanager
    async def required(self, network: Network, address: str, heartbeat: float) -> AsyncIterator[None]:
        """End the block when the process at the address has been without a sign of life for that many seconds.

        The beginning of the block counts as a sign of life. Raises UnavailableError at the end.
        """
        self._liveness = liveness = Liveness(heartbeat)
        limit, loop = asyncio.timeout(None), asyncio.get_running_loop()
        try:
            async with limit:
                watching = loop.create_task(_watch(liveness, limit), name="watches a dialled process")
                asking = loop.create_task(
                    network.ask(address, heartbeat, self._on_monitor_message), name="asks a monitor"
                )
                try:
                    yield
                finally:
                    watching.cancel()
                    asking.cancel()
                    await asyncio.gather(watching, asking, return_exceptions=True)
        except TimeoutError as error:
            if not limit.expired() or isinstance(error, errors.OpError):
                raise
            stopped = ": its process is stopped" * liveness.is_stopped
            text = f"{address} is silent: it has not answered for {heartbeat:g} s{stopped}"
            raise errors.UnavailableError(text) from None

    def _on_monitor_message(self, word: MonitorMessage) -> None:
        if self._liveness is not None:
            self._liveness.record(word, asyncio.get_running_loop().time())


async def _watch(liveness: Liveness, limit: asyncio.Timeout) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    silent = False
    while not silent:
        due = liveness.due(loop.time(), began)
        await asyncio.sleep(due - loop.time())
        silent = liveness.is_silent(loop.time(), due, began)
    limit.reschedule(loop.time())
