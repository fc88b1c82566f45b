"""The master of sessions: it answers the requests of their clients [P15 section 3.3]. Any task can be a master.

The master's access to the live queues of a session, each on the task of its handle.
"""

import asyncio
import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.devices.device import DeviceAttributes
from aioflow.graph.device_spec import task_of
from aioflow.graph.graphdef import GraphDef, node_def
from aioflow.net.cluster import filtered
from aioflow.net.master.callable_run import CallableRun
from aioflow.net.master.doubts import Doubt
from aioflow.net.master.partial_runs import PartialOverTasks
from aioflow.net.master.session import MasterSession
from aioflow.net.master.shared_graphs import SharedGraphs
from aioflow.net.peer.peers import Peers
from aioflow.net.peer.serving import Call
from aioflow.net.peer.statuses import attributes, devices_in, earlier, statuses_when_reachable
from aioflow.net.wire.control_verbs import Reply
from aioflow.net.wire.fields import Device
from aioflow.net.wire.master_verbs import (
    Acknowledge,
    CallableMade,
    CloseSession,
    CommitStep,
    CreateSession,
    DeviceList,
    ExtendSession,
    InspectSession,
    ListDevices,
    ListTasks,
    MakeCallable,
    PartialRun,
    PartialRunReady,
    PartialRunSetup,
    Place,
    Placed,
    ReleaseCallable,
    Replan,
    Reset,
    RunCallable,
    RunStep,
    SessionCreated,
    SessionExtended,
    StepDone,
    TakeBackOnAll,
    TaskList,
    UseQueue,
)
from aioflow.net.wire.worker_verbs import AttemptTakenBack, DropContainers, Inspected, QueueServed, ServeQueue
from aioflow.net.worker.introspection import pack_placement
from aioflow.net.worker.queue_service import STEPS
from aioflow.net.worker.worker import Worker
from aioflow.plan.pipeline import make_flow
from aioflow.tensors.validation import check_options
from aioflow.tracing import RunMetadata
from aioflow.waiting.tasks import OwnedTasks

SETTINGS: Final = (
    "allow_soft_placement", "compression", "device_filters", "log_device_placement", "operation_timeout",
    "optimize", "order_for_memory", "plan_cache_size", "recompute", "schedule_receives", "swap_to_host",
)  # fmt: skip
"""The settings of a session that a client may choose."""
_OPTIONS: Final = frozenset({"check_numerics", "trace"})


class Master:
    """The master's side of a task."""

    def __init__(self, addresses: Mapping[str, str], config: Config, worker: Worker, peers: Peers) -> None:
        self._worker: Final = worker
        self._addresses: Final = addresses
        self._config: Final = config
        self._sessions: Final[dict[str, MasterSession]] = {}
        self._ending: Final = OwnedTasks()
        self._peers: Final = peers
        self._graphs: Final = SharedGraphs(worker.compute)

    async def create(self, call: Call) -> SessionCreated:
        """Make a session over all tasks. UnavailableError or DeadlineExceededError names those that are not there."""
        message: Any = call.message
        config = self._settings(message.config)
        limit = earlier(call.deadline)
        devices = await self._all_devices(limit, config.device_filters)
        number = secrets.token_hex(16)
        found = [attributes(device) for device in devices]
        counts = message.counts or number
        session = MasterSession(
            number, call.peer, config, found, self._peers, self._worker.compute, self._graphs, counts
        )
        try:
            await session.extend(message.graph, message.constants, 0)
            await session.begin(session.tasks, limit)
        except BaseException:
            await self._end(session)
            raise
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
        statuses = await statuses_when_reachable(filtered(self._addresses, filters), self._peers, deadline)
        absent = {task: found for task, found in statuses.items() if isinstance(found, errors.OpError)}
        if absent:
            texts = "; ".join(self._labelled(task, error.message) for task, error in absent.items())
            task, first = next(iter(absent.items()))
            raise type(first)(f"of the cluster's {len(statuses)} tasks {len(absent)} are not there: {texts}", task=task)
        return devices_in(statuses)

    def _labelled(self, task: str, text: str) -> str:
        return text if text.startswith(task) else f"{task} at {self._addresses[task]}: {text}"

    def _session(self, number: str) -> MasterSession:
        if number not in self._sessions:
            raise errors.AbortedError("the master does not know the session: it was closed, or the master restarted")
        return self._sessions[number]

    async def extend(self, call: Call) -> SessionExtended:
        """Add operations to a session's graph. AbortedError if it has others than the client believes."""
        message: Any = call.message
        session = self._session(message.session)
        await session.extend(message.graph, message.constants, message.version)
        return SessionExtended(session.version)

    async def run_step(self, call: Call) -> StepDone:
        """Run a step by names."""
        message: Any = call.message
        session = self._session(message.session)
        signature = session.signature(tuple(message.feeds), message.fetches, message.targets)
        check_options(message.options, _OPTIONS)
        metadata = RunMetadata() if message.options.get("trace") is True else None
        feeds = list(message.feeds.values())
        return await session.run(
            signature, feeds, message.options, call.deadline, message.token, metadata, message.attempt, call.trace
        )

    async def partial_run_setup(self, call: Call) -> PartialRunReady:
        """Begin a partial run."""
        message: Any = call.message
        session = self._session(message.session)
        signature = session.signature(message.feeds, message.fetches, message.targets)
        check_options(message.options, frozenset({"timeout"}))
        limit = message.options.get("timeout")
        if limit is not None and not (isinstance(limit, float) and limit > 0):
            raise errors.InvalidArgumentError(f"the time limit of a partial run is positive seconds, not {limit!r}")
        made = await PartialOverTasks.begin(session, self._worker, signature, limit)
        session.in_doubt(message.token, made.known)
        return PartialRunReady(made.handle)

    async def partial_run(self, call: Call) -> StepDone:
        """Go on with a partial run; or end it, if nothing is fed and nothing fetched."""
        message: Any = call.message
        stream = self._session(message.session).streams.get(message.handle)
        if stream is None:
            raise errors.InvalidArgumentError("the partial run is over: must run partial_run_setup again")
        if not message.feeds and not message.fetches:
            await stream.stop()
            return StepDone()
        return await stream.call(message.fetches, message.feeds, message.token)

    async def make_callable(self, call: Call) -> CallableMade:
        """Plan a call, and register its parts."""
        message: Any = call.message
        session = self._session(message.session)
        signature = session.signature(message.feeds, message.fetches, message.targets)
        handle = next(session.handles)
        session.callables[handle] = signature
        return CallableMade(handle)

    async def run_callable(self, call: Call) -> StepDone:
        """Run a step of a call that was made ready."""
        message: Any = call.message
        session = self._session(message.session)
        if message.handle not in session.callables:
            raise errors.AbortedError(f"the session has no callable {message.handle}")
        signature = session.callables[message.handle]
        return await session.run(
            signature, message.feeds, {}, call.deadline, message.token, None, message.attempt, call.trace
        )

    def run_callable_at_once(self, call: Call) -> StepDone | CallableRun | None:
        """Begin such a step in no asyncio task, if it has no time limit, attempt or trace, and a registered plan."""
        message: Any = call.message
        session = self._sessions.get(message.session)
        signature = None if session is None else session.callables.get(message.handle)
        if session is None or signature is None or call.deadline is not None or message.attempt or call.trace:
            return None
        run = session.run_at_once(signature, message.feeds, message.token)
        answer = None if run is None else run.answer
        if isinstance(answer, BaseException):
            raise answer
        return answer or run

    async def commit_step(self, call: Call) -> Reply:
        """Commit a step: its client is about to return the values, so its elements are not put back any more."""
        message: Any = call.message
        session = self._session(message.session)
        await session.doubts.commit(message.token, lambda doubt: session.commit(doubt, call.deadline))
        return Reply()

    def acknowledge(self, call: Call) -> None:
        """Settle steps whose values a client has received, or never will. Ignores sessions that are over."""
        message: Any = call.message
        session = self._sessions.get(message.session)
        if session is not None:
            for token in message.tokens:
                session.doubts.end(token, message.received)

    async def take_back(self, call: Call) -> AttemptTakenBack:
        """Undo an attempt of a run on all tasks. Returns the names of the effects that remain."""
        message: Any = call.message
        session = self._session(message.session)
        if strange := set(message.tasks) - set(session.tasks):
            raise errors.InvalidArgumentError(f"the session has no task {min(strange)}")
        limit = earlier(call.deadline)
        return AttemptTakenBack(await session.attempts.take_back(message.attempt, message.tasks, session.tasks, limit))

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

    async def list_tasks(self, call: Call) -> TaskList:
        """The tasks of the cluster."""
        return TaskList(dict(self._addresses))

    async def inspect(self, call: Call) -> Inspected:
        """Return the waits of the steps of a session, and the contents of its tasks' memory."""
        message: Any = call.message
        session = self._session(message.session)
        found = await session.inspected(session.tasks, earlier(call.deadline), session.under_way)
        return Inspected(found.pack())

    async def place(self, call: Call) -> Placed:
        """Where each node of a call would be put."""
        message: Any = call.message
        session = self._session(message.session)
        signature = session.signature(message.feeds, message.fetches, message.targets)
        return Placed(pack_placement(await session.plans.placement(signature)))

    async def replan(self, call: Call) -> Reply:
        """Forget the plans of a session."""
        message: Any = call.message
        self._session(message.session).plans.drop_all()
        return Reply()

    async def use_queue(self, call: Call) -> QueueServed:
        """Do something with a live queue, on the task that it lives on."""
        message: Any = call.message
        served: QueueServed = await use_queue(self._session(message.session), message, call.deadline)
        return served

    async def reset(self, call: Call) -> Reply:
        """Drop containers on all tasks, and end the sessions of this master."""
        message: Any = call.message
        await self._end_all()
        asked = [self._drop(task, message.containers, call.deadline) for task in self._addresses]
        await asyncio.gather(*asked)
        return Reply()

    async def _drop(self, task: str, containers: Sequence[str], deadline: float | None) -> None:
        peer = await self._peers.of(task)
        await peer.request(DropContainers(tuple(containers)), deadline=deadline)

    async def close_session(self, call: Call) -> Reply:
        """End a session."""
        message: Any = call.message
        session = self._sessions.pop(message.session, None)
        if session is not None:
            await self._end(session)
        return Reply()

    async def _end(self, session: MasterSession) -> None:
        """End a session on all tasks, also if this call is cancelled."""
        await asyncio.shield(self._ending.start(session.close(), "closing a session"))

    async def forget_lost(self) -> None:
        """The sessions of clients that are lost end."""
        for number, session in list(self._sessions.items()):
            if session.owner is not None and session.owner.end is not None and number in self._sessions:
                del self._sessions[number]
                await self._end(session)

    async def close(self) -> None:
        """End all sessions."""
        await self._end_all()
        await self._ending.ended()

    async def _end_all(self) -> None:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*[self._end(session) for session in sessions])


def _devices(devices: Sequence[DeviceAttributes]) -> tuple[Device, ...]:
    return tuple([Device(d.name, d.device_type, d.incarnation, d.memory_limit) for d in devices])


HANDLERS: Final[Mapping[type, Any]] = {
    CreateSession: Master.create,
    ExtendSession: Master.extend,
    RunStep: Master.run_step,
    PartialRunSetup: Master.partial_run_setup,
    PartialRun: Master.partial_run,
    InspectSession: Master.inspect,
    Place: Master.place,
    Replan: Master.replan,
    UseQueue: Master.use_queue,
    Reset: Master.reset,
    MakeCallable: Master.make_callable,
    RunCallable: Master.run_callable,
    CommitStep: Master.commit_step,
    ReleaseCallable: Master.release_callable,
    TakeBackOnAll: Master.take_back,
    ListDevices: Master.list_devices,
    ListTasks: Master.list_tasks,
    CloseSession: Master.close_session,
}
"""The handler of each request."""
QUICK: Final[Mapping[type, Any]] = {RunCallable: Master.run_callable_at_once}
"""The quick handlers."""
NOTES: Final[Mapping[type, Any]] = {Acknowledge: Master.acknowledge}
"""The handler of each note."""


async def use_queue(session: MasterSession, message: Any, deadline: float | None) -> QueueServed:
    """Do an action on the live queue of a handle, on the task that holds the queue."""
    found = session.queues.get(message.handle)
    if found is None:
        found = session.queues[message.handle] = await _place(session, message.handle)
    task, handle = found
    if message.action in STEPS:
        return await _step(session, task, handle, message, deadline)
    asked = ServeQueue(handle, message.action, message.values, message.number, message.option)
    served: QueueServed = await session.peers.ask(task, asked, deadline)
    return served


async def _step(session: MasterSession, task: str, handle: bytes, message: Any, deadline: float | None) -> QueueServed:
    """Take or put elements in one step."""
    doubt = Doubt(secrets.randbits(64), (task,), message.action == "take")
    asked = ServeQueue(handle, message.action, message.values, message.number, message.option, doubt.step)
    try:
        with session.doubts.running(message.token, doubt):
            served: QueueServed = await session.peers.ask(task, asked, deadline)
    except BaseException:
        session.settle(doubt, False)
        raise
    session.in_doubt(message.token, doubt)
    return served


async def _place(session: MasterSession, name: str) -> tuple[str, bytes]:
    """The task of a handle, and the handle in the form for that task."""
    signature = session.signature((), (), (name,))
    flow = make_flow(signature, session.config.optimize)
    parts = await session.plans.work(lambda: session.plans.placer.split(flow).parts, session.graph)
    device = next((p.device for p in parts for node in p.flow.nodes if node.name == name), None)
    if device is None:
        raise errors.InvalidArgumentError(f"{name!r} is not the handle of a queue")
    return task_of(device), GraphDef((node_def(signature.targets[0]),)).to_msgpack()
