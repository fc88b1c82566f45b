"""The waiting object behind map staging areas: elements by key, put and taken component by component."""

import bisect
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from aioflow import errors
from aioflow.waiting.lines import Attempt, Outcome, WaiterLine, wake
from aioflow.waiting.staging import Area, AreaPut, ByKey, StagingPeek, WaiterLineByKey, nbytes
from aioflow.waiting.stores import Item

_Numbered = tuple[int, dict[int, Any]]
"""An element of a map: its number in the order of completion, and its components by number."""
KeyTaken = tuple[int, int, dict[int, Any]]
"""A taken part of an element: its key, the element's number, and the components by number."""


class MapStagingArea(Area):
    """Elements by key, put and taken component by component, from any loop or thread of the process.

    Args:
        name: how errors call it.
        components: how many components an element has.
        ordered: whether `popitem` takes the least key; otherwise it takes any key.
        capacity: how many whole elements it holds, 0 for any number; incomplete elements do not count.
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
        self._puts, self._part_puts, self._pops = WaiterLine(), WaiterLine(), WaiterLine()
        self._peeks, self._gets = WaiterLineByKey(), WaiterLineByKey()
        self._lines = (self._puts, self._part_puts, self._peeks, self._gets, self._pops)

    # Putting

    async def put(self, key: int, components: Mapping[int, Any], who: Any = None) -> None:
        """Put components of the element under `key`, by number. The element is whole when it has all.

        A put of a whole element waits for room. A put of some components waits only for memory.

        Raises:
            af.errors.InvalidArgumentError: the key is there already, or has one of the components.
            af.errors.ResourceExhaustedError: the components exceed the memory limit.
        """
        size = nbytes(components.values())
        self._check_size(size)
        whole = len(components) == self._components
        line = self._puts if whole else self._part_puts
        insert = functools.partial(self._insert, key, components, size)
        refused = functools.partial(self._refused, key, components)
        await self.attempt(line, AreaPut(f"put key {key} into", self, int(whole), size, insert, who, refused))

    def _refused(self, key: int, components: Mapping[int, Any]) -> Outcome | None:
        """The outcome if the key is there, or has one of the components; None otherwise."""
        present = self._parts.get(key, {})
        taken = sorted(present.keys() & components.keys())
        if key in self._items or taken:
            what = f"components {taken} already" if taken else "a whole element already, which must be taken first"
            return None, errors.InvalidArgumentError(f"key {key} of staging area {self.name!r} has {what}")
        return None

    def _insert(self, key: int, components: Mapping[int, Any], size: int) -> Outcome:
        self._bytes += size
        item = {**self._parts.get(key, {}), **components}
        if len(item) < self._components:
            self._parts[key] = item
        else:
            self._parts.pop(key, None)
            self._place(key, next(self._numbers), item)
        return None, None

    def _place(self, key: int, number: int, item: dict[int, Any]) -> None:
        """Add components to the element of that number, or make it. A key's elements are in the order of numbers."""
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
        """Take components of the element under `key`, all by default, as soon as it is whole.

        InvalidArgumentError if one of them has been taken already.
        """
        _, _, item = await self.get_marked(key, indices, who)
        return tuple(item.values())

    async def get_marked(self, key: int, indices: Sequence[int] | None = None, who: Any = None) -> KeyTaken:
        """The same, with the data for `put_back`; the components, by number, come last."""
        serve = ByKey(key, lambda: self._take(key, self._chosen(indices)))
        taken: KeyTaken = await self.attempt(self._gets, Attempt(f"get key {key} of", serve, who))
        return taken

    async def popitem(self, indices: Sequence[int] | None = None, who: Any = None) -> tuple[int, Item]:
        """Take components of the next key's element, all by default, as soon as there is one."""
        key, _, item = await self.popitem_marked(indices, who)
        return key, tuple(item.values())

    async def popitem_marked(self, indices: Sequence[int] | None = None, who: Any = None) -> KeyTaken:
        """The same, with the data for `put_back`; the key comes first, the components, by number, last."""

        def serve() -> Outcome | None:
            return self._take(self._next(), self._chosen(indices))

        taken: KeyTaken = await self.attempt(self._pops, Attempt("get any key of", serve, who))
        return taken

    async def peek(self, key: int, indices: Sequence[int] | None = None, who: Any = None) -> Item:
        """Read components of the element under `key`, all by default, as soon as it is whole."""
        serve = StagingPeek(key, lambda: self._look(key, self._chosen(indices)))
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
        """Remove the key's first element; a later one under the key takes its place."""
        self._drop(key, 0)
        if key in self._items:
            self._gets.changed(key)
            self._peeks.changed(key)

    def _drop(self, key: int, place: int) -> None:
        elements = self._items[key]
        del elements[place]
        self._size -= 1
        if not elements:
            del self._items[key]
            if self._order is not None:
                self._order.remove(key)

    def _return(self, attempt: Attempt) -> None:
        if (
            attempt.outcome is not None
            and attempt.outcome[0] is not None
            and not isinstance(attempt.serve, StagingPeek)
        ):
            self._restore(attempt.outcome[0])

    def _restore(self, taken: KeyTaken) -> None:
        key, number, item = taken
        self._bytes += nbytes(item.values())
        self._place(key, number, item)

    def take_out(self, key: int, components: Mapping[int, Any]) -> Callable[[], object] | None:
        """Remove these very components. Returns a function that puts them in again.

        Returns None, and changes nothing, if one of them has been taken, or other puts have made their element whole.
        """
        with self._lock:
            if not self._remove(key, components):
                return None
            self._bytes -= nbytes(components.values())
            served = self._serve()
        wake(served)
        return functools.partial(self._insert_again, key, components)

    def _remove(self, key: int, components: Mapping[int, Any]) -> bool:
        """Remove components. False if one was taken, or the element is whole with components of other puts."""
        part = self._parts.get(key, {})
        if _has(part, components):
            self._parts[key] = {index: value for index, value in part.items() if index not in components}
            if not self._parts[key]:
                del self._parts[key]
            return True
        elements = self._items.get(key, ())
        place = next((at for at, (_, item) in enumerate(elements) if _has(item, components)), None)
        if place is None or len(components) < self._components:
            return False
        self._drop(key, place)
        return True

    def _insert_again(self, key: int, components: Mapping[int, Any]) -> None:
        with self._lock:
            self._insert(key, components, nbytes(components.values()))
            served = self._serve()
        wake(served)

    # State

    def _clear(self) -> None:
        self._items.clear()
        self._size = 0
        self._parts.clear()
        if self._order is not None:
            self._order.clear()

    @property
    def size(self) -> int:
        """The number of whole elements, including those whose components are partly taken."""
        return self._size

    @property
    def incomplete_size(self) -> int:
        """The number of keys whose element lacks components."""
        return len(self._parts)


def _has(item: Mapping[int, Any], components: Mapping[int, Any]) -> bool:
    return all(item.get(index) is value for index, value in components.items())
