"""A client of a cluster: what a session does when its steps run elsewhere."""

import asyncio
import dataclasses
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.calls import copied
from aioflow.config import Config, RunOptions
from aioflow.devices.device import DeviceAttributes
from aioflow.feeds import converter
from aioflow.graph import Graph
from aioflow.net.channel import Network
from aioflow.net.graphs import addition
from aioflow.net.identity import Identity, Settings
from aioflow.net.master import SETTINGS
from aioflow.net.master_verbs import (
    CloseSession,
    CreateSession,
    ExtendSession,
    MakeCallable,
    RunCallable,
    RunStep,
    SessionCreated,
)
from aioflow.net.meeting import connect
from aioflow.net.peer import Peer
from aioflow.node import Tensor
from aioflow.structure import Fetches
from aioflow.tracing import RunMetadata


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """Where a master is to be found, and by which network."""

    address: str
    network: Network
    settings: Settings = Settings()  # noqa: RUF009 - it is frozen


@dataclasses.dataclass(slots=True, eq=False)
class _Open:
    """A session that the master has made.

    Attributes:
        peer: the master.
        session: its id.
        devices: what it runs on.
        version: how many operations the master knows.
        handles: the calls that are ready there.
    """

    peer: Peer
    session: str
    devices: Sequence[DeviceAttributes]
    version: int
    handles: "weakref.WeakKeyDictionary[RemoteCall, asyncio.Future[int]]"


class RemoteEngine:
    """Runs a graph by the master at an address.

    It connects when it is first needed. If the master is lost, the runs under way fail, and the next one connects
    again: what the cluster's tasks hold is still there, unless they are lost, too.
    """

    def __init__(self, address: Address, graph: Graph, config: Config) -> None:
        self._address: Final = address
        self._graph: Final = graph
        self._config: Final = config
        self._me: Final = Identity()
        self._opening: asyncio.Task[_Open] | None = None
        self._extending: Final = asyncio.Lock()
        self._open: _Open | None = None

    @property
    def devices(self) -> Sequence[DeviceAttributes]:
        """The devices of the cluster, once it is connected."""
        return () if self._open is None else self._open.devices

    def call(self, fetches: Fetches, feeds: Sequence[Tensor]) -> "RemoteCall":
        """A call signature made ready."""
        return RemoteCall(self, fetches, feeds)

    async def ready(self, deadline: float | None) -> _Open:
        """The session, with all of the graph. DeadlineExceededError names what was not there in time."""
        found = self._open
        if found is None or found.peer.end is not None:
            found = await self._connected(deadline)
        if found.version != self._graph.version:
            async with self._extending:
                await self._extend(found, deadline)
        return found

    async def _connected(self, deadline: float | None) -> _Open:
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._connect(deadline), name="opening a session")
        self._open = await asyncio.shield(self._opening)
        return self._open

    async def _connect(self, deadline: float | None) -> _Open:
        if self._open is not None:
            await self._open.peer.close()
        limit, where = asyncio.timeout_at(deadline), self._address
        try:
            async with limit:
                peer = await connect(where.network, where.address, self._me, settings=where.settings)
        except TimeoutError as error:
            if not limit.expired() or isinstance(error, errors.OpError):
                raise
            raise errors.DeadlineExceededError(f"the master at {where.address} did not answer in time") from None
        try:
            version = self._graph.version
            request = CreateSession(_settings(self._config), addition(self._graph, 0))
            made: SessionCreated = await peer.request(request, deadline=deadline)
        except BaseException:
            await peer.close()
            raise
        devices = [DeviceAttributes(d.name, d.kind, d.memory, d.incarnation) for d in made.devices]
        return _Open(peer, made.session, devices, version, weakref.WeakKeyDictionary())

    async def _extend(self, found: _Open, deadline: float | None) -> None:
        version = self._graph.version
        if version > found.version:
            request = ExtendSession(found.session, found.version, addition(self._graph, found.version))
            await found.peer.request(request, deadline=deadline)
            found.version = version

    def deadline(self, options: RunOptions | None = None) -> float | None:
        """When a run that begins now has to be over, on the loop's clock."""
        limit = None if options is None else options.timeout
        limit = self._config.operation_timeout if limit is None else limit
        return None if limit is None else asyncio.get_running_loop().time() + limit

    async def close(self) -> None:
        """Close the session. A master that is lost is not waited for."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        found, self._open = self._open, None
        if found is None:
            return
        if found.peer.end is None:
            limit = asyncio.get_running_loop().time() + self._config.close_timeout
            await asyncio.gather(
                found.peer.request(CloseSession(found.session), deadline=limit), return_exceptions=True
            )
        await found.peer.close()

    def __repr__(self) -> str:
        return f"<RemoteEngine of the master at {self._address.address}>"


class RemoteCall:
    """A call signature that a master makes ready: conversions for its feeds, and the way back to the fetches."""

    def __init__(self, engine: RemoteEngine, fetches: Fetches, feeds: Sequence[Tensor]) -> None:
        self._engine: Final = engine
        self._fetches: Final = fetches
        self._converters: Final[list[Callable[[Any], Any]]] = [converter(tensor) for tensor in feeds]
        self._feeds: Final = tuple([tensor.name for tensor in feeds])
        computed = [tensor for tensor in fetches.tensors if tensor not in feeds]
        self._names: Final = tuple(dict.fromkeys([tensor.name for tensor in computed]))
        self._targets: Final = tuple([operation.name for operation in fetches.operations])

    async def run(self, values: Sequence[Any], options: RunOptions, metadata: RunMetadata | None) -> Any:
        """Check and convert the feeds, run, and shape the result."""
        if options.trace:
            raise errors.UnimplementedError("steps of a cluster are not traced yet")
        given = [convert(value) for convert, value in zip(self._converters, values, strict=True)]
        deadline = self._engine.deadline(options)
        found = await self._engine.ready(deadline)
        if options.check_numerics:
            feeds = dict(zip(self._feeds, given, strict=True))
            request: Any = RunStep(found.session, feeds, self._names, self._targets, {"check_numerics": True})
        else:
            request = RunCallable(found.session, await self._handle(found, deadline), tuple(given))
        answer = await found.peer.request(request, deadline=deadline)
        return self._built(answer.values, given)

    def _built(self, values: Sequence[Any], given: Sequence[Any]) -> Any:
        known: dict[str, Any] = dict(zip(self._names, values, strict=True))
        known.update({name: copied(value) for name, value in zip(self._feeds, given, strict=True)})
        return self._fetches.build([known[tensor.name] for tensor in self._fetches.tensors])

    async def _handle(self, found: _Open, deadline: float | None) -> int:
        """The number of the call in that session; asked for once."""
        handle = found.handles.get(self)
        if handle is None or (handle.done() and (handle.cancelled() or handle.exception() is not None)):
            request = MakeCallable(found.session, self._feeds, self._names, self._targets)
            handle = found.handles[self] = asyncio.ensure_future(_number(found.peer.request(request)))
        return await asyncio.shield(handle)


async def _number(made: Awaitable[Any]) -> int:
    number: int = (await made).handle
    return number


def _settings(config: Config) -> dict[str, Any]:
    """What the master is told of how the session works: what is not as it is by default."""
    default = Config()
    stated = {name: getattr(config, name) for name in SETTINGS}
    changed = {name: value for name, value in stated.items() if value != getattr(default, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}


__all__ = ["Address", "RemoteCall", "RemoteEngine"]
