"""Encodes and decodes the header of a message.

A message begins with one frame: the length of the header in 4 bytes, little-endian; the header in msgpack; and the
bytes of the values, if these are few. The header is a map, without the fields that have their defaults:

    verb      the class of the message
    id        the number of the request: of this one, of the answered one, or of the one that the message is about
    fields    the fields of the message
    values    a descriptor for each value that travels beside the header, see `values.py`
    left      the seconds left to answer the request
    trace     the trace of the request, as W3C's traceparent
    follows   the number of bytes that follow in raw frames; the rest of the values comes in later messages `Part`
"""

import dataclasses
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgpack

from aioflow.net.wire import master_verbs, worker_verbs  # noqa: F401 - all messages are known
from aioflow.net.wire.limits import KIB, Limits
from aioflow.net.wire.schema import VERBS, Integer, Message, Real, Record, Simple, Text
from aioflow.net.wire.values import Budget, Incoming, incoming, scalars_of
from aioflow.tensors.plain_data import summarise, unpack

TRACE: Final = r"|00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
_LENGTH: Final = struct.Struct("<I")
_pack: Final = msgpack.Packer().pack


class ProtocolError(Exception):
    """A peer violated the protocol. The connection is closed, with this as the reason."""


class _Unparsed(Simple):
    """A map or a list, which is looked into later."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def check(self, value: Any) -> None:
        """ValueError if the value is of another type."""
        if type(value) is not self._kind:
            raise ValueError(f"{summarise(value)} is not a {self._kind.__name__}")


@dataclasses.dataclass(slots=True)
class Header:
    """The header of a message, its fields and values as plain data."""

    verb: Annotated[str, Text(64)]
    id: Annotated[int, Integer(0, (1 << 64) - 1)] = 0
    fields: Annotated[dict[str, Any], _Unparsed(dict)] = dataclasses.field(default_factory=dict)
    values: Annotated[list[Any], _Unparsed(list)] = dataclasses.field(default_factory=list)
    left: Annotated[float, Real()] | None = None
    trace: Annotated[str, Text(55, TRACE)] = ""
    follows: Annotated[int, Integer()] = 0


_HEADER: Final = Record(Header)
_USUAL: Final = frozenset({"verb", "id", "fields", "values", "follows"})
_MOST: Final = (1 << 64) - 1
_MOST_FOLLOW: Final = (1 << 63) - 1
_NO_FIELDS: Final[dict[str, Any]] = {}
_NO_VALUES: Final[list[Any]] = []


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


def head_of(envelope: Envelope, descriptors: list[Any], fields: dict[str, Any], follows: int, limits: Limits) -> bytes:
    """The first frame of a message, without the bytes of few values. ValueError if the header is too long."""
    verb = type(envelope.message).__name__
    if envelope.left is None and not envelope.trace:
        data: Any = {"verb": verb}
        if envelope.number:
            data["id"] = envelope.number
        if fields:
            data["fields"] = fields
        if descriptors:
            data["values"] = descriptors
        if follows:
            data["follows"] = follows
        packed: bytes = _pack(data)
    else:
        header = Header(verb, envelope.number, fields, descriptors, envelope.left, envelope.trace, follows)
        packed = _pack(_HEADER.write(header, []))
    if len(packed) > limits.header:
        raise ValueError(f"the header of {verb} has {len(packed)} bytes, {limits.header} are the most")
    return _LENGTH.pack(len(packed)) + packed


def fields_of(message: Message) -> tuple[dict[str, Any], list[Any]]:
    """The fields of a message as plain data, and its values. ValueError if a field does not fit."""
    values: list[Any] = []
    return VERBS[type(message).__name__].writer(message, values), values


class Announcement(NamedTuple):
    """A message whose first frame has arrived.

    Attributes:
        record: the kinds of its fields.
        header: its header.
        values: its values.
        nbytes: the bytes of its values.
        inline: the bytes of values that came in the first frame.
        whole: the values themselves, if there are none, or all are scalars; otherwise None.
    """

    record: Record
    header: Header
    values: tuple[Incoming, ...]
    nbytes: int
    inline: memoryview
    whole: Sequence[Any] | None = None

    def check(self) -> None:
        """Check the fields before the values are there. ProtocolError if one does not fit."""
        self._message(self.values)

    def envelope(self, values: Sequence[Any]) -> Envelope:
        """The message with these values. ProtocolError if the fields do not fit, or do not fit them."""
        return Envelope(self.header.id, self._message(values), self.header.left, self.header.trace)

    def _message(self, values: Sequence[Any]) -> Any:
        left = dict(enumerate(values)) if values else {}
        try:
            message = self.record.reader(self.header.fields, left)
        except ValueError as error:
            raise ProtocolError(str(error)) from None
        if left:
            raise ProtocolError(
                f"{self.record.name} has {len(values)} values, and its fields do not name {len(left)} of them"
            )
        return message


def announcement(frame: bytes | memoryview, limits: Limits) -> Announcement:
    """Decode the first frame of a message without its fields. ProtocolError if it violates the protocol."""
    try:
        return _announcement(frame, limits)
    except ValueError as error:
        raise ProtocolError(str(error)) from None


def _announcement(frame: bytes | memoryview, limits: Limits) -> Announcement:
    data, inline = _split(frame if type(frame) is memoryview else memoryview(frame), limits)
    header = _read_header(data)
    record = VERBS.get(header.verb)
    if record is None:
        raise ValueError(f"unknown message {summarise(header.verb)} in this version of the protocol")
    if not (header.values or header.follows or len(inline)):
        return Announcement(record, header, (), 0, inline, ())
    if len(inline) <= KIB and not header.follows and (scalars := scalars_of(header.values, inline)) is not None:
        return Announcement(record, header, (), 0, inline, scalars)
    budget = Budget(len(frame) - len(inline))
    values = tuple([incoming(descriptor, budget) for descriptor in header.values])
    nbytes = 0
    for value in values:
        nbytes += value.nbytes
    budget.grow(nbytes)
    if nbytes > limits.tensor or nbytes > limits.message:
        _check_sizes(values, nbytes, limits)
    if len(inline) + header.follows > nbytes and header.verb != "Part":
        raise ValueError(f"{len(inline) + header.follows} bytes are more than the {nbytes} of the values")
    return Announcement(record, header, values, nbytes, inline)


def _split(frame: memoryview, limits: Limits) -> tuple[Any, memoryview]:
    """The header as plain data, and the bytes after it."""
    if len(frame) < _LENGTH.size:
        raise ValueError(f"a frame of {len(frame)} bytes has no header")
    (length,) = _LENGTH.unpack_from(frame)
    end = _LENGTH.size + length
    if length > limits.header or end > len(frame):
        raise ValueError(f"a header of {length} bytes is cut off, or longer than {limits.header}")
    try:
        return unpack(frame[_LENGTH.size : end]), frame[end:]
    except ValueError as error:
        raise ValueError(f"the header is not valid msgpack: {error}") from None


def _read_header(data: Any) -> Header:
    """Return the header. The usual fields are checked without the cost of a Record."""
    if type(data) is dict and data.keys() <= _USUAL:
        verb, number, fields = data.get("verb"), data.get("id", 0), data.get("fields", _NO_FIELDS)
        values, follows = data.get("values", _NO_VALUES), data.get("follows", 0)
        plain = type(number) is type(follows) is int and 0 <= number <= _MOST and 0 <= follows <= _MOST_FOLLOW
        if plain and type(fields) is dict and type(values) is list and type(verb) is str and verb in VERBS:
            return Header(verb, number, fields, values, follows=follows)
    found: Header = _HEADER.read(data, {})
    return found


def _check_sizes(values: tuple[Incoming, ...], nbytes: int, limits: Limits) -> None:
    largest = max([value.nbytes for value in values])
    if largest > limits.tensor:
        raise ValueError(f"a value of {largest} bytes is more than the {limits.tensor} that were agreed on")
    if nbytes > limits.message:
        raise ValueError(
            f"values of {nbytes} bytes are more than the {limits.message} of a message that were agreed on"
        )
