"""The fields of messages: their kinds, their defaults, and the values that they take."""

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from aioflow.tensors.recursion import safe_repr

if TYPE_CHECKING:
    from aioflow.kernels.data.message import Message

FLOATS: Final = {"float": "<f4", "double": "<f8"}
"""The forms of floats on the wire."""
TEXTS: Final = ("string", "bytes")
_RANGES: Final = {
    "int32": (-1 << 31, 1 << 31), "enum": (-1 << 31, 1 << 31), "int64": (-1 << 63, 1 << 63),
    "uint32": (0, 1 << 32), "uint64": (0, 1 << 64),
}  # fmt: skip
_SCALARS: Final[dict[str, Any]] = {
    "string": "", "bytes": b"", "bool": False, "float": 0.0, "double": 0.0, **dict.fromkeys(_RANGES, 0),
}  # fmt: skip


class Enum:
    """The names of an enum's values, each with its number, as `Enum("Level", LOW=0, HIGH=10)`.

    The names are attributes, too.

    Attributes:
        name: its own name.
    """

    def __init__(self, name: str, **numbers: int) -> None:
        self.name: Final = name
        self._numbers: Final = numbers

    def Name(self, number: int) -> str:
        """Return the name of a number. ValueError if it has none."""
        for name, each in self._numbers.items():
            if each == number:
                return name
        raise ValueError(f"{self.name} has no value {safe_repr(number)}, but {', '.join(self._numbers)}")

    def Value(self, name: str) -> int:
        """Return the number of a name. ValueError if there is no such name."""
        if name not in self._numbers:
            raise ValueError(f"{self.name} has no value {safe_repr(name)}, but {', '.join(self._numbers)}")
        return self._numbers[name]

    def keys(self) -> list[str]:
        """Return the names."""
        return [*self._numbers]

    def values(self) -> list[int]:
        """Return the numbers, in the order of the names."""
        return [*self._numbers.values()]

    def items(self) -> list[tuple[str, int]]:
        """Return the names, each with its number."""
        return [*self._numbers.items()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __getattr__(self, name: str) -> int:
        if name.startswith("_") or name not in self._numbers:
            raise AttributeError(f"{name!r} is no value of the enum")
        return self._numbers[name]

    def text(self, number: int) -> str:
        """Return the name of a number, or the number if it has none."""
        return next((name for name, each in self._numbers.items() if each == number), str(number))


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        number: its number on the wire.
        kind: the type of its values: string, bytes, int32, int64, uint32, uint64, bool, enum, float, double, or a class
            of messages.
        repeated: whether it is a list.
        key: the type of the keys if it is a map, else empty.
        oneof: the name of a group of fields, of which a message has one at most.
        enum: the names of an enum's values; None if they are not known.
    """

    number: int
    kind: "str | type[Message]"
    repeated: bool = False
    key: str = ""
    oneof: str = ""
    enum: Enum | None = None

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
        self[key] = default_of(self._value)
        return self[key]


def default_of(field: Field) -> Any:
    """Return the value of a field that was never set."""
    if field.key:
        return Entries(field)
    if isinstance(field.kind, str):
        return [] if field.repeated else _SCALARS[field.kind]
    return Items(field.kind) if field.repeated else field.kind()


def accepted(what: str, field: Field, value: Any) -> Any:
    """Return the value as the field holds it. TypeError or ValueError if it cannot be one."""
    if field.key:
        if not isinstance(value, Mapping):
            raise TypeError(f"{what} is a dict, not {safe_repr(value)}")
        return Entries(field, {key: _made(field, item) for key, item in value.items()})
    if field.repeated:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"{what} is a list, not {safe_repr(value)}")
        if isinstance(field.kind, str):
            return [*value] if field.enum is None else [_made(field, item) for item in value]
        return Items(field.kind, [_made(field, item) for item in value])
    value = _made(field, value)
    if not isinstance(field.kind, str):
        if not isinstance(value, field.kind):
            raise TypeError(f"{what} is a {field.kind.__name__}, not {safe_repr(value)}")
        return value
    try:
        return scalar(field.kind, value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from None


def _made(field: Field, value: Any) -> Any:
    """A message from a dict of its fields, and the number of a value of an enum from its name."""
    if not isinstance(field.kind, str):
        return field.kind(**value) if isinstance(value, Mapping) else value
    return field.enum.Value(value) if field.enum is not None and isinstance(value, str) else value


def scalar(kind: str, value: Any) -> Any:
    """Return a value that is no message as Python's own type. TypeError or ValueError if it has another kind."""
    if kind in TEXTS:
        return _text(kind, value)
    if kind in FLOATS:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"{safe_repr(value)} is no number")
        with np.errstate(over="ignore"):  # a larger value becomes infinite
            return np.asarray(value, FLOATS[kind]).reshape(()).item()
    number = int(value) if isinstance(value, (bool, np.bool_)) else operator.index(value)
    if kind == "bool":
        return bool(number)
    least, end = _RANGES[kind]
    if not least <= number < end:
        bits = f"{(end - least - 1).bit_length()} bits" + ("" if least else " without a sign")
        raise ValueError(f"{number} does not fit into {bits}")
    return number


def _text(kind: str, value: Any) -> str | bytes:
    if kind == "string" and isinstance(value, str):
        return value
    if not isinstance(value, bytes):
        raise TypeError(f"{safe_repr(value)} is no {kind}")
    return value.decode() if kind == "string" else value
