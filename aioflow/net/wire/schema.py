"""The kinds of fields of messages: how a field is written, and how received data is checked.

A field names its kind in its annotation, as `Annotated[str, Text(64)]`. `write` gives plain data for the header and
puts tensors into `values`; `read` is the inverse. A value that does not fit raises ValueError on either side.
"""

import abc
import dataclasses
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NoReturn, TypeVar

from aioflow.net.wire.record_code import reader, writer
from aioflow.tensors.plain_data import summarise

M = TypeVar("M", bound="Message")

MOST_NAMED: Final = 1 << 16
"""So many things a list or a map in a header may have; its bytes are bounded besides."""
_DEEPEST: Final = 8
_DEEPEST_LOOP: Final = 256
"""The most numbers of a key: that of its edge, and those of nested loops."""
_MOST_EDGE: Final = (1 << 32) - 1
_MOST_ITERATION: Final = (1 << 63) - 1


Values = dict[int, Any]
"""Values that came as raw bytes, by their numbers in the message."""


class Kind(abc.ABC):
    """A kind of field."""

    @property
    def accepts(self) -> str:
        """A cheap condition of `x`, in Python, under which `read` and `write` return `x` itself; empty for none."""
        return ""

    @property
    def matches(self) -> Callable[[str], object] | None:
        """The function of that name in the condition, if it has one."""
        return None

    @abc.abstractmethod
    def write(self, value: Any, values: list[Any]) -> Any:
        """Return plain data, and add tensors to `values`."""

    @abc.abstractmethod
    def read(self, data: Any, values: Values) -> Any:
        """Return the value that was written. Removes its tensors from the received `values`."""


class Simple(Kind):
    """Plain data that is the same on both sides."""

    @abc.abstractmethod
    def check(self, value: Any) -> None:
        """ValueError if it does not fit."""

    def write(self, value: Any, values: list[Any]) -> Any:
        """The value itself."""
        self.check(value)
        return value

    def read(self, data: Any, values: Values) -> Any:
        """The data themselves."""
        self.check(data)
        return data


@dataclasses.dataclass(frozen=True, slots=True)
class Integer(Simple):
    """An integer within bounds, both included."""

    low: int = 0
    high: int = (1 << 63) - 1

    @property
    def accepts(self) -> str:
        """Its condition."""
        return f"type(x) is int and {self.low} <= x <= {self.high}"

    def check(self, value: Any) -> None:
        """ValueError if it does not fit."""
        if type(value) is not int or not self.low <= value <= self.high:
            raise ValueError(f"{summarise(value)} is not an integer from {self.low} to {self.high}")


@dataclasses.dataclass(frozen=True, slots=True)
class Real(Simple):
    """A finite number within bounds, both included."""

    low: float = 0.0
    high: float = 1e18

    @property
    def accepts(self) -> str:
        """Its condition."""
        return f"type(x) is float and {self.low!r} <= x <= {self.high!r}"

    def check(self, value: Any) -> None:
        """ValueError if it does not fit."""
        if type(value) not in (int, float) or not math.isfinite(value) or not self.low <= value <= self.high:
            raise ValueError(f"{summarise(value)} is not a number from {self.low:g} to {self.high:g}")


@dataclasses.dataclass(frozen=True, slots=True)
class Text(Simple):
    """A text of at most `most` characters that matches `pattern` as a whole."""

    most: int = 256
    pattern: str | None = None

    @property
    def accepts(self) -> str:
        """Its condition."""
        plain = f"type(x) is str and len(x) <= {self.most} and x.isascii()"
        return f"{plain} and matches(x)" if self.pattern else plain

    @property
    def matches(self) -> Callable[[str], object] | None:
        """Whether a text matches the pattern."""
        return None if self.pattern is None else _compiled(self.pattern).fullmatch

    def check(self, value: Any) -> None:
        """ValueError if it does not fit."""
        if type(value) is not str or len(value) > self.most:
            raise ValueError(f"{summarise(value)} is not a text of at most {self.most} characters")
        if self.pattern is not None and _compiled(self.pattern).fullmatch(value) is None:
            raise ValueError(f"{summarise(value)} does not match {self.pattern}")
        if not value.isascii():
            value.encode()  # UnicodeEncodeError, a ValueError, for half of a surrogate pair


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice(Simple):
    """One of a few texts."""

    options: tuple[str, ...]

    def check(self, value: Any) -> None:
        """ValueError if it does not fit."""
        if type(value) is not str or value not in self.options:
            raise ValueError(f"{summarise(value)} is not one of {', '.join(self.options)}")


class Flag(Simple):
    """True or false."""

    @property
    def accepts(self) -> str:
        """Its condition."""
        return "x is True or x is False"

    def check(self, value: Any) -> None:
        """ValueError if it does not fit."""
        if type(value) is not bool:
            raise ValueError(f"{summarise(value)} is neither true nor false")


class Plain(Simple):
    """Plain data: None, booleans, numbers, texts, and lists and maps of these."""

    def check(self, value: Any, depth: int = 0) -> None:
        """ValueError if it does not fit."""
        if depth > _DEEPEST:
            raise ValueError(f"plain data is nested more than {_DEEPEST} deep")
        if type(value) is list:
            for item in value:
                self.check(item, depth + 1)
        elif type(value) is dict:
            for key, item in value.items():
                Text(MOST_NAMED).check(key)
                self.check(item, depth + 1)
        elif type(value) is int:
            Integer(-(1 << 63), (1 << 64) - 1).check(value)
        elif type(value) is str:
            Text(1 << 20).check(value)
        elif value is not None and type(value) not in (bool, float):
            raise ValueError(f"{summarise(value)} of type {type(value).__name__} is not plain data")


@dataclasses.dataclass(frozen=True, slots=True)
class Optional(Kind):
    """None, or a value of another kind."""

    kind: Kind

    @property
    def accepts(self) -> str:
        """Its condition."""
        return f"x is None or {self.kind.accepts}" if self.kind.accepts else "x is None"

    @property
    def matches(self) -> Callable[[str], object] | None:
        """The function of its condition."""
        return self.kind.matches

    def write(self, value: Any, values: list[Any]) -> Any:
        """None is nil."""
        return None if value is None else self.kind.write(value, values)

    def read(self, data: Any, values: Values) -> Any:
        """Nil is None."""
        return None if data is None else self.kind.read(data, values)


@dataclasses.dataclass(frozen=True, slots=True)
class Many(Kind):
    """A tuple of values of another kind."""

    kind: Kind
    most: int = MOST_NAMED

    def write(self, value: Any, values: list[Any]) -> Any:
        """A list."""
        self._check(value, tuple)
        return [self.kind.write(item, values) for item in value]

    def read(self, data: Any, values: Values) -> Any:
        """A tuple."""
        self._check(data, list)
        return tuple([self.kind.read(item, values) for item in data])

    def _check(self, value: Any, kind: type[Any]) -> None:
        if type(value) is not kind or len(value) > self.most:
            raise ValueError(f"{summarise(value)} is not a list of at most {self.most}")


@dataclasses.dataclass(frozen=True, slots=True)
class EdgeKeys(Kind):
    """At most `most` keys: the number of an edge, below 2**32, and the iterations of the loops around, below 2**63."""

    most: int

    def write(self, value: Any, values: list[Any]) -> Any:
        """A list of lists, which msgpack makes of the tuples."""
        self._check(value, tuple)
        return value

    def read(self, data: Any, values: Values) -> Any:
        """A tuple of tuples."""
        self._check(data, list)
        return tuple(map(tuple, data))

    def _check(self, keys: Any, kind: type[Any]) -> None:
        if type(keys) is not kind or len(keys) > self.most:
            raise ValueError(f"{summarise(keys)} is not a list of at most {self.most} keys")
        for key in keys:
            if type(key) is not kind or not 0 < len(key) <= _DEEPEST_LOOP:
                raise ValueError(f"{summarise(key)} is not a list of 1 to {_DEEPEST_LOOP} numbers")
            most = _MOST_EDGE
            for number in key:
                if type(number) is not int or not 0 <= number <= most:
                    raise ValueError(f"{summarise(number)} is not a number from 0 to {most}")
                most = _MOST_ITERATION


@dataclasses.dataclass(frozen=True, slots=True)
class Table(Kind):
    """A mapping from texts to values of another kind."""

    kind: Kind
    key: Text = Text(1024)
    most: int = MOST_NAMED

    def write(self, value: Any, values: list[Any]) -> Any:
        """A map."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{summarise(value)} is not a mapping")
        self._check(value)
        return {key: self.kind.write(item, values) for key, item in value.items()}

    def read(self, data: Any, values: Values) -> Any:
        """A dict."""
        if type(data) is not dict:
            raise ValueError(f"{summarise(data)} is not a map")
        self._check(data)
        return {key: self.kind.read(item, values) for key, item in data.items()}

    def _check(self, value: Mapping[Any, Any]) -> None:
        if len(value) > self.most:
            raise ValueError(f"{len(value)} entries are more than {self.most}")
        for key in value:
            self.key.check(key)


class Value(Kind):
    """A value as graphs compute them, of which the header has only the number; its bytes are sent beside it."""

    def write(self, value: Any, values: list[Any]) -> Any:
        """Its number among the values of the message."""
        values.append(value)
        return len(values) - 1

    def read(self, data: Any, values: Values) -> Any:
        """The value of that number."""
        if type(data) is not int or data not in values:
            raise ValueError(f"{summarise(data)} is not the number of a value, or that value is named twice")
        return values.pop(data)


@dataclasses.dataclass(frozen=True, slots=True)
class ManyValues(Many):
    """A tuple of values as graphs compute them. Usually they are all values of the message, in order."""

    kind: Kind = dataclasses.field(default_factory=Value)

    def write(self, value: Any, values: list[Any]) -> Any:
        """Their numbers among the values of the message."""
        self._check(value, tuple)
        first = len(values)
        values.extend(value)
        return list(range(first, len(values)))

    def read(self, data: Any, values: Values) -> Any:
        """The values of these numbers."""
        self._check(data, list)
        if data != [*values] or {*map(type, data)} != {int}:
            return Many.read(self, data, values)
        found = tuple(values.values())
        values.clear()
        return found


class Blob(Value):
    """Bytes of any length, sent as a value is."""

    def write(self, value: Any, values: list[Any]) -> Any:
        """Its number among the values of the message."""
        if type(value) is not bytes:
            raise ValueError(f"{summarise(value)} is not bytes")
        return super().write(value, values)

    def read(self, data: Any, values: Values) -> Any:
        """The bytes of that number."""
        value = super().read(data, values)
        if not (type(value) is bytes or getattr(value, "is_bytes", False)):
            raise ValueError(f"value {data} is not bytes")
        return value


class Record(Kind):
    """A frozen dataclass whose fields have kinds. In the header it is a list of them, with nil for each default.

    Attributes:
        number: the number of the class in the protocol; 0 for a class that is only part of messages.
        writer: the method `write`, without the cost of a method.
        reader: the method `read`, likewise.
    """

    __slots__ = ("cls", "fields", "name", "number", "reader", "writer")

    def __init__(self, cls: type[Any], number: int = 0) -> None:
        self.name: Final = cls.__name__
        self.cls: Final = cls
        self.number: Final = number
        self.fields: Final = fields_of(cls)
        self.writer: Final = writer(self.fields)
        self.reader: Final = reader(cls, self.fields, self.refuse)

    def write(self, value: Any, values: list[Any]) -> Any:
        """A list of the fields."""
        return self.writer(value, values)

    def read(self, data: Any, values: Values) -> Any:
        """One of that class."""
        return self.reader(data, values)

    def refuse(self, data: Any) -> NoReturn:
        """ValueError for data that are not a list of as many fields."""
        listed = ", ".join(self.fields) or "none"
        raise ValueError(f"{summarise(data)} is not a list of the fields of {self.name}: {listed}")


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a record, which errors call by its title. `needed` if it has no default.

    All records share the default, unless `make` makes one for each.
    """

    name: str
    kind: Kind
    needed: bool
    default: Any
    make: Callable[[], Any] | None
    title: str


def fields_of(cls: type[Any]) -> dict[str, Field]:
    """The fields of a dataclass, by name. TypeError if one has no kind in its annotation."""
    hints = typing.get_type_hints(cls, include_extras=True)
    found = {}
    for field in dataclasses.fields(cls):
        make = None if field.default_factory is dataclasses.MISSING else field.default_factory
        default = field.default if make is None else make()
        kind, title = _kind_of(hints[field.name]), f"{cls.__name__}.{field.name}"
        found[field.name] = Field(field.name, kind, default is dataclasses.MISSING, default, make, title)
    return found


def _kind_of(hint: Any) -> Kind:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = [item for item in typing.get_args(hint) if item is not types.NoneType]
        if len(inner) == 1:
            return Optional(_kind_of(inner[0]))
    for item in getattr(hint, "__metadata__", ()):
        if isinstance(item, Kind):
            return item
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return Record(hint)
    raise TypeError(f"{hint} has no kind of field; write Annotated[..., Text()] or another kind")


class Message:
    """A message from one task to another. Subclasses are frozen dataclasses whose fields have kinds."""

    __slots__ = ()


A = TypeVar("A", bound="Answer")


class Answer(Message):
    """A message that answers a request."""

    __slots__ = ()


class Note(Message):
    """A message that is not answered. Notes arrive in the order in which they were sent, and once."""

    __slots__ = ()


class Request(Message, Generic[A]):
    """A message that is answered, by a message of class `A` or by a `Failure`."""

    __slots__ = ()


VERBS: Final[dict[str, Record]] = {}
"""All messages there are, by the name of their class."""
RECORDS: Final[dict[type[Message], Record]] = {}
"""All messages, by their class."""
NUMBERED: Final[dict[int, Record]] = {}
"""All messages, by the number of their class in the protocol."""
ANSWERS: Final[dict[type[Message], type[Answer]]] = {}
"""The class of the answer to each request."""


def verb(number: int) -> Callable[[type[M]], type[M]]:
    """Add a class of messages to the protocol, under a number that no other class has."""

    def add(cls: type[M]) -> type[M]:
        assert number not in NUMBERED
        VERBS[cls.__name__] = RECORDS[cls] = NUMBERED[number] = Record(cls, number)
        for base in getattr(cls, "__orig_bases__", ()):
            if typing.get_origin(base) is Request:
                ANSWERS[cls] = typing.get_args(base)[0]
        return cls

    return add
