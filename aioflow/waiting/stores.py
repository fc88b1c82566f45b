"""Where the elements of a queue are: first in first out, shuffled, by priority. Each decides which comes out next.

The contents of a queue at one moment, for statistics and checkpoints.
"""

import dataclasses
import heapq
import itertools
import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from aioflow.tensors import object_arrays

Item = tuple[Any, ...]
"""One element: its components."""
Taken = tuple[Any, ...]
"""A taken element: the data for putting it back to its place, and then the element."""


class Store(Protocol):
    """Elements, and which comes out next."""

    def __len__(self) -> int:
        """How many elements there are."""

    def __iter__(self) -> Iterator[Item]:
        """The elements, in no particular order."""

    def add(self, item: Item) -> None:
        """One more."""

    def take(self) -> Taken:
        """The next, which is there no more."""

    def put_back(self, taken: Sequence[Taken]) -> None:
        """Elements that were taken are there again, as if they had never been."""

    def take_out(self, items: Sequence[Item]) -> bool:
        """Remove these very objects. Returns False, and changes nothing, if one of them is not there."""

    def in_order(self) -> list[Item]:
        """The elements, so that adding them one after the other to an empty store makes another such."""

    def refill(self, items: Sequence[Item]) -> None:
        """These are its elements, instead of those that it has."""


class Fifo:
    """The oldest first."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._returned: list[tuple[int, Item]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._items) + len(self._returned)

    def __iter__(self) -> Iterator[Item]:
        return itertools.chain((item for _, item in self._returned), self._items)

    def add(self, item: Item) -> None:
        """One more, at the end."""
        self._items.append(item)

    def take(self) -> Taken:
        """The oldest, with how many came before it."""
        if self._returned:
            return heapq.heappop(self._returned)
        self._count += 1
        return self._count, self._items.popleft()

    def at(self, index: int) -> Item:
        """The one before which there are `index` others; it stays."""
        returned = len(self._returned)
        return self._items[index - returned] if index >= returned else sorted(self._returned)[index][1]

    def clear(self) -> None:
        """Drop all elements. Taken elements can still be put back, before later ones."""
        self._items.clear()
        self._returned.clear()

    def put_back(self, taken: Sequence[Taken]) -> None:
        """At the beginning again, in the order they came."""
        for count, item in taken:
            heapq.heappush(self._returned, (count, item))

    def take_out(self, items: Sequence[Item]) -> bool:
        """Remove these very objects, if all are there."""
        wanted = _identities(items)
        queued = [item for item in self._items if id(item) not in wanted]
        returned = [taken for taken in self._returned if id(taken[-1]) not in wanted]
        if len(queued) + len(returned) + len(wanted) > len(self):
            return False
        self._items = deque(queued)
        self._returned = returned
        heapq.heapify(returned)
        return True

    def in_order(self) -> list[Item]:
        """The elements, the oldest first."""
        returned = sorted(self._returned, key=lambda taken: taken[0])
        return [item for _, item in returned] + list(self._items)

    def refill(self, items: Sequence[Item]) -> None:
        """These are its elements, the oldest first."""
        self.clear()
        self._items.extend(items)


class Shuffled:
    """Any of them, by a seeded generator.

    Attributes:
        generator: decides which.
    """

    def __init__(self, generator: random.Random) -> None:
        self._items: list[Item] = []
        self.generator: Final = generator
        self._random: Final = generator.random

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def add(self, item: Item) -> None:
        """One more."""
        self._items.append(item)

    def take(self) -> Taken:
        """One at random."""
        items = self._items
        chosen = int(self._random() * len(items))
        items[chosen], items[-1] = items[-1], items[chosen]
        return (items.pop(),)

    def put_back(self, taken: Sequence[Taken]) -> None:
        """Among the others again."""
        self._items.extend([item for (item,) in taken])

    def take_out(self, items: Sequence[Item]) -> bool:
        """Remove these very objects, if all are there."""
        wanted = _identities(items)
        left = [item for item in self._items if id(item) not in wanted]
        if len(left) + len(wanted) > len(self):
            return False
        self._items[:] = left
        return True

    def in_order(self) -> list[Item]:
        """The elements, as the generator counts them."""
        return list(self._items)

    def refill(self, items: Sequence[Item]) -> None:
        """These are its elements, as the generator counts them."""
        self._items[:] = items


class ByPriority:
    """The least first component first; of equal ones the oldest."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Item]] = []
        self._count = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Item]:
        return (item for _, _, item in self._heap)

    def add(self, item: Item) -> None:
        """One more, after those of its priority."""
        heapq.heappush(self._heap, (int(item[0]), next(self._count), item))

    def take(self) -> Taken:
        """The one that comes first, with its priority and how many came before it."""
        return heapq.heappop(self._heap)

    def put_back(self, taken: Sequence[Taken]) -> None:
        """Among those of their priority in the order they came."""
        for priority, count, item in taken:
            heapq.heappush(self._heap, (priority, count, item))

    def take_out(self, items: Sequence[Item]) -> bool:
        """Remove these very objects, if all are there."""
        wanted = _identities(items)
        left = [entry for entry in self._heap if id(entry[-1]) not in wanted]
        if len(left) + len(wanted) > len(self):
            return False
        heapq.heapify(left)
        self._heap = left
        return True

    def in_order(self) -> list[Item]:
        """The elements in the order in which they come out."""
        return [item for _, _, item in sorted(self._heap, key=lambda taken: taken[:2])]

    def refill(self, items: Sequence[Item]) -> None:
        """These are its elements; of equal priority the first of them comes out first."""
        self._heap.clear()
        for item in items:
            self.add(item)


def _identities(items: Sequence[Item]) -> set[int]:
    return {id(item) for item in items}


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
