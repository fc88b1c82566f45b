"""Requests between tasks: of a master to the workers of its session, and of workers to each other."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Final

from aioflow.net.wire.control_verbs import TASK, U64, Failure, Reply
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
from aioflow.net.wire.schema import Answer, Blob, EdgeKeys, Integer, Many, Note, Real, Request, Table, Text, verb

StepId = Number
Steps = Annotated[tuple[int, ...], Many(Integer(0, U64))]
MOST_KEYS: Final = 16
"""So many keys a message names at most: all of them fit into its header."""
Keys = Annotated[tuple[tuple[int, ...], ...], EdgeKeys(MOST_KEYS)]
"""Keys of values that one device sends: the number of an edge in the plan, and the iterations of the loops around."""


@verb(17)
@dataclasses.dataclass(frozen=True, slots=True)
class Status(Answer):
    """The status of a worker.

    Attributes:
        devices: its devices.
        counters: its counters by name.
    """

    devices: Devices = ()
    counters: Annotated[dict[str, int], Table(Integer())] = dataclasses.field(default_factory=dict)


@verb(18)
@dataclasses.dataclass(frozen=True, slots=True)
class GetStatus(Request[Status]):
    """How are you?"""


@verb(19)
@dataclasses.dataclass(frozen=True, slots=True)
class Inspected(Answer):
    """The report of a task or a session, as `introspection.py` makes it, in msgpack."""

    report: Data = b""


@verb(20)
@dataclasses.dataclass(frozen=True, slots=True)
class Inspect(Request[Inspected]):
    """Return the waits of the steps of a task, the contents of its memory, and the bytes saved by lossy codecs."""


@verb(21)
@dataclasses.dataclass(frozen=True, slots=True)
class CreateWorkerSession(Request[Reply]):
    """Make the worker's part of a session. `counts` is as in `CreateSession`."""

    session: SessionId
    counts: SessionId | None = None


@verb(22)
@dataclasses.dataclass(frozen=True, slots=True)
class DeleteWorkerSession(Request[Reply]):
    """The session is over: forget its graphs."""

    session: SessionId


@verb(23)
@dataclasses.dataclass(frozen=True, slots=True)
class RegisterGraph(Request[Reply]):
    """Register a plan with the workers of one host that run it. The receiver is one of them, and tells the others.

    Attributes:
        number: the number of the plan in its session.
        graphs: by task, its partition in msgpack, with the tasks that it asks to run theirs when it is asked.
        constants: arrays of the partitions that are sent as values.
        takes: whether a partition of the plan takes elements, on this task or another. Then the changes of a step are
            undone if the master is lost before `CommitGraph`. Otherwise they stay: the client may have the values.
    """

    session: SessionId
    number: Number
    graphs: Annotated[Mapping[str, bytes], Table(Blob(), Text(256, TASK))]
    constants: NamedValues = dataclasses.field(default_factory=dict)
    takes: Switch = False


@verb(24)
@dataclasses.dataclass(frozen=True, slots=True)
class DeregisterGraph(Request[Reply]):
    """A graph is not needed any more."""

    session: SessionId
    graph: Number


@verb(25)
@dataclasses.dataclass(frozen=True, slots=True)
class GraphRan(Answer):
    """The partition of a worker has run.

    Attributes:
        values: its fetched values in order.
        metadata: its trace, if it was requested.
        held: whether it keeps the step's takes and puts until the master reports the end of the step.
        holders: the tasks below it that keep some.
    """

    values: Values = ()
    metadata: Data = b""
    held: Switch = False
    holders: Names = ()


@verb(26)
@dataclasses.dataclass(frozen=True, slots=True)
class RunGraph(Request[GraphRan]):
    """Run the partition of a worker in a step, and those of the tasks below it. The first error is the answer.

    Attributes:
        graph: the number of the plan; AbortedError if the worker does not know it, for example after a restart.
        step: the step: 64 random bits.
        feeds: its fed values in order.
        options: the fields of `RunOptions` by name.
        attempt: the attempt that the step belongs to, if its run is repeated after a failure; AbortedError if that
            attempt is being undone.
        alone: whether the tasks below the worker are not asked by it.
    """

    session: SessionId
    graph: Number
    step: StepId
    feeds: Values = ()
    options: Options = dataclasses.field(default_factory=dict)
    attempt: Attempt = ()
    alone: Switch = False


@verb(27)
@dataclasses.dataclass(frozen=True, slots=True)
class AttemptTakenBack(Answer):
    """An attempt is undone.

    Attributes:
        left: the names of variables and operations whose effects remain.
    """

    left: Names = ()


@verb(28)
@dataclasses.dataclass(frozen=True, slots=True)
class TakeBack(Request[AttemptTakenBack]):
    """End the steps of an attempt, undo their changes, and refuse its later steps."""

    attempt: Attempt


@verb(29)
@dataclasses.dataclass(frozen=True, slots=True)
class TensorSent(Answer):
    """Values that were asked for.

    Attributes:
        places: which of the keys these are of, by their places in the question, in order.
    """

    places: Annotated[tuple[int, ...], Many(Integer(0, MOST_KEYS - 1), MOST_KEYS)]
    values: Values


@verb(30)
@dataclasses.dataclass(frozen=True, slots=True)
class RecvTensor(Request[TensorSent]):
    """Return the available values of keys of a step, as soon as one is there. The receiver asks again for the rest.

    Attributes:
        step: the step, which may not have begun yet.
        incarnation: that of the sending device; AbortedError if the device has restarted.
        keys: the keys.
    """

    step: StepId
    incarnation: Number
    keys: Keys


@verb(31)
@dataclasses.dataclass(frozen=True, slots=True)
class PushTensors(Note):
    """Values of a step, unasked. The step need not have begun there.

    Attributes:
        incarnation: that of the sending device.
        keys: their keys.
    """

    step: StepId
    incarnation: Number
    keys: Keys
    values: Values


@verb(32)
@dataclasses.dataclass(frozen=True, slots=True)
class CommitGraph(Request[Reply]):
    """Commit a step: its takes so far are given back only on a `CleanupGraph`.

    The answer is an AbortedError if the worker has already given them back.

    Attributes:
        partial: whether the step is a partial run, which continues, and may have no takes on the worker.
    """

    step: StepId
    partial: Switch = False


@verb(33)
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


@verb(34)
@dataclasses.dataclass(frozen=True, slots=True)
class CancelStep(Request[Reply]):
    """End a step. `cause` is the error that ended it; all waiting calls of the step raise it."""

    step: StepId
    cause: Failure


@verb(35)
@dataclasses.dataclass(frozen=True, slots=True)
class Traced(Answer):
    """The trace, in msgpack."""

    events: Data = b""


@verb(36)
@dataclasses.dataclass(frozen=True, slots=True)
class Trace(Request[Traced]):
    """Trace for `seconds` the steps of a task that end in that time."""

    seconds: Annotated[float, Real(0.0, 3600.0)] = 1.0


@verb(37)
@dataclasses.dataclass(frozen=True, slots=True)
class QueueServed(Answer):
    """The result of an action on a live queue.

    Attributes:
        values: the components of the elements, element by element.
        facts: its statistics, by the names of `queues.Statistics`.
    """

    values: Values = ()
    facts: Annotated[dict[str, int], Table(Integer())] = dataclasses.field(default_factory=dict)


@verb(38)
@dataclasses.dataclass(frozen=True, slots=True)
class ServeQueue(Request[QueueServed]):
    """Perform an action on a live queue.

    Attributes:
        handle: the operation of its handle, as a GraphDef in msgpack.
        action: the name of the action in `queue_service.ACTIONS`.
        values: the components of elements that are put, element by element.
        number: the number of elements to take.
        option: whether fewer elements suffice, all are put at once, or waiting calls are cancelled.
        step: for `take`, `put` and `put_batch`, the number of the step; the task can undo it until the step is over.
    """

    handle: Data
    action: Name
    values: Values = ()
    number: Number = 0
    option: Switch = False
    step: StepId = 0


@verb(39)
@dataclasses.dataclass(frozen=True, slots=True)
class DropContainers(Request[Reply]):
    """Drop the state in these containers, or all state if the list is empty, after the sessions of the task ended."""

    containers: Names = ()


@verb(40)
@dataclasses.dataclass(frozen=True, slots=True)
class Stop(Request[Reply]):
    """Stop the task. It answers, and then ends its running steps. `reason` is for its log."""

    reason: Annotated[str, Text(256)] = ""
