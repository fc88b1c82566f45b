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
