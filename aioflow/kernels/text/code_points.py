"""Bytes in any encoding that Python knows as Unicode code points, with what TensorFlow does about malformed bytes."""

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

from aioflow import errors as aioflow_errors

ERRORS: Final = ("replace", "strict", "ignore")
OUTPUTS: Final = ("UTF-8", "UTF-16-BE", "UTF-32-BE")
"""The encodings that text is written in."""
REPLACEMENT: Final = 0xFFFD
_SURROGATES: Final = range(0xD800, 0xE000)
_MALFORMED: Final = "aioflow_malformed"

Point = tuple[int, int]
"""A code point, and at which byte it begins."""


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Decode malformed bytes to a surrogate, which tells how many they are: no well-formed text has surrogates."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(_SURROGATES.start + error.end - error.start), error.end


codecs.register_error(_MALFORMED, _mark)


def check_encoding(encoding: str) -> None:
    """Raise ValueError unless Python knows the encoding, and its characters have the same bytes in every string."""
    try:
        name = codecs.lookup(encoding).name
        "".encode(encoding)
    except LookupError:
        raise ValueError(f"{encoding!r} is not the name of an encoding") from None
    if name in ("utf-16", "utf-32", "utf-8-sig"):
        raise ValueError(f"{encoding} has an order of bytes that the text decides: use {encoding}-BE or {encoding}-LE")


def check_options(errors: str, replacement: int) -> None:
    """Raise ValueError for an unknown way to treat errors, and for a replacement that is no character."""
    if errors not in ERRORS:
        raise ValueError(f"errors is one of {', '.join(ERRORS)}, not {errors!r}")
    if not is_character(replacement):
        raise ValueError(f"replacement_char {replacement} is not a Unicode character")


def is_character(point: int) -> bool:
    """Whether the number is a code point that text may have."""
    return 0 <= point <= 0x10FFFF and point not in _SURROGATES


def decoded(data: bytes, encoding: str, errors: str, replacement: int, control: bool = False) -> Iterator[Point]:
    """The code points of a string; with `control`, control characters below 32 count as malformed.

    InvalidArgumentError for malformed bytes if `errors` is "strict".
    """
    start = 0
    for character in data.decode(encoding, _MALFORMED):
        point = ord(character)
        malformed = point in _SURROGATES
        size = point - _SURROGATES.start if malformed else len(character.encode(encoding))
        if malformed and errors == "strict":
            raise aioflow_errors.InvalidArgumentError(f"byte {start} of {data[:50]!r} is not text in {encoding}")
        if malformed or (control and point < 32):
            point = replacement
        if not malformed or errors != "ignore":
            yield point, start
        start += size


def encoded(points: Iterable[int], encoding: str, errors: str, replacement: int) -> bytes:
    """Code points as a string. InvalidArgumentError for a number that is none if `errors` is "strict"."""
    text = []
    for point in points:
        if is_character(point):
            text.append(chr(point))
        elif errors == "strict":
            raise aioflow_errors.InvalidArgumentError(f"{point} is not a Unicode character")
        elif errors == "replace":
            text.append(chr(replacement))
    return "".join(text).encode(encoding)
