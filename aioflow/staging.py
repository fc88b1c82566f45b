"""The waiting objects behind staging areas: elements put by some steps are taken by others, in order or by key.

Putting waits for room, taking for an element. A staging area is never closed. Who waits for a key, or to see what is at
a place, is served when that is there, whoever else waits.
"""

import bisect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.stores import Fifo, Item
from aioflow.waiting import Attempt, Line, Outcome, Waitable, wake

_Numbered = tuple[int, dict[int, Any]]
"""An element of a map: how many came before it, and its components by number."""


class LineByKey(Line):
    """Attempts whose `serve` has a `key`: those of one key wait in order, those of different ones for themselves."""

    __slots__ = ("_changed", "_lines")

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[int, Line] = {}
        self._changed: dict[int, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Attempt]:
        return itertools.chain.from_iterable(self._lines.values())

    @property
    def first(self) -> Attempt | None:
        """Some attempt that is the first of its key, None if nobody waits."""
        return next(iter(self), None)

    def join(self, attempt: Attempt) -> None:
        """Take the last place of its key's line."""
        key = _key_of(attempt)
        self._lines.setdefault(key, Line()).join(attempt)
        self._changed[key] = None

    def leave(self, attempt: Attempt) -> bool:
        """Give up the place. False if it had none."""
        key = _key_of(attempt)
        line = self._lines.get(key)
        if line is None or not line.leave(attempt):
            return False
        self._changed[key] = None
        return True

    def changed(self, key: int) -> None:
        """Something is there under that key: who waits for it is served next time."""
        if key in self._lines:
            self._changed[key] = None

    def turn_away(self, serve: Callable[[], Outcome | None]) -> None:
        """From here on all who wait are served so."""
        for key, line in self._lines.items():
            line.turn_away(_ByKey(key, serve))
            self._changed[key] = None

    def serve(self, most: int) -> list[Attempt]:
        """Serve those of changed keys, at most so many. Returns those who are done."""
        done: list[Attempt] = []
        while self._changed and len(done) < most:
            key = next(iter(self._changed))
            line = self._lines[key]
            done += line.serve(most - len(done))
            if not line:
                del self._lines[key]
            if not line or len(done) < most:
                del self._changed[key]
        return done


class Area(Waitable):
    """What both kinds of staging area have: room for so many elements and bytes; 0 for any number.

    Attributes:
        signature: how it was opened, for those who open it again.
    """

    def __init__(self, name: str, capacity: int = 0, memory_limit: int = 0, signature: Any = None) -> None:
        super().__init__(name)
        self.signature: Final = signature
        self._capacity: Final = capacity
        self._memory_limit: Final = memory_limit
        self._bytes = 0

    def _check_size(self, size: int) -> None:
        if 0 < self._memory_limit < size:
            raise errors.ResourceExhaustedError(
                f"{size} bytes can never be put into staging area {self.name!r}, which holds {self._memory_limit}"
            )

    def _has_memory(self, size: int) -> bool:
        return not self._memory_limit or self._bytes + size <= self._memory_limit

    def _gone_error(self) -> BaseException:
        return errors.CancelledError(
            f"staging area {self.name!r} is gone: its container was reset or its session closed"
        )

    def clear(self) -> None:
        """Nothing is in it. Who waits to put gets the room."""
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            self._clear()
            self._bytes = 0
            served = self._serve()
        wake(served)

    def _clear(self) -> None:
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many whole elements it holds."""
        raise NotImplementedError

    @property
    def bytes(self) -> int:
        """How many bytes it holds."""
        return self._bytes

    def __repr__(self) -> str:
        room = f"/{self._capacity}" if self._capacity else ""
        return f"<{type(self).__name__} {self.name!r} {self.size}{room}, {sum(map(len, self._lines))} waiting>"


class StagingArea(Area):
    """Elements that come out in the order in which they were put. From any loop or thread of the process."""

    def __init__(self, name: str, capacity: int = 0, memory_limit: int = 0, signature: Any = None) -> None:
        super().__init__(name, capacity, memory_limit, signature)
        self._items: Final = Fifo()
        self._puts, self._peeks, self._gets = Line(), LineByKey(), Line()
        self._lines = (self._puts, self._peeks, self._gets)
        self._served_by = {self._puts: self._gets, self._gets: self._puts}

    async def put(self, *components: Any, who: Any = None) -> None:
        """One more element, as soon as there is room. ResourceExhaustedError if there never is."""
        size = nbytes(components)
        self._check_size(size)
        await self.attempt(self._puts, Attempt("put an element into", lambda: self._insert(components, size), who))

    def _insert(self, item: Item, size: int) -> Outcome | None:
        if (self._capacity and len(self._items) >= self._capacity) or not self._has_memory(size):
            return None
        self._items.add(item)
        self._bytes += size
        self._peeks.changed(len(self._items) - 1)
        return None, None

    async def get(self, who: Any = None) -> Item:
        """The oldest element, as soon as there is one."""
        taken = await self.attempt(self._gets, Attempt("get an element of", self._take, who))
        item: Item = taken[-1]
        return item

    def _take(self) -> Outcome | None:
        if not self._items:
            return None
        taken = self._items.take()
        self._bytes -= nbytes(taken[-1])
        return taken, None

    def _give_back(self, attempt: Attempt) -> None:
        if attempt.serve == self._take and attempt.outcome is not None:
            taken = attempt.outcome[0]
            self._items.put_back([taken])
            self._bytes += nbytes(taken[-1])
            self._peeks.changed(len(self._items) - 1)

    async def peek(self, index: int, who: Any = None) -> Item:
        """The element before which there are `index` others, as soon as it is there; it stays."""
        if index < 0:
            raise errors.InvalidArgumentError(f"no element is at place {index} of staging area {self.name!r}")
        serve = _Look(index, lambda: (self._items.at(index), None) if index < len(self._items) else None)
        item: Item = await self.attempt(self._peeks, Attempt(f"peek at element {index} of", serve, who))
        return item

    def _clear(self) -> None:
        self._items.clear()

    @property
    def size(self) -> int:
        """How many elements it holds."""
        return len(self._items)


class MapStagingArea(Area):
    """Elements by key, whose components may come and go one by one. From any loop or thread of the process.

    Args:
        name: how errors call it.
        components: how many components an element has.
        ordered: whether `popitem` takes the least key, else any.
        capacity: how many whole elements it holds, 0 for any number; parts come in beyond it.
        memory_limit: how many bytes it holds, 0 for any number.
        signature: how it was opened.
    """

    def __init__(
        self,
        name: str,
        components: int,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
        signature: Any = None,
    ) -> None:
        super().__init__(name, capacity, memory_limit, signature)
        self._components: Final = components
        self._order: Final[list[int] | None] = [] if ordered else None
        self._items: dict[int, list[_Numbered]] = {}
        self._size = 0
        self._parts: dict[int, dict[int, Any]] = {}
        self._numbers: Final = itertools.count()
        self._puts, self._part_puts, self._pops = Line(), Line(), Line()
        self._peeks, self._gets = LineByKey(), LineByKey()
        self._lines = (self._puts, self._part_puts, self._peeks, self._gets, self._pops)

    # Putting

    async def put(self, key: int, components: Mapping[int, Any], who: Any = None) -> None:
        """Components of the element under `key`, by number. It is there when it has all.

        A whole element waits for room, parts of one only for memory.

        Raises:
            af.errors.InvalidArgumentError: the key is there already, or has one of the components.
            af.errors.ResourceExhaustedError: there is never memory for so much.
        """
        size = nbytes(components.values())
        self._check_size(size)
        whole = len(components) == self._components
        serve = lambda: self._insert(key, components, size, whole)  # noqa: E731
        line = self._puts if whole else self._part_puts
        await self.attempt(line, Attempt(f"put key {key} into", serve, who))

    def _insert(self, key: int, components: Mapping[int, Any], size: int, whole: bool) -> Outcome | None:
        present = self._parts.get(key, {})
        taken = sorted(present.keys() & components.keys())
        if key in self._items or taken:
            what = f"components {taken} already" if taken else "a whole element already, which must be taken first"
            return None, errors.InvalidArgumentError(f"key {key} of staging area {self.name!r} has {what}")
        full = whole and 0 < self._capacity <= self._size
        if full or not self._has_memory(size):
            return None
        self._bytes += size
        item = {**present, **components}
        if len(item) < self._components:
            self._parts[key] = item
        else:
            self._parts.pop(key, None)
            self._place(key, next(self._numbers), item)
        return None, None

    def _place(self, key: int, number: int, item: dict[int, Any]) -> None:
        """Components are there, with others of their element if any are. Elements stand in the order they came."""
        if self._order is not None and key not in self._items:
            bisect.insort(self._order, key)
        elements = self._items.setdefault(key, [])
        place = bisect.bisect_left(elements, number, key=itemgetter(0))
        if place < len(elements) and elements[place][0] == number:
            elements[place][1].update(item)
        else:
            elements.insert(place, (number, item))
            self._size += 1
        self._gets.changed(key)
        self._peeks.changed(key)

    # Taking

    async def get(self, key: int, indices: Sequence[int] | None = None, who: Any = None) -> Item:
        """Components of the element under `key`, all by default, as soon as it is whole; these are there no more.

        InvalidArgumentError if one of them is gone already.
        """
        serve = _ByKey(key, lambda: self._take(key, self._chosen(indices)))
        _, _, item = await self.attempt(self._gets, Attempt(f"get key {key} of", serve, who))
        return tuple(item.values())

    async def popitem(self, indices: Sequence[int] | None = None, who: Any = None) -> tuple[int, Item]:
        """The next key, and components of its element, as soon as there is one; these are there no more."""
        serve = lambda: self._take(self._next(), self._chosen(indices))  # noqa: E731
        key, _, item = await self.attempt(self._pops, Attempt("get any key of", serve, who))
        return key, tuple(item.values())

    async def peek(self, key: int, indices: Sequence[int] | None = None, who: Any = None) -> Item:
        """Components of the element under `key`, as soon as it is whole; they stay."""
        serve = _Look(key, lambda: self._look(key, self._chosen(indices)))
        _, _, item = await self.attempt(self._peeks, Attempt(f"peek at key {key} of", serve, who))
        return tuple(item.values())

    def _chosen(self, indices: Sequence[int] | None) -> Sequence[int]:
        return range(self._components) if indices is None else indices

    def _next(self) -> int | None:
        return next(iter(self._items), None) if self._order is None else self._order[0] if self._order else None

    def _look(self, key: int | None, indices: Sequence[int]) -> Outcome | None:
        if key is None or key not in self._items:
            return None
        number, item = self._items[key][0]
        missing = [index for index in indices if index not in item]
        if missing:
            return None, errors.InvalidArgumentError(
                f"components {missing} of key {key} of staging area {self.name!r} have been taken already"
            )
        return (key, number, {index: item[index] for index in indices}), None

    def _take(self, key: int | None, indices: Sequence[int]) -> Outcome | None:
        outcome = self._look(key, indices)
        if outcome is None or outcome[1] is not None:
            return outcome
        assert key is not None
        item = self._items[key][0][1]
        for index in set(indices):
            self._bytes -= nbytes([item.pop(index)])
        if not item:
            self._remove_first(key)
        return outcome

    def _remove_first(self, key: int) -> None:
        """The element is gone. One that came later under its key is there."""
        elements = self._items[key]
        del elements[0]
        self._size -= 1
        if elements:
            self._gets.changed(key)
            self._peeks.changed(key)
        else:
            del self._items[key]
            if self._order is not None:
                self._order.remove(key)

    def _give_back(self, attempt: Attempt) -> None:
        if attempt.outcome is None or attempt.outcome[0] is None or isinstance(attempt.serve, _Look):
            return
        key, number, item = attempt.outcome[0]
        self._bytes += nbytes(item.values())
        self._place(key, number, item)

    # What it is like

    def _clear(self) -> None:
        self._items.clear()
        self._size = 0
        self._parts.clear()
        if self._order is not None:
            self._order.clear()

    @property
    def size(self) -> int:
        """How many whole elements it holds, those included of which parts were taken."""
        return self._size

    @property
    def incomplete_size(self) -> int:
        """How many keys lack components."""
        return len(self._parts)


class _ByKey:
    """What serves an attempt at a key."""

    __slots__ = ("_serve", "key")

    def __init__(self, key: int, serve: Callable[[], Outcome | None]) -> None:
        self.key: Final = key
        self._serve: Final = serve

    def __call__(self) -> Outcome | None:
        return self._serve()


def _key_of(attempt: Attempt) -> int:
    assert isinstance(attempt.serve, _ByKey)
    return attempt.serve.key


class _Look(_ByKey):
    """The same, of one that takes nothing."""

    __slots__ = ()


def nbytes(components: Any) -> int:
    """How many bytes the components hold."""
    return sum(_nbytes(component) for component in components)


def _nbytes(component: Any) -> int:
    if isinstance(component, bytes):
        return len(component)
    if getattr(component, "dtype", np.dtype(np.uint8)).kind == "O":
        return sum(map(len, component.flat))
    return int(getattr(component, "nbytes", 0))


__all__ = ["Area", "LineByKey", "MapStagingArea", "StagingArea", "nbytes"]
