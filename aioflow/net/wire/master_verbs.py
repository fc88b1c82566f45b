"""Requests of a client to the master, the task that runs its session."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from aioflow.net.wire.control_verbs import TASK, U64, Reply
from aioflow.net.wire.fields import (
    Attempt,
    Count,
    Data,
    Devices,
    Name,
    NamedValues,
    Names,
    Number,
    Options,
    SessionId,
    Switch,
    Values,
)
from aioflow.net.wire.schema import Answer, Integer, Many, Note, Request, Table, Text, verb
from aioflow.net.wire.worker_verbs import AttemptTakenBack, Inspected, QueueServed

_Addresses = Annotated[Mapping[str, str], Table(Text(1024), Text(256, TASK))]


@verb(49)
@dataclasses.dataclass(frozen=True, slots=True)
class SessionCreated(Answer):
    """A session is there.

    Attributes:
        session: its id.
        devices: those it can use.
    """

    session: SessionId
    devices: Devices = ()


@verb(50)
@dataclasses.dataclass(frozen=True, slots=True)
class CreateSession(Request[SessionCreated]):
    """Make a session.

    Attributes:
        config: how it works, by the names of `Config`.
        graph: a first part of the graph, as a GraphDef in msgpack.
        constants: the arrays of that part which are sent as values, by the names of their operations.
        counts: the name under which tasks count the runs of its operations. A client that opens its session again sends
            the same name, so that random numbers continue. By default the session's id.
    """

    config: Options = dataclasses.field(default_factory=dict)
    graph: Data = b""
    constants: NamedValues = dataclasses.field(default_factory=dict)
    counts: SessionId | None = None


@verb(51)
@dataclasses.dataclass(frozen=True, slots=True)
class SessionExtended(Answer):
    """The graph has the new operations. `operations` is their number in all."""

    version: Count


@verb(52)
@dataclasses.dataclass(frozen=True, slots=True)
class ExtendSession(Request[SessionExtended]):
    """Add operations to the graph of a session.

    Attributes:
        version: how many operations it has before that; AbortedError if that is not so.
        graph: the operations, as a GraphDef in msgpack.
        constants: arrays of theirs that are sent as values, by the names of their operations.
    """

    session: SessionId
    version: Count
    graph: Data
    constants: NamedValues = dataclasses.field(default_factory=dict)


@verb(53)
@dataclasses.dataclass(frozen=True, slots=True)
class StepDone(Answer):
    """A step, or the requested part of a partial run, is done.

    Attributes:
        values: the fetched values, in the order of the fetches.
        metadata: the trace of the step, if it was requested.
        held: whether the step keeps its taken elements until the client acknowledges it.
        uncommitted: whether the client must commit the step before it returns the values.
    """

    values: Values = ()
    metadata: Data = b""
    held: Switch = False
    uncommitted: Switch = False


@verb(54)
@dataclasses.dataclass(frozen=True, slots=True)
class CommitStep(Request[Reply]):
    """Commit a step before the client hands over its values: tasks no longer give back its takes by themselves.

    After an error the client must not hand over the values. Until `Acknowledge` it may still refuse them.

    Attributes:
        token: the token of the step.
    """

    session: SessionId
    token: Number


@verb(55)
@dataclasses.dataclass(frozen=True, slots=True)
class Acknowledge(Note):
    """The client has received the values of these steps, or never will.

    Attributes:
        tokens: the tokens of the steps.
        received: whether it has the values. If not, the elements that the steps took are put back.
    """

    session: SessionId
    tokens: Annotated[tuple[int, ...], Many(Integer(0, U64))]
    received: Switch = True


@verb(56)
@dataclasses.dataclass(frozen=True, slots=True)
class RunStep(Request[StepDone]):
    """Run a step.

    Attributes:
        feeds: values by the names of the fed tensors.
        fetches: names of tensors.
        targets: names of further operations to run.
        options: the fields of `RunOptions` by name; the time limit is that of the message.
        token: the number by which the client acknowledges the step, unique in the session; 0 if it never does.
        attempt: the attempt that the step belongs to, if its run is repeated after a failure.
    """

    session: SessionId
    feeds: NamedValues = dataclasses.field(default_factory=dict)
    fetches: Names = ()
    targets: Names = ()
    options: Options = dataclasses.field(default_factory=dict)
    token: Number = 0
    attempt: Attempt = ()


@verb(57)
@dataclasses.dataclass(frozen=True, slots=True)
class PartialRunReady(Answer):
    """A run in several calls has begun, under that handle."""

    handle: Name


@verb(58)
@dataclasses.dataclass(frozen=True, slots=True)
class PartialRunSetup(Request[PartialRunReady]):
    """Begin a partial run, with its feeds, fetches and targets.

    Attributes:
        token: the number by which the client acknowledges the handle; 0 if it does not.
    """

    session: SessionId
    feeds: Names = ()
    fetches: Names = ()
    targets: Names = ()
    options: Options = dataclasses.field(default_factory=dict)
    token: Number = 0


@verb(59)
@dataclasses.dataclass(frozen=True, slots=True)
class PartialRun(Request[StepDone]):
    """Go on with a run in several calls. Without fetches and feeds, the run is given up.

    Attributes:
        token: by which the client commits and acknowledges the values of this call; 0 if it does neither.
    """

    session: SessionId
    handle: Name
    feeds: NamedValues = dataclasses.field(default_factory=dict)
    fetches: Names = ()
    token: Number = 0


@verb(60)
@dataclasses.dataclass(frozen=True, slots=True)
class CallableMade(Answer):
    """A call signature is ready, under that handle."""

    handle: Number


@verb(61)
@dataclasses.dataclass(frozen=True, slots=True)
class MakeCallable(Request[CallableMade]):
    """Plan a call signature: the feeds in their order, the fetches and the targets."""

    session: SessionId
    feeds: Names = ()
    fetches: Names = ()
    targets: Names = ()


@verb(62)
@dataclasses.dataclass(frozen=True, slots=True)
class RunCallable(Request[StepDone]):
    """Run a step of a registered call signature with these feeds. Token and attempt are as in RunStep."""

    session: SessionId
    handle: Number
    feeds: Values = ()
    token: Number = 0
    attempt: Attempt = ()


@verb(63)
@dataclasses.dataclass(frozen=True, slots=True)
class TakeBackOnAll(Request[AttemptTakenBack]):
    """Undo an attempt on all tasks of the session that took part in it.

    The answer is an UnavailableError, with the name of the task, if one of them cannot be reached.

    Attributes:
        tasks: further tasks, which have to be reachable.
    """

    session: SessionId
    attempt: Attempt
    tasks: Names = ()


@verb(64)
@dataclasses.dataclass(frozen=True, slots=True)
class ReleaseCallable(Request[Reply]):
    """A call signature is not needed any more."""

    session: SessionId
    handle: Number


@verb(65)
@dataclasses.dataclass(frozen=True, slots=True)
class CloseSession(Request[Reply]):
    """End a session, and all that runs in it."""

    session: SessionId


@verb(66)
@dataclasses.dataclass(frozen=True, slots=True)
class DeviceList(Answer):
    """The devices there are."""

    devices: Devices = ()


@verb(67)
@dataclasses.dataclass(frozen=True, slots=True)
class ListDevices(Request[DeviceList]):
    """Which devices does the session have; without a session, the cluster?"""

    session: SessionId | None = None


@verb(68)
@dataclasses.dataclass(frozen=True, slots=True)
class TaskList(Answer):
    """The tasks of the cluster: their addresses, by name."""

    addresses: _Addresses = dataclasses.field(default_factory=dict)


@verb(69)
@dataclasses.dataclass(frozen=True, slots=True)
class ListTasks(Request[TaskList]):
    """Which tasks does the cluster have, whether they are there or not?"""


@verb(70)
@dataclasses.dataclass(frozen=True, slots=True)
class InspectSession(Request[Inspected]):
    """Return the waits of the steps of a session, and its state on all tasks."""

    session: SessionId


@verb(71)
@dataclasses.dataclass(frozen=True, slots=True)
class Placed(Answer):
    """Where each node of a call would be put: a `placement.Placement`, in msgpack."""

    report: Data


@verb(72)
@dataclasses.dataclass(frozen=True, slots=True)
class Place(Request[Placed]):
    """Where would each node of a call be put, and why?"""

    session: SessionId
    feeds: Names = ()
    fetches: Names = ()
    targets: Names = ()


@verb(73)
@dataclasses.dataclass(frozen=True, slots=True)
class Replan(Request[Reply]):
    """Forget the plans of a session."""

    session: SessionId


@verb(74)
@dataclasses.dataclass(frozen=True, slots=True)
class UseQueue(Request[QueueServed]):
    """Do an action on the live queue behind a handle of a session's graph.

    The token is as in RunStep: `take`, `put` and `put_batch` count as steps. The rest is as in ServeQueue.
    """

    session: SessionId
    handle: Name
    action: Name
    values: Values = ()
    number: Number = 0
    option: Switch = False
    token: Number = 0


@verb(75)
@dataclasses.dataclass(frozen=True, slots=True)
class Reset(Request[Reply]):
    """Drop the state in these containers (all containers if the list is empty), and end the sessions that use them."""

    containers: Names = ()
