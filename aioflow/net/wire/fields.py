"""Fields that several messages have."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from aioflow import errors
from aioflow.net.wire.control_verbs import TASK, U64
from aioflow.net.wire.schema import Blob, Flag, Integer, Many, ManyValues, Plain, Real, Record, Table, Text, Value
from aioflow.resources.journal import Ticket
from aioflow.tensors.dtypes import Array

SessionId = Annotated[str, Text(32, "[0-9a-f]{32}")]
"""128 random bits. A client that knows them may use the session."""
Name = Annotated[str, Text(1024)]
Names = Annotated[tuple[str, ...], Many(Text(1024))]
Number = Annotated[int, Integer(0, U64)]
Count = Annotated[int, Integer()]
Seconds = Annotated[float, Real()]
Switch = Annotated[bool, Flag()]
Task = Annotated[str, Text(256, TASK)]
Values = Annotated[tuple[Array, ...], ManyValues()]
NamedValues = Annotated[Mapping[str, Array], Table(Value(), Text(4096))]
Data = Annotated[bytes, Blob()]
"""Bytes of any length, as a GraphDef in msgpack."""
Attempt = Annotated[tuple[int, ...], Many(Integer(0, U64), 3)]
"""A `journal.Ticket` as numbers; empty for a run that is not repeated."""
Options = Annotated[Mapping[str, Any], Table(Plain())]
"""Settings by name, as plain data; the receiver interprets them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A device that operations can be placed on.

    Attributes:
        name: the full name, such as `/job:worker/replica:0/task:1/device:CPU:0`.
        kind: `CPU` or `GPU`.
        incarnation: a number that is new at each start of the task.
        memory: the most bytes it may hold; None for no limit.
        model: a description for people.
    """

    name: Annotated[str, Text(256)]
    kind: Annotated[str, Text(16)]
    incarnation: Number
    memory: Count | None = None
    model: Annotated[str, Text(256)] = ""


Devices = Annotated[tuple[Device, ...], Many(Record(Device))]


def ticket_of(attempt: tuple[int, ...]) -> Ticket:
    """The ticket in a message. InvalidArgumentError if it is malformed."""
    if len(attempt) != len(Ticket._fields):
        raise errors.InvalidArgumentError(f"an attempt has {len(Ticket._fields)} numbers, not {len(attempt)}")
    return Ticket(*attempt)
