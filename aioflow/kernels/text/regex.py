r"""Regular expressions, whose matching takes time linear in the text: those of RE2, as in TensorFlow.

RE2 (the package google-re2) never backtracks, and releases the GIL while it searches. It reads text as UTF-8: a dot
matches a whole letter, and no byte that is not UTF-8. A replacement searches again behind each match. It is quadratic
if each search reads to the end of the text, as the search for `a[^b]*b|c` in `acacac`.

Python's own engine backtracks: `a*a*a*b` takes seconds on 100 bytes, and no other thread runs meanwhile. Without
google-re2, `_is_linear` must show that each attempt to match reads a bounded number of letters, apart from a repetition
at the end of the expression; all other expressions raise UnimplementedError. Their meaning is RE2's except for two
details: a dot also matches bytes that are not UTF-8, and `\s` also matches the vertical tab.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple, Protocol

from aioflow import errors

_LONGEST: Final = 10_000
"""The longest expression, in characters."""
_MEMORY: Final = 1 << 21
"""The most bytes of memory for a compiled expression: a larger one would take long to compile."""
_LONGEST_LINEAR: Final = 200
"""The most characters of an expression for Python's engine."""
_MOST_PATHS: Final = 100
"""The most paths through an expression that Python's engine may try at one place of a text."""


class _Match(Protocol):
    def group(self, number: int, /) -> Any: ...
    def span(self) -> tuple[int, int]: ...


class _Compiled(Protocol):
    """A compiled expression of either engine."""

    @property
    def groups(self) -> int: ...
    def search(self, text: Any, pos: int, /) -> _Match | None: ...
    def fullmatch(self, text: Any, /) -> _Match | None: ...


class Expression(NamedTuple):
    """A regular expression on texts of bytes.

    Attributes:
        compiled: the expression of the engine.
        decoded: converts bytes to the engine's type of text.
        encoded: converts the engine's text to bytes.
        width: the length of the letter at a place of a text.
    """

    compiled: _Compiled
    decoded: Callable[[bytes], Any]
    encoded: Callable[[Any], bytes]
    width: Callable[[Any, int], int]

    def matches(self, text: bytes) -> bool:
        """Whether it matches the whole text."""
        return self.compiled.fullmatch(self.decoded(text)) is not None

    def replaced_length(self, text: bytes, rewrite: Sequence[str | int], everywhere: bool) -> int:
        """The bytes of the text that `replace` returns, counted without making it."""
        length = len(text)
        literals = sum([len(part.encode()) for part in rewrite if isinstance(part, str)])
        times = Counter([part for part in rewrite if isinstance(part, int)])
        times[0] -= 1  # the match itself is taken out
        nothing = self.decoded(b"")
        for match in self._matches(self.decoded(text)):
            length += literals
            length += sum([many * len(self.encoded(match.group(group) or nothing)) for group, many in times.items()])
            if not everywhere:
                break
        return length

    def replace(self, text: bytes, rewrite: Sequence[str | int], everywhere: bool) -> bytes:
        """The text with its matches, or only the first, replaced by `rewrite`, in which integers are groups."""
        given = self.decoded(text)
        parts = [part if isinstance(part, int) else self.decoded(part.encode()) for part in rewrite]
        groups = {part for part in parts if isinstance(part, int)}
        made, end = [], 0
        for match in self._matches(given):
            begin, after = match.span()
            made.append(given[end:begin])
            found = {group: match.group(group) for group in groups}  # asked for once, for RE2 takes 2 us for each
            made += [found[part] if isinstance(part, int) else part for part in parts]
            end = after
            if not everywhere:
                break
        made.append(given[end:])
        return self.encoded(given[:0].join([part for part in made if part]))

    def _matches(self, text: Any) -> Iterator[_Match]:
        """The matches from left to right, as RE2 finds them: no empty match directly after another match."""
        place, last = 0, -1
        while place <= len(text):
            match = self.compiled.search(text, place)
            if match is None:
                return
            begin, end = match.span()
            if begin == end == last:
                place = end + self.width(text, end)
                continue
            yield match
            place, last = end, end


@functools.lru_cache(256)
def compiled(pattern: str) -> Expression:
    """Compile an expression. ValueError if it is malformed or too large; UnimplementedError if it needs google-re2."""
    if len(pattern) > _LONGEST:
        raise ValueError(f"a regular expression has at most {_LONGEST} characters, not {len(pattern)}")
    return _by_re2(pattern) or _by_python(pattern)


def rewriting(expression: Expression, rewrite: str) -> Sequence[str | int]:
    r"""The parsed replacement of a match: `rewrite`, in which `\0` to `\9` are its groups and `\\` is a backslash.

    ValueError for any other backslash, or a group that the expression lacks.
    """
    groups = expression.compiled.groups
    parts: list[str | int] = []
    for piece in re.findall(r"\\.?|[^\\]+", rewrite, re.DOTALL):
        if piece[0] != "\\":
            parts.append(piece)
        elif piece[1:].isdecimal() and int(piece[1:]) <= groups:
            parts.append(int(piece[1:]))
        elif piece == "\\\\":
            parts.append("\\")
        else:
            raise ValueError(f"{piece!r} in {rewrite!r} does not name one of the {groups} groups of the expression")
    return parts


# By RE2


def _by_re2(pattern: str) -> Expression | None:
    """The expression of RE2; None if it is not installed."""
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY
    try:
        return Expression(re2.compile(pattern.encode(), options), bytes, bytes, _utf8_width)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else error
        raise ValueError(f"{pattern!r} is not a regular expression: {said}") from None


def _utf8_width(text: bytes, place: int) -> int:
    """The bytes of the letter at that place; 1 for a byte that is not UTF-8."""
    lead = text[place : place + 1]
    count = 1 if lead < b"\xc2" else 2 if lead < b"\xe0" else 3 if lead < b"\xf0" else 4
    try:
        return len(text[place : place + count].decode().encode()) or 1
    except UnicodeDecodeError:
        return 1


# By Python


def _by_python(pattern: str) -> Expression:
    try:
        linear = len(pattern) <= _LONGEST_LINEAR and _is_linear(parser.parse(pattern, re.ASCII))
        if not linear or _reads_otherwise(pattern):
            raise errors.UnimplementedError(
                f"{pattern!r} needs RE2, which is not installed: matching it by Python's own engine may hold up all "
                "that runs in the process. Install aioflow-engine[re2]"
            )
        expression = re.compile(pattern, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{pattern!r} is not a regular expression, or one of RE2, which is not installed: {error}. Install "
            "aioflow-engine[re2]"
        ) from None
    decode = functools.partial(str, encoding="utf-8", errors="surrogateescape")
    return Expression(expression, decode, lambda text: text.encode("utf-8", "surrogateescape"), lambda text, place: 1)


_OTHERWISE: Final = ("[:", "[[", "--", "&&", "~~", "||", "{,", "(?", "$", "\\Z")
"""Syntax that may have another meaning in RE2."""


def _reads_otherwise(pattern: str) -> bool:
    return not pattern.isascii() or any(part in pattern for part in _OTHERWISE)


def _is_linear(items: Sequence[Any]) -> bool:
    """Whether an attempt to match has few paths of bounded length, apart from a repetition at the end."""
    *rest, last = [*items] or [None]
    if last is not None and str(last[0]) in _REPEATS and last[1][1] is parser.MAXREPEAT:
        least, _, body = last[1]
        return _is_letter(body) and least <= _MOST_PATHS and _paths(rest) <= _MOST_PATHS
    return _paths(items) <= _MOST_PATHS


_REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT")
_LETTERS: Final = ("LITERAL", "NOT_LITERAL", "ANY", "IN")


def _is_letter(body: Sequence[Any]) -> bool:
    return len(body) == 1 and str(body[0][0]) in _LETTERS


def _paths(items: Sequence[Any]) -> float:
    """The number of paths through the items; infinite unless it is known to be bounded."""
    found = 1.0
    for kind, argument in items:
        found *= _paths_of(str(kind), argument)
    return found


def _paths_of(kind: str, argument: Any) -> float:
    if kind in (*_LETTERS, "AT"):
        return 1
    if kind == "SUBPATTERN":
        return _paths(argument[-1])
    if kind == "BRANCH":
        return sum([_paths(branch) for branch in argument[1]])
    if kind in _REPEATS and _is_letter(argument[2]) and argument[1] is not parser.MAXREPEAT:
        return float(argument[1]) + 1
    return float("inf")
