"""Immutable lists of tensors: a change returns a new list, and the old list keeps its content.

Copying a list of n tensors for each of n writes would take n² steps. So all versions of a list share one store, which
holds the content of the newest version (Baker's trick). A change updates the store in constant time. The version
that was the newest before keeps the difference: the former content of the changed slots, and the next version. An old
version is read by following the differences. If they are many, or if the old version is changed, it copies its content
to a new store.
"""

import itertools
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

_FAR: Final = 16
"""The most differences that a read follows; beyond, the old version copies its content."""


class _Gap:
    """The content of a slot without a tensor."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNWRITTEN: Final = _Gap("UNWRITTEN")
"""The content of a slot that was never written."""
CLEARED: Final = _Gap("CLEARED")
"""The content of a slot whose tensor was released after it was read."""


def is_gap(item: Any) -> bool:
    """Whether the content of a slot is no tensor."""
    return isinstance(item, _Gap)


class _Store:
    """The content of the newest version: the first slots in a list, others in a dict, so that gaps take no memory."""

    __slots__ = ("first", "lock", "rest")

    def __init__(self, first: list[Any], rest: dict[int, Any]) -> None:
        self.first = first
        self.rest = rest
        self.lock = threading.Lock()

    def get(self, index: int) -> Any:
        return self.first[index] if index < len(self.first) else self.rest.get(index, UNWRITTEN)

    def set(self, index: int, item: Any) -> None:
        first = self.first
        if index < len(first):
            first[index] = item
            while first and first[-1] is UNWRITTEN:
                first.pop()
        elif item is UNWRITTEN:
            self.rest.pop(index, None)
        elif index == len(first) and index not in self.rest:
            first.append(item)
        else:
            self.rest[index] = item


_EMPTY: Final = _Store([], {})
"""The store of all empty lists."""
_Difference: TypeAlias = "tuple[TensorList, Mapping[int, Any]]"
"""Kept by a version that was changed: the next version, and the former content of the changed slots."""


class TensorList:
    """An immutable list of tensors or of other lists; a change returns a new list.

    A slot is unwritten, written, or cleared after it was read. Reading or changing the newest version takes constant
    time; older versions are slower. Gaps take no memory. Safe to use from any thread. The sum of two lists has in each
    slot the sum of the tensors written there.
    """

    __slots__ = ("__weakref__", "_at", "_length")

    def __init__(self, length: int = 0) -> None:
        self._length = length
        self._at: _Store | _Difference = _EMPTY

    @classmethod
    def of(cls, items: list[Any]) -> "TensorList":
        """Return a list of these items. The list owns `items`, which the caller may no longer change."""
        made = cls(len(items))
        made._at = _Store(items, {})
        return made

    def __len__(self) -> int:
        return self._length

    def __bool__(self) -> bool:
        return True

    # Reading

    def item(self, index: int) -> Any:
        """Return the content of a slot: a tensor, UNWRITTEN or CLEARED. IndexError if there is no such slot."""
        if not 0 <= index < self._length:
            raise IndexError(f"index {index} is out of range for size {self._length}")
        version = self
        for _ in range(_FAR):
            at = version._at
            if isinstance(at, tuple):
                version, before = at
                if index in before:
                    return before[index]
            else:
                with at.lock:
                    if version._at is at:
                        return at.get(index)
        self._take_copy()
        return self.item(index)

    def elements(self) -> list[Any]:
        """Return the contents of all slots as a new Python list."""
        first, rest = self._snapshot()
        first += [UNWRITTEN] * (self._length - len(first))
        for index, item in rest.items():
            first[index] = item
        return first

    def written(self) -> dict[int, Any]:
        """Return the tensors of all written slots, by slot. The time grows with the slots that are or were written."""
        first, rest = self._snapshot()
        found = {index: item for index, item in enumerate(first) if not isinstance(item, _Gap)}
        found.update((index, item) for index, item in rest.items() if item is not CLEARED)
        return found

    def count_bytes(self) -> int:
        """Return the bytes of its tensors, and of those of inner lists. The time is that of `written`."""
        items = self.written().values()
        return sum([item.count_bytes() if type(item) is TensorList else getattr(item, "nbytes", 0) for item in items])

    def example(self) -> Any:
        """Return one of the nearest tensors; None if the search, which is short, finds none."""
        while isinstance(at := self._at, tuple):
            self._take_copy()
        with at.lock:
            near = [
                *at.first[-1:],
                *at.first[:1],
                *[at.rest[index] for index in itertools.islice(reversed(at.rest), 1)],
            ]
        return next((item for item in near if not isinstance(item, _Gap)), None)

    # Changing

    def write(self, index: int, item: Any) -> "TensorList":
        """Return the list with `item` in an unwritten slot; a slot past the end makes the list longer.

        ValueError if the slot is written, IndexError for a negative index.
        """
        return self._change(self._needed_length((index,)), {index: item}, once=True)

    def write_all(self, items: Mapping[int, Any]) -> "TensorList":
        """Return the list with these items in unwritten slots; see `write`."""
        return self._change(self._needed_length(items), items, once=True)

    def clear(self, indices: Iterable[int]) -> "TensorList":
        """Return the list without the tensors of these slots, which become CLEARED.

        IndexError if there is no such slot.
        """
        return self._change(self._length, {index: CLEARED for index in indices if self.item(index) is not UNWRITTEN})

    def append(self, item: Any) -> "TensorList":
        """Return the list with `item` in one more slot."""
        return self._change(self._length + 1, {self._length: item})

    def pop(self) -> tuple[Any, "TensorList"]:
        """Return the content of the last slot, and the list without that slot. IndexError for an empty list."""
        last = self._length - 1
        return self.item(last), self._change(last, {last: UNWRITTEN})

    def grow(self, length: int) -> "TensorList":
        """Return the list with at least `length` slots."""
        return self if length <= self._length else self._change(length, {})

    def add_at(self, index: int, item: Any) -> "TensorList":
        """Return the list with `item` added to the content of a slot; a slot past the end makes the list longer."""
        return self.add_all({index: item})

    def add_all(self, items: Mapping[int, Any]) -> "TensorList":
        """Return the list with these items added to the contents of their slots."""
        length = self._needed_length(items)
        sums = {}
        for index, item in items.items():
            held = self.item(index) if index < self._length else UNWRITTEN
            sums[index] = item if isinstance(held, _Gap) else held + item
        return self._change(length, sums)

    def __add__(self, other: object) -> "TensorList":
        if not isinstance(other, TensorList):
            return NotImplemented
        few, many = (self, other) if self._count_entries() < other._count_entries() else (other, self)
        return many.add_all(few.written()).grow(len(few))

    # Versions

    def _needed_length(self, indices: Iterable[int]) -> int:
        """Return the length of a list that has slots of these indices. IndexError for a negative index."""
        length = self._length
        for index in indices:
            if index < 0:
                raise IndexError(f"index {index} is negative")
            if index >= length:
                length = index + 1
        return length

    def _change(self, length: int, items: Mapping[int, Any], once: bool = False) -> "TensorList":
        """Return a new version, now the newest, with these items in their slots.

        `once` requires the slots to be unwritten.
        """
        made = TensorList.__new__(TensorList)
        made._length = length
        while True:
            at = self._at
            if isinstance(at, tuple):
                self._take_copy()
                continue
            with at.lock:
                if self._at is not at:
                    continue
                if at.first or at.rest:
                    before = {index: at.get(index) for index in items}
                    if once:
                        _check_unwritten(before)
                    self._at = made, before
                else:  # an empty list stays unchanged, since many lists may start from it
                    at = _Store([], {})
                for index, item in items.items():
                    at.set(index, item)
                made._at = at
                return made

    def _take_copy(self) -> None:
        """Copy the content to a new store, so that this version keeps no later version alive."""
        first, rest = self._snapshot()
        self._at = _Store(first, rest)

    def _snapshot(self) -> tuple[list[Any], dict[int, Any]]:
        """Return a copy of the content in the form of a store."""
        while True:
            changes: list[Mapping[int, Any]] = []
            version = self
            while isinstance(at := version._at, tuple):
                version, before = at
                changes.append(before)
            with at.lock:
                if version._at is not at:
                    continue
                copy = _Store(at.first.copy(), at.rest.copy())
            for before in reversed(changes):
                for index, item in before.items():
                    copy.set(index, item)
            return copy.first, copy.rest

    def _count_entries(self) -> int:
        """Return the approximate number of slots that are not empty."""
        version = self
        while isinstance(at := version._at, tuple):
            version = at[0]
        return min(self._length, len(at.first) + len(at.rest))

    def __repr__(self) -> str:
        return f"<TensorList of {self._length}, {len(self.written())} written>"


def _check_unwritten(slots: Mapping[int, Any]) -> None:
    for index, item in slots.items():
        if item is not UNWRITTEN:
            state = "cleared after it was read" if item is CLEARED else "written already"
            raise ValueError(f"index {index} is {state}: a slot is written once")
