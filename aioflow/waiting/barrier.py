"""Barriers: components that are inserted one by one, under keys, leave together as whole tuples.

A key is ready when it has all its components. Ready tuples leave in the order in which their keys were first inserted.
A `take` of several tuples takes none until it can take all, so a cancelled take has nothing to undo. An insertion never
waits: it is done as a whole, or refused as a whole.
"""

import asyncio
import functools
import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.tensors.dtypes import Spec
from aioflow.waiting.element_spec import Elements
from aioflow.waiting.lines import Attempt, Outcome, Waitable, WaiterLine, wake

FIRST_INDEX: Final = -(1 << 63)
"""The index of the tuples of the first insertion, as TensorFlow counts."""


class _Entry(NamedTuple):
    """An incomplete tuple: the number of the insertion that brought its key, and its components by number."""

    insertion: int
    components: Mapping[int, Any]


class Tuple(NamedTuple):
    """A whole tuple: `insertion` is the number of the insertion that brought its key, `place` its place in line."""

    insertion: int
    place: int
    key: bytes
    components: tuple[Any, ...]


class Barrier(Waitable):
    """Tuples of these components, assembled by key. Usable from any loop and thread of the process.

    Attributes:
        specs: the dtype and shape of each component.
        signature: its definition, which a second opening must repeat.
    """

    def __init__(self, name: str, specs: Sequence[Spec], signature: Any = None) -> None:
        super().__init__(name)
        self.specs: Final = tuple(specs)
        self.signature: Final = signature
        self._elements: Final = Elements(self.specs)
        self._columns: Final = [Elements([spec]) for spec in self.specs]
        self._takes = WaiterLine()
        self._lines = (self._takes,)
        self._incomplete: dict[bytes, _Entry] = {}
        self._ready: list[Tuple] = []
        self._index = FIRST_INDEX
        self._places = itertools.count()
        self._closed = self._cancelled = False

    # Inserting

    def insert(self, component: int, keys: Sequence[bytes], values: Any) -> None:
        """Insert rows of `values` as that component of the keys. An error changes nothing.

        Raises:
            TypeError, ValueError: the values are not of the component's dtype or shape, or not as many as the keys.
            af.errors.InvalidArgumentError: a key has that component already, or the values are empty.
            af.errors.CancelledError: the barrier is closed, and a key is not among the incomplete ones.
        """
        self.insert_rows(component, keys, self.rows(component, keys, values))

    def insert_rows(self, component: int, keys: Sequence[bytes], rows: Sequence[Any]) -> None:
        """The same for values that `rows` has made."""
        with self._lock:
            self._check_here()
            if self._cancelled:
                raise self._closed_error()
            self._insert(component, keys, rows)
            served = self._serve()
        wake(served)

    def rows(self, component: int, keys: Sequence[bytes], values: Any) -> list[Any]:
        """The values as the barrier keeps them, one for each key."""
        if not 0 <= component < len(self.specs):
            raise ValueError(f"barrier {self.name!r} has {len(self.specs)} components, but not number {component}")
        rows = [row for (row,) in self._columns[component].rows([values])]
        if len(rows) != len(keys):
            raise ValueError(f"{len(keys)} keys have as many values; {len(rows)} were given")
        if rows and not getattr(rows[0], "size", 1):
            raise errors.InvalidArgumentError(
                f"values without elements cannot be inserted; component {component} has shape {list(rows[0].shape)}"
            )
        return rows

    def _insert(self, component: int, keys: Sequence[bytes], rows: Sequence[Any]) -> None:
        changed: dict[bytes, _Entry | None] = {}  # None: whole, and so not among the incomplete ones
        ready: list[tuple[int, bytes, Mapping[int, Any]]] = []
        brings_new = False
        for key, value in zip(keys, rows, strict=True):
            found = changed[key] if key in changed else self._incomplete.get(key)
            brings_new = brings_new or found is None
            index, before = found or _Entry(self._index, {})
            self._check_insertion(component, key, before)
            components: Mapping[int, Any] = {**before, component: value}
            if len(components) == len(self.specs):
                ready.append((index, key, components))
            changed[key] = None if len(components) == len(self.specs) else _Entry(index, components)
        self._set_incomplete(changed)
        for index, key, components in ready:
            whole = tuple([components[place] for place in range(len(self.specs))])
            heapq.heappush(self._ready, Tuple(index, next(self._places), key, whole))
        self._index += brings_new

    def _set_incomplete(self, changed: Mapping[bytes, _Entry | None]) -> None:
        """Replace the entries of these keys; None removes one."""
        for key, entry in changed.items():
            if entry is None:
                self._incomplete.pop(key, None)
            else:
                self._incomplete[key] = entry

    def _check_insertion(self, component: int, key: bytes, present: Mapping[int, Any]) -> None:
        if self._closed and not present:
            raise errors.CancelledError(
                f"barrier {self.name!r} is closed: {key!r} is not among its {len(self._incomplete)} incomplete keys"
            )
        if component in present:
            raise errors.InvalidArgumentError(
                f"key {key!r} has a value for component {component} already in barrier {self.name!r}"
            )

    def take_out(self, component: int, keys: Sequence[bytes], rows: Sequence[Any]) -> Callable[[], object] | None:
        """Remove these very values. Returns a function that inserts them again.

        Returns None, and changes nothing, if one of their tuples has been taken, or its key has come again since.
        """
        with self._lock:
            if not self._remove(component, list(zip(keys, rows, strict=True))):
                return None
            served = self._serve()
        wake(served)
        return functools.partial(self.insert_rows, component, keys, rows)

    def _remove(self, component: int, inserted: Sequence[tuple[bytes, Any]]) -> bool:
        ready: dict[tuple[bytes, int], list[Tuple]] = {}
        for item in self._ready:
            ready.setdefault((item.key, id(item.components[component])), []).append(item)
        changed: dict[bytes, _Entry | None] = {}
        broken: set[int] = set()
        for key, row in reversed(inserted):
            entry = changed[key] if key in changed else self._incomplete.get(key)
            if entry is None and ready.get((key, id(row))):
                item = ready[key, id(row)].pop()
                broken.add(item.place)
                entry = _Entry(item.insertion, dict(enumerate(item.components)))
            if entry is None or entry.components.get(component) is not row:
                return False
            rest = {number: value for number, value in entry.components.items() if number != component}
            changed[key] = _Entry(entry.insertion, rest) if rest and not self._cancelled else None
        self._set_incomplete(changed)
        self._ready = [item for item in self._ready if item.place not in broken]
        heapq.heapify(self._ready)
        return True

    # Taking

    async def take(
        self,
        count: int,
        allow_small_batch: bool = False,
        wait_for_incomplete: bool = False,
        within: float | None = None,
        who: Any = None,
    ) -> list[Tuple]:
        """Take the next `count` tuples, as soon as that many are ready; until then take none.

        Args:
            count: the number of tuples.
            allow_small_batch: take fewer from a closed barrier, if at least one is ready.
            wait_for_incomplete: take fewer only when no key is incomplete. Takes that waited when the barrier was
                closed always do so.
            within: the most seconds to wait; None for no limit.
            who: the operation that takes them.

        Raises:
            af.errors.DeadlineExceededError: they were not ready in time.
            af.errors.OutOfRangeError: the barrier is closed, and that many will never be ready.
            af.errors.InvalidArgumentError: the count is negative, or their components have different shapes and so
                cannot be joined; the tuples stay.
        """
        if count < 0:
            raise errors.InvalidArgumentError(f"{count} tuples cannot be taken from barrier {self.name!r}")
        serve = _Take(self, count, allow_small_batch, wait_for_incomplete or not self._closed)
        attempt = Attempt(f"take {count} tuples of", serve, who)
        loop = asyncio.get_running_loop()
        timer = None if within is None else loop.call_later(within, self._expire, attempt, within)
        try:
            taken: list[Tuple] = await self.attempt(self._takes, attempt)
        finally:
            if timer is not None:
                timer.cancel()
        return taken

    def _expire(self, attempt: Attempt, within: float) -> None:
        with self._lock:
            if not self._takes.leave(attempt):
                return
            late = f"waited {within} s to {attempt.what} barrier {self.name!r}, of which {len(self._ready)} are ready"
            attempt.outcome = None, errors.DeadlineExceededError(late)
            served = [attempt, *self._serve()]
        wake(served)

    def batch(self, taken: Sequence[Tuple]) -> tuple[Any, ...]:
        """The insertions, the keys, then each component, of tuples that were taken: each as one array."""
        insertions = np.array([item.insertion for item in taken], np.int64)
        keys = np.empty(len(taken), object)
        keys[:] = [item.key for item in taken]
        return insertions, keys, *self._elements.batch([item.components for item in taken])

    def give_back(self, taken: Sequence[Tuple]) -> None:
        """Tuples that were taken are ready again, and come next."""
        with self._lock:
            for item in taken:
                heapq.heappush(self._ready, item)
            served = self._serve()
        wake(served)

    def _give_back(self, attempt: Attempt) -> None:
        for item in attempt.outcome[0] if attempt.outcome is not None else ():
            heapq.heappush(self._ready, item)

    # Closing

    def close(self, cancel_pending_enqueues: bool = False) -> None:
        """Refuse new keys from now on. Incomplete keys can be completed; with the option they are dropped.

        CancelledError if it is closed already. A closed barrier may be closed again with the option.
        """
        with self._lock:
            self._check_here()
            if self._closed and (self._cancelled or not cancel_pending_enqueues):
                raise errors.CancelledError(f"barrier {self.name!r} is closed already")
            self._closed, self._cancelled = True, cancel_pending_enqueues
            if cancel_pending_enqueues:
                self._incomplete.clear()
            served = self._serve()
        wake(served)

    def _closed_error(self) -> errors.CancelledError:
        return errors.CancelledError(f"barrier {self.name!r} is closed, and its incomplete keys are dropped")

    def _check_here(self) -> None:
        if self._gone is not None:
            raise self._gone()

    def _dropped_error(self) -> BaseException:
        return errors.CancelledError(f"barrier {self.name!r} is gone: its container was reset or its session closed")

    # State

    @property
    def ready_size(self) -> int:
        """How many tuples are whole."""
        return len(self._ready)

    @property
    def incomplete_size(self) -> int:
        """How many keys lack components."""
        return len(self._incomplete)

    @property
    def closed(self) -> bool:
        """Whether new keys are refused."""
        return self._closed

    def __repr__(self) -> str:
        state = f"{len(self._ready)} ready, {len(self._incomplete)} incomplete, {len(self._takes)} taking"
        return f"<Barrier {self.name!r} {state}{', closed' if self._closed else ''}>"


class _Take:
    """A take of `count` tuples at once; of fewer if the barrier is closed, `small` is set, and no more will come.

    `patient`: it waits while keys are incomplete.
    """

    __slots__ = ("_barrier", "_count", "_patient", "_small")

    def __init__(self, barrier: Barrier, count: int, small: bool, patient: bool) -> None:
        self._barrier = barrier
        self._count = count
        self._small = small
        self._patient = patient

    def __call__(self) -> Outcome | None:
        barrier, count = self._barrier, self._count
        ready, incomplete = len(barrier._ready), len(barrier._incomplete)
        if ready >= count:
            return self._taken(count)
        if not barrier._closed:
            return None
        if self._small and incomplete and self._patient:
            return None
        if self._small and ready:
            return self._taken(ready)
        if not self._small and ready + incomplete >= count:
            return None
        return None, errors.OutOfRangeError(
            f"barrier {barrier.name!r} is closed and has {ready} tuples ready and {incomplete} keys incomplete; "
            f"{count} tuples asked for"
        )

    def _taken(self, count: int) -> Outcome:
        ready = self._barrier._ready
        items = [heapq.heappop(ready) for _ in range(count)]
        for number in range(len(self._barrier.specs)):
            shapes = {getattr(item.components[number], "shape", ()) for item in items}
            if len(shapes) > 1:
                for item in items:
                    heapq.heappush(ready, item)
                return None, errors.InvalidArgumentError(
                    f"component {number} of the next {count} tuples of barrier {self._barrier.name!r} has shapes "
                    f"{sorted(map(list, shapes))}, which cannot be joined: take fewer at a time"
                )
        return items, None
