"""Asks a silent peer for a sign of life, reports positions to it, and counts it as lost when it stays silent.

Frames of any kind are signs of life. So tasks that exchange messages send hardly any pings.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.net.peer.clock_comparison import ClockComparison
from aioflow.net.peer.link import Link
from aioflow.net.transport.liveness import Liveness
from aioflow.net.wire.codec import Envelope
from aioflow.net.wire.control_verbs import Ping, Pong

_CLOCKS: Final = 10
"""The clocks are compared again after so many checks."""
_FRESH: Final = 0.9
"""A channel gets no ping if a frame has come in this share of the time between two checks.

So the end that pings goes on, and the other end, which hears the pings, sends none.
"""


class Heartbeat:
    """That of one peer.

    Attributes:
        liveness: its signs of life.
        clocks: the comparison of its clock with this one.
    """

    def __init__(self, links: Sequence[Link], silence: float, on_silence: Callable[[str], None]) -> None:
        """Call `on_silence`, with a text of how long, when a link is silent for `silence` seconds."""
        self.liveness: Final = Liveness(silence)
        self.clocks: Final = ClockComparison()
        self._links: Final = links
        self._on_silence: Final = on_silence

    async def watch(self) -> None:
        """Check the links now and then, without an end."""
        loop, liveness, checks = asyncio.get_running_loop(), self.liveness, 0
        while True:
            now, checks = loop.time(), checks + 1
            self._check(now - _FRESH * liveness.interval, compare=checks % _CLOCKS == 1)
            due = liveness.due(now, self._last_heard)
            await asyncio.sleep(due - now)
            if liveness.is_silent(loop.time(), due, self._last_heard):
                stopped = ": its process is stopped" * liveness.is_stopped
                self._on_silence(f"for {liveness.heartbeat:g} s{stopped}")

    def _check(self, since: float, compare: bool) -> None:
        """Send a ping on each link on which nothing was heard since then, and a position on the others.

        Args:
            since: a time on the loop's clock.
            compare: whether to send a ping on all links in any case, for the clocks.
        """
        asked = None
        for link in self._links:
            if link.congested:
                continue
            if link.heard <= since or compare:
                asked = self.clocks.ping() if asked is None else asked
                link.post(Envelope(0, Ping(asked, link.position())))
            elif link.owes_position:
                link.tell_credit()

    @property
    def _last_heard(self) -> float:
        """The time of the last frame on the quieter channel. Lost channels do not count: they have their own limit."""
        return min([link.heard for link in self._links if link.flowing], default=asyncio.get_running_loop().time())

    def ping(self, link: Link, message: Envelope) -> None:
        """Answer a ping, and take its position."""
        ping: Any = message.message
        link.reported(ping.received)
        if not link.congested:
            link.post(Envelope(0, Pong(ping.clock, self.clocks.now())))

    def pong(self, link: Link, message: Envelope) -> None:
        """Compare the clocks of traces of both tasks. The round trip is timed by the loop's clock."""
        if link is not self._links[0]:
            return  # a large message may have delayed it
        pong: Any = message.message
        self.clocks.pong(pong.ping, pong.clock)
