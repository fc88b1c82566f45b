"""The handshake of two tasks: they agree on identity, limits and protocol version, or refuse each other.

The requesting task dials the other one twice: first for a control channel, then for a bulk channel that names it. Each
channel begins with `Hello`. The answer is `Welcome`, or a close with the reason.

Time limits for actions of peers, which count only the time in which this loop turns.
"""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

from aioflow import errors
from aioflow.net.peer.dial_liveness import DialLiveness
from aioflow.net.peer.peer import Peer
from aioflow.net.peer.reconnect import Loss
from aioflow.net.peer.serving import Call, Handler, RecentRequests
from aioflow.net.transport.channel import (
    LOST,
    REFUSED,
    VIOLATION,
    Channel,
    ClosedError,
    Network,
    NotListeningError,
    Reason,
    receive,
)
from aioflow.net.transport.liveness import Offer, Watch
from aioflow.net.wire.codec import Envelope, ProtocolError, announcement
from aioflow.net.wire.control_verbs import VERSIONS, Hello, Welcome, bounded_heartbeat
from aioflow.net.wire.framing import frame_of
from aioflow.net.wire.identity import USUAL, Identity, Settings
from aioflow.net.wire.limits import STANDARD, Limits
from aioflow.net.wire.schema import Message

M = TypeVar("M", bound=Message)
Seek = Callable[[Identity], Awaitable[bool]]
"""Finds out whether the process of that identity has ended."""
Begins = Callable[[Identity], None]
"""Called when a process of that identity has begun."""
_PLACES: Final = {"control": 0, "client": 0, "bulk": 1}
"""The number of the peer's link for a channel of that role."""
_ATTEMPTS: Final = 3
"""The most attempts to dial a task when connections are lost during the handshake."""


class _CutError(errors.UnavailableError):
    """A connection was lost during the handshake."""


async def _receive(channel: Channel, kind: type[M]) -> M:
    """The first message of a channel. ProtocolError if it is another."""
    announced = announcement(await receive(channel), STANDARD)
    if announced.record.cls is not kind or announced.nbytes:
        raise ProtocolError(f"a channel begins with {kind.__name__}, not with {announced.record.name}")
    message = announced.envelope([]).message
    assert isinstance(message, kind)
    return message


async def refuse_all(call: Call) -> Any:
    """The handler of a client, which answers no requests."""
    raise errors.UnimplementedError(f"{type(call.message).__name__} is not answered here")


# Dialling


async def connect(
    network: Network,
    address: str,
    local: Identity,
    *,
    target: str = "",
    handler: Handler = refuse_all,
    settings: Settings = USUAL,
    liveness: DialLiveness | None = None,
) -> Peer:
    """Connect to the task at an address. It must be `target`, if that is given.

    The caller must close the peer, even after its loss. This waits for a silent task as long as a peer may be silent,
    and for a busy task until it is cancelled. Meanwhile `liveness` shows whether the task is busy.

    Raises:
        UnavailableError: the task cannot be reached.
        FailedPreconditionError: the task refuses, for example since it is another task, or of another cluster.
    """
    cut = ""
    async with contextlib.AsyncExitStack() as stack:
        async with (liveness or DialLiveness()).required(network, address, settings.silence):
            for _ in range(_ATTEMPTS):
                try:
                    peer = await _connect(network, address, local, target, handler, settings)
                    stack.push_async_callback(peer.close)  # this may be cancelled while the block above ends
                    break
                except _CutError as error:
                    cut = error.message
                except NotListeningError as error:
                    raise errors.UnavailableError(error.message) from error
            else:
                raise errors.UnavailableError(cut)
        stack.pop_all()
        return peer


async def _connect(
    network: Network, address: str, local: Identity, target: str, handler: Handler, settings: Settings
) -> Peer:
    """Connect in one attempt. _CutError if a connection is lost during the handshake."""
    role = "control" if local.task else "client"
    async with contextlib.AsyncExitStack() as stack:
        try:
            control, welcome = await _dial(network, address, _hello(local, role, target, settings), stack)
        except NotListeningError as error:
            raise errors.UnavailableError(error.message) from error
        remote = Identity(welcome.task, welcome.incarnation, welcome.cluster)
        hello = _hello(local, "bulk", welcome.task, settings, welcome.connection)
        try:
            bulk, again = await _dial(network, address, hello, stack)
        except errors.FailedPreconditionError as error:
            text = f"{remote.label} at {address} does not know the connection any more: {error.message}"
            raise _CutError(text, task=remote.task or None) from None  # it has lost the control channel, or restarted
        if again.incarnation != welcome.incarnation:
            raise errors.UnavailableError(f"{remote.label} at {address} has restarted", task=remote.task or None)
        limits = settings.limits.agreed(welcome.limits)

        async def redial(place: int, received: int) -> tuple[Channel, int]:
            again = _hello(local, (role, "bulk")[place], remote.task, settings, welcome.connection, received)
            return await _redial(network, address, again, remote, settings.silence)

        peer = Peer(
            local, remote, limits, handler, RecentRequests(settings.remembered), settings.silence, redial=redial
        )
        if welcome.monitor:
            heartbeat = min(settings.silence, welcome.heartbeat)
            monitor = network.watch(control, welcome.connection, welcome.monitor, welcome.monitor_key, heartbeat)
            peer.listen_to(monitor)
        peer.attach(control)
        peer.attach(bulk)
        stack.pop_all()
        return peer


def _hello(
    local: Identity, role: str, target: str, settings: Settings, connection: str = "", received: int | None = None
) -> Hello:
    return Hello(
        role, VERSIONS, local.incarnation, local.task, target, local.cluster, connection, settings.limits, received,
        bounded_heartbeat(settings.silence),
    )  # fmt: skip


async def _redial(
    network: Network, address: str, hello: Hello, remote: Identity, silence: float
) -> tuple[Channel, int]:
    """A new channel in place of a lost one, and the number of bytes that the task has received.

    Raises:
        NotListeningError: the process of that task has ended.
        UnavailableError: the task cannot be reached for now.
        FailedPreconditionError: the task has forgotten the connection.
    """
    async with contextlib.AsyncExitStack() as stack:
        async with DialLiveness().required(network, address, silence):
            channel, welcome = await _dial(network, address, hello, stack)
        if welcome.incarnation != remote.incarnation:
            raise NotListeningError(f"{remote.label} at {address} has restarted")
        stack.pop_all()
        return channel, welcome.received


async def _dial(
    network: Network, address: str, hello: Hello, stack: contextlib.AsyncExitStack
) -> tuple[Channel, Welcome]:
    try:
        channel = await network.dial(address)
        stack.push_async_callback(channel.close)
        channel.send(frame_of(Envelope(0, hello), STANDARD))
        welcome = await _receive(channel, Welcome)
        if welcome.version not in VERSIONS:
            raise ProtocolError(f"it welcomes to version {welcome.version}")
        return channel, welcome
    except ClosedError as closed:
        if closed.reason.code == REFUSED:
            raise errors.FailedPreconditionError(f"{address} refuses: {closed.reason.text}") from None
        raise _CutError(f"{address} cannot be reached: {closed.reason}") from None
    except ProtocolError as error:
        raise errors.UnavailableError(f"{address} does not speak the protocol: {error}") from None


# Answering


class Acceptor:
    """Accepts or refuses the connections to a task. `accept` is for a Network's `listen`.

    Attributes:
        peers: the connected peers.
    """

    def __init__(
        self, local: Identity, handler: Handler, settings: Settings = USUAL, has_ended: Seek | None = None, *,
        network: Network | None = None, begins: Begins | None = None,
    ) -> None:  # fmt: skip
        """An acceptor without peers.

        Args:
            local: the task that is dialled.
            handler: answers requests.
            settings: how the task treats its peers.
            has_ended: finds out whether a task has ended, when a connection that it dialled is lost.
            network: offers monitors to dialling peers; None for no monitors.
            begins: called with the identity of each dialling task, before the task's first request.
        """
        self.peers: Final[dict[str, Peer]] = {}
        self._local: Final = local
        self._handler: Final = handler
        self._settings: Final = settings
        self._recent: Final = RecentRequests(settings.remembered)
        self._network: Final = network
        self._has_ended: Final = has_ended
        self._begins: Final = begins

    async def accept(self, channel: Channel) -> None:
        """Serve a channel until its peer is lost."""
        try:
            async with listening_timeout(self._settings.handshake):
                hello = await _receive(channel, Hello)
        except TimeoutError:
            await channel.close(Reason(REFUSED, f"no Hello came within {self._settings.handshake:g} s"))
        except ProtocolError as error:
            await channel.close(Reason(VIOLATION, str(error)))
        except ClosedError:
            pass
        else:
            await self._answer(channel, hello)

    async def _answer(self, channel: Channel, hello: Hello) -> None:
        refusal = self._refusal(hello)
        if refusal:
            await channel.close(Reason(REFUSED, refusal))
            return
        if hello.received is not None:
            await self._resume(channel, hello)
            return
        connection = hello.connection or secrets.token_hex(16)
        limits = self._settings.limits.agreed(hello.limits)
        version = max(set(VERSIONS).intersection(hello.versions))
        offer = self._offer(channel, hello, connection)
        try:
            with contextlib.suppress(ClosedError):
                channel.send(frame_of(Envelope(0, self._welcome(version, connection, limits, offer)), STANDARD))
                await self._serve(channel, hello, connection, limits, None if offer is None else offer.watch)
        finally:
            if offer is not None:
                offer.watch.close()

    def _offer(self, channel: Channel, hello: Hello, connection: str) -> Offer | None:
        if self._network is None or hello.role == "bulk":
            return None
        silence = self._settings.silence
        return self._network.offer(channel, connection, min(silence, hello.heartbeat or silence))

    def _welcome(self, version: int, connection: str, limits: Limits, offer: Offer | None) -> Welcome:
        local = self._local
        return Welcome(
            version, local.incarnation, local.task, local.cluster, connection, limits,
            heartbeat=bounded_heartbeat(self._settings.silence),
            monitor=offer.port if offer else 0, monitor_key=offer.key if offer else "",
        )  # fmt: skip

    def _refusal(self, hello: Hello) -> str:
        """Return the reason to refuse this Hello; empty if it is accepted."""
        local = self._local
        if not set(VERSIONS).intersection(hello.versions):
            return f"versions {_listed(VERSIONS)} of the protocol are spoken here, not {_listed(hello.versions)}"
        if hello.target and hello.target != local.task:
            return f"this is {local.label}, not {hello.target}"
        if hello.cluster and local.cluster and hello.cluster != local.cluster:
            return f"{local.label} has another cluster spec than {hello.task or 'the client'}"
        if (hello.role == "control" and not hello.task) or (hello.role == "client" and hello.task):
            return f"{hello.role} is not a role of {hello.task or 'a client'}"
        peer = self.peers.get(hello.connection)
        if peer is not None and (
            peer.remote.incarnation != hello.incarnation or peer.remote.task != hello.task or peer.end
        ):
            peer = None
        if hello.received is not None:
            return self._refusal_to_resume(peer, hello)
        if hello.role != "bulk":
            return self._refusal_of_new(hello)
        if peer is None or peer.channels != 1:
            return "a bulk channel must name a connection that waits for it"
        return ""

    def _refusal_to_resume(self, peer: Peer | None, hello: Hello) -> str:
        if peer is None or peer.channels != 2:
            return "the task has forgotten the connection"
        if not peer.link_at(_PLACES[hello.role]).keeps(hello.received or 0):
            return f"the connection cannot continue after {hello.received} bytes"
        return ""

    def _refusal_of_new(self, hello: Hello) -> str:
        if hello.connection:
            return "a new connection must not have a number"
        if len(self.peers) >= self._settings.connections:
            return f"{self._local.label} has {len(self.peers)} connections, some of which are lost and may be resumed"
        return ""

    async def _resume(self, channel: Channel, hello: Hello) -> None:
        """Continue a lost connection over another channel, until that is lost or replaced."""
        peer, place, local = self.peers[hello.connection], _PLACES[hello.role], self._local
        old, link = peer.detach(place), peer.link_at(place)
        version = max(set(VERSIONS).intersection(hello.versions))
        welcome = Welcome(
            version, local.incarnation, local.task, local.cluster, hello.connection, peer.limits, link.received
        )
        with contextlib.suppress(ClosedError):  # then the peer dials again
            channel.send(frame_of(Envelope(0, welcome), STANDARD))
        peer.resume(place, channel, hello.received or 0)
        released = link.released
        await old.close(Reason(LOST))
        await link.resend()
        await released.wait()

    async def _serve(
        self, channel: Channel, hello: Hello, connection: str, limits: Limits, watch: Watch | None
    ) -> None:
        if hello.role == "bulk":
            await self.peers[connection].attach(channel).released.wait()
            return
        remote = Identity(hello.task, hello.incarnation, hello.cluster)
        self._lose_before(remote)
        has_ended = functools.partial(self._has_ended, remote) if self._has_ended is not None and remote.task else None
        silence = self._settings.silence if remote.task else max(self._settings.silence, hello.heartbeat or 0.0)
        peer = Peer(self._local, remote, limits, self._handler, self._recent, silence, has_ended=has_ended)
        peer.listen_to(watch)
        self.peers[connection] = peer
        try:
            peer.attach(channel)
            await peer.closed()
        finally:
            del self.peers[connection]
            await peer.close()

    def _lose_before(self, remote: Identity) -> None:
        """Lose the peers of the former process of a restarted task, so that its requests end."""
        for peer in list(self.peers.values()):
            if remote.task and peer.remote.task == remote.task and peer.remote.incarnation != remote.incarnation:
                peer.lose(Loss.ENDED, "it has restarted")
        if remote.task and self._begins is not None:
            self._begins(remote)

    async def close(self, text: str = "") -> None:
        """Say goodbye to all."""
        await asyncio.gather(*[peer.close(text) for peer in list(self.peers.values())])


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


_PARTS: Final = 5
"""The number of parts in which the time is counted."""


@contextlib.asynccontextmanager
async def listening_timeout(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Like `asyncio.timeout`, but a part of the time counts only if the loop turned meanwhile."""
    loop = asyncio.get_running_loop()
    part, left = seconds / _PARTS, _PARTS

    timer: asyncio.TimerHandle

    def look(due: float) -> None:
        nonlocal left, timer
        left -= loop.time() < due + part
        if left:
            timer = loop.call_later(part, look, loop.time() + part)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(part, look, loop.time() + part)
        try:
            yield limit
        finally:
            timer.cancel()
