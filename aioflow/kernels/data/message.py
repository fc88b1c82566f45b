"""Messages of protocol buffers as plain classes, which read and write the same bytes.

    class Point(Message):
        FIELDS = {"name": Field(1, "string"), "places": Field(2, "int64", repeated=True)}
        name: str
        places: list[int]

    Point(name="a", places=[1, 2]).SerializeToString()

A field that was never set has its default: 0, empty text, an empty list, an empty dict, or an empty message, which can
be filled in place. Lists and dicts are Python's own, so their items are checked when the message is written. Maps are
written sorted by key, so that equal messages have equal bytes. A parser skips fields that the class does not list.

A message in another one keeps a weak reference to it, so that a field that is set in place makes all messages around it
present, although it is set to its default.
"""

import struct
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Self

from aioflow.files import message_wire as wire
from aioflow.kernels.data.message_bytes import encode, expect, read_one, read_packed
from aioflow.kernels.data.message_fields import TEXTS, Entries, Enum, Field, Items, accepted, default_of
from aioflow.kernels.data.message_text import lines
from aioflow.tensors.recursion import safe_repr

__all__ = ["Entries", "Enum", "Field", "Items", "Message"]

_DEEPEST: Final = 100
"""The most messages in each other that are read, as in other parsers of protocol buffers."""


class Message:
    """A message of protocol buffers, whose fields are attributes; see this module."""

    FIELDS: ClassVar[Mapping[str, Field]] = {}
    _values: dict[str, Any]
    _given: set[str]
    _owner: "tuple[weakref.ref[Message], str] | None"

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_given", set())
        object.__setattr__(self, "_owner", None)
        for name, value in fields.items():
            if name not in self.FIELDS:
                raise ValueError(_no_field(self, name))
            if value is not None:
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.FIELDS:
            raise AttributeError(_no_field(self, name))
        if name not in self._values:
            self._values[name] = value = default_of(self.FIELDS[name])
            if isinstance(value, Message):
                object.__setattr__(value, "_owner", (weakref.ref(self), name))
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS:
            raise AttributeError(_no_field(self, name))
        field = self.FIELDS[name]
        self._put(name, field, accepted(f"{type(self).__name__}.{name}", field, value))
        self.SetInParent()

    def _put(self, name: str, field: Field, value: Any) -> None:
        """Set a field to a value that it can have."""
        if field.oneof and name not in self._given:
            for other, each in self.FIELDS.items():
                if each.oneof == field.oneof and other != name:
                    self.ClearField(other)
        self._values[name] = value
        self._given.add(name)

    # Presence

    def SetInParent(self) -> None:
        """Make this message present in the one that it is a field of, if there is one."""
        if self._owner is not None:
            owner, name = self._owner[0](), self._owner[1]
            if owner is not None and name not in owner._given:
                owner._put(name, owner.FIELDS[name], self)
                owner.SetInParent()

    def HasField(self, field_name: str) -> bool:
        """Whether the field was set, or filled in place."""
        return self._given_or_filled(field_name, self._field(field_name))

    def WhichOneof(self, oneof_group: str) -> str | None:
        """Return the field of that group that is set; None if there is none. ValueError if there are several."""
        names = [name for name, field in self.FIELDS.items() if field.oneof == oneof_group]
        if not oneof_group or not names:
            raise ValueError(f"{type(self).__name__} has no group {safe_repr(oneof_group)} of fields")
        found = [name for name in names if self.HasField(name)]
        if len(found) > 1:
            raise ValueError(f"a {type(self).__name__} has one of {', '.join(names)}, not {' and '.join(found)}")
        return found[0] if found else None

    def ClearField(self, field_name: str) -> None:
        """Give a field its default."""
        self._field(field_name)
        value = self._values.pop(field_name, None)
        if isinstance(value, Message):
            object.__setattr__(value, "_owner", None)
        self._given.discard(field_name)

    def Clear(self) -> None:
        """Give all fields their defaults."""
        for name in [*self._values]:
            self.ClearField(name)

    def _field(self, name: str) -> Field:
        if name not in self.FIELDS:
            raise ValueError(_no_field(self, name))
        return self.FIELDS[name]

    def _given_or_filled(self, name: str, field: Field) -> bool:
        if name not in self._values:
            return False
        value = self._values[name]
        if isinstance(value, Message):
            return name in self._given or any(value.present())
        if field.oneof and not field.repeated:
            return name in self._given  # a member of a group is there although it is 0
        if field.repeated or field.key:
            return bool(len(value))
        return bool(value != default_of(field)) or repr(value) == "-0.0"

    def present(self) -> Iterator[tuple[str, Field]]:
        """The fields to write, in the order of their numbers."""
        for group in dict.fromkeys(field.oneof for field in self.FIELDS.values() if field.oneof):
            self.WhichOneof(group)
        for name, field in sorted(self.FIELDS.items(), key=lambda item: item[1].number):
            if self._given_or_filled(name, field):
                yield name, field

    # Bytes

    def SerializeToString(self, deterministic: bool | None = None) -> bytes:
        """Return the message as bytes. TypeError or ValueError, which names the field, for a value that has no place.

        Equal messages have equal bytes, with `deterministic` and without.
        """
        made = []
        for name, field in self.present():
            try:
                made.append(encode(field, self._values[name]))
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"{type(self).__name__}.{name}: {error}") from None
        return b"".join(made)

    @classmethod
    def FromString(cls, serialized: bytes) -> Self:
        """Return the message in these bytes. ValueError if they are damaged."""
        made = cls()
        made.MergeFromString(serialized)
        return made

    def ParseFromString(self, serialized: bytes) -> int:
        """Become the message in these bytes. Returns their number. ValueError if they are damaged."""
        found = self.FromString(serialized)
        self.CopyFrom(found)
        return len(serialized)

    def MergeFromString(self, serialized: bytes) -> int:
        """Add the message in these bytes: lists and maps grow, other fields that it has replace these."""
        if not isinstance(serialized, (bytes, bytearray, memoryview)):
            raise TypeError(f"a {type(self).__name__} is read from bytes, not from {safe_repr(serialized)}")
        data = bytes(serialized)
        try:
            self._merge(data, (0, len(data)), 0)
        except (ValueError, struct.error) as error:
            raise ValueError(f"these {len(data)} bytes are no {type(self).__name__}: {error}") from None
        self.SetInParent()
        return len(data)

    def _merge(self, data: bytes, part: wire.Part, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError(f"messages are in each other more than {_DEEPEST} deep")
        by_number = _by_number(type(self))
        for number, kind, begin, end in wire.fields(data, part):
            name = by_number.get(number)
            if name is not None:
                _decode(self, name, data, kind, (begin, end), depth + 1)

    def ByteSize(self) -> int:
        """Return the number of bytes of the message."""
        return len(self.SerializeToString())

    def MergeFrom(self, other: Self) -> None:
        """Add another message: lists and maps grow, other fields that it has replace these."""
        if type(other) is not type(self):
            raise TypeError(f"a {type(self).__name__} takes the fields of another one, not of {safe_repr(other)}")
        self.MergeFromString(other.SerializeToString())

    def CopyFrom(self, other: Self) -> None:
        """Become equal to another message."""
        if other is not self:
            if type(other) is not type(self):
                raise TypeError(f"a {type(self).__name__} takes the fields of another one, not of {safe_repr(other)}")
            data = other.SerializeToString()
            self.Clear()
            self.MergeFromString(data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or type(other) is not type(self):
            return NotImplemented
        return self.SerializeToString() == other.SerializeToString()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it can change

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).FromString, (self.SerializeToString(),)

    # Text

    def __str__(self) -> str:
        return "".join(lines(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self._values[name]!r}' for name, _ in self.present())})"


_numbers: Final[dict[type[Message], dict[int, str]]] = {}


def _by_number(kind: type[Message]) -> dict[int, str]:
    """The names of the fields of a class by their numbers, found once."""
    if kind not in _numbers:
        _numbers[kind] = {field.number: name for name, field in kind.FIELDS.items()}
    return _numbers[kind]


def _no_field(message: Message, name: str) -> str:
    return f"a {type(message).__name__} has no field {name!r}, but {', '.join(message.FIELDS)}"


def _decode(message: Message, name: str, data: bytes, kind: int, part: wire.Part, depth: int) -> None:
    """Read one field into a message. The kind on the wire must be that of the field."""
    field = message.FIELDS[name]
    if field.key:
        _decode_entry(getattr(message, name), field, data, part, depth)
    elif not isinstance(field.kind, str):
        expect(kind, wire.BYTES)
        if field.repeated:
            getattr(message, name).add()._merge(data, part, depth)
        else:
            into = getattr(message, name)
            message._put(name, field, into)  # of a group of fields the last counts
            into._merge(data, part, depth)
    elif not field.repeated:
        message._put(name, field, read_one(field.kind, data, kind, part))
    elif kind == wire.BYTES and field.kind not in TEXTS:
        getattr(message, name).extend(read_packed(field.kind, data, part))
    else:
        getattr(message, name).append(read_one(field.kind, data, kind, part))


def _decode_entry(into: dict[Any, Any], field: Field, data: bytes, part: wire.Part, depth: int) -> None:
    key, value = (default_of(each) for each in field.entry)
    for number, kind, begin, end in wire.fields(data, part):
        if number == 1:
            key = read_one(field.key, data, kind, (begin, end))
        elif number == 2 and isinstance(field.kind, str):
            value = read_one(field.kind, data, kind, (begin, end))
        elif number == 2:
            expect(kind, wire.BYTES)
            value._merge(data, (begin, end), depth)
    into[key] = value
