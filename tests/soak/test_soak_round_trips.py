"""How long a short message takes between two processes while a gigabyte flows between them."""

import asyncio
import time

import numpy as np
import pytest

import aioflow as af
from aioflow.net.wire.worker_verbs import GetStatus
from tests.support.cluster_processes import FIRST, PS, Processes, addresses

pytestmark = [pytest.mark.sockets, pytest.mark.slow]
GIB = 1 << 30
TARGET = 0.020
"""Seconds that 99 of 100 round trips should take at most. That is up to the machine, so it is printed, not asserted."""


async def round_trips(peer, moving):
    """How long each took, one after the other, until that is done."""
    found = []
    while not moving.done():
        began = time.perf_counter()
        await peer.request(GetStatus())
        found.append(time.perf_counter() - began)
    return found


def report(what, trips, seconds):
    middle, high, highest = [each * 1e3 for each in (*np.percentile(trips, [50, 99]), max(trips))]
    met = "within" if high < TARGET * 1e3 else "above"
    return (
        f"1 GiB {what} in {seconds:.2f} s, {GIB / seconds / 1e6:.0f} MB/s; {len(trips)} round trips meanwhile: "
        f"p50 {middle:.2f} ms, p99 {high:.2f} ms ({met} {TARGET * 1e3:g} ms), longest {highest:.1f} ms"
    )


def moved(where, to):
    """A gigabyte in one task, and its greatest element as another finds it."""
    with af.device(where):
        held = af.Variable(af.zeros([GIB // 4]), name="held")
    with af.device(to):
        return held.initializer, af.reduce_max(af.identity(held.read_value()))


@pytest.mark.parametrize("what", ["pulled", "pushed"])
async def test_short_messages_overtake_a_gigabyte(what, capsys):
    with (
        Processes(addresses({"ps": 1, "worker": 1}), without=[FIRST]) as processes,
        af.Graph().as_default() as graph,
    ):
        begin, most = moved(*((PS, FIRST) if what == "pulled" else (FIRST, PS)))
        async with (
            af.train.Server(processes.spec, "worker", 0) as server,
            af.Session(server.target, graph=graph) as session,
        ):
            await session.run(begin)
            await session.run(most)  # the first time everybody has to meet, and memory is new
            began = time.perf_counter()
            moving = asyncio.ensure_future(session.run(most))
            trips = await round_trips(await server._master._peers.of(PS), moving)
            assert await moving == 0
            text = report(what, trips, time.perf_counter() - began)
    with capsys.disabled():
        print(f"\n{text}")
    assert len(trips) > 10
