"""Messages of every connection: the handshake, heartbeats, parts of values, failures."""

import dataclasses
from typing import Annotated, Final

from aioflow.net.wire.limits import STANDARD, Limits
from aioflow.net.wire.schema import Answer, Choice, Flag, Integer, Many, Message, Real, Text, verb

VERSIONS: Final = (3,)
"""The versions of the protocol that are spoken here."""
TASK: Final = r"|/job:[A-Za-z][\w.-]*/replica:\d+/task:\d+"
"""Name of a task; empty for a client."""
U64: Final = (1 << 64) - 1

TaskName = Annotated[str, Text(256, TASK)]
Incarnation = Annotated[int, Integer(0, U64)]
Digest = Annotated[str, Text(64, r"[0-9a-f]*")]
ConnectionId = Annotated[str, Text(32, r"|[0-9a-f]{32}")]
_SHORTEST, _LONGEST = 0.001, 86_400.0
Heartbeat = Annotated[float, Real(_SHORTEST, _LONGEST)]
Port = Annotated[int, Integer(0, (1 << 16) - 1)]
Position = Annotated[int, Integer(0, U64)]
Role = Annotated[str, Choice(("control", "bulk", "client"))]


@verb(1)
@dataclasses.dataclass(frozen=True, slots=True)
class Hello(Message):
    """The first message on a channel, from the end that dialled.

    Attributes:
        role: `control` of a task, `client` the same of a client, `bulk` the second channel of either.
        versions: the versions of the protocol that it supports.
        incarnation: a number that is new at each start of the task.
        task: the name of the task.
        target: the name of the task that it wants to reach; empty for any.
        cluster: the digest of its cluster; empty for none.
        connection: of a bulk channel, the number that the welcome of its control channel gave.
        limits: the sizes that it accepts.
        received: bytes of frames received over the lost channel that this one replaces; None for a new connection.
        heartbeat: the sender's heartbeat timeout in seconds; the task also accepts as long a silence of a client.
    """

    role: Role
    versions: Annotated[tuple[int, ...], Many(Integer(1, 1000), 16)]
    incarnation: Incarnation
    task: TaskName = ""
    target: TaskName = ""
    cluster: Digest = ""
    connection: ConnectionId = ""
    limits: Limits = STANDARD
    received: Position | None = None
    heartbeat: Heartbeat | None = None


@verb(2)
@dataclasses.dataclass(frozen=True, slots=True)
class Welcome(Message):
    """The answer to a Hello. The task closes the channel instead, with the reason, if it does not accept it.

    Attributes:
        version: the version of the protocol that both ends use from now on.
        incarnation: a number that is new at each start of the task.
        task: the name of the task.
        cluster: the digest of its cluster.
        connection: 128 random bits that the bulk channel must name.
        limits: the smaller limits of both ends.
        received: bytes of frames received over the lost channel, if this one replaces it.
        heartbeat: the heartbeat timeout of the task in seconds.
        monitor: the port of the task's monitor, on the same address; 0 for none.
        monitor_key: the key by which the monitors of both ends authenticate.
    """

    version: Annotated[int, Integer(1, 1000)]
    incarnation: Incarnation
    task: TaskName = ""
    cluster: Digest = ""
    connection: ConnectionId = ""
    limits: Limits = STANDARD
    received: Position = 0
    heartbeat: Heartbeat = 5.0
    monitor: Port = 0
    monitor_key: ConnectionId = ""


@verb(3)
@dataclasses.dataclass(frozen=True, slots=True)
class Reply(Answer):
    """The request is done, without a result."""


@verb(4)
@dataclasses.dataclass(frozen=True, slots=True)
class Failure(Answer):
    """It failed: the fields of the error. `failures` makes one of the other."""

    code: Annotated[str, Text(64)]
    message: Annotated[str, Text(4096)]
    op: Annotated[str, Text(512)] | None = None
    op_type: Annotated[str, Text(256)] | None = None
    device: Annotated[str, Text(256)] | None = None
    task: Annotated[str, Text(256)] | None = None
    line: Annotated[str, Text(512)] | None = None
    shapes: Annotated[tuple[str, ...], Many(Text(128), 16)] = ()
    notes: Annotated[tuple[str, ...], Many(Text(512), 8)] = ()


@verb(5)
@dataclasses.dataclass(frozen=True, slots=True)
class Cancel(Message):
    """Nobody waits for the answer to the request of that number any more. It is not answered then."""


@verb(6)
@dataclasses.dataclass(frozen=True, slots=True)
class Part(Message):
    """More bytes of the values of an announced message. The header has their number.

    Attributes:
        answer: whether the message is an answer.
    """

    answer: Annotated[bool, Flag()] = False


@verb(7)
@dataclasses.dataclass(frozen=True, slots=True)
class Drop(Message):
    """The rest of a message that was announced will not come."""

    answer: Annotated[bool, Flag()] = False


@verb(8)
@dataclasses.dataclass(frozen=True, slots=True)
class Credit(Message):
    """A number of bytes of values arrived or were dropped, and the peer may send as many more on this channel.

    Attributes:
        nbytes: bytes of values.
        received: bytes of all frames received over this channel since the connection was made.
    """

    nbytes: Annotated[int, Integer()] = 0
    received: Position = 0


@verb(9)
@dataclasses.dataclass(frozen=True, slots=True)
class Ping(Message):
    """Asks for a sign of life. `clock` is the sender's, in seconds, and `received` as in `Credit`."""

    clock: Annotated[float, Real(-1e18)]
    received: Position = 0


@verb(10)
@dataclasses.dataclass(frozen=True, slots=True)
class Pong(Message):
    """The answer to a Ping: `ping` is the number of the Ping, `clock` the clock of the answering task."""

    ping: Annotated[float, Real(-1e18)]
    clock: Annotated[float, Real(-1e18)]


@verb(11)
@dataclasses.dataclass(frozen=True, slots=True)
class Goodbye(Message):
    """The last message: the sender closes its channels."""

    reason: Annotated[str, Text(256)] = ""


def bounded_heartbeat(seconds: float) -> float:
    """A heartbeat timeout within the limits of the protocol."""
    return min(max(seconds, _SHORTEST), _LONGEST)
