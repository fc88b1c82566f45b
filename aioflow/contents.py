"""What a queue holds at one moment: for those who ask, and for checkpoints."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from aioflow.stores import Item, Taken


@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """A queue at one moment: what it holds, who waits, and what went through it since it was made."""

    size: int
    bytes: int
    putting: int
    taking: int
    put: int
    taken: int
    closed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """What makes another queue like one that was.

    Attributes:
        items: its elements, in the order of its store.
        closed: whether it is closed.
        generator: the state of what shuffles them, if that is so.
    """

    items: list[Item]
    closed: bool
    generator: tuple[Any, ...] | None = None


def copied(item: Item) -> Item:
    """The element with memory of its own."""
    return tuple([component.copy() if hasattr(component, "shape") else component for component in item])


def items_of(taken: Iterable[Taken]) -> list[Item]:
    """The elements of what was taken."""
    return [each[-1] for each in taken]


def bytes_of(items: Iterable[Item]) -> int:
    """How many bytes elements hold."""
    return sum([_length(component) for item in items for component in item])


def _length(component: Any) -> int:
    """The bytes of a component; of text those of the text."""
    if isinstance(component, bytes):
        return len(component)
    size: int = getattr(component, "nbytes", 0)
    return sum(map(_length, component.flat)) if size and component.dtype.kind == "O" else size


__all__ = ["Contents", "Statistics", "bytes_of", "copied", "items_of"]
