"""Who is let in, and what hostile clients can do."""

import asyncio
import contextlib
import logging
import ssl

import aiohttp
import pytest

from aioflow import errors
from aioflow.net.peer.handshake import Acceptor, connect
from aioflow.net.transport.authority import init, issue
from aioflow.net.transport.channel import receive
from aioflow.net.transport.credentials import Token, client_tls, server_tls
from aioflow.net.transport.websocket_server import HEADER, PATH, WebSocketNetwork, dial
from aioflow.net.wire.control_verbs import VERSIONS, Hello
from aioflow.net.wire.identity import Identity, Settings
from tests.support.net_frames import announced, frames
from tests.support.net_peers import PS, WORKER, Service, idle, meeting, tensor

pytestmark = pytest.mark.sockets
ANYWHERE = "127.0.0.1:0"
SECRET = "correct-horse-battery"


@contextlib.asynccontextmanager
async def serving(network, service=None, **settings):
    """The address at which a task listens, and its acceptor."""
    acceptor = Acceptor(Identity(WORKER), service or Service(), Settings(**settings))
    listener = await network.listen(ANYWHERE, acceptor.accept)
    try:
        yield listener, acceptor
    finally:
        await acceptor.close()
        await listener.close()


async def works(network, address):
    """Whether a task that listens there answers."""
    peer = await connect(network, address, Identity(PS))
    try:
        return len((await peer.request(tensor(100_000))).values[0]) == 100_000
    finally:
        await peer.close()


async def until(condition):
    """Return when it holds."""
    while not condition():  # noqa: ASYNC110 - it is about what another end has seen
        await asyncio.sleep(0.001)


# Tokens


async def test_whoever_shows_the_token_is_let_in():
    network = WebSocketNetwork(Token(SECRET))
    async with serving(network) as (listener, _):
        assert await works(network, listener.address)


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (None, r"asks for a token, and none is set: AIOFLOW_TOKEN or Config\(token_file=\)"),
        (Token("another-horse-battery"), "does not accept the token"),
        (Token(SECRET + "x"), "does not accept the token"),
    ],
)
async def test_whoever_does_not_is_not(token, text):
    async with serving(WebSocketNetwork(Token(SECRET))) as (listener, acceptor):
        with pytest.raises(errors.UnauthenticatedError, match=f"{listener.address} {text}"):
            await WebSocketNetwork(token).dial(listener.address)
        assert acceptor.peers == {}


async def test_the_token_is_in_no_error_log_or_repr(caplog):
    caplog.set_level(logging.DEBUG)
    shown = []
    network = WebSocketNetwork(Token(SECRET))
    async with serving(WebSocketNetwork(Token("another-horse-battery"))) as (listener, _):
        with pytest.raises(errors.UnauthenticatedError) as caught:
            await network.dial(listener.address)
        error = caught.value
        while error is not None:
            shown += [repr(error), repr(vars(error))]
            error = error.__cause__ or error.__context__
    async with serving(network) as (listener, acceptor):
        peer = await connect(network, listener.address, Identity(PS))
        shown += [repr(vars(one)) for one in (peer, *acceptor.peers.values(), network, listener, acceptor)]
        await peer.close()
    assert SECRET not in "".join(shown) + caplog.text


# Upgrade requests


async def ask(address, headers, path=PATH, method="GET"):
    """The status and text of the answer to a plain request."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{address}{path}", headers=headers) as r,
    ):
        return r.status, await r.text()


@pytest.mark.parametrize(
    ("headers", "path", "method", "status", "text"),
    [
        ({HEADER: "1"}, "/", "GET", 404, "not found"),
        ({HEADER: "1"}, PATH, "POST", 404, "not found"),
        ({HEADER: "1", "Origin": "https://elsewhere.example"}, PATH, "GET", 403, "not let in"),
        ({HEADER: "1", "Origin": "null"}, PATH, "GET", 403, "not let in"),
        ({}, PATH, "GET", 400, "the header X-Aioflow is missing"),
        ({HEADER: "1"}, PATH, "GET", 401, "the token is missing"),
        ({HEADER: "1", "Authorization": SECRET}, PATH, "GET", 401, "the token is missing"),
        ({HEADER: "1", "Authorization": f"Bearer {SECRET}"}, PATH, "GET", 400, "WebSocket"),
    ],
)
async def test_requests_that_are_no_upgrade_of_a_task_are_refused(headers, path, method, status, text):
    async with serving(WebSocketNetwork(Token(SECRET))) as (listener, _):
        found = await ask(listener.address, headers, path, method)
        assert found[0] == status
        assert text in found[1]


async def test_an_origin_may_be_let_in():
    async with serving(WebSocketNetwork(origins=("https://ours.example",))) as (listener, _):
        for origin, status in (("https://ours.example", 400), ("https://ours.example.evil", 403)):
            found, text = await ask(listener.address, {HEADER: "1", "Origin": origin})
            assert found == status
            assert ("WebSocket" in text) == (status == 400)  # all that is wrong with the first is that it is no upgrade


async def test_frames_are_never_compressed():
    async with serving(WebSocketNetwork()) as (listener, _), aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"http://{listener.address}{PATH}", headers={HEADER: "1"}, compress=15)
        assert socket.compress == 0
        await socket.close()


@pytest.mark.parametrize("address", ["10.0.0.1", "host:99999", "ws://host:1", "a b:1", "", "host:"])
async def test_what_is_no_address_is_named(address):
    with pytest.raises(errors.InvalidArgumentError, match="is not an address; write host:port"):
        await WebSocketNetwork().dial(address)


async def test_an_address_that_cannot_be_bound_or_reached_is_named():
    network = WebSocketNetwork()
    async with serving(network) as (listener, _):
        with pytest.raises(errors.UnavailableError, match=f"{listener.address} cannot be bound: .*in use"):
            await network.listen(listener.address, None)
    with pytest.raises(errors.UnavailableError, match=f"{listener.address} cannot be reached"):
        await network.dial(listener.address)
    with pytest.raises(errors.UnavailableError, match=r"nowhere\.invalid:1 cannot be reached"):
        await network.dial("nowhere.invalid:1")


async def test_something_else_that_listens_is_no_task():
    async def answer(reader, writer):
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = "{}:{}".format(*server.sockets[0].getsockname())
    with pytest.raises(errors.UnavailableError, match="answers with HTTP status 200: it is not a task"):
        await WebSocketNetwork().dial(address)
    server.close()
    await server.wait_closed()


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    folder = tmp_path_factory.mktemp("ca")
    init(folder)
    issue(folder, "elsewhere", ["elsewhere.example"])
    return folder


@pytest.fixture(scope="module")
def stranger(tmp_path_factory, authority):
    folder = tmp_path_factory.mktemp("other_ca")
    init(folder)
    return folder


async def test_with_mutual_tls_whoever_has_a_certificate_is_let_in(authority):
    network = WebSocketNetwork(server_tls=server_tls(authority), client_tls=client_tls(authority))
    async with serving(network) as (listener, _):
        assert await works(network, listener.address)


async def test_with_tls_a_token_can_be_enough(authority):
    server = WebSocketNetwork(Token(SECRET), server_tls=server_tls(authority, mutual=False))
    async with serving(server) as (listener, _):
        assert await works(WebSocketNetwork(Token(SECRET), client_tls=client_tls(authority, None)), listener.address)


async def test_certificates_that_do_not_fit_are_refused(authority, stranger):
    mixed = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    mixed.load_verify_locations(authority / "ca.pem")
    mixed.load_cert_chain(stranger / "node.pem", stranger / "node.key")
    wrong = {
        "another authority": client_tls(stranger),
        "no certificate": client_tls(authority, None),
        "a stranger's certificate": mixed,
        "no TLS": None,
    }
    async with serving(WebSocketNetwork(server_tls=server_tls(authority))) as (listener, acceptor):
        for what, context in wrong.items():
            kinds = (errors.UnauthenticatedError, errors.UnavailableError)
            with pytest.raises(kinds, match=listener.address):
                await works(WebSocketNetwork(client_tls=context), listener.address)
            assert acceptor.peers == {}, what


async def test_a_certificate_of_another_host_is_refused(authority):
    network = WebSocketNetwork(server_tls=server_tls(authority, "elsewhere"), client_tls=client_tls(authority))
    async with serving(network) as (listener, _):
        with pytest.raises(errors.UnauthenticatedError, match="IP address mismatch"):
            await network.dial(listener.address)


# Hostile clients


async def test_whoever_connects_and_says_nothing_is_cut_off():
    settings = Settings(handshake=0.1)
    async with serving(WebSocketNetwork(settings=settings), handshake=0.1) as (listener, _):
        host, port = listener.address.split(":")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /aioflow HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        channel = await dial(listener.address, None, None, settings.limits)
        with pytest.raises(Exception, match=r"no Hello came within 0\.1 s"):
            await receive(channel)
        await channel.close()
        assert await works(WebSocketNetwork(), listener.address)


async def test_no_more_than_so_many_are_let_in():
    network = WebSocketNetwork(settings=Settings(connections=4))
    async with serving(network) as (listener, _):
        peers = [await connect(network, listener.address, Identity()) for _ in range(2)]
        with pytest.raises(errors.UnavailableError, match="has too many connections"):
            await network.dial(listener.address)
        for peer in peers:
            await peer.close()


HELLO = frames(Hello("client", VERSIONS, 1))
HOSTILE = {
    "a text": ["text"],
    "nonsense": [b"nonsense"],
    "a huge frame": [bytes(1 << 20)],
    "a huge frame later": [*HELLO, bytes(1 << 20)],
    "a text later": [*HELLO, "text"],
    "nonsense later": [*HELLO, b"\xff" * 100],
    "too much": [*HELLO, *[announced(number, 1 << 30) for number in range(8)]],
    "too many": [*HELLO, *[announced(number, 20_000) for number in range(20_000)]],
    "more than was announced": [*HELLO, announced(1, 20_000, 20_000), bytes(30_000)],
    "more than can be": [*HELLO, announced(1, 1 << 62)],
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
async def test_whoever_breaks_the_protocol_is_cut_off_and_others_are_not_disturbed(sent):
    network = WebSocketNetwork()
    async with meeting(network, network, ANYWHERE, Service()) as (good, other):
        address = ":".join(map(str, good._links[0]._channel._transport.get_extra_info("peername")))
        async with aiohttp.ClientSession() as session:
            url = f"http://{address}{PATH}"
            async with session.ws_connect(url, headers={HEADER: "1"}, max_msg_size=0) as socket:
                with contextlib.suppress(ConnectionError):
                    for piece in sent:
                        await (socket.send_str(piece) if isinstance(piece, str) else socket.send_bytes(piece))
                while True:
                    message = await socket.receive()
                    if message.type is not aiohttp.WSMsgType.BINARY:
                        break
                assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        assert len((await good.request(tensor(100_000))).values[0]) == 100_000
        assert idle(other)


async def test_whoever_asks_and_does_not_listen_is_not_answered_without_end():
    service = Service()
    async with serving(WebSocketNetwork(), service, silence=1.0) as (listener, acceptor):
        channel = await dial(listener.address, None, None, Settings().limits)
        channel.send(*HELLO)
        await receive(channel)
        await asyncio.sleep(0)
        sent = [frames(tensor(10_000), number)[0] for number in range(1, 3000)]
        (peer,) = acceptor.peers.values()
        with contextlib.suppress(errors.OpError, ConnectionError):  # it may be sent away before it has sent all
            for frame in sent:
                channel.send(frame)
                await channel.room()
        await until(lambda: len(service.ended) == len(sent) or peer.end is not None)
        assert peer._links[0]._channel._transport.get_write_buffer_size() < 2 << 20
        await channel.close()


async def test_a_gigabyte_that_was_announced_takes_no_memory():
    import resource

    network = WebSocketNetwork()
    async with meeting(network, network, ANYWHERE, Service()) as (good, other):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        good._links[1]._channel.send(announced(77, 1 << 30))
        await until(lambda: other.statistics.arriving)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
