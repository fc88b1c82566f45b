"""The engine of a session whose steps run on a master."""

import asyncio
import contextlib
import dataclasses
import functools
import secrets
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.config import Config, RunOptions
from aioflow.devices.cpu import closed_meanwhile
from aioflow.devices.device import DeviceAttributes
from aioflow.devices.memory import MemoryUse
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.kernels.state.resource_handles import QueueSpec
from aioflow.net.client.open_session import Opening, OpenSession
from aioflow.net.client.partial_run import RemotePartialRun
from aioflow.net.client.queue import RemoteQueue
from aioflow.net.client.remote_call import RemoteCall
from aioflow.net.client.session_settings import session_settings
from aioflow.net.peer.dial_liveness import DialLiveness
from aioflow.net.peer.handshake import connect
from aioflow.net.peer.peer import Peer
from aioflow.net.peer.peers import BusyError, request_unless_busy, unless_busy
from aioflow.net.transport.access import master_unreachable, too_late
from aioflow.net.transport.channel import Network
from aioflow.net.wire.graph_updates import addition
from aioflow.net.wire.identity import Identity, Settings
from aioflow.net.wire.limits import check_sizes
from aioflow.net.wire.master_verbs import (
    CloseSession,
    CreateSession,
    ExtendSession,
    InspectSession,
    PartialRunSetup,
    Place,
    Replan,
    Reset,
    SessionCreated,
    TakeBackOnAll,
    UseQueue,
)
from aioflow.net.wire.schema import Request
from aioflow.net.wire.worker_verbs import Inspect, QueueServed
from aioflow.net.worker.introspection import TaskReport, unpack_placement
from aioflow.plan.pipeline import Signature
from aioflow.plan.placement.report import Placement
from aioflow.runtime.attempts import Attempt, note_run
from aioflow.runtime.explain import Report
from aioflow.runtime.fetches import Fetches
from aioflow.runtime.plan_cache import LONG_PLAN
from aioflow.runtime.run_observer import RunObserver
from aioflow.tensors.codecs import Saving
from aioflow.tensors.dtypes import Array
from aioflow.waiting.element_spec import Elements
from aioflow.waiting.tasks import OwnedTasks, ignore_op_error, shared_result

_INSPECTED: Final = 10.0
"""Seconds within which the tasks must report for `explain`."""
_AGAIN: Final = 0.1
"""Seconds between two attempts to reach a master that is not there yet."""
_ENDLESS: Final = 1e18
"""Seconds. A time limit of this or more means no limit."""


@dataclasses.dataclass(slots=True, eq=False)
class Address:
    """The address of a master, and how sessions reach it.

    A launcher that restarts the master changes the address, for all sessions that open later.

    Attributes:
        address: its host and port.
        network_of: from the configuration of a session to the network by which it dials.
        settings: how the session treats it; by default as its configuration says.
    """

    address: str
    network_of: Callable[[Config], Network]
    settings: Settings | None = None


class RemoteEngine:
    """Runs a graph by the master at an address.

    It connects at the first run. If the master is lost, the running steps fail, and the next one connects again. The
    tasks of the cluster keep their state, unless they are lost, too.
    """

    def __init__(self, address: Address, graph: Graph, config: Config) -> None:
        self._address: Final = address
        self._network: Final = address.network_of(config)
        self._graph: Final = graph
        self._config: Final = config
        self._settings: Final = session_settings(config)
        self._me: Final = Identity()
        self._counts: Final = secrets.token_hex(16)
        self._opening: Opening | None = None
        self._answer = ""
        """Why the master could not be reached, the last time that this was tried; empty if it could."""
        self._dialled: DialLiveness | None = None
        """The signs of life of the master while it is dialled."""
        self._master: Peer | None = None
        """The master while it opens the session."""
        self._open: OpenSession | None = None
        self._handles: Final[weakref.WeakSet[RemotePartialRun]] = weakref.WeakSet()
        self._tasks: Final = OwnedTasks()
        self._is_closed = False
        self.runs = 0
        """The runs that have begun."""
        self.observer: RunObserver | None = None
        """The observer of the next run."""

    @property
    def address(self) -> Address:
        """The address of the master."""
        return self._address

    @property
    def devices(self) -> Sequence[DeviceAttributes]:
        """The devices of the cluster, once it is connected."""
        return () if self._open is None else self._open.devices

    @property
    def own_container(self) -> str:
        """Return the name of a container that tasks forget with the session."""
        return self._counts

    def beside(self, graph: Graph) -> "RemoteEngine":
        """Return an engine for another graph, by the same master. The default containers of tasks are the same."""
        return RemoteEngine(self._address, graph, self._config)

    def call(self, fetches: Fetches, feeds: Sequence[Tensor]) -> RemoteCall:
        """A call signature made ready."""
        return RemoteCall(self, fetches, feeds)

    async def begin(self, signature: Signature, limit: float | None) -> RemotePartialRun:
        """Begin a partial run. `limit` is for each call of it. If the caller is cancelled, the run is given up."""
        note_run(signature)
        found = await self.ready(self.deadline())
        limit = None if limit is None or limit >= _ENDLESS else float(limit)
        options = {} if limit is None else {"timeout": limit}
        handover = found.handover(self.limit())
        request = PartialRunSetup(found.session, *signature.names(), options, handover.token)
        made = await handover.done(request, self.deadline())
        handle = RemotePartialRun(found, made.handle, limit)
        self._handles.add(handle)
        handle.give_up = self.send_when_collected(handle, found, handle.stop_request())
        return handle

    def send_when_collected(self, handle: object, found: OpenSession, request: Request[Any]) -> Callable[[], object]:
        """Send a request to the master when the handle is garbage-collected, or the returned function is called."""
        finalizer = weakref.finalize(handle, self._give_up, weakref.ref(found.peer), request)
        finalizer.atexit = False
        return finalizer

    def _give_up(self, peer: "weakref.ref[Peer]", request: Request[Any]) -> None:
        """Nobody has the handle any more. May be called on any thread."""
        there = peer()
        if there is not None and there.end is None and self._open is not None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                self._open.loop.call_soon_threadsafe(lambda: self.start_task(there.request(request)))

    def owns_partial_run(self, handle: object) -> bool:
        """Whether that is a partial run of its."""
        return handle in self._handles

    async def explain(self) -> Report:
        """Return the running steps of all tasks and their waits, and the tasks that do not answer.

        While the session is being opened, the report says so; this does not wait for it.
        """
        opening = self._opening
        if opening is not None and not opening.task.done():
            seconds = asyncio.get_running_loop().time() - opening.since
            text = self._with_answer(f"opening a session at {self._address.address} for {seconds:.1f} s")
            return Report((), (), (), (), (text, *await self._tasks_busy_at_master()))
        try:
            return (await self._inspected()).report
        except BusyError as error:
            return Report((), (), (), (), (f"{error.task}: {error.message}",))

    async def _tasks_busy_at_master(self) -> Sequence[str]:
        """The busy tasks that the master dials while it opens the session."""
        if self._master is None:
            return ()
        master, deadline = self._master, asyncio.get_running_loop().time() + _INSPECTED
        try:
            answer = await request_unless_busy(master, Inspect(), deadline)
        except errors.OpError as error:
            return (f"{master.task}: {error.message}",)
        return TaskReport.unpack(bytes(answer.report)).report.absent

    async def memory(self) -> dict[str, MemoryUse]:
        """Return the live results of kernels, by device."""
        return dict((await self._inspected()).memory)

    async def savings(self) -> dict[str, Saving]:
        """Return the bytes that lossy codecs have saved on all tasks, by edge."""
        return dict((await self._inspected()).savings)

    async def _inspected(self) -> TaskReport:
        deadline = self.deadline() or asyncio.get_running_loop().time() + _INSPECTED
        found = await unless_busy(self.ready(deadline), self._busy, f"the master at {self._address.address}")
        answer = await request_unless_busy(found.peer, InspectSession(found.session), deadline)
        return TaskReport.unpack(bytes(answer.report))

    async def placement(self, signature: Signature) -> Placement:
        """Where each node of a call would be put, and why."""
        deadline = self.deadline()
        found = await self.ready(deadline)
        answer = await found.peer.request(Place(found.session, *signature.names()), deadline=deadline)
        return unpack_placement(bytes(answer.report))

    async def replan(self) -> None:
        """Forget all plans, on all tasks."""
        deadline = self.deadline()
        found = await self.ready(deadline)
        await found.peer.request(Replan(found.session), deadline=deadline)

    async def reset(self, containers: tuple[str, ...]) -> None:
        """Drop these containers on all tasks. It needs no session for that."""
        deadline = self.deadline()
        peer = await self._dial(deadline)
        try:
            await peer.request(Reset(containers), deadline=deadline)
        finally:
            await peer.close()

    def queue(self, handle: Tensor) -> RemoteQueue:
        """Return the live queue of a handle. TypeError if it is not a queue's handle, or is computed in a run."""
        spec = QueueSpec.check(handle.spec)
        if not handle.op.definition.handle:
            raise TypeError(f"{handle!r} is chosen in a run: ask for one of the queues that it chooses from")
        return RemoteQueue(self, handle.op.name, Elements(spec.items, spec.padded))

    async def take_back(self, attempt: Attempt, tasks: Sequence[str], deadline: float | None) -> tuple[str, ...]:
        """Undo the attempt on its tasks and on `tasks`, which have to be reachable. Returns the effects that remain."""
        found = await self.ready(deadline)
        known = [task for task in tasks if any(device.name.startswith(f"{task}/") for device in found.devices)]
        request = TakeBackOnAll(found.session, tuple(attempt.ticket), tuple(known))
        answer = await found.peer.request(request, deadline=deadline)
        return tuple(answer.left)

    async def use_queue(self, handle: str, action: str, **more: Any) -> QueueServed:
        """Do something with a live queue."""
        found = await self.ready(self.deadline())
        served: QueueServed = await found.peer.request(UseQueue(found.session, handle, action, **more))
        return served

    async def put_into_queue(self, handle: str, action: str, values: Sequence[Array], atomic: bool) -> None:
        """Put elements into a live queue. If the caller is cancelled, they are removed."""
        found = await self.ready(self.deadline())
        handover = found.handover(self.limit())
        await handover.done(UseQueue(found.session, handle, action, tuple(values), 0, atomic, handover.token))

    async def take_from_queue(self, handle: str, count: int, fewer: bool) -> QueueServed:
        """Take elements of a live queue. If the caller is cancelled, they are put back."""
        found = await self.ready(self.deadline())
        handover = found.handover(self.limit())
        asked = UseQueue(found.session, handle, "take", number=count, option=fewer, token=handover.token)
        return await handover.answer_to(asked)

    def start_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do this in a task that ends before the session does."""
        self._tasks.start(work, "for a session of a cluster").add_done_callback(ignore_op_error)

    async def ready(self, deadline: float | None) -> OpenSession:
        """Return the open session with the whole graph.

        DeadlineExceededError names the missing tasks. CancelledError if the session is closed.
        """
        found = self._open
        if found is not None and found.peer.interrupted:
            async with self.within(deadline, f"the connection of the session {self} did not come back"):
                await found.peer.settled()
        if found is None or found.peer.end is not None:
            found = await self._connected(deadline)
        if found.version != self._graph.version:
            await self._extend(found, deadline)
        self.check_open()
        return found

    def check_open(self) -> None:
        """CancelledError if the session was closed since the call began."""
        if self._is_closed:
            raise closed_meanwhile()

    async def _connected(self, deadline: float | None) -> OpenSession:
        """Open the session, once for all callers. If the first caller's time limit expires, another one goes on."""
        while True:
            self.check_open()
            opening = self._opening
            if opening is None or opening.task.done():
                opening = self._opening = self._begun(deadline)
            try:
                async with self.within(deadline, f"the session {self} was not open"):
                    return await shared_result(opening.task, closed_meanwhile)
            except (errors.DeadlineExceededError, errors.UnavailableError):
                if not opening.task.done() or not opening.may_succeed_within(deadline):
                    raise

    def _begun(self, deadline: float | None) -> Opening:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._connect(deadline), name="opening a session")
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return Opening(deadline, loop.time(), task)

    @contextlib.asynccontextmanager
    async def within(self, deadline: float | None, text: str) -> AsyncIterator[None]:
        """Raise DeadlineExceededError at the deadline.

        The message is the text, the time limit, why the master could not be reached, and what helps.
        """
        limit, begin = asyncio.timeout_at(deadline), asyncio.get_running_loop().time()
        try:
            async with limit:
                yield
        except TimeoutError as error:
            if deadline is None or not limit.expired() or isinstance(error, errors.OpError):
                raise
            raise too_late(self._with_answer(f"{text} within {max(0.0, deadline - begin):.3g} s")) from None

    def _with_answer(self, text: str) -> str:
        busy = self._busy()
        answer = f"the last answer: {self._answer}" if self._answer else ""
        return "; ".join(filter(None, (text, busy and f"it is {busy}", answer)))

    def _busy(self) -> str:
        return "" if self._dialled is None else self._dialled.busy

    async def _connect(self, deadline: float | None) -> OpenSession:
        if self._open is not None:
            await self._open.peer.close()
        peer = self._master = await self._dial(deadline)
        try:
            version = self._graph.version
            request = CreateSession(self._settings, *await self._added(0, peer), self._counts)
            made: SessionCreated = await peer.request(request, deadline=deadline)
        except BaseException:
            await peer.close()
            raise
        finally:
            self._master = None
        devices = [DeviceAttributes(d.name, d.kind, d.memory, d.incarnation) for d in made.devices]
        loop = asyncio.get_running_loop()
        self._open = OpenSession(peer, made.session, devices, version, loop, weakref.WeakKeyDictionary())
        return self._open

    async def _dial(self, deadline: float | None) -> Peer:
        where = self._address
        settings = where.settings or Settings.of(self._config)
        async with self.within(deadline, f"the master at {where.address} did not answer"):
            return await self._reached(where, settings, deadline is not None)

    async def _reached(self, where: Address, settings: Settings, waits: bool) -> Peer:
        """Connect to the master. With a time limit, this waits for a master that has not started."""
        while True:
            self._dialled = DialLiveness()
            try:
                peer = await connect(self._network, where.address, self._me, settings=settings, liveness=self._dialled)
            except errors.UnavailableError as error:
                self._answer = error.message
                if not waits:
                    raise master_unreachable(where.address, error) from None
                await asyncio.sleep(_AGAIN)
            else:
                self._answer, self._dialled = "", None
                return peer

    async def _extend(self, found: OpenSession, deadline: float | None) -> None:
        """Send the new operations, once for all callers. They go on their way even if the caller is cancelled."""
        while found.version != self._graph.version:
            if found.extending is None or found.extending.done():
                found.extending = self._tasks.start(self._send_new(found), "sending operations to a master")
                found.extending.add_done_callback(ignore_op_error)
            async with self.within(deadline, f"the session {self} did not take the new operations"):
                await shared_result(found.extending, closed_meanwhile)

    async def _send_new(self, found: OpenSession) -> None:
        version = self._graph.version
        request = ExtendSession(found.session, found.version, *await self._added(found.version, found.peer))
        self.check_open()
        await found.peer.request(request)
        found.version = version

    async def _added(self, version: int, peer: Peer) -> tuple[bytes, dict[str, Array]]:
        """Encode the operations that the master does not have yet; many of them on a thread.

        ResourceExhaustedError names a constant that the master does not accept.
        """
        write = functools.partial(addition, self._graph, version, self._graph.version)
        long = self._graph.planning_work > LONG_PLAN
        data, constants = await asyncio.get_running_loop().run_in_executor(None, write) if long else write()
        check_sizes(constants, peer.limits)
        return data, constants

    def limit(self, options: RunOptions | None = None) -> float | None:
        """How many seconds a run has."""
        limit = None if options is None else options.timeout
        limit = self._config.operation_timeout if limit is None else limit
        return None if limit is None or limit >= _ENDLESS else limit

    def deadline(self, options: RunOptions | None = None) -> float | None:
        """Return the deadline of a run that begins now, on the loop's clock."""
        limit = self.limit(options)
        return None if limit is None else asyncio.get_running_loop().time() + limit

    async def close(self) -> None:
        """Close the session. A master that is lost is not waited for."""
        limit = asyncio.get_running_loop().time() + self._config.close_timeout
        await self._settle(None if self._open is None or self._open.peer.end is not None else limit)
        self._is_closed = True
        if self._opening is not None and not self._opening.task.done():
            self._opening.task.cancel()
            await asyncio.wait([self._opening.task])
        found, self._open = self._open, None
        if found is None:
            return
        if found.peer.end is None:
            await asyncio.gather(
                found.peer.request(CloseSession(found.session), deadline=limit), return_exceptions=True
            )
        await found.peer.close()

    async def _settle(self, limit: float | None) -> None:
        """Wait until that time for the session's background tasks, which use it, and then cancel them."""
        if limit is not None:
            await self._tasks.ended(limit)
        await self._tasks.stop()

    def __repr__(self) -> str:
        return f"of the cluster whose master is at {self._address.address}"
