"""What every channel must do. A subclass has a fixture `network` that gives a Network, and one `address`."""

import asyncio
import contextlib

import pytest

from aioflow import errors
from aioflow.net.transport.channel import LOST, REFUSED, VIOLATION, ClosedError, Reason, receive


class Ends:
    """A listener, and what it accepted."""

    def __init__(self):
        self.accepted = asyncio.Queue()

    async def accept(self, channel):
        gone = asyncio.Event()
        self.accepted.put_nowait((channel, gone))
        await gone.wait()


@contextlib.asynccontextmanager
async def a_pair(network, address):
    """Both ends of a channel, which are closed in the end."""
    ends = Ends()
    listener = await network.listen(address, ends.accept)
    try:
        near = await network.dial(listener.address)
        far, gone = await ends.accepted.get()
        try:
            yield near, far
        finally:
            gone.set()
            await near.close()
            await far.close()
    finally:
        await listener.close()


async def closed(channel):
    """Why the channel is closed, once it is."""
    try:
        while True:
            await receive(channel)
    except ClosedError as error:
        return error.reason


async def filled(channel):
    """Send until the other end, which receives nothing, takes no more into its buffers."""
    for _ in range(20):
        while not channel.congested:
            channel.send(bytes(60_000))
        await asyncio.sleep(0)


class ChannelTests:
    """The contract."""

    @pytest.fixture
    async def pair(self, network, address):
        async with a_pair(network, address) as pair:
            yield pair

    @pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536])
    async def test_frames_arrive_in_order_in_both_directions(self, pair, size):
        for one, other in (pair, pair[::-1]):
            sent = [bytes([number]) * size for number in range(5)]
            one.send(*sent[:3])
            one.send(memoryview(sent[3]))
            one.send(sent[4])
            assert [await receive(other) for _ in sent] == sent

    async def test_frames_may_be_on_their_way_in_both_directions_at_once(self, pair):
        near, far = pair

        async def push(channel):
            for number in range(200):
                await channel.room()
                channel.send(number.to_bytes(2, "big") * 10_000)

        async def pull(channel):
            return [int.from_bytes((await receive(channel))[:2], "big") for _ in range(200)]

        _, _, *found = await asyncio.gather(push(near), push(far), pull(near), pull(far))
        assert found == [[*range(200)]] * 2

    async def test_whoever_does_not_read_holds_up_who_sends(self, pair):
        near, far = pair
        sent = 0
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0.2):
                    await near.room()
                near.send(bytes(60_000))
                sent += 1
        assert near.congested
        assert 0 < sent < 1000
        for _ in range(sent):
            await receive(far)
        await near.room()
        assert not near.congested
        near.send(b"again")
        assert await receive(far) == b"again"

    async def test_a_wait_that_is_cancelled_takes_nothing(self, pair):
        near, far = pair
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await receive(far)
        near.send(b"whole")
        assert await receive(far) == b"whole"

    @pytest.mark.parametrize("reason", [Reason(), Reason(VIOLATION, "too loud"), Reason(REFUSED, "é" * 200)])
    async def test_what_was_sent_before_closing_arrives_and_then_the_reason(self, pair, reason):
        for one, other in (pair, pair[::-1]):
            if one is pair[1]:
                break  # it is closed by now
            one.send(b"last words")
            closing = asyncio.create_task(one.close(reason))
            assert await receive(other) == b"last words"
            found = await closed(other)
            assert found.code == reason.code
            assert reason.text.startswith(found.text[:50])
            await closing

    async def test_closing_wakes_whoever_waits_and_whoever_comes(self, pair):
        near, _ = pair
        waiting = asyncio.create_task(closed(near))
        await asyncio.sleep(0)
        await near.close(Reason(VIOLATION, "enough"))
        assert await waiting == Reason(VIOLATION, "enough")
        for use in (receive(near), near.room()):
            with pytest.raises(ClosedError, match="enough"):
                await use
        with pytest.raises(ClosedError, match="enough"):
            near.send(b"x")
        await near.close()

    async def test_closing_does_not_wait_for_one_who_does_not_read(self, pair):
        near, _ = pair
        await filled(near)
        async with asyncio.timeout(5):
            await near.close()

    async def test_whoever_waits_for_room_hears_that_the_other_is_gone(self, pair):
        near, far = pair
        await filled(near)
        waiting = asyncio.create_task(near.room())
        await asyncio.sleep(0)
        await far.close(Reason(LOST))
        with pytest.raises(ClosedError):
            await waiting

    async def test_nobody_listens(self, network, address):
        listener = await network.listen(address, Ends().accept)
        await listener.close()
        with pytest.raises(errors.UnavailableError):
            await network.dial(listener.address)

    async def test_a_listener_that_is_closed_closes_what_it_accepted(self, network, address):
        ends = Ends()
        listener = await network.listen(address, ends.accept)
        near = await network.dial(listener.address)
        await ends.accepted.get()
        waiting = asyncio.create_task(closed(near))
        await listener.close()
        await waiting
        await near.close()
