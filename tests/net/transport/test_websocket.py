"""Channels and peers over real websockets on this machine."""

import asyncio
import contextlib
import random

import numpy as np
import pytest

from aioflow.net.transport.websocket_server import WebSocketNetwork
from aioflow.net.wire.control_verbs import Reply
from tests.support.net_channel_contract import ChannelTests
from tests.support.net_peers import WAITING, Service, feeding, idle, meeting, tensor
from tests.support.scale import amount

pytestmark = pytest.mark.sockets
ANYWHERE = "127.0.0.1:0"


@pytest.fixture(params=[False, True], ids=["tcp", "shared memory and polling"])
def network(request):
    return WebSocketNetwork(shared_memory=request.param, busy_poll=request.param)


@pytest.fixture
def address():
    return ANYWHERE


class TestWebSocketChannel(ChannelTests):
    pass


@pytest.fixture
def service():
    return Service()


@pytest.fixture
async def pair(network, service):
    async with meeting(network, network, ANYWHERE, service) as pair:
        yield pair


async def test_values_of_any_size_go_both_ways(pair):
    peer, other = pair
    for nbytes in (0, 100, 70_000, 5 << 20):
        assert (await peer.request(tensor(nbytes, 3))).values[0].tobytes() == b"\x03" * nbytes
        assert (await peer.request(feeding(np.ones(nbytes, np.uint8)))).values == (nbytes,)
    assert idle(peer)
    assert idle(other)


async def test_many_requests_are_under_way_at_a_time(pair):
    peer, _ = pair
    found = await asyncio.gather(*[peer.request(tensor(1000 * number)) for number in range(100)])
    assert [len(answer.values[0]) for answer in found] == [1000 * number for number in range(100)]


async def test_cancelling_leaves_nothing(pair):
    peer, other = pair
    for after in (0, 0.001, 0.005, 0.02):
        tasks = [asyncio.create_task(peer.request(tensor(20 << 20))) for _ in range(3)]
        tasks.append(asyncio.create_task(peer.request(feeding(np.ones(20 << 20, np.uint8)))))
        await asyncio.sleep(after)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await peer.request(tensor(1 << 20))
    await peer.close()
    await other.closed()
    assert idle(peer)
    assert idle(other)


@pytest.mark.slow
async def test_hundreds_of_random_cancels_leave_nothing(pair, service):
    peer, other = pair
    rng = random.Random(1)

    async def ask():
        size = rng.choice([1, 1000, 20_000, 300_000])
        request = rng.choice([tensor(size), feeding(np.ones(size, np.uint8)), WAITING])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rng.random() * 0.02):
                await peer.request(request)

    for _ in range(amount(5, 20)):
        await asyncio.gather(*[ask() for _ in range(50)])
    assert peer.statistics.asked == 0
    await peer.request(tensor(1 << 20))
    await peer.request(feeding(np.ones(1 << 20, np.uint8)))
    await peer.close()
    await other.closed()
    assert idle(other)
    assert len(service.ended) == len(service.calls)


async def test_a_lost_connection_is_restored_and_every_request_happens_once(pair, service):
    peer, other = pair
    waiting = [asyncio.create_task(peer.request(WAITING)) for _ in range(3)]
    await service.gate.arrived(3)
    large = [asyncio.create_task(peer.request(tensor(20 << 20, step))) for step in range(4)]
    large += [asyncio.create_task(peer.request(feeding(np.ones(20 << 20, np.uint8)))) for _ in range(4)]
    losses = amount(4, 20)
    for turns in range(losses):
        for _ in range(turns):
            await asyncio.sleep(0)
        end = (peer, other)[turns % 2]
        end._links[turns // 2 % 2]._channel._transport.abort()
        assert len((await peer.request(tensor(5))).values[0]) == 5
    service.gate.open()
    assert await asyncio.gather(*waiting) == [Reply()] * 3
    found = await asyncio.gather(*large)
    for step, answer in enumerate(found[:4]):
        np.testing.assert_array_equal(answer.values[0], np.full(20 << 20, step, np.uint8))
    assert [answer.values for answer in found[4:]] == [(20 << 20,)] * 4
    assert len(service.calls) == len(set(service.ended)) == 3 + 8 + losses
    assert (peer.end, other.end) == (None, None)
    assert idle(peer)
    assert idle(other)
