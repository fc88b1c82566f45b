"""A worker: it runs its devices' part of each step, and gives what is sent there to whoever asks for it."""

import asyncio
import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.assembly import assemble
from aioflow.config import RunOptions
from aioflow.context import Context
from aioflow.devices.device import AnyDevice, attributes_of
from aioflow.devices.moving import Parcel, receive
from aioflow.dtypes import Array
from aioflow.executor import Outputs
from aioflow.kernels.control_flow import DEAD
from aioflow.local import Local
from aioflow.net.control_verbs import Reply
from aioflow.net.failures import error_of
from aioflow.net.fields import Device
from aioflow.net.parts import parts_of, sends_elsewhere
from aioflow.net.peer import Peer
from aioflow.net.peers import Peers
from aioflow.net.remote_rendezvous import RemoteRendezvous, task_of
from aioflow.net.serving import Call
from aioflow.net.worker_verbs import (
    CancelStep,
    CleanupGraph,
    CreateWorkerSession,
    DeleteWorkerSession,
    DeregisterGraph,
    GetStatus,
    GraphRan,
    GraphRegistered,
    RecvTensor,
    RegisterGraph,
    RunGraph,
    Status,
    TensorSent,
    Waiting,
)
from aioflow.node import describe_line
from aioflow.passes.flow import Node
from aioflow.program import Unit
from aioflow.programs import DeviceProgram, Programs
from aioflow.rendezvous import Key, Rendezvous
from aioflow.step import Step
from aioflow.together import run_together

_REMEMBERED: Final = 10_000
"""Of so many steps that are over it is known that they are."""


class _Registered:
    """A graph that can be run."""

    def __init__(self, programs: Programs, counted: Sequence[str], sends: bool) -> None:
        self.programs: Final = programs
        self.counted: Final = counted
        self.sends: Final = sends
        """Whether other tasks ask for something of it, so that a step is not over when it has run."""


class _Session:
    """What a worker has of a session."""

    def __init__(self, owner: Peer | None) -> None:
        self.owner: Final = owner
        self.graphs: Final[dict[int, _Registered]] = {}


class _Meeting:
    """A step as others see it: where they get what it sends. It may be there before the step is."""

    def __init__(self, rendezvous: RemoteRendezvous) -> None:
        self.rendezvous: Final = rendezvous
        self.owner: Peer | None = None
        self.step: Step | None = None
        self.begun = False
        self.asking = 0


class WorkerStep(Step):
    """A worker's part of a step."""

    __slots__ = ("_meeting", "_prefix")

    def __init__(
        self, local: Local, session: str, counted: Sequence[str], meeting: RemoteRendezvous, numerics: bool
    ) -> None:
        self._prefix = session
        self._meeting = meeting
        super().__init__(local, [f"{session}/{name}" for name in counted], None, numerics)

    @property
    def rendezvous(self) -> Rendezvous:
        """Where it meets the parts on other devices, here and elsewhere."""
        return self._meeting

    def times_run(self, name: str) -> int:
        """How often the operation ran in its session on this worker."""
        return super().times_run(f"{self._prefix}/{name}")

    async def _run_parts(self, programs: Programs, feeds: Outputs) -> list[Array]:
        """Others may still ask for what was sent when all is done here: so the rendezvous stays open."""
        results = await run_together(self._executions, [part.given(feeds) for part in programs.parts])
        await self._settled()
        return programs.joined(results)


class Worker:
    """The worker's side of a task."""

    def __init__(self, task: str, local: Local) -> None:
        self._task: Final = task
        self._local: Final = local
        self._devices: Final[dict[str, AnyDevice]] = {device.name: device for device in local.devices}
        self._sessions: Final[dict[str, _Session]] = {}
        self._meetings: Final[dict[int, _Meeting]] = {}
        self._over: Final[OrderedDict[int, None]] = OrderedDict()
        self._handles: Final = itertools.count(1)
        self.peers: Peers | None = None
        """The other tasks; there when it is asked the first thing."""

    # What there is

    @property
    def devices(self) -> tuple[Device, ...]:
        """Its devices, as others see them."""
        found = [attributes_of(device) for device in self._local.devices]
        return tuple([Device(d.name, d.device_type, d.incarnation, d.memory_limit) for d in found])

    async def status(self, call: Call) -> Status:
        """How it is, and what its steps wait for."""
        message: Any = call.message
        waiting = tuple(self._waiting())[:256] if message.waiting else ()
        counters = {"sessions": len(self._sessions), "meetings": len(self._meetings), "steps": len(self._local.steps)}
        return Status(self.devices, tuple(self._meetings), waiting, counters)

    def _waiting(self) -> list[Waiting]:
        now = asyncio.get_running_loop().time()
        found: list[Waiting] = []
        for number, meeting in self._meetings.items():
            found += [
                Waiting(number, place.key.edge, str(place.key), "a value", now - place.since)
                for place in meeting.rendezvous.waiting
            ]
            if (step := meeting.step) is not None:
                found += [_waits(number, unit, step.clock() - since) for unit, since in step.under_way()]
        return found

    # Sessions and graphs

    async def create_session(self, call: Call) -> Reply:
        """Make what is needed of a session. It lasts as long as whoever made it is there."""
        message: Any = call.message
        self._sessions[message.session] = _Session(call.peer)
        return Reply()

    async def delete_session(self, call: Call) -> Reply:
        """Forget its graphs."""
        message: Any = call.message
        self._sessions.pop(message.session, None)
        return Reply()

    async def register(self, call: Call) -> GraphRegistered:
        """Make a graph ready. InvalidArgumentError if it cannot be run here."""
        message: Any = call.message
        session = self._session(message.session)
        try:
            parts, counted = parts_of(message)
        except ValueError as error:
            raise errors.InvalidArgumentError(f"{self._task}: {error}") from None
        made = []
        for part in parts:
            device = self._devices.get(part.device)
            if device is None:
                raise errors.InvalidArgumentError(f"{self._task} has no {part.device}: {', '.join(self._devices)}")
            for node in part.flow.nodes:
                self._check_registered(node)
            context = Context(device.xp, self._local.resources, None, device=device)  # type: ignore[arg-type]
            fused = self._local.config.executor != "tokens"
            program = assemble(part.flow, context, fused=fused, stream=False, blocks=fused)
            made.append(DeviceProgram(device, program, part.feeds, part.fetches))
        handle, programs = next(self._handles), Programs(made, self._local.devices[0])
        session.graphs[handle] = _Registered(programs, counted, sends_elsewhere(parts))
        return GraphRegistered(handle)

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

    def _session(self, number: str) -> _Session:
        if number not in self._sessions:
            raise errors.AbortedError(f"{self._task} does not know the session: it was started anew, or has dropped it")
        return self._sessions[number]

    # Steps

    async def run(self, call: Call) -> GraphRan:
        """Run its part of a step. Whatever ends it but its own end leaves nothing of it."""
        message: Any = call.message
        session = self._session(message.session)
        graph = session.graphs.get(message.graph)
        if graph is None:
            raise errors.AbortedError(f"{self._task} does not know graph {message.graph}: it was started anew")
        meeting = self._meeting(message.step)
        if meeting.begun:
            raise errors.AlreadyExistsError(f"step {message.step:x} runs already")
        meeting.begun, meeting.owner = True, call.peer
        options = RunOptions(check_numerics=message.options.get("check_numerics") is True)
        step = WorkerStep(
            self._local, message.session, graph.counted, meeting.rendezvous, numerics=options.check_numerics
        )
        meeting.step = step
        feeds = [message.feeds[str(index)] for index in range(len(message.feeds))]
        try:
            fetched = await step.run(graph.programs, feeds, None)
        except BaseException as error:
            self._end(message.step, errors.from_exception(error) if isinstance(error, Exception) else None)
            raise
        finally:
            meeting.step = None
        if not graph.sends:
            self._end(message.step, None)
        return GraphRan({str(index): value for index, value in enumerate(fetched)})

    async def send(self, call: Call) -> TensorSent:
        """A value that was, or will be, sent in a step. It waits for the step to begin, too."""
        message: Any = call.message
        key = Key.parse(message.key)
        device = self._devices.get(key.source)
        if device is None:
            raise errors.InvalidArgumentError(f"{key.source} is no device of {self._task}")
        if key.incarnation != device.incarnation:
            raise errors.AbortedError(f"{self._task} was started anew: step {message.step:x} knows the one before")
        meeting = self._meeting(message.step)
        began = asyncio.get_running_loop().time()
        meeting.asking += 1
        try:
            parcel = await meeting.rendezvous.here.recv(key)
        finally:
            meeting.asking -= 1
            self._sweep(message.step, meeting)
        value = parcel.value if parcel.value is DEAD else await receive(parcel, self._local.devices[0], host=True)
        return TensorSent(value, asyncio.get_running_loop().time() - began)

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

    def _meeting(self, step: int) -> _Meeting:
        if step in self._over:
            raise errors.AbortedError(f"step {step:x} is over on {self._task}")
        found = self._meetings.get(step)
        if found is None:
            rendezvous = RemoteRendezvous(self._task, lambda key: self._ask(step, key))
            found = self._meetings[step] = _Meeting(rendezvous)
        return found

    async def _ask(self, step: int, key: Key) -> Parcel:
        """The value of a key that another task sends."""
        assert self.peers is not None
        peer = await self.peers.of(task_of(key.source))
        answer = await peer.request(RecvTensor(step, str(key), key.incarnation))
        return Parcel(answer.value)

    def _end(self, step: int, error: errors.OpError | None) -> None:
        """Nothing of a step is kept; what still runs of it ends."""
        self._over[step] = None
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)
        meeting = self._meetings.pop(step, None)
        if meeting is None:
            return
        cause = error or errors.CancelledError("the step is over")
        meeting.rendezvous.abort(cause)
        if meeting.step is not None:
            meeting.step.abort(cause)

    def _sweep(self, step: int, meeting: _Meeting) -> None:
        """Forget a step that never began, when nobody asks for anything of it any more."""
        if not meeting.begun and not meeting.asking and self._meetings.get(step) is meeting:
            del self._meetings[step]

    # Those who are gone

    def forget_lost(self) -> None:
        """The steps and sessions of masters that are lost end."""
        for number, meeting in list(self._meetings.items()):
            if _is_lost(meeting.owner):
                self._end(number, errors.UnavailableError("the master that began the step is lost"))
        for name, session in list(self._sessions.items()):
            if _is_lost(session.owner):
                del self._sessions[name]

    async def close(self) -> None:
        """End all steps."""
        for number in list(self._meetings):
            self._end(number, errors.UnavailableError(f"{self._task} is stopping", task=self._task))
        self._sessions.clear()
        with contextlib.suppress(errors.OpError):
            await self._local.abort(errors.UnavailableError(f"{self._task} is stopping", task=self._task))


def _is_lost(peer: Peer | None) -> bool:
    return peer is not None and peer.end is not None


def _waits(step: int, unit: Unit, seconds: float) -> Waiting:
    node = unit.nodes[0]
    return Waiting(step, node.name, "", node.definition.name, max(0.0, seconds))


HANDLERS: Final[Mapping[type, Any]] = {
    GetStatus: Worker.status,
    CreateWorkerSession: Worker.create_session,
    DeleteWorkerSession: Worker.delete_session,
    RegisterGraph: Worker.register,
    DeregisterGraph: Worker.deregister,
    RunGraph: Worker.run,
    RecvTensor: Worker.send,
    CleanupGraph: Worker.cleanup,
    CancelStep: Worker.cancel,
}
"""What answers each request."""

__all__ = ["HANDLERS", "Worker", "WorkerStep"]
