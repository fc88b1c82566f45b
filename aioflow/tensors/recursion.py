"""Raises ValueError for structures that contain themselves or are nested too deep, in place of RecursionError.

Functions that walk through nested lists, branches or loops call themselves. At its recursion limit Python raises an
error that does not name the user's structure.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
DEEPEST: Final = 100
"""The most levels of a nested structure."""
_LEAVES: Final = frozenset((bool, int, float, complex, str, bytes, type(None)))
"""Types of values that have no structure: a list of them alone is checked in one call."""


def check_depth(structure: Any) -> None:
    """Raise ValueError if a structure contains itself, or has more than DEEPEST levels."""
    level = [structure] if _is_nested(structure) else []
    for _ in range(DEEPEST):
        inside = [each if isinstance(each, (list, tuple)) else each.values() for each in level]
        inner = [items for items in inside if not _LEAVES.issuperset(map(type, items))]
        level = list({id(item): item for items in inner for item in items if _is_nested(item)}.values())
        if not level:
            return
    raise ValueError(f"a {type(structure).__name__} is nested more than {DEEPEST} deep, or contains itself")


def _is_nested(structure: Any) -> bool:
    return isinstance(structure, (list, tuple, Mapping))


def too_deep_error(*given: Any) -> ValueError:
    """Return the ValueError to raise instead of a RecursionError.

    It names the given structure that is the cause, if any.
    """
    for structure in given:
        try:
            check_depth(structure)
        except ValueError as error:
            return error
    return ValueError(
        "structures, branches, loops or calls of functions are nested too deep for Python's recursion limit of "
        f"{sys.getrecursionlimit()}: sys.setrecursionlimit raises it"
    )


def without_recursion_error(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that it raises the ValueError of `too_deep_error` instead of RecursionError."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError as error:
            raise too_deep_error(*args, *kwargs.values()) from error

    return call


def safe_repr(value: Any) -> str:
    """`repr` of a value, or its type if the value is nested too deep for that."""
    try:
        return repr(value)
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep to show"


def short_repr(value: Any) -> str:
    """`safe_repr` of a value, cut after 60 characters."""
    text = safe_repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
