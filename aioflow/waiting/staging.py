"""Staging areas: some steps put elements, others take them, in order or by key.

A put waits for room, a get for an element. A staging area is never closed. A get of a key, or a peek at an index, is
served as soon as the element is there, independent of other waiters. A put that must wait is granted its room, and its
element goes in when its caller resumes.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.waiting.granting import Granting, Put
from aioflow.waiting.lines import Attempt, Outcome, WaiterLine, wake
from aioflow.waiting.stores import Fifo, Item, Taken


class WaiterLineByKey(WaiterLine):
    """Attempts whose `serve` has a `key`: those of one key wait in order, those of different ones for themselves."""

    __slots__ = ("_changed", "_lines")

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[int, WaiterLine] = {}
        self._changed: dict[int, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Attempt]:
        return itertools.chain.from_iterable(self._lines.values())

    @property
    def first(self) -> Attempt | None:
        """An attempt that is the first of its key; None without waiters."""
        return next(iter(self), None)

    def join(self, attempt: Attempt) -> None:
        """Take the last place of its key's line."""
        key = _key_of(attempt)
        self._lines.setdefault(key, WaiterLine()).join(attempt)
        self._changed[key] = None

    def leave(self, attempt: Attempt) -> bool:
        """Leave the line. Returns False if the attempt was not in it."""
        key = _key_of(attempt)
        line = self._lines.get(key)
        if line is None or not line.leave(attempt):
            return False
        self._changed[key] = None
        return True

    def changed(self, key: int) -> None:
        """Note an element under that key, whose waiters are served next time."""
        if key in self._lines:
            self._changed[key] = None

    def serve_all_with(self, serve: Callable[[], Outcome | None]) -> None:
        """From now on serve all attempts by this function."""
        for key, line in self._lines.items():
            line.serve_all_with(ByKey(key, serve))
            self._changed[key] = None

    def serve(self, most: int) -> list[Attempt]:
        """Serve attempts of changed keys, at most `most`. Returns the attempts that are done."""
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


class Area(Granting):
    """The base of both staging areas: bounds for elements and bytes; 0 means no bound.

    Attributes:
        signature: its definition, which a second opening must repeat.
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

    def _has_room(self, count: int, size: int) -> bool:
        """Whether there is room for `count` elements of `size` bytes beside the granted puts."""
        held, more = self._bytes + size, self.size + count
        for put in self._granted:
            assert isinstance(put, AreaPut)
            held, more = held + put.size, more + put.count
        full = 0 < self._capacity < more if count else False
        return not full and (not self._memory_limit or held <= self._memory_limit)

    def _dropped_error(self) -> BaseException:
        return errors.CancelledError(
            f"staging area {self.name!r} is gone: its container was reset or its session closed"
        )

    def clear(self) -> None:
        """Drop all elements. Waiting puts get the room."""
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            self._clear()
            self._bytes = 0
            served = self._serve()
        wake(served)

    def _clear(self) -> None:
        raise NotImplementedError

    def put_back(self, taken: Any) -> None:
        """Put a taken element, or taken components, back in place. `taken` is the result of a marked take."""
        with self._lock:
            self._restore(taken)
            served = self._serve()
        wake(served)

    def _restore(self, taken: Any) -> None:
        """Put taken elements back; a subclass defines how. The caller holds the lock."""
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


class AreaPut(Put):
    """The attempt to put `count` whole elements of `size` bytes by calling `insert`."""

    __slots__ = ("_insert", "_refused", "area", "count", "size")

    def __init__(
        self,
        what: str,
        area: Area,
        count: int,
        size: int,
        insert: Callable[[], Outcome],
        who: Any = None,
        refused: Callable[[], Outcome | None] = lambda: None,
    ) -> None:
        super().__init__(what, area, who)
        self.area: Final = area
        self.count: Final = count
        self.size: Final = size
        self._insert: Final = insert
        self._refused: Final = refused

    def refused(self) -> Outcome | None:
        """The outcome if it can never be put; None otherwise."""
        return self._refused()

    def fits(self) -> bool:
        """Whether there is room beside the granted puts."""
        return self.area._has_room(self.count, self.size)

    def insert(self) -> Outcome:
        """Put it."""
        return self._insert()


class StagingArea(Area):
    """Elements that come out in the order in which they were put. From any loop or thread of the process."""

    def __init__(self, name: str, capacity: int = 0, memory_limit: int = 0, signature: Any = None) -> None:
        super().__init__(name, capacity, memory_limit, signature)
        self._items: Final = Fifo()
        self._puts, self._peeks, self._gets = WaiterLine(), WaiterLineByKey(), WaiterLine()
        self._lines = (self._puts, self._peeks, self._gets)
        self._served_by = {self._puts: self._gets, self._gets: self._puts}

    async def put(self, *components: Any, who: Any = None) -> None:
        """Put an element as soon as there is room. ResourceExhaustedError if it can never fit."""
        await self.put_item(components, who)

    async def put_item(self, item: Item, who: Any = None) -> None:
        """Put one element, given as a tuple of components."""
        size = nbytes(item)
        self._check_size(size)
        insert = functools.partial(self._insert, item, size)
        await self.attempt(self._puts, AreaPut("put an element into", self, 1, size, insert, who))

    def _insert(self, item: Item, size: int) -> Outcome:
        self._items.add(item)
        self._bytes += size
        self._peeks.changed(len(self._items) - 1)
        return None, None

    async def get(self, who: Any = None) -> Item:
        """Take the oldest element, as soon as there is one."""
        item: Item = (await self.get_marked(who))[-1]
        return item

    async def get_marked(self, who: Any = None) -> Taken:
        """The oldest element with the data for `put_back`; the element comes last."""
        taken: Taken = await self.attempt(self._gets, Attempt("get an element of", self._take, who))
        return taken

    def _take(self) -> Outcome | None:
        if not self._items:
            return None
        taken = self._items.take()
        self._bytes -= nbytes(taken[-1])
        return taken, None

    def _return(self, attempt: Attempt) -> None:
        if attempt.serve == self._take and attempt.outcome is not None:
            self._restore(attempt.outcome[0])

    def _restore(self, taken: Taken) -> None:
        self._items.put_back([taken])
        self._bytes += nbytes(taken[-1])
        self._peeks.changed(len(self._items) - 1)

    def take_out(self, item: Item) -> Callable[[], object] | None:
        """Remove this very element. Returns a function that puts it in again; None if the element has been taken."""
        with self._lock:
            if not self._items.take_out([item]):
                return None
            self._bytes -= nbytes(item)
            served = self._serve()
        wake(served)
        return functools.partial(self._insert_again, item)

    def _insert_again(self, item: Item) -> None:
        with self._lock:
            self._insert(item, nbytes(item))
            served = self._serve()
        wake(served)

    async def peek(self, index: int, who: Any = None) -> Item:
        """The element before which there are `index` others, as soon as it is there; it stays."""
        if index < 0:
            raise errors.InvalidArgumentError(f"no element is at place {index} of staging area {self.name!r}")
        serve = StagingPeek(index, lambda: (self._items.at(index), None) if index < len(self._items) else None)
        item: Item = await self.attempt(self._peeks, Attempt(f"peek at element {index} of", serve, who))
        return item

    def _clear(self) -> None:
        self._items.clear()

    @property
    def size(self) -> int:
        """How many elements it holds."""
        return len(self._items)


class ByKey:
    """The line of attempts by key."""

    __slots__ = ("_serve", "key")

    def __init__(self, key: int, serve: Callable[[], Outcome | None]) -> None:
        self.key: Final = key
        self._serve: Final = serve

    def __call__(self) -> Outcome | None:
        """Serve it."""
        return self._serve()


def _key_of(attempt: Attempt) -> int:
    assert isinstance(attempt.serve, ByKey)
    return attempt.serve.key


class StagingPeek(ByKey):
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
