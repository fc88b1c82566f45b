"""Encodes and decodes the header of a message.

A message begins with one frame: the length of the header in 4 bytes, little-endian; the header in msgpack; and the
bytes of the values, if these are few. The header is a list, which may end after any of its parts from `fields` on:

    verb      the number of the class of the message
    id        the number of the request: of this one, of the answered one, or of the one that the message is about
    fields    the fields of the message in order, with nil for a default
    values    a descriptor for each value that travels beside the header, see `values.py`
    follows   the number of bytes that follow in raw frames; the rest of the values comes in later messages `Part`
    left      the seconds left to answer the request; nil for no limit
    trace     the trace of the request, as W3C's traceparent
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgpack

from aioflow import errors
from aioflow.net.wire import master_verbs, worker_verbs  # noqa: F401 - all messages are known
from aioflow.net.wire.control_verbs import Drop, Part
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.schema import (
    NUMBERED,
    RECORDS,
    Answer,
    Integer,
    Kind,
    Message,
    Optional,
    Real,
    Record,
    Simple,
    Text,
)
from aioflow.net.wire.values import Budget, Incoming, incoming, scalars_of
from aioflow.tensors.plain_data import summarise, unpack

TRACE: Final = r"|00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
_LENGTH: Final = struct.Struct("<I")
_pack: Final = msgpack.Packer().pack


class ProtocolError(Exception):
    """A peer violated the protocol. The connection is closed, with this as the reason."""


class Header(NamedTuple):
    """The header of a message, its fields and values as plain data."""

    verb: int
    id: int
    fields: Any
    values: list[Any]
    follows: int = 0
    left: float | None = None
    trace: str = ""


class _List(Simple):
    """A list, which is looked into later."""

    def check(self, value: Any) -> None:
        """ValueError if it is none."""
        if type(value) is not list:
            raise ValueError(f"{summarise(value)} is not a list")


_MOST: Final = (1 << 64) - 1
_MOST_FOLLOW: Final = (1 << 63) - 1
_KINDS: Final[dict[str, Kind]] = {
    "verb": Integer(), "id": Integer(0, _MOST), "fields": _List(), "values": _List(),
    "follows": Integer(0, _MOST_FOLLOW), "left": Optional(Real()), "trace": Text(55, TRACE),
}  # fmt: skip
"""The kinds of the parts of a header."""
_LEAST: Final = 3
"""The parts of the shortest header: those up to the fields."""
_DEFAULTS: Final[list[Any]] = [0, 0, [], [], 0, None, ""]
"""The parts that are left out."""


class Envelope(NamedTuple):
    """A message with the header fields that any message can have.

    Attributes:
        number: the number of a request. An incarnation of a task uses each number once.
        message: the message.
        left: the seconds left to answer it; None for no limit.
        trace: its trace, as W3C's traceparent; empty for none.
    """

    number: int
    message: Message
    left: float | None = None
    trace: str = ""


def head_of(
    envelope: Envelope, descriptors: list[Any], fields: list[Any], follows: int, limits: Limits, left: float | None
) -> bytes:
    """The first frame of a message, without the bytes of few values. ResourceExhaustedError if it is too long."""
    number, message, _, trace = envelope
    data: list[Any] = [RECORDS[type(message)].number, number, fields]
    if left is not None or trace:
        data += descriptors, follows, _KINDS["left"].write(left, []), _KINDS["trace"].write(trace, [])
    elif follows:
        data += descriptors, follows
    elif descriptors:
        data.append(descriptors)
    packed: bytes = _pack(data)
    length = len(packed)
    if length > limits.header:
        text = f"the header of {type(message).__name__} has {length} bytes, {limits.header} are the most"
        raise errors.ResourceExhaustedError(text)
    return _LENGTH.pack(length) + packed


class Announcement(NamedTuple):
    """A message whose first frame has arrived.

    Attributes:
        record: the kinds of its fields.
        header: its header.
        values: its values.
        nbytes: the bytes of its values.
        inline: the bytes of values that came in the first frame.
    """

    record: Record
    header: Header
    values: tuple[Incoming, ...]
    nbytes: int
    inline: memoryview

    @property
    def is_answer(self) -> bool:
        """Whether the message is an answer."""
        return issubclass(self.record.cls, Answer)

    def check(self) -> None:
        """Check the fields before the values are there. ProtocolError if one does not fit."""
        self._message(self.values)

    def envelope(self, values: Sequence[Any]) -> Envelope:
        """The message with these values. ProtocolError if the fields do not fit, or do not fit them."""
        return Envelope(self.header.id, self._message(values), self.header.left, self.header.trace)

    def _message(self, values: Sequence[Any]) -> Any:
        try:
            return _message_of(self.record, self.header.fields, values)
        except ValueError as error:
            raise ProtocolError(str(error)) from None


def _message_of(record: Record, fields: Any, values: Sequence[Any]) -> Any:
    left = dict(enumerate(values)) if values else {}
    message = record.reader(fields, left)
    if left:
        raise ValueError(f"{record.name} has {len(values)} values, and its fields do not name {len(left)} of them")
    return message


def received(frame: bytes | memoryview, limits: Limits) -> Envelope | Announcement:
    """Decode the first frame of a message. ProtocolError if it violates the protocol.

    The result is the message itself, if it has no values, or a few scalars, and is not about another message.
    """
    try:
        parts, inline = _parts(frame, limits)
        verb, number, fields, values, follows, left, trace = parts
        record = _record_of(verb)
        if not follows and record.cls not in _ABOUT_OTHERS:
            scalars = scalars_of(values, inline)
            if scalars is not None:
                return Envelope(number, _message_of(record, fields, scalars), left, trace)
        return _announced(record, Header(*parts), inline, len(frame), limits)
    except ValueError as error:
        raise ProtocolError(str(error)) from None


def announcement(frame: bytes | memoryview, limits: Limits) -> Announcement:
    """Decode the first frame of a message without its fields. ProtocolError if it violates the protocol."""
    try:
        parts, inline = _parts(frame, limits)
        return _announced(_record_of(parts[0]), Header(*parts), inline, len(frame), limits)
    except ValueError as error:
        raise ProtocolError(str(error)) from None


_ABOUT_OTHERS: Final = (Part, Drop)


def _announced(record: Record, header: Header, inline: memoryview, length: int, limits: Limits) -> Announcement:
    budget = Budget(length - len(inline))
    values = tuple([incoming(descriptor, budget) for descriptor in header.values])
    nbytes = 0
    for value in values:
        nbytes += value.nbytes
    budget.grow(nbytes)
    if nbytes > limits.tensor or nbytes > limits.message:
        _check_sizes(values, nbytes, limits)
    if len(inline) + header.follows > nbytes and record.cls is not Part:
        raise ValueError(f"{len(inline) + header.follows} bytes are more than the {nbytes} of the values")
    return Announcement(record, header, values, nbytes, inline)


def _parts(frame: bytes | memoryview, limits: Limits) -> tuple[list[Any], memoryview]:
    """The parts of the header, with those that are left out, and the bytes after it."""
    if len(frame) < _LENGTH.size:
        raise ValueError(f"a frame of {len(frame)} bytes has no header")
    (length,) = _LENGTH.unpack_from(frame)
    end = _LENGTH.size + length
    if length > limits.header or end > len(frame):
        raise ValueError(f"a header of {length} bytes is cut off, or longer than {limits.header}")
    view = memoryview(frame)
    try:
        data = unpack(view[_LENGTH.size : end])
    except ValueError as error:
        raise ValueError(f"the header is not valid msgpack: {error}") from None
    if type(data) is not list or not _LEAST <= len(data) <= len(_KINDS):
        raise ValueError(f"{summarise(data)} is no header: a list of {', '.join(_KINDS)}")
    data += _DEFAULTS[len(data) :]
    _check_parts(data)
    return data, view[end:]


def _check_parts(parts: list[Any]) -> None:
    """ValueError if a part of a header does not fit. The usual ones are checked without a call."""
    verb, number, _, values, follows, left, trace = parts
    numbers = (
        type(verb) is type(number) is type(follows) is int and 0 <= number <= _MOST and 0 <= follows <= _MOST_FOLLOW
    )
    if numbers and type(values) is list and left is None and trace == "":
        return
    for (name, kind), part in zip(_KINDS.items(), parts, strict=True):
        try:
            kind.read(part, {})
        except ValueError as error:
            raise ValueError(f"the header's {name}: {error}") from None


def _record_of(verb: int) -> Record:
    record = NUMBERED.get(verb)
    if record is None:
        raise ValueError(f"unknown message {verb} in this version of the protocol")
    return record


def _check_sizes(values: tuple[Incoming, ...], nbytes: int, limits: Limits) -> None:
    largest = max([value.nbytes for value in values])
    if largest > limits.tensor:
        raise ValueError(f"a value of {largest} bytes is more than the {limits.tensor} that were agreed on")
    if nbytes > limits.message:
        raise ValueError(
            f"values of {nbytes} bytes are more than the {limits.message} of a message that were agreed on"
        )
