"""Lists of tensors as values: changing one gives another list, and the old one stays what it was.

Copying a list of n tensors for each of n writes would take n² steps. So all versions of a list share one store, which
holds what the newest of them holds (Baker's trick). A change is made in the store, at once, and the version that was
the newest until then keeps the difference: which slots held what before, and who comes next. An old version is read by
following the differences; if they are many, or if it is changed itself, it takes a copy as a store of its own.
"""

import itertools
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

_FAR: Final = 16
"""So many differences are followed before an old version takes a copy."""


class _Gap:
    """What a slot holds that holds no tensor."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNWRITTEN: Final = _Gap("UNWRITTEN")
"""In a slot that was never written."""
CLEARED: Final = _Gap("CLEARED")
"""In a slot whose tensor was let go of after it was read."""


def is_gap(item: Any) -> bool:
    """Whether what a slot holds is no tensor."""
    return isinstance(item, _Gap)


class _Store:
    """What the newest version holds: the first slots in a list, others in a dict, so that gaps cost nothing."""

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
"""The store of all lists that hold nothing yet."""
_Difference: TypeAlias = "tuple[TensorList, Mapping[int, Any]]"
"""What a version has that was changed: the version that came of it, and what the changed slots held before."""


class TensorList:
    """A list of tensors, or of other lists, that never changes: what changes it returns a new one.

    A slot is unwritten, written, or cleared after it was read. Changing the newest version, and reading it, takes the
    same time for a list of any length; others are as right and slower. Gaps take no memory. Safe to use from any
    thread. The sum of two lists has in each slot the sum of what is written there.
    """

    __slots__ = ("__weakref__", "_at", "_length")

    def __init__(self, length: int = 0) -> None:
        self._length = length
        self._at: _Store | _Difference = _EMPTY

    @classmethod
    def of(cls, items: list[Any]) -> "TensorList":
        """A list of these items, which it takes over: nobody else may change `items` from then on."""
        made = cls(len(items))
        made._at = _Store(items, {})
        return made

    def __len__(self) -> int:
        return self._length

    def __bool__(self) -> bool:
        return True

    # Reading

    def item(self, index: int) -> Any:
        """What a slot holds: a tensor, UNWRITTEN or CLEARED. IndexError if there is no such slot."""
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
        """A new list of what all slots hold."""
        first, rest = self._snapshot()
        first += [UNWRITTEN] * (self._length - len(first))
        for index, item in rest.items():
            first[index] = item
        return first

    def written(self) -> dict[int, Any]:
        """The tensors by slot, of those slots that hold one. Takes as long as there are such, or were before."""
        first, rest = self._snapshot()
        found = {index: item for index, item in enumerate(first) if not isinstance(item, _Gap)}
        found.update((index, item) for index, item in rest.items() if item is not CLEARED)
        return found

    def example(self) -> Any:
        """One of the tensors that it holds, without looking far; None if there is none so near."""
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
        """The list with `item` in an unwritten slot; a slot past the end makes it longer. ValueError if it is written.

        IndexError for a negative index.
        """
        return self._changed(self._reach((index,)), {index: item}, once=True)

    def write_all(self, items: Mapping[int, Any]) -> "TensorList":
        """The list with these items in unwritten slots, as `write` would put them there."""
        return self._changed(self._reach(items), items, once=True)

    def clear(self, indices: Iterable[int]) -> "TensorList":
        """The list without the tensors of these slots, which stay taken. IndexError if there is no such slot."""
        return self._changed(self._length, {index: CLEARED for index in indices if self.item(index) is not UNWRITTEN})

    def append(self, item: Any) -> "TensorList":
        """The list with one more slot, which holds `item`."""
        return self._changed(self._length + 1, {self._length: item})

    def pop(self) -> tuple[Any, "TensorList"]:
        """What the last slot holds, and the list without that slot. IndexError if it has none."""
        last = self._length - 1
        return self.item(last), self._changed(last, {last: UNWRITTEN})

    def grow(self, length: int) -> "TensorList":
        """The list with at least so many slots."""
        return self if length <= self._length else self._changed(length, {})

    def add_at(self, index: int, item: Any) -> "TensorList":
        """The list with `item` added to what the slot holds; a slot past the end makes it longer."""
        return self.add_all({index: item})

    def add_all(self, items: Mapping[int, Any]) -> "TensorList":
        """The list with these items added to what their slots hold."""
        length = self._reach(items)
        sums = {}
        for index, item in items.items():
            held = self.item(index) if index < self._length else UNWRITTEN
            sums[index] = item if isinstance(held, _Gap) else held + item
        return self._changed(length, sums)

    def __add__(self, other: object) -> "TensorList":
        if not isinstance(other, TensorList):
            return NotImplemented
        few, many = (self, other) if self._entries() < other._entries() else (other, self)
        return many.add_all(few.written()).grow(len(few))

    # Versions

    def _reach(self, indices: Iterable[int]) -> int:
        """How long it has to be for slots of these indices. IndexError for a negative one."""
        length = self._length
        for index in indices:
            if index < 0:
                raise IndexError(f"index {index} is negative")
            if index >= length:
                length = index + 1
        return length

    def _changed(self, length: int, items: Mapping[int, Any], once: bool = False) -> "TensorList":
        """The version with these items in their slots, which with `once` must be unwritten; it is the newest then."""
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
                else:  # an empty list has no store to change, and stays as it is: many may begin with it
                    at = _Store([], {})
                for index, item in items.items():
                    at.set(index, item)
                made._at = at
                return made

    def _take_copy(self) -> None:
        """It has a store of its own from here on, and keeps no later version alive."""
        first, rest = self._snapshot()
        self._at = _Store(first, rest)

    def _snapshot(self) -> tuple[list[Any], dict[int, Any]]:
        """A copy of what it holds, as a store holds it."""
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

    def _entries(self) -> int:
        """About how many slots are not empty."""
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
