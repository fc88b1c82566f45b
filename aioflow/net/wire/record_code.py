"""Generates the functions that write and read the fields of a record: one check per field, and no loop.

A message of a few fields takes a third of the time that a loop over the kinds of its fields takes.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from aioflow.net.wire.schema import Field

Write = Callable[[Any, list[Any]], list[Any]]
Read = Callable[[Any, dict[int, Any]], Any]


def writer(fields: Mapping[str, "Field"]) -> Write:
    """A function that writes the fields of a record in order, and None for a field that has its default."""
    known: dict[str, Any] = {"misfit": _misfit}
    lines = ["def write(record, values):"]
    for number, field in enumerate(fields.values()):
        known |= {f"write{number}": field.kind.write, f"default{number}": field.default}
        known[f"matches{number}"] = field.kind.matches
        lines.append(f" x = record.{field.name}")
        if not field.needed:
            lines.append(f" if x is default{number} or x == default{number}: x = None")
        lines += [f" {line}" for line in _checked(field, "write", number, "x is None" if not field.needed else "")]
        lines.append(f" x{number} = x")
    made: Write = _defined("write", [*lines, f" return [{_variables(fields)}]"], known)
    return made


def reader(cls: type[Any], fields: Mapping[str, "Field"], refuse: Callable[[Any], NoReturn]) -> Read:
    """A function that reads such a list. `refuse` is called with data that are not a list of as many fields."""
    known: dict[str, Any] = {"cls": cls, "refuse": refuse, "misfit": _misfit}
    lines = ["def read(data, values):", f" if type(data) is not list or len(data) != {len(fields)}: refuse(data)"]
    lines += [f" {_variables(fields)}, = data"] * bool(fields)
    for number, field in enumerate(fields.values()):
        known |= {f"read{number}": field.kind.read, f"default{number}": field.make or field.default}
        known[f"matches{number}"] = field.kind.matches
        lines.append(f" x = x{number}")
        if not field.needed:
            lines.append(f" if x is None: x = default{number}{'()' * (field.make is not None)}")
        checked = _checked(field, "read", number)
        lines += [f" {'el' * (not field.needed)}{checked[0]}", *[f" {line}" for line in checked[1:]]]
        lines.append(f" x{number} = x")
    made: Read = _defined("read", [*lines, f" return cls({_variables(fields)})"], known)
    return made


def _variables(fields: Mapping[str, "Field"]) -> str:
    return ", ".join(f"x{number}" for number in range(len(fields)))


def _checked(field: "Field", function: str, number: int, also: str = "") -> list[str]:
    """Lines that write or read `x`, the field of that number, unless `also` holds. An error names the field."""
    accepts = field.kind.accepts.replace("matches(", f"matches{number}(")
    return [
        f"if not ({' or '.join(filter(None, (also, accepts))) or False}):",
        f" try: x = {function}{number}(x, values)",
        f" except ValueError as error: misfit({field.title!r}, error)",
    ]


def _misfit(title: str, error: ValueError) -> NoReturn:
    raise ValueError(f"{title}: {error}") from None


def _defined(name: str, lines: list[str], known: dict[str, Any]) -> Any:
    exec("\n".join(lines), known)
    return known[name]
