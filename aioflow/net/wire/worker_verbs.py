"""What tasks ask each other: the master the workers of its session, and these one another."""

import dataclasses
from typing import Annotated, Final

from aioflow.net.wire.control_verbs import U64, Failure, Reply
from aioflow.net.wire.fields import (
    Attempt,
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
from aioflow.net.wire.schema import Answer, Integer, Many, Note, Real, Request, Table, Text, verb

StepId = Number
Steps = Annotated[tuple[int, ...], Many(Integer(0, U64))]
MOST_KEYS: Final = 16
"""So many keys a message names at most: all of them fit into its header."""
Keys = Annotated[tuple[str, ...], Many(Text(4096), MOST_KEYS)]
"""The texts of `rendezvous.Key`."""


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class Status(Answer):
    """How a worker is.

    Attributes:
        devices: its devices.
        counters: what it counts, by name.
    """

    devices: Devices = ()
    counters: Annotated[dict[str, int], Table(Integer())] = dataclasses.field(default_factory=dict)


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class GetStatus(Request[Status]):
    """How are you?"""


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class Inspected(Answer):
    """What a task, or a session, is at: of `reports.py`, in msgpack."""

    report: Data = b""


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class Inspect(Request[Inspected]):
    """What do your steps wait for, what does your memory hold, what have lossy forms saved?"""


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class CreateWorkerSession(Request[Reply]):
    """Make the worker's part of a session. `counts` is as in `CreateSession`."""

    session: SessionId
    counts: SessionId | None = None


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class DeleteWorkerSession(Request[Reply]):
    """The session is over: forget its graphs."""

    session: SessionId


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class GraphRegistered(Answer):
    """A graph can be run, under that handle."""

    graph: Number


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class RegisterGraph(Request[GraphRegistered]):
    """Make ready the part of a plan that a worker runs.

    Attributes:
        graph: the part, in msgpack.
        constants: arrays of it that are sent as values.
        takes: whether a part of the plan takes elements, on this task or another: what a step of it has changed is
            undone if the master is lost before `CommitGraph`. Otherwise it stays, for the client may have the values.
    """

    session: SessionId
    graph: Data
    constants: NamedValues = dataclasses.field(default_factory=dict)
    takes: Switch = False


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class DeregisterGraph(Request[Reply]):
    """A graph is not needed any more."""

    session: SessionId
    graph: Number


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class GraphRan(Answer):
    """A worker's part of a step is done.

    Attributes:
        values: what it had to give, by name.
        metadata: what was written down of it, if that was asked for.
        held: whether it keeps the step's takes and puts until the master reports the end of the step.
    """

    values: NamedValues = dataclasses.field(default_factory=dict)
    metadata: Data = b""
    held: Switch = False


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class RunGraph(Request[GraphRan]):
    """Run a worker's part of a step.

    Attributes:
        graph: the handle; AbortedError if the worker does not know it, as when it was started anew.
        step: the step: 64 random bits.
        feeds: what it is given, by name.
        options: what the run is told, by the names of `RunOptions`.
        attempt: the attempt that the step belongs to, if its run is repeated after a failure; AbortedError if that
            attempt is being undone.
    """

    session: SessionId
    graph: Number
    step: StepId
    feeds: NamedValues = dataclasses.field(default_factory=dict)
    options: Options = dataclasses.field(default_factory=dict)
    attempt: Attempt = ()


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class AttemptTakenBack(Answer):
    """An attempt is undone.

    Attributes:
        left: the names of variables and operations whose effects remain.
    """

    left: Names = ()


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class TakeBack(Request[AttemptTakenBack]):
    """End the steps of an attempt, undo their changes, and refuse its later steps."""

    attempt: Attempt


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class TensorSent(Answer):
    """Values that were asked for.

    Attributes:
        places: which of the keys these are of, by their places in the question, in order.
    """

    places: Annotated[tuple[int, ...], Many(Integer(0, MOST_KEYS - 1), MOST_KEYS)]
    values: Values


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class RecvTensor(Request[TensorSent]):
    """Values of keys of a step, as soon as there is one: those that are there, of the others it is asked again.

    Attributes:
        step: the step, which need not have begun yet.
        keys: the texts of the keys; AbortedError if the device that sends them was started anew.
    """

    step: StepId
    keys: Keys


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class PushTensors(Note):
    """Small values of a step, unasked. The step need not have begun there.

    Attributes:
        keys: the texts of their keys.
    """

    step: StepId
    keys: Keys
    values: Values


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class CommitGraph(Request[Reply]):
    """Commit a step: its takes so far are given back only on a `CleanupGraph`.

    The answer is an AbortedError if the worker has already given them back.

    Attributes:
        partial: whether the step is a partial run, which continues, and may have no takes on the worker.
    """

    step: StepId
    partial: Switch = False


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class CleanupGraph(Note):
    """Steps are over, and the worker drops their data.

    Attributes:
        received: whether the client has, or may have, their values. If not, the steps end, and the elements they took
            are put back.
        over: false for partial runs that continue: the worker drops only their takes and puts so far.
    """

    steps: Steps
    received: Switch = True
    over: Switch = True


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class CancelStep(Request[Reply]):
    """End a step. `cause` is what ended it, which is raised wherever something of it waits."""

    step: StepId
    cause: Failure


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class Traced(Answer):
    """What was written down, in msgpack."""

    events: Data = b""


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class Trace(Request[Traced]):
    """Write down what your steps do for so many seconds: those that end in that time."""

    seconds: Annotated[float, Real(0.0, 3600.0)] = 1.0


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class QueueServed(Answer):
    """What a live queue gave.

    Attributes:
        values: the components of the elements, element by element.
        facts: what it is like, by the names of `queues.Statistics`.
    """

    values: Values = ()
    facts: Annotated[dict[str, int], Table(Integer())] = dataclasses.field(default_factory=dict)


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class ServeQueue(Request[QueueServed]):
    """Do something with a live queue.

    Attributes:
        handle: the operation that is its handle, as a GraphDef in msgpack.
        action: what, by the names of `live.ACTIONS`.
        values: the components of elements that are put, element by element.
        number: how many elements to take.
        option: whether fewer will do, all go in at once, who waits is cancelled.
        step: for `take`, `put` and `put_batch`, the number of the step; the task can undo it until the step is over.
    """

    handle: Data
    action: Name
    values: Values = ()
    number: Number = 0
    option: Switch = False
    step: StepId = 0


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class DropContainers(Request[Reply]):
    """Drop the state in these containers, all of it if none are named; the sessions of the task have ended."""

    containers: Names = ()


@verb
@dataclasses.dataclass(frozen=True, slots=True)
class Stop(Request[Reply]):
    """The task is to stop. It answers, and then ends what runs. `reason` is for its log."""

    reason: Annotated[str, Text(256)] = ""
