"""Lookup tables: keys with values, which outlive a step.

A table has a dict from each key to a row of an array of values, so that a lookup of many keys is one pass over the
dict and one `take`. All operations are atomic, and safe from any thread.

A change by a repeatable run records in the journal how it is undone. The journal keeps only that, not the whole table.
"""

import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.resources.journal import Journal
from aioflow.tensors.dtypes import Array, Spec
from aioflow.tensors.object_arrays import slices
from aioflow.tensors.recursion import safe_repr

_ABSENT: Final = -1
Undo = Callable[[], object]


class Rows:
    """Keys, each with a row of values. Not safe to use from several threads."""

    def __init__(self, value: Spec) -> None:
        sizes: Any = value.shape.sizes
        self._places: Final[dict[Hashable, int]] = {}
        self._values = np.zeros((0, *sizes), value.dtype.np)
        self._free: Final[list[int]] = []

    def __len__(self) -> int:
        return len(self._places)

    def find(self, keys: Sequence[Hashable]) -> Array:
        """Return the row of each key, -1 for absent ones."""
        found, get = np.empty(len(keys), np.int64), self._places.get
        for part in slices(len(keys)):
            some = keys[part]
            found[part] = np.fromiter(map(get, some, itertools.repeat(_ABSENT)), np.int64, len(some))
        return found

    def take(self, places: Array) -> Array:
        """Return a copy of the values in these rows."""
        return self._values[places]

    def put(self, keys: Sequence[Hashable], values: Array) -> None:
        """Give each key its value; the last one to a key that is there twice."""
        places = np.array([self._place(key) for key in keys], np.int64)
        if len(keys) and places.max() >= len(self._values):
            self._grow(int(places.max()) + 1)
        self._values[places] = values

    def _place(self, key: Hashable) -> int:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._free.pop() if self._free else len(self._places)
        return place

    def _grow(self, needed: int) -> None:
        old = self._values
        self._values = np.zeros((max(needed, 2 * len(old)), *old.shape[1:]), old.dtype)
        self._values[: len(old)] = old

    def remove(self, keys: Iterable[Hashable]) -> None:
        """Remove these keys, as far as they are there."""
        for key in keys:
            place = self._places.pop(key, None)
            if place is not None:
                self._free.append(place)
                self._values[place] = np.zeros((), self._values.dtype)  # it holds no text any more

    def keys(self) -> list[Hashable]:
        """Return all keys, in the order in which they came."""
        return list(self._places)

    def values(self) -> Array:
        """Return a copy of the values, in the order of the keys."""
        return self._values[np.fromiter(self._places.values(), np.int64, len(self._places))]

    def before(self, keys: Iterable[Hashable]) -> Undo:
        """Return a function that gives these keys their present values again."""
        distinct = list(dict.fromkeys(keys))
        places = self.find(distinct)
        there = [key for key, place in zip(distinct, places, strict=True) if place >= 0]
        values = self.take(places[places >= 0])

        def undo() -> None:
            self.remove(distinct)
            self.put(there, values)

        return undo


class Table:
    """A live lookup table.

    Attributes:
        name: its name, for messages.
        signature: the attributes of the handle that it was made for.
    """

    def __init__(self, name: str, key: Spec, value: Spec, signature: Mapping[str, Any], is_static: bool) -> None:
        self.name: str = name
        self.signature: Final = signature
        self._key: Final = key
        self._value: Final = value
        self._sizes: Final[list[Any]] = value.shape.as_list()
        self._key_sizes: Final[list[Any]] = key.shape.as_list()
        self._reserved: Final = frozenset(map(_hashable, signature.get("reserved", ())))
        self._rows = None if is_static else Rows(value)
        self._lock: Final = threading.Lock()
        self._author: Journal | None = None
        self._undo: list[Undo] = []
        """How the changes of the author are undone, the last one first."""

    # Reading

    def find(self, keys: Array, default: Array) -> Array:
        """Return the value of each key; `default`, one value or one for each key, for absent keys."""
        listed = self._listed(keys)
        self._check_not_reserved(listed)
        found = np.empty((len(listed), *self._sizes), self._value.dtype.np)
        with self._lock:
            rows = self._ready()
            places = rows.find(listed)
            present = places >= 0
            found[present] = rows.take(places[present])
        has_each = np.ndim(default) > len(self._sizes)
        found[~present] = np.reshape(default, found.shape)[~present] if has_each else default
        return found.reshape(np.shape(keys)[: np.ndim(keys) - len(self._key_sizes)] + found.shape[1:])

    def size(self) -> int:
        """Return the number of keys."""
        with self._lock:
            return len(self._ready())

    def contents(self) -> tuple[Array, Array]:
        """Return all keys and their values, in the order in which the keys came."""
        with self._lock:
            rows = self._ready()
            return self._array(rows.keys()), rows.values()

    def _ready(self) -> Rows:
        if self._rows is None:
            raise errors.FailedPreconditionError(
                f"table {self.name!r} is not initialized: run its initializer or af.tables_initializer() first"
            )
        return self._rows

    # Changing

    def initialize(self, keys: Array, values: Array, journal: Journal | None) -> None:
        """Give a static table its content.

        FailedPreconditionError if a key is there twice with different values, or the table has another content
        already.
        """
        made = self._distinct(keys, values)
        with self._lock:
            present = self._rows
            if present is None:
                self._note(journal, None if journal is None else self._forget)
                self._rows = made
            elif not _equal(present, made):
                raise errors.FailedPreconditionError(
                    f"table {self.name!r} is initialized already, with {len(present)} keys and not these {len(made)}"
                )

    def _forget(self) -> None:
        self._rows = None

    def _distinct(self, keys: Array, values: Array) -> Rows:
        listed, made = self._listed(keys), Rows(self._value)
        made.put(listed, values)
        if len(made) < len(listed):
            same = made.take(made.find(listed)) == values
            if not np.all(same):
                place = int(np.argmin(same.reshape(len(listed), -1).all(axis=1)))
                twice = [each for each, key in enumerate(listed) if key == listed[place]]
                shown = " and ".join([safe_repr(values[each]) for each in (twice[0], twice[-1])])
                raise errors.FailedPreconditionError(
                    f"key {safe_repr(listed[place])} of table {self.name!r} is given twice, with the values {shown}"
                )
        return made

    def replace(self, keys: Array, values: Array) -> None:
        """Hold these keys alone. Ends the attempts that changed the table before: they can no longer be undone."""
        listed, made = self._listed(keys), Rows(self._value)
        self._check_not_reserved(listed)
        made.put(listed, values)
        with self._lock:
            self._note(None, None)
            self._rows = made

    def insert(self, keys: Array, values: Array, journal: Journal | None) -> None:
        """Give each key its value, in place of any that it has: all of them, or none."""
        listed = self._listed(keys)
        self._check_not_reserved(listed)
        with self._lock:
            rows = self._ready()
            self._note(journal, None if journal is None else rows.before(listed))
            rows.put(listed, np.reshape(values, (len(listed), *self._sizes)))

    def remove(self, keys: Array, journal: Journal | None) -> None:
        """Remove these keys, as far as they are there."""
        listed = self._listed(keys)
        self._check_not_reserved(listed)
        with self._lock:
            rows = self._ready()
            self._note(journal, None if journal is None else rows.before(listed))
            rows.remove(listed)

    def _note(self, journal: Journal | None, undo: Undo | None) -> None:
        """Prepare a change by the attempt with this journal, or by no attempt. AbortedError if it was taken back."""
        if self._author is not journal:
            self._undo = []
            if journal is not None:
                journal.keep(self, self._undo)
            if self._author is not None:
                self._author.lose(self)
            self._author = journal
        if undo is not None:
            self._undo.append(undo)

    def take_back(self, journal: Journal, value: list[Undo]) -> bool:
        """Undo the changes of an attempt. False if something else has changed the table since."""
        with self._lock:
            if self._author is not journal:
                return False
            self._author = None
            while value:
                value.pop()()
            return True

    def release(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rows = self._author = None

    # Keys

    def _listed(self, keys: Array) -> list[Hashable]:
        array = np.asarray(keys, self._key.dtype.np)
        if self._key.rank == 0:
            return list(array.reshape(-1).tolist())
        return [tuple(key) for key in array.reshape(-1, *self._key_sizes).tolist()]

    def _array(self, keys: list[Hashable]) -> Array:
        made = np.empty((len(keys), *self._key_sizes), self._key.dtype.np)
        for place, key in enumerate(keys):
            made[place] = key
        return made

    def _check_not_reserved(self, keys: list[Hashable]) -> None:
        used = self._reserved.intersection(keys) if self._reserved else None
        if used:
            raise errors.InvalidArgumentError(
                f"{safe_repr(next(iter(used)))} is the empty or the deleted key of table {self.name!r}, never another"
            )

    def __repr__(self) -> str:
        state = "not initialized" if self._rows is None else f"{len(self._rows)} keys"
        return f"<Table {self.name!r} from {self._key} to {self._value}, {state}>"


def _hashable(key: Any) -> Hashable:
    return tuple(key) if isinstance(key, (list, tuple)) else key


def _equal(one: Rows, other: Rows) -> bool:
    keys = other.keys()
    places = one.find(keys)
    return len(one) == len(other) and bool((places >= 0).all()) and bool(np.all(one.take(places) == other.values()))
