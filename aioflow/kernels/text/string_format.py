"""Values as text, laid out as TensorFlow's `print` does: the first and last few along each axis, rows in brackets."""

import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.op import op
from aioflow.kernels.families import CPU, costs
from aioflow.tensors.dtypes import ANY, STRING, Array, Namespace, Spec, TensorShape, string

_ESCAPES: Final = {code: f"\\{code:03o}".encode() for code in (*range(32), 127)} | {
    ord("\t"): b"\\t", ord("\n"): b"\\n", ord("\r"): b"\\r", ord('"'): b'\\"', ord("'"): b"\\'", ord("\\"): b"\\\\",
}  # fmt: skip
_logger: Final = logging.getLogger("aioflow")
STREAMS: Final = ("stdout", "stderr", "debug", "info", "warning", "error")
"""Where text is printed: a file of the process, or the logger `aioflow` at a level."""


@op
def string_format(inputs: Sequence[Spec], template: str, placeholder: str = "{}", summarize: int = 3) -> Spec:
    """The template with each placeholder replaced by the text of the next input.

    The text has the first and the last `summarize` parts along each axis, and all of them if `summarize` is negative.
    """
    for each in inputs:
        each.only(ANY)
    if not placeholder:
        raise ValueError("the placeholder is empty")
    if template.count(placeholder) != len(inputs):
        raise ValueError(f"the template has {template.count(placeholder)} placeholders for {len(inputs)} inputs")
    return Spec(string, TensorShape(()))


@string_format.kernel(CPU, fresh=True)
def _(xp: Namespace, inputs: Sequence[Array], *, template: str, placeholder: str, summarize: int) -> Array:
    first, *rest = template.split(placeholder)
    parts = [first.encode()]
    for value, text in zip(inputs, rest, strict=True):
        parts += [value_text(np.asarray(value), summarize), text.encode()]
    made = np.empty((), object)
    made[()] = b"".join(parts)
    return made


def value_text(value: Array, summarize: int, depth: int = 1) -> bytes:
    """The text of an array of numbers or strings."""
    if not value.ndim:
        return _element_text(value[()])
    gap = b" " if value.ndim == 1 else b"\n" * (value.ndim - 1) + b" " * depth
    return b"[" + gap.join(_parts(value, summarize, depth + 1)) + b"]"


def _parts(value: Array, summarize: int, depth: int) -> Iterator[bytes]:
    cut = 0 <= 2 * summarize < len(value)
    places = [*range(summarize), *range(len(value) - summarize, len(value))] if cut else range(len(value))
    for count, place in enumerate(places):
        if cut and count == summarize:
            yield b"..."
        yield value_text(np.asarray(value[place], value.dtype), summarize, depth)
    if cut and not summarize:
        yield b"..."


def _element_text(element: Any) -> bytes:
    if isinstance(element, bytes):
        return b'"' + b"".join([_ESCAPES.get(code, bytes([code])) for code in element]) + b'"'
    if isinstance(element, (bool, np.bool_)):
        return b"1" if element else b"0"
    if isinstance(element, (np.integer, int)):
        return str(int(element)).encode()
    if isinstance(element, (complex, np.complexfloating)):
        return f"({_float_text(element.real)},{_float_text(element.imag)})".encode()
    return _float_text(element).encode()


def _float_text(number: Any) -> str:
    """The number with as many digits as tell it from all others of its dtype, but at least 6, or 15 of a float64."""
    value = float(number)
    if isinstance(number, float):  # np.float64 too
        return short if float(short := f"{value:.15g}") == value else f"{value:.17g}"
    return short if np.float32(short := f"{value:.6g}") == np.float32(value) else f"{value:.9g}"


@op(stateful=True)
def print_text(text: Spec, stream: str = "stderr", end: str = "\n") -> None:
    """Print `text`, a scalar string, and `end` to a stream of the process, or log it."""
    text.only(STRING).with_rank(0, "text")
    if stream not in STREAMS:
        raise ValueError(f"stream is one of {', '.join(STREAMS)}, not {stream!r}")


@print_text.kernel(CPU)
def _(xp: Namespace, text: Array, *, stream: str, end: str) -> None:
    line = bytes(np.asarray(text, object).item()).decode(errors="backslashreplace")
    if stream in ("stdout", "stderr"):
        getattr(sys, stream).write(line + end)
    else:
        _logger.log(getattr(logging, stream.upper()), "%s", line)


string_format.no_gradient("text does not vary smoothly")
print_text.no_gradient("it has no outputs")
costs(string_format, 1e4)
