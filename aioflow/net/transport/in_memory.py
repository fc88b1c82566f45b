"""Channels in memory, on the loop's clock: a network with latency, a bandwidth, and faults when they are wanted.

    network = MemoryNetwork(latency=0.001, bandwidth=1e9)
    listener = await network.listen("b", accept)
    channel = await network.at("a").dial("b")
    network.part("a", "b")          # a partition: nothing arrives, and neither end is told
    network.heal("a", "b")          # the delayed frames arrive
    network.cut("a", "b")           # all channels between them are lost, at both ends
    network.crash("b")              # as when a process is killed; it can listen again

On a virtual-time loop a program takes no real time, and takes the same turns every time.

A channel is a reliable stream: frames arrive in order, without gaps. So after a lost frame nothing arrives: the channel
hangs in that direction, as when TCP repeats a segment in vain, and neither end knows until one of them closes it.
Frames of different channels overtake each other, as their delays have it.
"""

import asyncio
import contextvars
import dataclasses
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, cast

from aioflow import errors
from aioflow.net.transport.channel import (
    DONE,
    LOST,
    Accept,
    Channel,
    ClosedError,
    FrameReceiver,
    NotListeningError,
    Reason,
)
from aioflow.net.transport.liveness import MonitorMessage, Offer, Watch
from aioflow.net.transport.memory_monitor import MemoryMonitors
from aioflow.net.wire.framing import Frame
from aioflow.waiting.tasks import OwnedTasks

CONGESTED: Final = 256 << 10
"""So many bytes may wait in one direction of a channel before it is congested."""


@dataclasses.dataclass(slots=True)
class Path:
    """The path of frames from one host to another. A change holds for frames that are sent after it.

    Attributes:
        latency: seconds that each frame takes.
        bandwidth: bytes a second of one channel.
        parted: whether nothing arrives for now.
        delay: extra seconds, drawn for each frame; the order within a channel stays.
        twice: whether a frame arrives twice, asked for each.
        lost: whether a frame is lost, and with it all later frames of its channel, asked for each.
        sent: called with each frame.
        departure: given a frame and the present, the time at which its host has finished with sending it.
        handling: given a frame and the time of its arrival, the time at which its host has read it.
    """

    latency: float = 0.0
    bandwidth: float = float("inf")
    parted: bool = False
    delay: Callable[[], float] = lambda: 0.0
    twice: Callable[[bytes], bool] = lambda frame: False
    lost: Callable[[], bool] = lambda: False
    sent: Callable[[Frame], None] = lambda frame: None
    departure: Callable[[Frame, float], float] = lambda frame, now: now
    handling: Callable[[Frame, float], float] = lambda frame, now: now


class _Pipe:
    """One direction of a channel."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.closed: Reason | None = None
        self.waiting: int = 0
        self.hanging: bool = False
        """Whether frames that are sent from now on are lost."""
        self._frames: deque[tuple[float, Frame, bool]] = deque()
        """Frames, each with its time of arrival, and whether it repeats the one before."""
        self._read = False
        """Whether the time of the first frame is the time at which the receiving host has read it."""
        self._free = 0.0
        self._last = 0.0
        self._reached = 0.0
        """The time that a timer was set for and has rung: it may do so before that, by the resolution of the clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._writer: asyncio.Future[None] | None = None
        self.changed: Callable[[], None] = lambda: None
        """Called when a frame may have arrived, or when no more will."""

    def push(self, frame: Frame) -> None:
        """One frame, to arrive in its time."""
        path, now = self.path, asyncio.get_running_loop().time()
        path.sent(frame)
        self.hanging = self.hanging or path.lost()
        if self.hanging:
            self.waiting += len(frame)
            return
        self._free = max(self._free, path.departure(frame, now)) + len(frame) / path.bandwidth
        self._last = max(self._last, self._free + path.latency + path.delay())
        self._frames.append((self._last, frame, False))
        self.waiting += len(frame)
        if path.twice(bytes(frame)):
            self._frames.append((self._last, bytes(frame), True))
            self.waiting += len(frame)
        self.wake()

    @property
    def ended(self) -> Reason | None:
        """Why no more is sent, as far as the news has come."""
        return None if self.path.parted or self.hanging else self.closed

    def take(self) -> tuple[bytes, bool] | None:
        """The next frame, if it has arrived, and whether it repeats the one before."""
        now = max(self._reached, asyncio.get_running_loop().time())
        if self.path.parted or not self._frames or self._frames[0][0] > now or not self._is_read(now):
            return None
        _, frame, repeated = self._frames.popleft()
        self._read = False
        self.waiting -= len(frame)
        if self.waiting <= CONGESTED:
            _done(self._writer)
        return bytes(frame), repeated

    def _is_read(self, now: float) -> bool:
        """Whether the receiving host has read the first frame, which has arrived. If not, its time is when it has."""
        if not self._read:
            self._read = True
            _, frame, repeated = self._frames[0]
            until = self.path.handling(frame, now)
            self._frames[0] = until, frame, repeated
        return self._frames[0][0] <= now

    @property
    def empty(self) -> bool:
        """Whether nothing is on its way."""
        return not self._frames

    def expect(self, context: contextvars.Context) -> None:
        """Have the next frame announce itself, if one is coming, in that context."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._frames and not self.path.parted:
            due = self._frames[0][0]
            self._timer = asyncio.get_running_loop().call_at(due, self._ring, due, context=context)

    def _ring(self, due: float) -> None:
        self._timer = None
        self._reached = due
        self.changed()

    async def change(self) -> None:
        """Return when less may be waiting."""
        self._writer = asyncio.get_running_loop().create_future()
        try:
            await self._writer
        finally:
            self._writer = None

    def close(self, reason: Reason) -> None:
        """Send no more. If the channel is lost, the frames on their way are lost, too."""
        if self.closed is None:
            self.closed = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if reason.code == LOST:
            self._frames.clear()
            self._read = False
            self.waiting = 0
        self.wake()

    def wake(self) -> None:
        """Let the waiters look again."""
        self.changed()
        _done(self._writer)


def _done(future: "asyncio.Future[None] | None") -> None:
    if future is not None and not future.done():
        future.set_result(None)


class MemoryChannel:
    """One end of a channel in memory."""

    def __init__(self, out: _Pipe, back: _Pipe, hosts: tuple[str, str]) -> None:
        self.hosts: Final = hosts
        self._out: Final = out
        self._in: Final = back
        self._closed: Reason | None = None
        self._receiver: FrameReceiver | None = None
        self._context = contextvars.copy_context()
        """The context of the listening host, which a simulation may stop."""
        self._looking: asyncio.Handle | None = None
        back.changed = self._look_soon

    @property
    def sharing(self) -> None:
        """Simulated hosts share no memory."""

    @property
    def congested(self) -> bool:
        """Whether much waits to be sent."""
        return self._out.waiting > CONGESTED

    async def room(self) -> None:
        """Return as soon as little does."""
        while self._out.waiting > CONGESTED and self._closed is None and self._in.ended is None:
            await self._out.change()
        self._check()

    def send(self, *frames: Frame) -> None:
        """The frames are on their way."""
        self._check()
        for frame in frames:
            self._out.push(frame)

    def _check(self) -> None:
        reason = self._closed or self._in.ended
        if reason is not None:
            raise ClosedError(reason)

    def listen(self, receiver: FrameReceiver | None) -> None:
        """Tell `receiver` of what comes."""
        self._receiver, self._context = receiver, contextvars.copy_context()
        self._look_soon()

    def _look_soon(self) -> None:
        if self._receiver is not None and self._looking is None:
            self._looking = asyncio.get_running_loop().call_soon(self._look, context=self._context)

    def _look(self) -> None:
        """Hand the arrived frames to the receiver, and report the end of the channel after the last one."""
        self._looking = None
        while (
            (receiver := self._receiver) is not None and self._closed is None and (found := self._in.take()) is not None
        ):
            frame, repeated = found
            receiver.frame_received(frame)
            if repeated:
                receiver.received -= len(frame)
        ended = self._closed or (self._in.ended if self._in.empty else None)
        if self._receiver is None:
            return
        if ended is None:
            self._in.expect(self._context)
        else:
            receiver, self._receiver = self._receiver, None
            receiver.lost(ended)

    async def close(self, reason: Reason = DONE) -> None:
        """Closed, here at once and there when all that was sent has arrived."""
        self.end(reason)

    def end(self, reason: Reason) -> None:
        """Close this end."""
        if self._closed is None:
            self._closed = reason
            self._out.close(reason)
            self._in.close(Reason(LOST, reason.text))

    def lose(self) -> None:
        """The connection is lost, as each end learns when nothing parts them."""
        self.end(Reason(LOST))

    def hang(self) -> None:
        """Lose all that is sent at this end from now on, also the close, without telling either end."""
        self._out.hanging = True

    def wake(self) -> None:
        """Look again at arrived frames and at waiters."""
        self._in.wake()
        self._out.wake()

    @property
    def open(self) -> bool:
        """Whether this end is."""
        return self._closed is None


class MemoryListener:
    """A host that can be dialled."""

    def __init__(self, network: "MemoryNetwork", address: str, accept: Accept) -> None:
        self._network: Final = network
        self._address: Final = address
        self._accept: Final = accept
        self._context: Final = contextvars.copy_context()
        self._serving: Final = OwnedTasks()

    @property
    def address(self) -> str:
        """The host's name."""
        return self._address

    def begin(self, channel: MemoryChannel) -> None:
        """Serve a channel in the context of the listener, not of the dialler."""
        self._serving.start(self._serve(channel), f"serves at {self._address}", self._context.copy())

    async def _serve(self, channel: MemoryChannel) -> None:
        try:
            await self._accept(channel)
        finally:
            await channel.close()

    async def close(self) -> None:
        """Stop listening, and close all accepted channels."""
        self._network.forget(self)
        await self._serving.stop()


class MemoryHost:
    """A network as one of its hosts sees it, until it crashes."""

    def __init__(self, network: "MemoryNetwork", name: str, crashes: int) -> None:
        self._network: Final = network
        self._crashes: Final = crashes
        self.name: Final = name

    async def dial(self, address: str) -> Channel:
        """A channel to the host of that name. UnavailableError if it does not listen."""
        return await self._network.connect(self.name, self._crashes, address)

    async def listen(self, address: str, accept: Accept) -> MemoryListener:
        """Serve connections to this host, whose name is the address."""
        return self._network.listen(address, accept)

    def offer(self, channel: Channel, connection: str, heartbeat: float) -> Offer:
        """A subscription to the monitor of the host that has dialled the channel."""
        return Offer(1, "", self.watch(channel, connection, 1, "", heartbeat))

    def watch(self, channel: Channel, connection: str, port: int, key: str, heartbeat: float) -> Watch:
        """A subscription to the monitor of the host at the other end of the channel."""
        return self._network.monitors.watch(*cast(MemoryChannel, channel).hosts, heartbeat)

    async def ask(self, address: str, heartbeat: float, on_message: Callable[[MonitorMessage], None]) -> None:
        """Pass on the messages of the monitor of the host of that name, until cancelled."""
        watch = self._network.monitors.watch(self.name, address, heartbeat)
        watch.on_message = on_message
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            watch.close()


class MemoryNetwork:
    """Hosts by name, which reach each other by channels in memory. All of it belongs to one loop.

    Attributes:
        monitors: the monitors of the hosts.
        paths: the paths that are or were used, by the hosts that they go from and to.
    """

    def __init__(
        self,
        latency: float = 0.0,
        bandwidth: float = float("inf"),
        prepare: Callable[[str, str, Path], None] = lambda source, target, path: None,
    ) -> None:
        """A network without faults.

        Args:
            latency: seconds that each frame takes.
            bandwidth: bytes a second, of each channel.
            prepare: given each path when it is first needed, and the hosts that it goes from and to.
        """
        self._make: Final[Callable[[], Path]] = lambda: Path(latency, bandwidth)
        self._prepare: Final = prepare
        self.paths: Final[dict[tuple[str, str], Path]] = {}
        self._listeners: Final[dict[str, MemoryListener]] = {}
        self._channels: list[MemoryChannel] = []
        self._most = 64
        """The number of kept channels above which closed ones are forgotten."""
        self._crashes: Final[Counter[str]] = Counter()
        self._dark: Final[dict[str, None]] = {}
        """Hosts that do not even refuse a connection."""
        self._dialling: Final[dict[asyncio.Future[None], None]] = {}
        self.monitors: Final = MemoryMonitors(self._reaches)

    def at(self, host: str) -> MemoryHost:
        """The network as that host sees it."""
        return MemoryHost(self, host, self._crashes[host])

    def listen(self, address: str, accept: Accept) -> MemoryListener:
        """Serve connections to the host of that name. UnavailableError if it listens already."""
        if address in self._listeners:
            raise errors.UnavailableError(f"{address} is in use")
        listener = self._listeners[address] = MemoryListener(self, address, accept)
        self._dark.pop(address, None)
        self.wake()
        return listener

    def forget(self, listener: MemoryListener) -> None:
        """It listens no more."""
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    async def connect(self, host: str, crashes: int, address: str) -> Channel:
        """Return a channel from a host, which has crashed `crashes` times, to another one, after a round trip.

        UnavailableError if no server listens there, or the host has crashed since.
        """
        there, back = self.path(host, address), self.path(address, host)
        await asyncio.sleep(there.latency + there.delay() + back.latency + back.delay())
        while there.parted or back.parted or address in self._dark:
            await self._change()
        if self._crashes[host] != crashes:
            raise NotListeningError(f"{host} has crashed")
        listener = self._listeners.get(address)
        if listener is None:
            raise NotListeningError(f"no server listens at {address}")
        out, into = _Pipe(there), _Pipe(back)
        near, far = MemoryChannel(out, into, (host, address)), MemoryChannel(into, out, (address, host))
        self._keep(near, far)
        listener.begin(far)
        return near

    def _keep(self, *channels: MemoryChannel) -> None:
        """Add channels; when there are twice as many as were open, forget the closed ones."""
        self._channels += channels
        if len(self._channels) > self._most:
            self._channels = [channel for channel in self._channels if channel.open]
            self._most = max(64, 2 * len(self._channels))

    async def _change(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._dialling[future] = None
        try:
            await future
        finally:
            del self._dialling[future]

    # Faults

    def path(self, source: str, target: str) -> Path:
        """How frames go from one host to another."""
        found = self.paths.get((source, target))
        if found is None:
            found = self.paths[source, target] = self._make()
            self._prepare(source, target, found)
        return found

    def _reaches(self, one: str, other: str) -> bool:
        return not (self.path(one, other).parted or self.path(other, one).parted)

    def channels(self, one: str, other: str) -> list[MemoryChannel]:
        """The ends at one host of the open channels between two, in the order in which they were dialled."""
        return [channel for channel in self._channels if channel.open and channel.hosts == (one, other)]

    def part(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Let nothing arrive from now on, in both directions or only from one to the other; neither end is told."""
        self._set_parted(one, other, True, one_way)

    def heal(self, one: str, other: str) -> None:
        """Let delayed and new frames arrive."""
        self._set_parted(one, other, False, False)

    def _set_parted(self, one: str, other: str, parted: bool, one_way: bool) -> None:
        for pair in ((one, other),) if one_way else ((one, other), (other, one)):
            self.path(*pair).parted = parted
        self.wake()

    def wake(self) -> None:
        """Let all waiters look again, since paths have changed."""
        for channel in self._channels:
            channel.wake()
        for future in self._dialling:
            _done(future)

    def cut(self, one: str, other: str) -> None:
        """All channels between them are lost, as each end learns when nothing parts them."""
        for channel in self._channels:
            if set(channel.hosts) == {one, other}:
                channel.lose()

    def crash(self, host: str, *, silent: bool = False) -> None:
        """Kill the process of a host: it listens and dials no more, and its channels are lost.

        A new process may listen at the host. With `silent`, as after a power failure, the peers are not told, and
        dialling waits until a new process listens.
        """
        self._crashes[host] += 1
        self._listeners.pop(host, None)
        if silent:
            self._dark[host] = None
        for channel in self._channels:
            if channel.hosts[0] == host:
                if silent:
                    channel.hang()
                channel.lose()
        self.monitors.crash(host, silent=silent)
