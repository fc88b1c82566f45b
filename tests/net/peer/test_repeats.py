"""Floods of repeated requests, cancels and unknown numbers raise no error and leave no state."""

import asyncio
import random

import numpy as np
import pytest

from aioflow import errors
from aioflow.net.transport.in_memory import MemoryNetwork
from aioflow.net.wire.codec import Envelope
from aioflow.net.wire.control_verbs import Cancel, Reply
from aioflow.net.wire.framing import Outgoing
from aioflow.net.wire.identity import Settings
from aioflow.net.wire.limits import Limits
from tests.support.net_peers import FAILING, WAITING, Service, feeding, idle, meeting, tensor
from tests.support.scale import some

FEW = Settings(Limits(requests=8, chunk=4096, window=256 << 10, held=1 << 20))


@pytest.fixture
async def seen():
    """The unhandled errors of the loop's tasks and callbacks."""
    found = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context))
    return found


def message(rng):
    """A random message of a peer, under one of few numbers."""
    number = rng.randrange(1, 30)
    draw = rng.random()
    if draw < 0.2:
        return Envelope(number, Cancel())
    if draw < 0.3:
        return Envelope(number, Reply())
    return Envelope(number, rng.choice([WAITING, tensor(5), tensor(60_000), feeding(np.ones(40_000, np.uint8))]))


@pytest.mark.parametrize("seed", some(range(40), 4))
async def test_a_flood_of_repeats_cancels_and_unknown_numbers_leaves_nothing(seed, seen):
    rng, service, network = random.Random(seed), Service(), MemoryNetwork(0.001, 1e8)
    async with meeting(network.at("a"), network.at("b"), "b", service, FEW) as (peer, other):
        for _ in range(300):
            envelope = message(rng)
            outgoing = Outgoing(envelope, peer.limits)
            link = peer._links[1 if outgoing.nbytes else 0]
            sending = asyncio.create_task(link.send(outgoing))
            if outgoing.nbytes:
                await sending  # no number is announced twice at a time
            if rng.random() < 0.2:
                service.gate.open()
            await asyncio.sleep(rng.choice([0.0, 0.0, 0.0005, 0.003]))
            assert len(other._serving) <= 2 * FEW.limits.requests
            assert other.statistics.held <= FEW.limits.held
            if other.end is not None:
                break
        service.gate.open()
        await asyncio.sleep(1)
        numbers = [call.number for call in service.calls]
        assert len(numbers) == len(set(numbers))
        assert sorted(service.ended) == sorted(numbers)
        assert idle(other)
        assert other.end is None or "more came" in other.end.text or "while it was announced" in other.end.text
    assert seen == []


async def test_a_request_repeated_during_its_answer_is_answered_once(seen):
    """The answer waits to be sent, and the request comes again and again."""
    service, network = Service(), MemoryNetwork(0.001, 1e5)
    async with meeting(network.at("a"), network.at("b"), "b", service, FEW) as (peer, other):
        asking = asyncio.create_task(peer.request(FAILING, number=7))
        for _ in range(1000):
            peer._links[0].post(Envelope(7, FAILING))
        assert (await asyncio.gather(asking, return_exceptions=True))[0] is not None
        await asyncio.sleep(5)
        assert len(service.calls) == 1
        assert other.end is None
        assert idle(other)
    assert seen == []


async def test_a_request_repeated_after_its_cancel_is_answered(seen):
    service, network = Service(), MemoryNetwork(0.001)
    async with meeting(network.at("a"), network.at("b"), "b", service, FEW) as (peer, other):
        asking = asyncio.create_task(peer.request(WAITING, number=7))
        await service.gate.arrived()
        asking.cancel()
        await asyncio.sleep(1)
        with pytest.raises(errors.AbortedError, match=r"the request came to .* before"):
            await peer.request(WAITING, number=7)
        assert len(service.calls) == 1
        assert idle(other)
    assert seen == []
