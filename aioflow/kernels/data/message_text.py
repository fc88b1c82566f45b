"""Messages as text, line by line, as the tools of protocol buffers write it."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aioflow.kernels.data.message_fields import Field

if TYPE_CHECKING:
    from aioflow.kernels.data.message import Message


def lines(message: "Message", indent: str = "") -> Iterator[str]:
    """The lines of a message, in the order of its fields."""
    for name, field in message.present():
        value = getattr(message, name)
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
    if isinstance(field.kind, str):
        text = field.enum.text(value) if field.enum is not None else _WORDS.get(field.kind, str)(value)
        yield f"{indent}{name}: {text}\n"
    else:
        yield f"{indent}{name} {{\n"
        yield from lines(value, f"{indent}  ")
        yield f"{indent}}}\n"


_NAMED: Final = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}


def _quoted(value: str | bytes) -> str:
    """Text or bytes in quotes. Text keeps letters that are not ASCII; bytes do not."""
    items = [(ord(each), each) for each in value] if isinstance(value, str) else [(b, "") for b in value]
    return '"' + "".join(_NAMED.get(code) or _character(code, shown) for code, shown in items) + '"'


def _character(code: int, shown: str) -> str:
    if 31 < code < 127:
        return chr(code)
    return shown if code > 127 and shown else f"\\{code:03o}"


def _number(value: Any, few: int, most: int, kind: type[Any]) -> str:
    """A float with few digits if these say it exactly, else with more."""
    short = f"{value:.{few}g}"
    return short if kind(short) == value else f"{value:.{most}g}"


_WORDS: Final[dict[str, Callable[[Any], str]]] = {
    "string": _quoted,
    "bytes": _quoted,
    "bool": lambda value: str(bool(value)).lower(),
    "float": lambda value: _number(value, 6, 9, np.float32),
    "double": lambda value: _number(value, 15, 17, float),
}
