"""Checks of the numbers that layers, callbacks and `fit` are given, before anything is built of them."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import TensorShape, as_shape


def whole(name: str, given: Any, least: int | None) -> int:
    """The number. TypeError unless it is a whole one, ValueError if it is below `least`; None allows all."""
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"{name} is a whole number, not {safe_repr(given)}")
    if least is not None and given < least:
        raise ValueError(f"{name} is at least {least}, not {given}")
    return int(given)


def number(name: str, given: Any) -> float:
    """The number. TypeError for anything else."""
    if isinstance(given, bool) or not isinstance(given, (Real, np.number)):
        raise TypeError(f"{name} is a number, not {safe_repr(given)}")
    return float(given)


def at_least(name: str, given: Any, least: float) -> float:
    """The number. TypeError for anything else, ValueError if it is below `least` or not a number (nan)."""
    found = number(name, given)
    if not found >= least:
        raise ValueError(f"{name} is at least {least:g}, not {found:g}")
    return found


def fraction(name: str, given: Any) -> float:
    """The number from 0 to 1. TypeError unless it is a number, ValueError outside."""
    found = number(name, given)
    if not 0 <= found <= 1:
        raise ValueError(f"{name} lies between 0 and 1, not {found:g}")
    return found


def rate(name: str, given: Any) -> float:
    """A part, such as that of dropped elements. TypeError unless it is a number, ValueError outside of [0, 1)."""
    found = number(name, given)
    if not 0 <= found < 1:
        raise ValueError(f"{name} is at least 0 and less than 1, not {found:g}")
    return found


def switch(name: str, given: Any) -> bool:
    """The boolean. TypeError for anything else: text such as "no" would count as True."""
    if not isinstance(given, (bool, np.bool_)):
        raise TypeError(f"{name} is True or False, not {safe_repr(given)}")
    return bool(given)


def seed(given: Any) -> int | None:
    """The seed of random numbers, if there is one. TypeError unless it is a whole number or None."""
    return None if given is None else whole("seed", given, None)


def per_axis(name: str, given: Any, axes: int, least: int = 1) -> tuple[int, ...]:
    """A whole number for each axis, at least `least`, from one for all or a sequence.

    ValueError for another count of numbers, and else as `whole`.
    """
    sizes = tuple(given) if is_sequence(given) else (given,) * axes
    if len(sizes) != axes:
        raise ValueError(f"{name} is a number, or one for each of {axes} axes, not {safe_repr(given)}")
    return tuple([whole(name, size, least) for size in sizes])


def axes(name: str, given: Any) -> tuple[int, ...]:
    """The numbers of axes, from one or several. TypeError unless they are whole, ValueError for none, or one twice."""
    found = tuple([whole(name, each, None) for each in (given if is_sequence(given) else (given,))])
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{name} is an axis, or several different ones, not {safe_repr(given)}")
    return found


def sizes(name: str, given: Any) -> TensorShape:
    """The shape. TypeError for anything but sizes, ValueError for ones below 0."""
    try:
        return as_shape(given)
    except TypeError:
        raise TypeError(f"{name} is a list of sizes, not {safe_repr(given)}") from None


def is_sequence(given: Any) -> bool:
    """Whether it is a sequence of numbers, or of sequences of them."""
    return isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, (str, bytes))
