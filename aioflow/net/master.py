"""A master: it plans each call of a session's, gives every task its share, and runs steps over them [P15 section 3.3].

Any task can be one. A step is one RunGraph for each task that takes part; tasks ask each other for values, never the
master. The first error ends the step everywhere and is what the client gets.
"""

import asyncio
import dataclasses
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.devices.device import DeviceAttributes
from aioflow.dtypes import Array
from aioflow.graph import Graph
from aioflow.net.cluster import filtered
from aioflow.net.control_verbs import Reply
from aioflow.net.failures import failure_of
from aioflow.net.fields import Device
from aioflow.net.graphs import extend
from aioflow.net.master_verbs import (
    CallableMade,
    CloseSession,
    CreateSession,
    DeviceList,
    ExtendSession,
    ListDevices,
    MakeCallable,
    ReleaseCallable,
    RunCallable,
    RunStep,
    SessionCreated,
    SessionExtended,
    StepDone,
)
from aioflow.net.parts import Share, registration, share_of
from aioflow.net.peer import Peer
from aioflow.net.peers import Peers
from aioflow.net.remote_rendezvous import task_of
from aioflow.net.serving import Call
from aioflow.net.statuses import attributes, devices_in, earlier, statuses_of, statuses_when_there
from aioflow.net.worker_verbs import (
    CancelStep,
    CleanupGraph,
    CreateWorkerSession,
    DeleteWorkerSession,
    RunGraph,
    Status,
)
from aioflow.placer import Placer
from aioflow.plan import Signature, make_plan

SETTINGS: Final = (
    "allow_soft_placement", "compression", "device_filters", "log_device_placement", "operation_timeout",
    "optimize", "order_for_memory", "plan_cache_size", "recompute", "schedule_receives", "swap_to_host",
)  # fmt: skip
"""What a client may say of how its session works."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Shared:
    """A plan, as it is registered with those who run it: the share and the handle of each."""

    shares: Mapping[str, tuple[Share, int]]
    fetches: int


class MasterSession:
    """One session of a client's."""

    def __init__(
        self, number: str, owner: Peer | None, config: Config, devices: Sequence[DeviceAttributes], peers: Peers
    ) -> None:
        self.number: Final = number
        self.owner: Final = owner
        self.graph: Final = Graph()
        self.devices = devices
        self.tasks: Final = list(dict.fromkeys(task_of(device.name) for device in devices))
        self.callables: Final[dict[int, Signature]] = {}
        self._config: Final = config
        self._peers: Final = peers
        self._placer: Final = Placer(config, devices)
        self._shared: Final[OrderedDict[Signature, asyncio.Task[_Shared]]] = OrderedDict()
        self._steps: Final[set[asyncio.Task[Any]]] = set()
        self._stale = False
        """Whether a task was lost, and may have been started anew since."""
        self._renewing: Final = asyncio.Lock()

    # Plans

    def signature(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> Signature:
        """The call of these names. InvalidArgumentError if the graph has no such tensor or operation."""
        try:
            tensors: Any = [self.graph.as_graph_element(name, allow_operation=False) for name in (*feeds, *fetches)]
            operations: Any = [self.graph.as_graph_element(name, allow_tensor=False) for name in targets]
        except (TypeError, ValueError, KeyError) as error:
            raise errors.InvalidArgumentError(str(error)) from None
        return Signature(tuple(tensors[: len(feeds)]), tuple(tensors[len(feeds) :]), tuple(operations))

    async def _ready(self, signature: Signature) -> _Shared:
        """The plan of a call, registered; made once, however many ask for it."""
        found = self._shared.get(signature)
        if found is None or (found.done() and (found.cancelled() or found.exception() is not None)):
            work = self._share(signature)
            found = self._shared[signature] = asyncio.get_running_loop().create_task(work, name="registering a plan")
            self._steps.add(found)
            found.add_done_callback(self._steps.discard)
            if len(self._shared) > self._config.plan_cache_size:
                self._shared.popitem(last=False)
        self._shared.move_to_end(signature)
        return await asyncio.shield(found)

    async def _share(self, signature: Signature) -> _Shared:
        plan = make_plan(signature, self._placer.split, self._config.optimize)
        parts: dict[str, list[Any]] = {}
        for part in plan.parts:
            parts.setdefault(task_of(part.device), []).append(part)
        shares = {task: share_of(of_task) for task, of_task in parts.items()}
        requests = {task: registration(self.number, share, plan.counted) for task, share in shares.items()}
        answers = await self._ask_all(requests)
        handles = {task: answer.graph for task, answer in answers.items()}
        return _Shared({task: (share, handles[task]) for task, share in shares.items()}, len(signature.fetches))

    async def _ask_all(self, requests: Mapping[str, Any], deadline: float | None = None) -> dict[str, Any]:
        """The answers of several tasks. The first error cancels the others."""
        try:
            async with asyncio.TaskGroup() as group:
                asked = {
                    task: group.create_task(self._ask(task, request, deadline)) for task, request in requests.items()
                }
        except BaseExceptionGroup as several:
            raise _root(several) from None
        return {task: answer.result() for task, answer in asked.items()}

    async def _ask(self, task: str, request: Any, deadline: float | None = None) -> Any:
        peer = await self._peers.of(task)
        return await peer.request(request, deadline=deadline)

    async def _renew(self, deadline: float | None) -> None:
        """Make the session anew on all tasks that can be reached, with the devices that they have now."""
        async with self._renewing:
            if not self._stale:
                return
            statuses = await statuses_of(self.tasks, self._peers, deadline)
            now = {device.name: attributes(device) for device in devices_in(statuses)}
            self.devices = [now.get(device.name, device) for device in self.devices]
            self._placer.use(self.devices)
            self._shared.clear()
            there = [task for task, found in statuses.items() if isinstance(found, Status)]
            await self.begin(there, deadline)
            self._stale = False

    async def begin(self, tasks: Sequence[str], deadline: float | None) -> None:
        """Make the session on these tasks."""
        incarnations = {task_of(device.name): device.incarnation for device in self.devices}
        made = CreateWorkerSession(self.number, {}, incarnations)
        await self._ask_all(dict.fromkeys(tasks, made), deadline)

    # Steps

    async def run(
        self, signature: Signature, feeds: Sequence[Array], options: Mapping[str, Any], deadline: float | None
    ) -> tuple[Array, ...]:
        """What a call fetches. Whatever ends it leaves nothing of it on any task that can be reached."""
        try:
            return await self._run(await self._fresh(signature, deadline), feeds, options, deadline)
        except (errors.AbortedError, errors.UnavailableError):
            self._stale = True
            raise

    async def _fresh(self, signature: Signature, deadline: float | None) -> _Shared:
        """The plan of a call, registered with tasks that are there. What was lost since is asked to come back, once."""
        if not self._stale:
            try:
                shared = await self._ready(signature)
            except errors.AbortedError:
                self._stale = True
            else:
                self._stale = any(self._peers.there(task) is None for task in shared.shares)
        if self._stale:
            await self._renew(deadline)
            shared = await self._ready(signature)
        return shared

    async def _run(
        self, shared: _Shared, feeds: Sequence[Array], options: Mapping[str, Any], deadline: float | None
    ) -> tuple[Array, ...]:
        step = secrets.randbits(64)
        requests = {
            task: RunGraph(
                self.number, handle, step,
                {str(place): feeds[index] for place, index in enumerate(share.feeds)}, options,
            )
            for task, (share, handle) in shared.shares.items()
        }  # fmt: skip
        try:
            answers = await self._ask_all(requests, deadline)
        except BaseException as error:
            await asyncio.shield(self._later(self._end(step, requests, error)))
            raise
        senders = {task: share for task, (share, _) in shared.shares.items() if share.sends}
        if senders:
            self._later(self._end(step, senders, None))
        fetched: list[Any] = [None] * shared.fetches
        for task, (share, _) in shared.shares.items():
            for place, index in enumerate(share.fetches):
                fetched[index] = answers[task].values[str(place)]
        return tuple(fetched)

    def _later(self, work: Any) -> "asyncio.Task[None]":
        """A task of the session's, which ends before it does."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._steps.add(task)
        task.add_done_callback(self._steps.discard)
        return task

    async def _end(self, step: int, tasks: Mapping[str, Any], error: BaseException | None) -> None:
        """A step is over, or to be ended with an error: its tasks are told, but those that are lost."""
        if isinstance(error, asyncio.CancelledError) or error is None:
            request: Any = CleanupGraph(step)
        else:
            request = CancelStep(step, failure_of(error, ""))
        await self._tell(tasks, request)

    async def _tell(self, tasks: Iterable[str], request: Any) -> None:
        """Tell the tasks that are connected."""
        limit = asyncio.get_running_loop().time() + self._config.close_timeout
        there = [peer for task in tasks if (peer := self._peers.there(task)) is not None]
        await asyncio.gather(*[peer.request(request, deadline=limit) for peer in there], return_exceptions=True)

    async def close(self) -> None:
        """Forget the plans, here and on all tasks that can be reached."""
        while self._steps:
            await asyncio.wait(self._steps)
        await self._tell(self.tasks, DeleteWorkerSession(self.number))


def _root(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that came first and follows from no other."""
    found: list[BaseException] = []
    for error in several.exceptions:
        found += [_root(error)] if isinstance(error, BaseExceptionGroup) else [error]
    return next((error for error in found if not isinstance(error, errors.CancelledError)), found[0])


class Master:
    """The master's side of a task."""

    def __init__(self, addresses: Mapping[str, str], config: Config) -> None:
        self._addresses: Final = addresses
        self._config: Final = config
        self._sessions: Final[dict[str, MasterSession]] = {}
        self.peers: Peers | None = None
        """The tasks; there when it is asked the first thing."""

    async def create(self, call: Call) -> SessionCreated:
        """Make a session over all tasks. UnavailableError or DeadlineExceededError names those that are not there."""
        message: Any = call.message
        assert self.peers is not None
        config = self._settings(message.config)
        limit = earlier(call.deadline)
        devices = await self._all_devices(limit, config.device_filters)
        number = secrets.token_hex(16)
        session = MasterSession(number, call.peer, config, [attributes(device) for device in devices], self.peers)
        extend(session.graph, message.graph, message.constants)
        await session.begin(session.tasks, limit)
        self._sessions[number] = session
        return SessionCreated(number, tuple(devices))

    def _settings(self, given: Mapping[str, Any]) -> Config:
        if strange := given.keys() - set(SETTINGS):
            raise errors.InvalidArgumentError(f"a session of a cluster has no setting {', '.join(sorted(strange))}")
        try:
            return dataclasses.replace(self._config, **given)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(str(error)) from None

    async def _all_devices(self, deadline: float | None, filters: Sequence[str] = ()) -> tuple[Device, ...]:
        """The devices of all tasks, or of those that the filters name.

        UnavailableError or DeadlineExceededError names the tasks that are not there.
        """
        assert self.peers is not None
        statuses = await statuses_when_there(filtered(self._addresses, filters), self.peers, deadline)
        absent = {task: found for task, found in statuses.items() if isinstance(found, errors.OpError)}
        if absent:
            texts = "; ".join(self._told(task, error.message) for task, error in absent.items())
            first = next(iter(absent.values()))
            raise type(first)(f"of the cluster's {len(statuses)} tasks {len(absent)} are not there: {texts}")
        return devices_in(statuses)

    def _told(self, task: str, text: str) -> str:
        return text if text.startswith(task) else f"{task} at {self._addresses[task]}: {text}"

    def _session(self, number: str) -> MasterSession:
        if number not in self._sessions:
            raise errors.AbortedError("the master does not know the session: it was closed, or the master started anew")
        return self._sessions[number]

    async def extend(self, call: Call) -> SessionExtended:
        """Add operations to a session's graph. AbortedError if it has others than the client believes."""
        message: Any = call.message
        graph = self._session(message.session).graph
        if graph.version != message.version:
            raise errors.AbortedError(f"the session's graph has {graph.version} operations, not {message.version}")
        extend(graph, message.graph, message.constants)
        return SessionExtended(graph.version)

    async def run_step(self, call: Call) -> StepDone:
        """Run a step by names."""
        message: Any = call.message
        session = self._session(message.session)
        signature = session.signature(tuple(message.feeds), message.fetches, message.targets)
        values = await session.run(signature, list(message.feeds.values()), message.options, call.deadline)
        return StepDone(values)

    async def make_callable(self, call: Call) -> CallableMade:
        """Plan a call, and register its parts."""
        message: Any = call.message
        session = self._session(message.session)
        signature = session.signature(message.feeds, message.fetches, message.targets)
        handle = len(session.callables) + 1
        session.callables[handle] = signature
        return CallableMade(handle)

    async def run_callable(self, call: Call) -> StepDone:
        """Run a step of a call that was made ready."""
        message: Any = call.message
        session = self._session(message.session)
        if message.handle not in session.callables:
            raise errors.AbortedError(f"the session has no callable {message.handle}")
        signature = session.callables[message.handle]
        return StepDone(await session.run(signature, message.feeds, {}, call.deadline))

    async def release_callable(self, call: Call) -> Reply:
        """A call is not needed any more."""
        message: Any = call.message
        self._session(message.session).callables.pop(message.handle, None)
        return Reply()

    async def list_devices(self, call: Call) -> DeviceList:
        """The devices of the cluster, or of a session."""
        message: Any = call.message
        if message.session is not None:
            return DeviceList(_devices(self._session(message.session).devices))
        return DeviceList(await self._all_devices(earlier(call.deadline)))

    async def close_session(self, call: Call) -> Reply:
        """End a session."""
        message: Any = call.message
        session = self._sessions.pop(message.session, None)
        if session is not None:
            await session.close()
        return Reply()

    async def forget_lost(self) -> None:
        """The sessions of clients that are lost end."""
        for number, session in list(self._sessions.items()):
            if session.owner is not None and session.owner.end is not None and number in self._sessions:
                del self._sessions[number]
                await session.close()

    async def close(self) -> None:
        """End all sessions."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*[session.close() for session in sessions])


def _devices(devices: Sequence[DeviceAttributes]) -> tuple[Device, ...]:
    return tuple([Device(d.name, d.device_type, d.incarnation, d.memory_limit) for d in devices])


HANDLERS: Final[Mapping[type, Any]] = {
    CreateSession: Master.create,
    ExtendSession: Master.extend,
    RunStep: Master.run_step,
    MakeCallable: Master.make_callable,
    RunCallable: Master.run_callable,
    ReleaseCallable: Master.release_callable,
    ListDevices: Master.list_devices,
    CloseSession: Master.close_session,
}
"""What answers each request."""

__all__ = ["HANDLERS", "SETTINGS", "Master", "MasterSession"]
