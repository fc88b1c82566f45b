"""A worker: it runs its devices' part of each step, and gives what is sent there to whoever asks for it."""

import asyncio
import contextlib
import functools
import itertools
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from aioflow import errors
from aioflow.config import RunOptions
from aioflow.devices.cpu import Threads
from aioflow.devices.device import AnyDevice, DeviceAttributes, attributes_of
from aioflow.devices.moving import Parcel, receive
from aioflow.fitting import check_all_fit, check_options, in_number
from aioflow.kernels.control_flow import DEAD
from aioflow.local import Local
from aioflow.net.control_verbs import Reply
from aioflow.net.failures import error_of, failure_of
from aioflow.net.fields import Device
from aioflow.net.live import LiveQueues
from aioflow.net.outbox import Outbox
from aioflow.net.parts import Senders, parts_of
from aioflow.net.peers import Peers
from aioflow.net.remote_rendezvous import RemoteRendezvous, task_of
from aioflow.net.reports import pack_trace, report_of
from aioflow.net.serving import Call
from aioflow.net.worker_state import Meeting, Registered, WorkerSession, is_lost
from aioflow.net.worker_verbs import (
    CancelStep,
    CleanupGraph,
    CreateWorkerSession,
    DeleteWorkerSession,
    DeregisterGraph,
    DropContainers,
    GetStatus,
    GraphRan,
    GraphRegistered,
    Inspect,
    Inspected,
    Pushed,
    PushTensors,
    QueueServed,
    RecvTensor,
    RegisterGraph,
    RunGraph,
    ServeQueue,
    Status,
    TensorSent,
    Traced,
)
from aioflow.net.worker_verbs import Trace as TraceVerb
from aioflow.node import describe_line
from aioflow.partial import Streamed
from aioflow.passes.flow import Node
from aioflow.plan_cache import DEFAULT, Form
from aioflow.rendezvous import Key
from aioflow.step import Joint, Step
from aioflow.tracing import RunMetadata, Trace

_REMEMBERED: Final = 10_000
"""Of so many steps that are over it is known that they are."""
_OPTIONS: Final = frozenset({"check_numerics", "trace"})
"""What a run can be told."""
_LONG: Final = 1 << 18
"""Bytes of a graph above which it is read on a thread."""
_EARLY: Final = 64 << 20
"""Bytes that may come unasked for steps that have not begun."""
_ENTRY: Final = 512
"""Bytes that a value takes beside its own."""


class Worker:
    """The worker's side of a task."""

    def __init__(self, task: str, local: Local) -> None:
        self.task: Final = task
        self._local: Final = local
        self._devices: Final[dict[str, AnyDevice]] = {device.name: device for device in local.devices}
        self._sessions: Final[dict[str, WorkerSession]] = {}
        self._meetings: Final[dict[int, Meeting]] = {}
        self._over: Final[OrderedDict[int, None]] = OrderedDict()
        self._handles: Final = itertools.count(1)
        self._dialling: Final[set[str]] = set()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._recorders: Final[list[RunMetadata]] = []
        self._live: Final = LiveQueues(local.resources)
        self._early = 0
        """Bytes that have come unasked for steps that have not begun."""
        self.peers: Peers | None = None
        """The other tasks; there when it is asked the first thing."""

    # What there is

    @property
    def home(self) -> DeviceAttributes:
        """Its first device."""
        return attributes_of(self._local.devices[0])

    @property
    def compute(self) -> Threads:
        """Its threads for what belongs to no device."""
        return self._local.compute

    @property
    def devices(self) -> tuple[Device, ...]:
        """Its devices, as others see them."""
        found = [attributes_of(device) for device in self._local.devices]
        return tuple([Device(d.name, d.device_type, d.incarnation, d.memory_limit) for d in found])

    async def status(self, call: Call) -> Status:
        """How it is."""
        counters = {"sessions": len(self._sessions), "meetings": len(self._meetings), "steps": len(self._local.steps)}
        return Status(self.devices, counters)

    async def inspect(self, call: Call) -> Inspected:
        """What its steps wait for, what its memory holds."""
        return Inspected(report_of(self._local).pack())

    async def trace(self, call: Call) -> Traced:
        """What steps did that ended within so many seconds from now."""
        message: Any = call.message
        recorder = RunMetadata()
        self._recorders.append(recorder)
        try:
            await asyncio.sleep(message.seconds)
        finally:
            self._recorders.remove(recorder)
        return Traced(pack_trace(recorder))

    async def serve_queue(self, call: Call) -> QueueServed:
        """Do something with a live queue."""
        message: Any = call.message
        return await self._live.serve(message)

    # Sessions and graphs

    async def create_session(self, call: Call) -> Reply:
        """Make what is needed of a session. It lasts as long as whoever made it is there."""
        message: Any = call.message
        self._sessions[message.session] = WorkerSession(call.peer)
        return Reply()

    async def drop_containers(self, call: Call) -> Reply:
        """Drop state: who waits for it gets an error, which ends its step."""
        message: Any = call.message
        self._local.resources.drop(message.containers)
        return Reply()

    async def delete_session(self, call: Call) -> Reply:
        """Forget its graphs."""
        message: Any = call.message
        self._forget(message.session)
        return Reply()

    def _forget(self, session: str) -> None:
        self._sessions.pop(session, None)
        self._local.resources.forget(session)

    async def register(self, call: Call) -> GraphRegistered:
        """Make a graph ready. InvalidArgumentError if it cannot be run here."""
        message: Any = call.message
        session = self._session(message.session)
        read = functools.partial(self._read, message)
        graph = await self._local.compute.run(read, "reading a graph") if len(message.graph) > _LONG else read()
        handle = next(self._handles)
        session.graphs[handle] = graph
        return GraphRegistered(handle)

    def _read(self, message: Any) -> Registered:
        try:
            parts, counted = parts_of(message)
        except ValueError as error:
            raise errors.InvalidArgumentError(f"{self.task}: {error}") from None
        for part in parts:
            if part.device not in self._devices:
                raise errors.InvalidArgumentError(f"{self.task} has no {part.device}: {', '.join(self._devices)}")
            for node in part.flow.nodes:
                self._check_registered(node)
        made = Registered(self._local.plans, parts, counted)
        made.programs(self._local.plans.form(DEFAULT))
        return made

    def _check_registered(self, node: Node) -> None:
        """PermissionDeniedError, naming it, if a function is called in it that is not registered here."""
        for inner in node.everything():
            if inner.definition.name != "py_func":
                continue
            try:
                self._local.py_func(str(inner.attrs["func"]))
            except errors.PermissionDeniedError as error:
                line = describe_line(inner.operation)
                raise error.at(inner.name, "py_func", line=line, device=None, shapes=()) from None

    async def deregister(self, call: Call) -> Reply:
        """Forget a graph."""
        message: Any = call.message
        self._session(message.session).graphs.pop(message.graph, None)
        return Reply()

    def _session(self, number: str) -> WorkerSession:
        if number not in self._sessions:
            raise errors.AbortedError(f"{self.task} does not know the session: it was started anew, or has dropped it")
        return self._sessions[number]

    # Steps

    async def run(self, call: Call) -> GraphRan:
        """Run its part of a step. Whatever ends it but its own end leaves nothing of it."""
        message: Any = call.message
        session = self._session(message.session)
        graph = session.graphs.get(message.graph)
        if graph is None:
            raise errors.AbortedError(f"{self.task} does not know graph {message.graph}: it was started anew")
        feeds = in_number(message.feeds, len(graph.feeds))
        check_all_fit(graph.feeds, feeds)
        check_options(message.options, _OPTIONS)
        meeting = self._meeting(message.step)
        if meeting.begun:
            raise errors.AlreadyExistsError(f"step {message.step:x} runs already")
        self._begins(meeting)
        meeting.owner, meeting.senders = call.peer, graph.senders
        self._listen_to(graph.senders)
        told = message.options
        options = RunOptions(check_numerics=told.get("check_numerics") is True, trace=self._traced(told))
        metadata = RunMetadata()
        trace = Trace(metadata, self._local.devices[0].name) if options.trace else None
        joint = Joint(message.step, message.session, meeting.rendezvous)
        step = meeting.step = Step(self._local, graph.counted, trace, options.check_numerics, joint=joint)
        try:
            fetched = await step.run(graph.programs(self._form(options)), feeds, None)
        except BaseException as error:
            self._end(message.step, errors.from_exception(error) if isinstance(error, Exception) else None)
            raise
        finally:
            meeting.step = None
        if meeting.rendezvous.told:
            self._begin(self._confirm(message.step, meeting, graph.sends))
        elif not graph.sends:
            self._end(message.step, None)
        for recorder in self._recorders:
            recorder.add_plain(metadata.to_plain(0.0), 0.0)
        packed = pack_trace(metadata) if options.trace else b""
        return GraphRan({str(index): value for index, value in enumerate(fetched)}, packed)

    async def _confirm(self, step: int, meeting: Meeting, stays: bool) -> None:
        """What the step sent unasked is where it belongs; or else the step is ended there."""
        try:
            await meeting.rendezvous.delivered()
        except errors.OpError as error:
            self._end(step, error)
        if not stays:
            self._end(step, None)

    async def _end_there(self, step: int, tasks: Iterable[str], error: errors.OpError) -> None:
        assert self.peers is not None
        for task in tasks:
            with contextlib.suppress(errors.OpError):  # who cannot be reached has noticed that, too
                peer = await self.peers.of(task)
                await peer.request(CancelStep(step, failure_of(error, self.task)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """A task of the worker's."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self.task} for its peers")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _traced(self, told: Mapping[str, Any]) -> bool:
        return told.get("trace") is True or bool(self._recorders)

    def _form(self, options: RunOptions) -> Form:
        """The program of a run: with checks node by node, though of the plan that the master has made."""
        return "plain" if options.check_numerics else self._local.plans.form(options)

    def stream(self, step: int, senders: Senders, make: Callable[[Local, RemoteRendezvous], Streamed]) -> Streamed:
        """This task's part of a step whose feeds arrive meanwhile. `end_stream` forgets it.

        Args:
            step: its number.
            senders: the tasks that send something unasked.
            make: makes the part.
        """
        meeting = self._meeting(step)
        self._begins(meeting)
        meeting.senders = senders
        self._listen_to(senders)
        streamed = meeting.step = make(self._local, meeting.rendezvous)
        return streamed

    def _listen_to(self, tasks: Iterable[str]) -> None:
        """Be connected to tasks that send something unasked: else nobody here would notice that they are lost."""
        assert self.peers is not None
        for task in tasks:
            if self.peers.there(task) is None and task not in self._dialling:
                self._dialling.add(task)
                self._begin(self._dial(task))

    async def _dial(self, task: str) -> None:
        """Be connected to that task; if it was started anew, what it should have sent will never come."""
        assert self.peers is not None
        try:
            peer = await self.peers.of(task)
            status = await peer.request(GetStatus())
            now = {device.name: device.incarnation for device in status.devices}
            self._check_incarnations(task, now)
        except errors.OpError as error:
            self.lost(task, error)
        finally:
            self._dialling.discard(task)

    def _check_incarnations(self, task: str, now: Mapping[str, int]) -> None:
        for number, meeting in list(self._meetings.items()):
            expected = meeting.senders.get(task, {})
            if any(now.get(device) != incarnation for device, incarnation in expected.items()):
                self._end(number, errors.AbortedError(f"{task} was started anew during the step", task=task))

    def lost(self, task: str, error: errors.OpError) -> None:
        """A task is lost: the steps end that wait, or may wait, for what it sends unasked."""
        for number, meeting in list(self._meetings.items()):
            if task in meeting.senders:
                self._end(number, error)

    def end_stream(self, step: int, error: errors.OpError | None) -> None:
        """The step is over: nothing of it is kept here."""
        self._end(step, error)

    async def send(self, call: Call) -> TensorSent:
        """A value that was, or will be, sent in a step. It waits for the step to begin, too."""
        message: Any = call.message
        key = Key.parse(message.key)
        device = self._devices.get(key.source)
        if device is None:
            raise errors.InvalidArgumentError(f"{key.source} is no device of {self.task}")
        if key.incarnation != device.incarnation:
            raise errors.AbortedError(f"{self.task} was started anew: step {message.step:x} knows the one before")
        meeting = self._meeting(message.step)
        meeting.asking += 1
        try:
            parcel = await meeting.rendezvous.here.recv(key)
        finally:
            meeting.asking -= 1
            self._sweep(message.step, meeting)
        value = parcel.value if parcel.value is DEAD else await receive(parcel, self._local.devices[0], host=True)
        return TensorSent(value)

    def arrive(self, call: Call) -> None:
        """Small values of a step have come, which may not have begun here. Of a step that is over nothing is wanted."""
        message: Any = call.message
        if message.step in self._over:
            return
        meeting = self._meeting(message.step)
        if meeting.owner is None:
            meeting.owner = call.peer  # until it begins, it lasts as long as whoever sends to it
        assert call.peer is not None  # a task sends nothing to itself
        meeting.pushers.add(call.peer)
        meeting.arrived[call.peer.it.task] += len(message.keys)
        if not meeting.begun and not self._has_room(meeting, message.values):
            text = f"{self.task} keeps no more values for steps that have not begun: {_EARLY} bytes"
            self._end(message.step, errors.ResourceExhaustedError(text, task=self.task))
            return
        for text, value in zip(message.keys, message.values, strict=True):
            meeting.rendezvous.arrive(Key.parse(text), Parcel(value, foreign=True))

    def _has_room(self, meeting: Meeting, values: Iterable[Any]) -> bool:
        """Whether these values can be kept until the step begins; from now on they are."""
        more = sum(_ENTRY + getattr(value, "nbytes", 0) for value in values)
        self._early += more
        meeting.early += more
        return self._early <= _EARLY

    def _begins(self, meeting: Meeting) -> None:
        """The step begins here, or is over: what it gets from now on is its own affair."""
        self._early -= meeting.early
        meeting.early = 0
        meeting.started.set()

    async def pushed(self, call: Call) -> Reply:
        """Whether all has arrived that somebody sent unasked, once the step has begun here, or is over.

        Until then whoever sent it has to see to it that it is not kept here for nothing.
        """
        message: Any = call.message
        meeting = self._meetings.get(message.step)
        if meeting is not None:
            await meeting.started.wait()
        sender = "" if call.peer is None else call.peer.it.task
        if meeting is None and message.step not in self._over:
            raise errors.AbortedError(f"{self.task} knows nothing of step {message.step:x}: it was started anew")
        if meeting is not None and message.step not in self._over and meeting.arrived[sender] < message.count:
            raise errors.DataLossError(f"of {message.count} values {meeting.arrived[sender]} have come to {self.task}")
        if meeting is not None and call.peer is not None:
            meeting.pushers.discard(call.peer)
        return Reply()

    async def cleanup(self, call: Call) -> Reply:
        """A step is over."""
        message: Any = call.message
        self._end(message.step, None)
        return Reply()

    async def cancel(self, call: Call) -> Reply:
        """End a step, here with the error that ended it elsewhere."""
        message: Any = call.message
        self._end(message.step, error_of(message.cause))
        return Reply()

    def _meeting(self, step: int) -> Meeting:
        if step in self._over:
            raise errors.AbortedError(f"step {step:x} is over on {self.task}")
        found = self._meetings.get(step)
        if found is None:
            rendezvous = RemoteRendezvous(
                self.task, functools.partial(self._ask, step), functools.partial(self._line_to, step)
            )
            found = self._meetings[step] = Meeting(rendezvous)
        return found

    async def _ask(self, step: int, key: Key) -> Parcel:
        """The value of a key that another task sends."""
        assert self.peers is not None
        peer = await self.peers.of(task_of(key.source))
        answer = await peer.request(RecvTensor(step, str(key)))
        return Parcel(answer.value, foreign=True)

    def _line_to(self, step: int, task: str) -> Outbox:
        """How a step sends values to a task unasked."""
        assert self.peers is not None
        return Outbox(step, task, self.peers, self._local.devices[0], functools.partial(self._end, step))

    def _end(self, step: int, error: errors.OpError | None) -> None:
        """Nothing of a step is kept; what still runs of it ends."""
        self._over[step] = None
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)
        meeting = self._meetings.pop(step, None)
        if meeting is None:
            return
        self._begins(meeting)
        cause = error or errors.CancelledError("the step is over")
        if meeting.rendezvous.told:  # it may never begin there
            self._begin(self._end_there(step, meeting.rendezvous.told, cause))
        meeting.rendezvous.abort(cause)
        if meeting.step is not None:
            meeting.step.abort(cause)

    def _sweep(self, step: int, meeting: Meeting) -> None:
        """Forget a step that never began, when nobody asks for anything of it any more."""
        if not meeting.begun and not meeting.asking and meeting.owner is None and self._meetings.get(step) is meeting:
            del self._meetings[step]

    # Those who are gone

    def forget_lost(self) -> None:
        """The steps and sessions of masters that are lost end."""
        for number, meeting in list(self._meetings.items()):
            if is_lost(meeting.owner):
                self._end(number, errors.UnavailableError("the master that began the step is lost"))
            elif lost := next(filter(is_lost, meeting.pushers), None):
                task = lost.it.task
                self._end(number, errors.UnavailableError(f"{task} is lost, which sends to {self.task}", task=task))
        for name, session in list(self._sessions.items()):
            if is_lost(session.owner):
                self._forget(name)

    async def close(self) -> None:
        """End all steps."""
        for number in list(self._meetings):
            self._end(number, errors.UnavailableError(f"{self.task} is stopping", task=self.task))
        self._sessions.clear()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        with contextlib.suppress(errors.OpError):
            await self._local.abort(errors.UnavailableError(f"{self.task} is stopping", task=self.task))


HANDLERS: Final[Mapping[type, Any]] = {
    GetStatus: Worker.status,
    Inspect: Worker.inspect,
    TraceVerb: Worker.trace,
    ServeQueue: Worker.serve_queue,
    DropContainers: Worker.drop_containers,
    CreateWorkerSession: Worker.create_session,
    DeleteWorkerSession: Worker.delete_session,
    RegisterGraph: Worker.register,
    DeregisterGraph: Worker.deregister,
    RunGraph: Worker.run,
    RecvTensor: Worker.send,
    Pushed: Worker.pushed,
    CleanupGraph: Worker.cleanup,
    CancelStep: Worker.cancel,
}
"""What answers each request."""
NOTES: Final[Mapping[type, Any]] = {PushTensors: Worker.arrive}
"""What hears each note."""

__all__ = ["HANDLERS", "NOTES", "Worker"]
