"""Regular expressions that cannot hold up a run: Python's, less those whose matching may take exponential time.

Python's engine backtracks and cannot be interrupted. It takes exponential time only if what is repeated can match one
text in several ways, as `(a+)+` or `(a|a)*`. So inside a repetition every choice, to go on with a part or to leave it
out, or which branch to take, must be plain from the next byte; this is checked when the graph is built. What is left is
polynomial in the length of a string. Parts that never give back what they took (`a++`, `(?>a+)`) are no choice.
"""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

MOST: Final = 1000
"""The longest expression, in characters."""

_ANY: Final = frozenset(range(256))
_NONE: Final[frozenset[int]] = frozenset()


def _matching(pattern: bytes) -> frozenset[int]:
    return frozenset([byte for byte in range(256) if re.match(pattern, bytes([byte]))])


_CATEGORIES: Final = {
    f"CATEGORY_{'NOT_' * negated}{name}": _ANY - found if negated else found
    for name, found in (("DIGIT", _matching(rb"\d")), ("SPACE", _matching(rb"\s")), ("WORD", _matching(rb"\w")))
    for negated in (False, True)
}


@functools.lru_cache(256)
def compiled(pattern: str) -> re.Pattern[bytes]:
    """The expression, compiled. ValueError if it is none, is too long, or might take exponential time."""
    if len(pattern) > MOST:
        raise ValueError(f"a regular expression has at most {MOST} characters, not {len(pattern)}")
    try:
        expression = re.compile(pattern.encode())
        plain = _Choices(bool(expression.flags & re.IGNORECASE)).plain(parser.parse(pattern.encode()), None)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    if not plain:
        raise ValueError(
            f"matching {pattern!r} may take exponential time: it repeats what can match one text in several ways; "
            "write ++, *+ or (?>...) for parts that need not give back what they took"
        )
    return expression


class Start(NamedTuple):
    """The bytes that a match may begin with, and whether it may be empty."""

    bytes: frozenset[int]
    empty: bool


class _Choices:
    """Whether the choices in an expression are plain from the next byte."""

    def __init__(self, ignore_case: bool) -> None:
        self._ignore_case = ignore_case

    def plain(self, items: Sequence[Any], after: frozenset[int] | None) -> bool:
        """Whether every choice inside a repetition is plain.

        `after` are the bytes that may follow; None if the items stand in no repetition.
        """
        for place, item in enumerate(items):
            follows = None
            if after is not None:
                rest = self._start(list(items)[place + 1 :])
                follows = rest.bytes | after if rest.empty else rest.bytes
            if not self._plain_item(str(item[0]), item[1], follows):
                return False
        return True

    def _plain_item(self, kind: str, argument: Any, after: frozenset[int] | None) -> bool:
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = argument
            start = self._start(body).bytes
            keeps = kind == "POSSESSIVE_REPEAT"
            if after is not None and least != most and start & after and not keeps:
                return False
            again = start if most > 1 else _NONE
            if after is None or keeps:
                return self.plain(body, again if most > 1 else None)
            return self.plain(body, again | after)
        if kind == "BRANCH":
            return self._plain_branch(argument[1], after)
        if kind in ("ATOMIC_GROUP", "ASSERT", "ASSERT_NOT"):
            return self.plain(argument if kind == "ATOMIC_GROUP" else argument[1], None)
        if kind == "SUBPATTERN":
            return self.plain(argument[-1], after)
        return after is None or not kind.startswith("GROUPREF")

    def _plain_branch(self, branches: Iterable[Any], after: frozenset[int] | None) -> bool:
        seen = _NONE
        for branch in branches:
            start = self._start(branch)
            if after is not None:
                first = start.bytes | after if start.empty else start.bytes
                if first & seen:
                    return False
                seen |= first
            if not self.plain(branch, after):
                return False
        return True

    def _start(self, items: Iterable[Any]) -> Start:
        found = _NONE
        for kind, argument in items:
            start = self._start_of(str(kind), argument)
            found |= start.bytes
            if not start.empty:
                return Start(found, False)
        return Start(found, True)

    def _start_of(self, kind: str, argument: Any) -> Start:
        if kind in ("LITERAL", "NOT_LITERAL"):
            found = self._cased(frozenset([argument]))
            return Start(_ANY - found if kind == "NOT_LITERAL" else found, False)
        if kind == "IN":
            return Start(self._in(argument), False)
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            start = self._start(argument[2])
            return Start(start.bytes, start.empty or argument[0] == 0)
        if kind == "BRANCH":
            starts = [self._start(branch) for branch in argument[1]]
            return Start(_NONE.union(*[start.bytes for start in starts]), any(start.empty for start in starts))
        if kind in ("SUBPATTERN", "ATOMIC_GROUP"):
            return self._start(argument[-1] if kind == "SUBPATTERN" else argument)
        return Start(_NONE if kind in ("AT", "ASSERT", "ASSERT_NOT") else _ANY, kind != "ANY")

    def _in(self, items: Iterable[Any]) -> frozenset[int]:
        found, negated = _NONE, False
        for kind, argument in items:
            match str(kind):
                case "NEGATE":
                    negated = True
                case "LITERAL":
                    found |= {argument}
                case "RANGE":
                    found |= {*range(argument[0], argument[1] + 1)}
                case _:
                    found |= _CATEGORIES.get(str(argument), _ANY)
        return _ANY - self._cased(found) if negated else self._cased(found)

    def _cased(self, found: frozenset[int]) -> frozenset[int]:
        if not self._ignore_case:
            return found
        return found.union(*[{*bytes([byte]).lower(), *bytes([byte]).upper()} for byte in found])


def rewriting(expression: re.Pattern[bytes], rewrite: str) -> Callable[[re.Match[bytes]], bytes]:
    r"""What a match is replaced by: `rewrite`, in which `\0` to `\9` are its groups and `\\` is a backslash.

    ValueError for any other backslash, or a group that the expression lacks.
    """
    parts: list[bytes | int] = []
    for piece in re.findall(rb"\\.?|[^\\]+", rewrite.encode(), re.DOTALL):
        if piece[:1] != b"\\":
            parts.append(piece)
        elif piece[1:].isdigit() and int(piece[1:]) <= expression.groups:
            parts.append(int(piece[1:]))
        elif piece == b"\\\\":
            parts.append(b"\\")
        else:
            raise ValueError(
                f"{piece.decode()!r} in {rewrite!r} names none of the {expression.groups} groups of the expression"
            )
    return lambda match: b"".join([(match[p] or b"") if isinstance(p, int) else p for p in parts])


__all__ = ["compiled", "rewriting"]
