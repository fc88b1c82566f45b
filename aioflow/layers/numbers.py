"""Checks of the numbers that layers and `fit` are given, before anything is built of them."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from aioflow.tensors.recursion import safe_repr


def whole(name: str, given: Any, least: int) -> int:
    """The number. TypeError unless it is a whole one, ValueError if it is below `least`."""
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"{name} is a whole number, not {safe_repr(given)}")
    if given < least:
        raise ValueError(f"{name} is at least {least}, not {given}")
    return int(given)


def number(name: str, given: Any) -> float:
    """The number. TypeError for anything else."""
    if isinstance(given, bool) or not isinstance(given, (Real, np.number)):
        raise TypeError(f"{name} is a number, not {safe_repr(given)}")
    return float(given)


def rate(name: str, given: Any) -> float:
    """The part of elements that are dropped. TypeError unless it is a number, ValueError outside of [0, 1)."""
    found = number(name, given)
    if not 0 <= found < 1:
        raise ValueError(f"{name} is at least 0 and less than 1, not {found:g}")
    return found


def per_axis(name: str, given: Any, axes: int, least: int = 1) -> tuple[int, ...]:
    """A whole number for each axis, at least `least`, from one for all or a sequence.

    ValueError for another count of numbers, and else as `whole`.
    """
    sizes = tuple(given) if is_sequence(given) else (given,) * axes
    if len(sizes) != axes:
        raise ValueError(f"{name} is a number, or one for each of {axes} axes, not {safe_repr(given)}")
    return tuple([whole(name, size, least) for size in sizes])


def is_sequence(given: Any) -> bool:
    """Whether it is a sequence of numbers, or of sequences of them."""
    return isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, (str, bytes))
