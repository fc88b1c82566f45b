"""Pings: as many as silent channels need, and hardly any between tasks that exchange messages."""

import asyncio
import collections

import pytest

from aioflow.net.transport.in_memory import MemoryNetwork
from aioflow.net.wire.identity import Settings
from aioflow.testing.chaos import describe_frame
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.net_peers import Service, idle, meeting, tensor

SILENCE = 5.0
CHECKS = 5
"""So often a channel is checked within the time of silence."""


def counted(network, one="a", other="b"):
    """How many frames of each kind are sent from now on, in both directions."""
    found = collections.Counter()
    for ends in ((one, other), (other, one)):
        network.path(*ends).sent = lambda frame: found.update([describe_frame(frame).split()[0]])
    return found


@pytest.fixture
async def network():
    return MemoryNetwork(1e-3)


@pytest.fixture
async def pair(network):
    settings = Settings(silence=SILENCE)
    async with meeting(network.at("a"), network.at("b"), "b", Service(), settings, settings) as (peer, other):
        await asyncio.sleep(1.0)
        yield peer, other


async def test_one_end_at_a_time_pings_a_silent_channel(network, pair):
    found = counted(network)
    await asyncio.sleep(20 * SILENCE)
    checks = 2 * 20 * CHECKS  # of both channels
    assert checks <= found["Ping"] < 1.3 * checks
    assert found["Pong"] == found["Ping"]
    assert found.keys() == {"Ping", "Pong"}


async def test_a_channel_with_messages_has_few_pings_and_reports_what_it_received(network, pair):
    peer, other = pair
    found = counted(network)
    for _ in range(2000):
        await peer.request(tensor(5))
        await asyncio.sleep(SILENCE / 100)
    seconds = 2000 * SILENCE / 100
    assert found["RecvTensor"] == 2000
    checks = seconds / SILENCE * CHECKS
    assert found["Ping"] < 1.5 * checks  # most of them on the silent bulk channel
    assert max(end._links[0]._sent.nbytes for end in pair) < 10_000
    await peer.close()
    await other.closed()
    assert idle(other)


async def test_the_clocks_are_compared_though_messages_flow(network, pair):
    peer, _ = pair
    first = peer._heartbeat.clocks._pinged
    for _ in range(300):
        await peer.request(tensor(5))
        await asyncio.sleep(SILENCE / 50)
    assert peer._heartbeat.clocks._pinged[0] > first[0] + 3 * SILENCE


async def frames_of_silence(workers):
    """The frames of a cluster in which nothing happens, in a minute."""
    async with SimulatedCluster({"worker": workers}, latency=1e-3) as cluster:
        await cluster.servers["worker0"]._master._all_devices(None)
        await asyncio.sleep(10.0)
        found = [counted(cluster.network, "worker0", f"worker{number}") for number in range(1, workers)]
        await asyncio.sleep(60.0)
        return sum(count.total() for count in found)


async def test_heartbeats_grow_with_the_number_of_tasks_and_no_faster():
    few, many = [await frames_of_silence(workers) for workers in (3, 21)]
    assert many == pytest.approx(10 * few, rel=0.15)
