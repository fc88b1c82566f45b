"""The contents of a queue at one moment, for statistics and checkpoints."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from aioflow.tensors import object_arrays
from aioflow.waiting.stores import Item, Taken


@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """A queue at one moment: its elements, its waiters, and the elements put and taken since it was made."""

    size: int
    bytes: int
    putting: int
    taking: int
    put: int
    taken: int
    closed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """The state of a queue, from which another queue is restored.

    Attributes:
        items: its elements, in the order of its store.
        closed: whether it is closed.
        generator: the state of the random generator of a shuffling queue; None for others.
    """

    items: list[Item]
    closed: bool
    generator: tuple[Any, ...] | None = None


def copied(item: Item) -> Item:
    """Return a copy of the element in new memory."""
    return tuple(
        [object_arrays.copy_array(component) if hasattr(component, "shape") else component for component in item]
    )


def items_of(taken: Iterable[Taken]) -> list[Item]:
    """The elements without the data for putting them back."""
    return [each[-1] for each in taken]


def bytes_of(items: Iterable[Item]) -> int:
    """The bytes of the elements."""
    return sum([_length(component) for item in items for component in item])


def _length(component: Any) -> int:
    """The bytes of a component; for strings, the bytes of the text."""
    if isinstance(component, bytes):
        return len(component)
    size: int = getattr(component, "nbytes", 0)
    return sum(map(_length, component.flat)) if size and component.dtype.kind == "O" else size
