"""Channels in memory: the contract, time, and faults."""

import asyncio

import pytest

from aioflow import errors
from aioflow.net.transport.channel import LOST, ClosedError, receive
from aioflow.net.transport.in_memory import MemoryNetwork
from tests.support.net_channel_contract import ChannelTests, a_pair, closed


class TestMemoryChannel(ChannelTests):
    @pytest.fixture
    def address(self):
        return "b"

    @pytest.fixture
    def network(self):
        hosts = MemoryNetwork()
        return Between(hosts)


class Between:
    """Listens at b, and dials from a."""

    def __init__(self, network):
        self.listen = network.at("b").listen
        self.dial = network.at("a").dial


class TestMemoryChannelThatIsSlow(TestMemoryChannel):
    @pytest.fixture
    def network(self):
        return Between(MemoryNetwork(latency=0.01, bandwidth=1e8))


@pytest.fixture
def network():
    return MemoryNetwork(latency=0.5, bandwidth=1000)


@pytest.fixture
async def pair(network):
    async with a_pair(Between(network), "b") as pair:
        yield pair


def now():
    return asyncio.get_running_loop().time()


async def test_a_frame_takes_as_long_as_the_network_says(network, pair):
    near, far = pair
    began = now()
    near.send(bytes(1000), bytes(500))
    await receive(far)
    assert now() - began == pytest.approx(1.5)
    await receive(far)
    assert now() - began == pytest.approx(2.0)


async def test_a_frame_arrives_when_its_timer_rings_though_that_is_a_little_too_early(pair):
    near, far = pair
    near.send(bytes(1000))
    receiving = asyncio.create_task(receive(far))
    await asyncio.sleep(1.5 - 5e-7)  # what is due within the resolution of the clock rings now
    for _ in range(10):  # two that waited once more in turn would keep the clock from moving
        await asyncio.sleep(0)
    assert receiving.done()
    assert await receiving == bytes(1000)


async def test_what_is_held_up_by_a_partition_arrives_when_it_heals(network, pair):
    near, far = pair
    network.part("a", "b")
    near.send(b"x")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await receive(far)
    network.heal("a", "b")
    assert await receive(far) == b"x"


async def test_a_partition_hides_that_the_other_is_gone(network, pair):
    near, far = pair
    network.part("a", "b")
    await far.close()
    near.send(b"x")
    waiting = asyncio.create_task(closed(near))
    await asyncio.sleep(100)
    assert not waiting.done()
    network.heal("a", "b")
    await waiting


async def test_whoever_closes_during_a_partition_waits_for_nothing(network, pair):
    near, _ = pair
    network.part("a", "b")
    while not near.congested:
        near.send(bytes(60_000))
    waiting = [asyncio.create_task(use) for use in (near.room(), receive(near))]
    await asyncio.sleep(1)
    await near.close()
    assert [type(found) for found in await asyncio.gather(*waiting, return_exceptions=True)] == [ClosedError] * 2


async def test_whoever_dials_across_a_partition_waits_until_it_heals(network, pair):
    network.part("a", "c")
    dialling = asyncio.create_task(network.at("a").dial("c"))
    await asyncio.sleep(100)
    network.heal("a", "c")
    with pytest.raises(errors.UnavailableError, match="no server listens at c"):
        await dialling


@pytest.mark.parametrize("fault", ["cut", "crash"])
async def test_what_was_on_its_way_is_lost_with_the_connection(network, pair, fault):
    near, far = pair
    far.send(b"x")
    network.crash("b") if fault == "crash" else network.cut("a", "b")
    assert (await closed(near)).code == LOST
    with pytest.raises(ClosedError):
        near.send(b"y")


async def test_a_host_that_crashed_can_listen_again(network):
    async def accept(channel):
        channel.send(b"hello")

    first = await network.at("b").listen("b", accept)
    with pytest.raises(errors.UnavailableError, match="b is in use"):
        await network.at("b").listen("b", accept)
    network.crash("b")
    second = await network.at("b").listen("b", accept)
    await first.close()
    channel = await network.at("a").dial("b")
    assert await receive(channel) == b"hello"
    await channel.close()
    await second.close()


async def test_frames_can_be_late_and_keep_their_order(network, pair):
    near, far = pair
    delays = iter([3.0, 0.0, 1.0])
    network.path("a", "b").delay = lambda: next(delays)
    near.send(b"1", b"2", b"3")
    assert [await receive(far) for _ in range(3)] == [b"1", b"2", b"3"]


async def test_frames_can_arrive_twice(network, pair):
    near, far = pair
    network.path("a", "b").twice = lambda frame: frame == b"2"
    near.send(b"1", b"2", b"3")
    assert [await receive(far) for _ in range(4)] == [b"1", b"2", b"2", b"3"]


async def arrived(channel):
    """The frame that comes within a hundred seconds, if one does."""
    try:
        async with asyncio.timeout(100):
            return await receive(channel)
    except TimeoutError:
        return None


async def test_after_a_frame_that_is_lost_nothing_arrives_in_that_direction(network, pair):
    near, far = pair
    lost = iter([False, True, False])
    network.path("a", "b").lost = lambda: next(lost)
    near.send(b"1", b"2", b"3")
    assert [await arrived(far) for _ in range(2)] == [b"1", None]
    far.send(b"4")
    assert await arrived(near) == b"4"
    await near.close()
    far.send(b"5")
    assert await arrived(far) is None


async def test_of_a_connection_that_hangs_neither_end_is_told_and_a_new_one_works(network):
    listening = await network.at("b").listen("b", echo)
    old = await network.at("a").dial("b")
    network.channels("b", "a")[0].hang()
    old.send(b"x")
    assert await arrived(old) is None
    new = await network.at("a").dial("b")
    new.send(b"y")
    assert await arrived(new) == b"y"
    for channel in (old, new):
        await channel.close()
    await listening.close()


async def echo(channel):
    while True:
        try:
            channel.send(await receive(channel))
        except ClosedError:
            return


async def test_a_partition_can_have_one_direction(network, pair):
    near, far = pair
    network.part("a", "b", one_way=True)
    near.send(b"1")
    far.send(b"2")
    assert await arrived(far) is None
    assert await arrived(near) == b"2"
    network.heal("a", "b")
    assert await arrived(far) == b"1"


async def test_when_power_fails_nobody_is_told_and_whoever_dials_waits_until_the_host_is_there_again(network, pair):
    near, _ = pair
    network.crash("b", silent=True)
    near.send(b"x")
    assert await arrived(near) is None
    dialling = asyncio.create_task(network.at("a").dial("b"))
    await asyncio.sleep(100)
    assert not dialling.done()
    listening = await network.at("b").listen("b", echo)
    channel = await dialling
    channel.send(b"y")
    assert await arrived(channel) == b"y"
    await channel.close()
    await listening.close()


async def test_a_host_that_has_crashed_dials_nobody(network, pair):
    killed = network.at("b")
    listening = await network.at("a").listen("a", echo)
    dialling = asyncio.create_task(killed.dial("a"))
    await asyncio.sleep(0.1)
    network.crash("b")
    for refused in (dialling, asyncio.create_task(killed.dial("a"))):
        with pytest.raises(errors.UnavailableError, match="b has crashed"):
            await refused
    channel = await network.at("b").dial("a")
    await channel.close()
    await listening.close()


async def test_each_path_is_prepared_once_and_told_of_each_frame():
    sent = []

    def prepare(source, target, path):
        path.sent = lambda frame: sent.append((source, target, bytes(frame)))

    async with a_pair(Between(MemoryNetwork(prepare=prepare)), "b") as (near, far):
        near.send(b"1")
        far.send(b"2")
        near.send(b"3")
    assert sent == [("a", "b", b"1"), ("b", "a", b"2"), ("a", "b", b"3")]
