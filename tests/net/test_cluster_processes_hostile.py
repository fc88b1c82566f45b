"""Whoever is not let in, and whoever means no good, at servers over real sockets."""

import asyncio
import contextlib
import functools
import logging

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.peer.handshake import Acceptor, connect
from aioflow.net.transport.authority import init
from aioflow.net.transport.credentials import Token, client_tls, server_tls
from aioflow.net.transport.websocket_server import WebSocketNetwork
from aioflow.net.wire.identity import Identity, Settings
from aioflow.net.wire.limits import Limits
from tests.support.cluster_processes import Processes, addresses, soon
from tests.support.faulty_proxy import proxy
from tests.support.net_frames import announced
from tests.support.net_peers import PS, WORKER, Service, tensor

pytestmark = pytest.mark.sockets
SECRET = "correct-horse-battery"
FIRST = "/job:worker/replica:0/task:0"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    folder = tmp_path_factory.mktemp("ca")
    init(folder)
    return folder


@pytest.fixture(scope="module")
def stranger(tmp_path_factory, authority):
    folder = tmp_path_factory.mktemp("other_ca")
    init(folder)
    return folder


@contextlib.asynccontextmanager
async def serving(network):
    acceptor = Acceptor(Identity(WORKER), Service(), Settings())
    listener = await network.listen("127.0.0.1:0", acceptor.accept)
    try:
        yield listener
    finally:
        await acceptor.close()
        await listener.close()


async def opened(address, ssl=None):
    return await asyncio.open_connection(*address.split(":"), ssl=ssl)


async def gone(*connections):
    for _, writer in connections:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


# TLS


@pytest.mark.slow
def test_a_worker_with_certificates_lets_in_whoever_has_one_of_its_authority(authority, stranger):
    with af.Graph().as_default() as graph:
        af.add(af.constant(1.0), 2.0, name="sum")

    async def run(target, ssl):
        async with af.Session(target, graph=graph, config=af.Config(ssl=ssl)) as session:
            return await session.run("sum:0")

    with Processes(addresses({"worker": 1}), options=lambda task: ("--tls", str(authority))) as processes:
        address = processes.address(FIRST)
        assert asyncio.run(run(f"wss://{address}", authority)) == 3
        wrong = {"another authority": stranger, "no certificate": client_tls(authority, None)}
        for what, ssl in wrong.items():
            with pytest.raises((errors.UnauthenticatedError, errors.UnavailableError), match=address):
                asyncio.run(run(f"wss://{address}", ssl))
            assert asyncio.run(run(f"wss://{address}", authority)) == 3, what
        with pytest.raises(errors.UnavailableError, match=address):
            asyncio.run(run(f"ws://{address}", None))


async def test_with_tls_what_was_changed_on_the_way_is_never_taken_for_a_value(authority):
    network = WebSocketNetwork(server_tls=server_tls(authority), client_tls=client_tls(authority))
    async with serving(network) as listener, proxy("127.0.0.1:0", listener.address, seed=3) as between:
        ended = 0
        for likely in (0.0, 0.02, 0.1, 0.5, 1.0):
            between.spoil = 0.0
            peer = await connect(network, between.address, Identity(PS))
            between.spoil = likely
            asked = [peer.request(tensor(300_000, number)) for number in range(5)]
            for number, found in enumerate(await asyncio.gather(*asked, return_exceptions=True)):
                if isinstance(found, errors.UnavailableError):
                    ended += 1
                else:
                    assert np.all(found.values[0] == number)
            await peer.close()
        assert ended


async def test_whoever_does_not_finish_the_tls_handshake_is_cut_off(authority):
    settings = Settings(handshake=0.1)
    network = WebSocketNetwork(server_tls=server_tls(authority), client_tls=client_tls(authority), settings=settings)
    async with serving(network) as listener:
        silent = await opened(listener.address)
        with contextlib.suppress(ConnectionError):
            assert await silent[0].read() == b""
        await gone(silent)
        peer = await connect(network, listener.address, Identity(PS))
        await peer.close()


async def test_unfinished_tls_handshakes_count_as_connections(authority):
    settings = Settings(connections=4)
    network = WebSocketNetwork(server_tls=server_tls(authority), client_tls=client_tls(authority), settings=settings)
    async with serving(network) as listener:
        silent = [await opened(listener.address) for _ in range(settings.connections)]
        try:
            with pytest.raises(errors.UnavailableError):
                await (await network.dial(listener.address)).close()
        finally:
            await gone(*silent)


async def left(listener):
    return listener.connections


async def test_whoever_leaves_before_the_tls_handshake_is_done_makes_room_for_others_after_a_moment(authority):
    settings = Settings(connections=2, handshake=0.3)
    network = WebSocketNetwork(server_tls=server_tls(authority), client_tls=client_tls(authority), settings=settings)
    async with serving(network) as listener:
        silent = [await opened(listener.address) for _ in range(settings.connections)]
        with pytest.raises(errors.UnavailableError, match="too many connections"):
            await network.dial(listener.address)
        await gone(*silent)
        await soon(functools.partial(left, listener))
        peer = await connect(network, listener.address, Identity(PS))
        await peer.close()


# Requests


async def test_a_token_in_a_malformed_request_is_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    async with serving(WebSocketNetwork(Token(SECRET))) as listener:
        reader, writer = asked = await opened(listener.address)
        writer.write(f"GET /aioflow HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\x01\r\n\r\n".encode())
        assert b" 400 " in await reader.readline()
        await gone(asked)
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text


# Credit


async def test_whoever_sends_more_than_its_credit_on_the_second_channel_is_cut_off_with_that_reason():
    network, limits = WebSocketNetwork(), Limits()
    async with serving(network) as listener:
        peer = await connect(network, listener.address, Identity(PS))
        bulk = peer._links[1]._channel
        for number in range(1, 2 + limits.window // limits.charge(limits.tensor)):
            bulk.send(announced(number, limits.tensor))
        await peer.closed()
        assert "of credit left" in str(peer.end)
        again = await connect(network, listener.address, Identity(PS))
        assert len((await again.request(tensor(1000))).values[0]) == 1000
        await again.close()
