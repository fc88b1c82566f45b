"""Messages of protocol buffers as plain classes, which read and write the same bytes.

    class Point(Message):
        FIELDS = {"name": Field(1, "string"), "places": Field(2, "int64", repeated=True)}
        name: str
        places: list[int]

    Point(name="a", places=[1, 2]).SerializeToString()

A field that was never set has its default: 0, empty text, an empty list, an empty dict, or an empty message, which can
be filled in place. Lists and dicts are Python's own, so values are checked when the message is written. Maps are
written sorted by key, so that equal messages have equal bytes. A parser skips fields that the class does not list.
"""

import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from aioflow.files import message_wire as wire
from aioflow.tensors.recursion import safe_repr

_FLOATS: Final = {"float": ("<f", wire.FOUR), "double": ("<d", wire.EIGHT)}
_TEXTS: Final = ("string", "bytes")
_RANGES: Final = {"int32": 31, "enum": 31, "int64": 63}
_MOST: Final = (1 << 64) - 1


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        number: its number on the wire.
        kind: the type of its values: string, bytes, int32, int64, bool, enum, float, double, or a class of messages.
        repeated: whether it is a list.
        key: the type of the keys if it is a map, else empty.
        oneof: the name of a group of fields, of which a message has one at most.
        names: the names of an enum's values, from 0 on.
    """

    number: int
    kind: "str | type[Message]"
    repeated: bool = False
    key: str = ""
    oneof: str = ""
    names: tuple[str, ...] = ()

    @property
    def entry(self) -> "tuple[Field, Field]":
        """The key and the value of an entry of the map."""
        return Field(1, self.key), Field(2, self.kind)


class Items(list[Any]):
    """A list of messages."""

    def __init__(self, kind: "type[Message]", items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self._kind: Final = kind

    def add(self, **fields: Any) -> Any:
        """Append a message with these fields, and return it."""
        self.append(self._kind(**fields))
        return self[-1]


class Entries(dict[Any, Any]):
    """A map, in which the value of a new key is its default."""

    def __init__(self, field: Field, items: Mapping[Any, Any] | None = None) -> None:
        super().__init__(items or {})
        self._value: Final = field.entry[1]

    def __missing__(self, key: Any) -> Any:
        self[key] = _default(self._value)
        return self[key]


class Message:
    """A message of protocol buffers, whose fields are attributes; see this module."""

    FIELDS: ClassVar[Mapping[str, Field]] = {}
    _values: dict[str, Any]
    _given: set[str]

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_given", set())
        for name, value in fields.items():
            if value is not None:
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.FIELDS:
            raise AttributeError(_no_field(self, name))
        return self._values.setdefault(name, _default(self.FIELDS[name]))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS:
            raise AttributeError(_no_field(self, name))
        field = self.FIELDS[name]
        for other, each in self.FIELDS.items():
            if field.oneof and each.oneof == field.oneof:
                self.ClearField(other)
        self._values[name] = _accept(f"{type(self).__name__}.{name}", field, value)
        self._given.add(name)

    # Presence

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
        self._values.pop(field_name, None)
        self._given.discard(field_name)

    def Clear(self) -> None:
        """Give all fields their defaults."""
        self._values.clear()
        self._given.clear()

    def _field(self, name: str) -> Field:
        if name not in self.FIELDS:
            raise ValueError(_no_field(self, name))
        return self.FIELDS[name]

    def _given_or_filled(self, name: str, field: Field) -> bool:
        if name not in self._values:
            return False
        value = self._values[name]
        if isinstance(value, Message):
            return name in self._given or any(value._present())
        if field.oneof and not field.repeated:
            return name in self._given  # a member of a group is there although it is 0
        return bool(len(value)) if field.repeated or field.key else value != _default(field)

    def _present(self) -> Iterator[tuple[str, Field]]:
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
        for name, field in self._present():
            try:
                made.append(_encode(field, self._values[name]))
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
            self._merge(data, (0, len(data)))
        except (ValueError, struct.error) as error:
            raise ValueError(f"these {len(data)} bytes are no {type(self).__name__}: {error}") from None
        return len(data)

    def _merge(self, data: bytes, part: wire.Part) -> None:
        by_number = {field.number: name for name, field in self.FIELDS.items()}
        for number, kind, begin, end in wire.fields(data, part):
            name = by_number.get(number)
            if name is not None:
                _decode(self, name, self.FIELDS[name], data, kind, (begin, end))

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
            copied = type(other).FromString(other.SerializeToString())
            if type(other) is not type(self):
                raise TypeError(f"a {type(self).__name__} takes the fields of another one, not of {safe_repr(other)}")
            object.__setattr__(self, "_values", copied._values)
            object.__setattr__(self, "_given", copied._given)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or type(other) is not type(self):
            return NotImplemented
        return self.SerializeToString() == other.SerializeToString()

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).FromString, (self.SerializeToString(),)

    # Text

    def __str__(self) -> str:
        return "".join(_lines(self, ""))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self._values[name]!r}' for name, _ in self._present())})"


def _no_field(message: Message, name: str) -> str:
    return f"a {type(message).__name__} has no field {name!r}, but {', '.join(message.FIELDS)}"


def _default(field: Field) -> Any:
    if field.key:
        return Entries(field)
    if isinstance(field.kind, str):
        return [] if field.repeated else _SCALARS[field.kind]
    return Items(field.kind) if field.repeated else field.kind()


_SCALARS: Final[dict[str, Any]] = {
    "string": "", "bytes": b"", "bool": False, "float": 0.0, "double": 0.0, "int32": 0, "int64": 0, "enum": 0,
}  # fmt: skip


def _accept(what: str, field: Field, value: Any) -> Any:
    """Return the value as the field holds it. TypeError if it cannot be one."""
    if field.key:
        if not isinstance(value, Mapping):
            raise TypeError(f"{what} is a dict, not {safe_repr(value)}")
        return Entries(field, value)
    if field.repeated:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"{what} is a list, not {safe_repr(value)}")
        return [*value] if isinstance(field.kind, str) else Items(field.kind, value)
    if not isinstance(field.kind, str) and not isinstance(value, field.kind):
        raise TypeError(f"{what} is a {field.kind.__name__}, not {safe_repr(value)}")
    return value


# Values as bytes


def _encode(field: Field, value: Any) -> bytes:
    if field.key:
        key, item = field.entry
        return b"".join([wire.content(field.number, _one(key, k) + _one(item, v)) for k, v in sorted(value.items())])
    if not field.repeated:
        return _one(field, value)
    if field.kind in _TEXTS or not isinstance(field.kind, str):
        return b"".join([_one(field, item) for item in value])
    if field.kind in _FLOATS:
        return wire.content(field.number, np.asarray(value, _FLOATS[field.kind][0]).tobytes())
    return wire.content(field.number, b"".join([_varint(field.kind, item) for item in value]))


def _one(field: Field, value: Any) -> bytes:
    """One value, with the number of its field."""
    kind = field.kind
    if not isinstance(kind, str):
        if not isinstance(value, kind):
            raise TypeError(f"{safe_repr(value)} is no {kind.__name__}")
        return wire.content(field.number, value.SerializeToString())
    if kind in _TEXTS:
        return wire.content(field.number, _text(kind, value))
    if kind in _FLOATS:
        form, tag = _FLOATS[kind]
        return wire.varint(field.number << 3 | tag) + np.asarray(value, form).reshape(()).tobytes()
    return wire.varint(field.number << 3 | wire.VARINT) + _varint(kind, value)


def _text(kind: str, value: Any) -> bytes:
    if kind == "string" and isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(f"{safe_repr(value)} is no {kind}")
    if kind == "string":
        value.decode()
    return value


def _varint(kind: str, value: Any) -> bytes:
    number = int(value) if isinstance(value, (bool, np.bool_)) else operator.index(value)
    if kind == "bool":
        return wire.varint(bool(number))
    if not -1 << _RANGES[kind] <= number < 1 << _RANGES[kind]:
        raise ValueError(f"{number} does not fit into {_RANGES[kind] + 1} bits")
    return wire.varint(number & _MOST)


def _decode(message: Message, name: str, field: Field, data: bytes, kind: int, part: wire.Part) -> None:
    """Read one field into a message. The kind on the wire must be that of the field."""
    if field.key:
        _decode_entry(getattr(message, name), field, data, part)
    elif not isinstance(field.kind, str):
        _expect(kind, wire.BYTES)
        if field.repeated:
            getattr(message, name).add()._merge(data, part)
        else:
            into = getattr(message, name)
            setattr(message, name, into)  # of a group of fields the last counts
            into._merge(data, part)
    elif not field.repeated:
        setattr(message, name, _read(field.kind, data, kind, part))
    elif kind == wire.BYTES and field.kind not in _TEXTS:
        getattr(message, name).extend(_packed(field.kind, data, part))
    else:
        getattr(message, name).append(_read(field.kind, data, kind, part))


def _decode_entry(into: dict[Any, Any], field: Field, data: bytes, part: wire.Part) -> None:
    key, value = (_default(each) for each in field.entry)
    for number, kind, begin, end in wire.fields(data, part):
        if number == 1:
            key = _read(field.key, data, kind, (begin, end))
        elif number == 2 and isinstance(field.kind, str):
            value = _read(field.kind, data, kind, (begin, end))
        elif number == 2:
            _expect(kind, wire.BYTES)
            value._merge(data, (begin, end))
    into[key] = value


def _expect(kind: int, wanted: int) -> None:
    if kind != wanted:
        raise ValueError(f"a field has kind {kind} on the wire, and should have {wanted}")


def _read(kind: str, data: bytes, found: int, part: wire.Part) -> Any:
    begin, end = part
    if kind in _TEXTS:
        _expect(found, wire.BYTES)
        return data[begin:end].decode() if kind == "string" else data[begin:end]
    if kind in _FLOATS:
        form, tag = _FLOATS[kind]
        _expect(found, tag)
        return struct.unpack_from(form, data, begin)[0]
    _expect(found, wire.VARINT)
    value = wire.signed(wire.read_varint(data, begin, end)[0])
    return bool(value) if kind == "bool" else value


def _packed(kind: str, data: bytes, part: wire.Part) -> list[Any]:
    begin, end = part
    if kind not in _FLOATS:
        values = wire.integers(data, begin, end).tolist()
        return [bool(value) for value in values] if kind == "bool" else values
    form = np.dtype(_FLOATS[kind][0])
    if (end - begin) % form.itemsize:
        raise ValueError(f"{end - begin} bytes at byte {begin} are no numbers of {form.itemsize} bytes")
    found: list[Any] = np.frombuffer(data, form, (end - begin) // form.itemsize, begin).tolist()
    return found


# Values as text


def _lines(message: Message, indent: str) -> Iterator[str]:
    """The text of a message, line by line, as protocol buffers' tools write it."""
    for name, field in message._present():
        value = message._values[name]
        if field.key:
            for key, item in sorted(value.items()):
                yield f"{indent}{name} {{\n"
                yield from _line("key", field.entry[0], key, f"{indent}  ")
                yield from _line("value", field.entry[1], item, f"{indent}  ")
                yield f"{indent}}}\n"
        else:
            for item in value if field.repeated else [value]:
                yield from _line(name, field, item, indent)


def _line(name: str, field: Field, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Message):
        yield f"{indent}{name} {{\n"
        yield from _lines(value, f"{indent}  ")
        yield f"{indent}}}\n"
    else:
        yield f"{indent}{name}: {_WORDS.get(str(field.kind), str)(value) if not field.names else field.names[value]}\n"


def _quoted(value: str | bytes) -> str:
    data = value.encode() if isinstance(value, str) else value
    named = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return '"' + "".join(named.get(b) or (chr(b) if 31 < b < 127 else f"\\{b:03o}") for b in data) + '"'


_WORDS: Final[dict[str, Callable[[Any], str]]] = {
    "string": _quoted,
    "bytes": _quoted,
    "bool": lambda value: str(bool(value)).lower(),
    "float": lambda value: str(np.float32(value)).removesuffix(".0"),
    "double": lambda value: str(float(value)).removesuffix(".0"),
}
