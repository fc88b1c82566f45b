"""Connections that are lost while both processes live: nothing is lost, nothing is done twice, and nothing is left."""

import asyncio

import numpy as np
from net_peers import Service, feeding, idle, meeting, tensor

from aioflow.net.identity import Settings
from aioflow.net.limits import Limits
from aioflow.net.memory import MemoryNetwork
from aioflow.net.worker_verbs import CleanupGraph

LATENCY = 0.001
SMALL = Settings(Limits(chunk=4096, window=256 << 10))
"""So that large values have many frames."""


def now():
    return asyncio.get_running_loop().time()


class Notes(Service):
    """Also hears notes."""

    def __init__(self):
        super().__init__()
        self.heard = []
        self.notes = {CleanupGraph: lambda call: self.heard.extend(call.message.steps)}


def lose(network, which):
    """The connections from a to b are lost: the one for what is short, for what is large, or both."""
    channels = network.channels("a", "b")
    for place, channel in enumerate(channels):
        if which == "both" or place == ("control", "bulk").index(which):
            channel.lose()


async def exchange(peer, other, service):
    """Small and large requests and answers in both directions, and notes; says what came of them."""

    async def note():
        for step in range(1, 6):
            peer.note(CleanupGraph((step,)))
            await asyncio.sleep(LATENCY / 3)

    _, *answers = await asyncio.gather(
        note(),
        *[peer.request(tensor(size, step)) for step, size in enumerate((1, 20_000, 90_000, 7, 150_000))],
        *[peer.request(feeding(np.full(size, 3, np.uint8))) for size in (5, 40_000, 100_000)],
        other.request(tensor(30_000, 9)),
    )
    values = [answer.values for answer in answers]
    return [int(found["x"]) if isinstance(found, dict) else (found[0].size, set(found[0])) for found in values]


EXPECTED = [
    (1, {0}), (20_000, {1}), (90_000, {2}), (7, {3}), (150_000, {4}),
    15, 120_000, 300_000, (30_000, {9}),
]  # fmt: skip


async def test_what_is_exchanged_is_the_same_wherever_a_connection_is_lost():
    """The connection is lost as the n-th frame is sent, for each n, and again so many frames later."""
    sent, tried = 1, 0
    for which in ("control", "bulk", "both"):
        for delay in (0.0, LATENCY * 0.6, LATENCY * 1.5):
            first = 0
            while first < sent:
                sent = await exchanged_with_a_cut(which, delay, first, every=29)
                first += 3
                tried += 1
    assert tried > 100


async def exchanged_with_a_cut(which, delay, first, every):
    """How many frames were sent in all."""
    network, frames = MemoryNetwork(LATENCY, 1e8), 0
    service, mine = Notes(), Notes()

    def count(_):
        nonlocal frames
        frames += 1
        if armed and frames >= first and (frames - first) % every == 0 and frames < first + 4 * every:
            asyncio.get_running_loop().call_later(delay, lose, network, which)

    armed = False
    async with meeting(network.at("a"), network.at("b"), "b", service, SMALL, SMALL, mine) as (peer, other):
        armed = True
        network.path("a", "b").sent = network.path("b", "a").sent = count
        assert await exchange(peer, other, service) == EXPECTED, (which, delay, first)
        armed = False
        await asyncio.sleep(1)
        assert service.heard == [1, 2, 3, 4, 5]
        assert (len(service.calls), len(mine.calls)) == (8, 1)
        assert (peer.end, other.end) == (None, None)
        assert idle(peer)
        assert idle(other)
        for one, far in zip(peer._links + other._links, other._links + peer._links, strict=True):
            assert one.credit + far._assembler.received == SMALL.limits.window
            assert one._sent.end == far.received
    return frames
