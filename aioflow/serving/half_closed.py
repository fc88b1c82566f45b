"""Finds out whether a client that sends nothing more has left, or only has closed its half of the connection.

TCP tells the two apart by what answers further bytes: the machine of a client that has left refuses them, and the
connection is lost. So a client that waits for a response is told a few times to go on. Each client of HTTP/1.1 passes
over that, by RFC 9110, section 15.2.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_PAUSES: Final = (0.02, 0.02, 0.2, 2.0)
"""The seconds before each probe. The first brings the refusal, the second is the one that fails. A quick answer needs
none. Some clients give up at the sixth."""


class Probes:
    """Writes bytes that fail if the client has left, until the response begins."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport: Final = transport
        self._pauses: Final[Iterator[float]] = iter(_PAUSES)
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def _wait(self) -> None:
        pause = next(self._pauses, None)
        self._timer = None if pause is None else asyncio.get_running_loop().call_later(pause, self._probe)

    def _probe(self) -> None:
        self._transport.write(_GO_ON)
        self._wait()

    def stop(self) -> None:
        """Write no more. Twice is allowed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
