"""Queues: first in first out, padding, shuffling, by priority.

Elements are tuples of components. Puts are served strictly in order, and so are takes; closing waits behind earlier
puts. A `take` of several elements takes none until it can take all, so a cancelled take has nothing to undo. While it
is first in line, the queue may grow beyond its capacity to the elements that it needs. A `put` of several puts each as
soon as there is room, or all at once.
A `put` that must wait is granted its room, and its last element goes in when its caller resumes. So no consumer takes
the last element of a cancelled put. Later puts wait behind it.
"""

import asyncio
import functools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.waiting.element_spec import Elements, each_item
from aioflow.waiting.granting import DONE, Granting, Put, serve_puts
from aioflow.waiting.lines import BATCH, Attempt, Outcome, WaiterLine, serve_none, wake
from aioflow.waiting.producer import Feed, Feeds, Map, Source
from aioflow.waiting.stores import Contents, Item, Shuffled, Statistics, Store, Taken, bytes_of, copied, items_of

Work = Callable[..., Awaitable[Any]]
"""Calls a function on a thread, and returns its result."""


class Queue(Granting):
    """A queue between producers and consumers on any loop of the process.

    Args:
        name: its name in errors.
        store: the store of its elements.
        capacity: the most elements; negative for no bound.
        min_after: the elements that stay while it is open, so that taken ones are well mixed.
        capacity_bytes: the most bytes, None for no bound; an empty queue always accepts one element.
        elements: the description of its elements; None for tuples of any objects.
        signature: its definition, which a second opening must repeat.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        capacity: int = -1,
        min_after: int = 0,
        capacity_bytes: int | None = None,
        elements: Elements | None = None,
        signature: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name)
        self.signature: Final = signature or {}
        self._store: Final = store
        self._capacity: Final = capacity
        self._min_after: Final = min_after
        self._capacity_bytes: Final = capacity_bytes
        self.elements: Final = elements
        self._puts, self._takes = WaiterLine(), WaiterLine()
        self._lines = (self._puts, self._takes)
        self._served_by = {self._puts: self._takes, self._takes: self._puts}
        self._closed = False
        self._bytes = self._put = self._taken = 0
        self._feeds: Final = Feeds()

    # Putting

    async def put(self, *components: Any, who: Any = None) -> None:
        """Put one element as soon as there is room. It is copied: on a thread of the loop's executor if it is large.

        A cancelled put adds no element.

        Raises:
            TypeError, ValueError: the queue cannot hold it.
            af.errors.CancelledError: the queue is closed.
        """
        if self._is_long_copied(components):
            await self._put_copied(lambda: [self._item(components)], "put an element into", who)
        else:
            await self.put_item(self._item(components), who)

    def put_item(self, item: Item, who: Any = None) -> Awaitable[None]:
        """The same for an element that is known to be as the queue keeps it."""
        return self.attempt(self._puts, _Put("put an element into", self, [item], who))

    async def put_many(self, items: Sequence[Sequence[Any]], atomic: bool = False, who: Any = None) -> Sequence[Item]:
        """Put several elements: each as soon as there is room, or all at once. Returns them for `take_out`.

        A cancelled put adds no further element. Elements already in the queue stay, never the last one.

        Raises:
            TypeError, ValueError: the queue cannot hold one of them, or never holds that many at once.
            af.errors.CancelledError: the queue is closed; the elements already in it stay.
        """
        if self._is_long_copied([component for item in items for component in item]):
            return await self._put_copied(lambda: list(map(self._item, items)), "put elements into", who, atomic)
        return await self.put_items(list(map(self._item, items)), atomic, who)

    async def put_batch(self, *columns: Any, atomic: bool = False, who: Any = None) -> Sequence[Item]:
        """The same for elements whose components are stacked: `put_batch(images, labels)`."""
        rows = self._typed().rows
        if self._is_long_copied(columns):
            return await self._put_copied(lambda: rows(columns), "put elements into", who, atomic)
        return await self.put_items(rows(columns), atomic, who)

    async def put_items(self, items: Sequence[Item], atomic: bool = False, who: Any = None) -> Sequence[Item]:
        """The same for elements that are known to be as the queue keeps them."""
        if items:
            self._check_atomic(items, atomic)
            await self.attempt(self._puts, _Put(f"put {len(items)} elements into", self, deque(items), who, atomic))
        return items

    def put_nowait(self, *components: Any) -> bool:
        """Put an element now if there is room and no waiter. Returns whether it did. CancelledError if it is closed."""
        attempt = _Put("put an element into", self, [self._item(components)])
        done = self.attempt_now(self._puts, attempt)
        attempt.result()
        return done

    def give_back(self, items: Iterable[Item]) -> None:
        """Return taken elements without waiting, even if the queue is full or closed.

        They are as the queue keeps them, and in an ordered queue they come after its present elements.
        """
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            for item in items:
                self._add(item)
            self._puts.users.add("")
            served = self._serve()
        wake(served)

    def feed(
        self, source: Source, map: Map | None = None, workers: int = 1, ordered: bool = True, close: bool = True
    ) -> Feed:
        """Put the items of a source while the block runs; see `Feed`."""
        self._puts.users.add("")
        return self._feeds.with_one(Feed(self, source, map, workers, ordered, close))

    def action(self, attempt: Attempt) -> str:
        """Return what an attempt waits to do; for a take, also what the sources wait for that feed the queue."""
        sources = self._feeds.waits_for() if isinstance(attempt.serve, _Take) else ""
        return f"{super().action(attempt)}{sources}"

    def _item(self, components: Sequence[Any]) -> Item:
        return tuple(components) if self.elements is None else self.elements.item(components)

    def _typed(self) -> Elements:
        if self.elements is None:
            raise TypeError(f"{self!r} holds anything, and so no batches")
        return self.elements

    def _is_long_copied(self, values: Iterable[Any]) -> bool:
        """Whether putting them copies so much that it would hold the loop."""
        return self.elements is not None and sum([getattr(value, "nbytes", 0) for value in values]) > LARGE

    async def _put_copied(
        self, make: Callable[[], Sequence[Item]], what: str, who: Any, atomic: bool = False
    ) -> Sequence[Item]:
        """Make the elements on a thread, and put them. The put keeps its place in line meanwhile."""
        attempt = _Put(what, self, None, who, atomic)
        made = asyncio.get_running_loop().run_in_executor(None, make)
        made.add_done_callback(functools.partial(self._on_made, attempt))
        try:
            await self.attempt(self._puts, attempt)
            return made.result()
        finally:
            made.cancel()

    def _on_made(self, attempt: "_Put", made: "asyncio.Future[Sequence[Item]]") -> None:
        if made.cancelled():
            return
        error, failed = made.exception(), []
        with self._lock:
            if error is None and attempt.serve is serve_none:
                try:
                    self._check_atomic(made.result(), attempt.atomic)
                    attempt.items = deque(made.result())
                    attempt.serve = serve_puts
                except ValueError as refused:
                    error = refused
            if error is not None and self._puts.leave(attempt):
                attempt.outcome = None, error
                failed = [attempt]
            served = self._serve()
        wake([*failed, *served])

    def _check_atomic(self, items: Sequence[Item], atomic: bool) -> None:
        if atomic and 0 <= self._capacity < len(items):
            raise ValueError(f"{len(items)} elements at once do not go into {self!r}, which holds {self._capacity}")

    def _has_room(self, items: Sequence[Item]) -> bool:
        """Whether there is room for these; always true if the first waiting take needs more elements than there are."""
        granted = self._granted_items() if self._granted else ()
        size = len(self._store) + len(granted)
        crowded = 0 <= self._capacity < size + len(items)
        heavy = (
            size
            and self._capacity_bytes is not None
            and self._bytes + bytes_of(granted) + bytes_of(items) > self._capacity_bytes
        )
        return not (crowded or heavy) or size < self._needed()

    def _granted_items(self) -> list[Item]:
        return [item for put in self._granted if isinstance(put, _Put) for item in put.items]

    def _needed(self) -> int:
        """Return the number of elements that the first waiting take needs."""
        first = self._takes.first
        return first.serve.count + self._min_after if first is not None and isinstance(first.serve, _Take) else 0

    def _add(self, item: Item) -> None:
        self._store.add(item)
        if self._capacity_bytes is not None:
            self._bytes += bytes_of((item,))
        self._put += 1

    # Taking

    def take(self, who: Any = None) -> Coroutine[Any, Any, Item]:
        """Take the next element, as soon as there is one; to be awaited.

        A cancelled take removes no element. OutOfRangeError if the queue is closed and empty.
        """
        return self.attempt(self._takes, _TakingOne(self, who))

    def take_one_marked(self, who: Any = None) -> Coroutine[Any, Any, Sequence[Taken]]:
        """The next element with the data for `put_back`: a sequence of one, whose last part is the element."""
        return self.attempt(self._takes, Attempt("take an element of", _Take(self, 1), who))

    async def take_many(self, count: int, who: Any = None) -> list[Item]:
        """Take the next `count` elements, as soon as the queue has that many; until then it takes none.

        OutOfRangeError if the queue is closed and has fewer, which stay.
        """
        return items_of(await self.take_marked(count, False, who))

    async def take_up_to(self, count: int, who: Any = None) -> list[Item]:
        """The same. A closed queue gives its remaining elements, if there is at least one."""
        return items_of(await self.take_marked(count, True, who))

    async def take_batch(self, count: int, fewer: bool = False, who: Any = None, work: Work | None = None) -> Item:
        """Take elements as `take_many` does, or as `take_up_to` if `fewer`, and stack them component by component.

        Args:
            count: the number of elements.
            fewer: whether the remaining elements of a closed queue suffice.
            who: the operation that takes them.
            work: runs the copy of many bytes; None copies here.
        """
        return (await self.take_batch_marked(count, fewer, who, work))[0]

    async def take_batch_marked(
        self, count: int, fewer: bool = False, who: Any = None, work: Work | None = None
    ) -> tuple[Item, Sequence[Taken]]:
        """The same as `take_batch`, with the data for `put_back`."""
        elements = self._typed()
        taken = await self.take_marked(count, fewer, who)
        items = items_of(taken)
        try:
            if work is None or not items or len(items) * bytes_of(items[:1]) < LARGE:
                return elements.batch(items), taken
            return await work(elements.batch, items), taken
        except BaseException:
            self.put_back(taken)
            raise

    async def take_marked(self, count: int, fewer: bool = False, who: Any = None) -> Sequence[Taken]:
        """Take elements as `take_many` or `take_up_to` does, each with the data for `put_back`."""
        if count < 0:
            raise ValueError(f"{count} elements cannot be taken of a queue")
        if not count:
            return ()
        what = f"take {'up to ' if fewer else ''}{count} elements of"
        taken: Sequence[Taken] = await self.attempt(self._takes, Attempt(what, _Take(self, count, fewer), who))
        return taken

    def take_nowait(self) -> Item | None:
        """Take the next element if there is one and no waiter, else return None. OutOfRangeError as in `take`."""
        attempt = _TakingOne(self)
        return attempt.result() if self.attempt_now(self._takes, attempt) else None

    def _return(self, attempt: Attempt) -> None:
        if isinstance(attempt.serve, _Take) and attempt.outcome is not None:
            self._put_back(attempt.outcome[0])

    def put_back(self, taken: Sequence[Taken]) -> None:
        """Put taken elements back to their places, and serve the waiters."""
        with self._lock:
            self._put_back(taken)
            served = self._serve()
        wake(served)

    def take_out(self, items: Sequence[Item]) -> Callable[[], object] | None:
        """Remove these very elements. Returns a function that puts them in again.

        Returns None, and changes nothing, if one of them has been taken.
        """
        with self._lock:
            if not self._store.take_out(items):
                return None
            self._bytes -= 0 if self._capacity_bytes is None else bytes_of(items)
            self._put -= len(items)
            served = self._serve()
        wake(served)
        return functools.partial(self.give_back, items)

    def _put_back(self, taken: Sequence[Taken]) -> None:
        self._store.put_back(taken)
        if self._capacity_bytes is not None:
            self._bytes += bytes_of(items_of(taken))
        self._taken -= len(taken)

    def __aiter__(self) -> AsyncIterator[Any]:
        return each_item(self)

    # Closing

    async def close(self, cancel_pending_enqueues: bool = False, who: Any = None) -> None:
        """Refuse later puts; with the option, also cancel the waiting ones.

        Without the option CancelledError if it is closed already.
        """
        if cancel_pending_enqueues:
            self.close_nowait()
        else:
            await self.attempt(self._puts, Attempt("close", self._shut, who))

    def close_nowait(self) -> None:
        """Refuse later puts, and fail the waiting ones with CancelledError."""
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            self._closed = True
            served = self._serve()
        wake(served)

    def _shut(self) -> Outcome | None:
        if self._closed:
            return None, self._closed_error()
        if self._is_granting():
            return None
        self._closed = True
        return None, None

    def _closed_error(self) -> errors.CancelledError:
        return errors.CancelledError(f"queue {self.name!r} is closed")

    def _dropped_error(self) -> BaseException:
        return errors.CancelledError(f"queue {self.name!r} is gone: its container was reset or its session closed")

    # For checkpoints

    def contents(self) -> Contents:
        """Return copies of its elements, followed by those of waiting puts."""
        with self._lock:
            items = self._store.in_order()
            items += self._granted_items()
            for attempt in self._puts:
                items += attempt.items if isinstance(attempt, _Put) else ()
            state = self._store.generator.getstate() if isinstance(self._store, Shuffled) else None
            return Contents([copied(item) for item in items], self._closed, state)

    def refill(self, contents: Contents) -> None:
        """Replace its elements, even beyond its capacity, and serve the waiters."""
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            self._store.refill(contents.items)
            if isinstance(self._store, Shuffled) and contents.generator is not None:
                self._store.generator.setstate(contents.generator)
            self._bytes = 0 if self._capacity_bytes is None else bytes_of(contents.items)
            self._closed = contents.closed
            served = self._serve()
        wake(served)

    # State

    @property
    def size(self) -> int:
        """How many elements it holds."""
        return len(self._store)

    @property
    def closed(self) -> bool:
        """Whether nothing can be put any more."""
        return self._closed

    def statistics(self) -> Statistics:
        """Return its number of elements, its waiters and its totals."""
        with self._lock:
            size, held = len(self._store), bytes_of(self._store)
            putting = len(self._puts) + len(self._granted)
            return Statistics(size, held, putting, len(self._takes), self._put, self._taken, self._closed)

    def __repr__(self) -> str:
        room = "" if self._capacity < 0 else f"/{self._capacity}"
        waiting = f", {len(self._puts) + len(self._granted)} putting, {len(self._takes)} taking"
        state = ", closed" if self._closed else ""
        return f"<{type(self).__name__} {self.name!r} {len(self._store)}{room}{waiting}{state}>"


class _Put(Put):
    """The attempt to put the elements left in `items`: each as soon as there is room; all at once if `atomic`."""

    __slots__ = ("_queue", "atomic", "items")

    def __init__(
        self, what: str, queue: Queue, items: "list[Item] | deque[Item] | None", who: Any = None, atomic: bool = False
    ) -> None:
        """An attempt to put `items`; None if these are still being made."""
        super().__init__(what, queue, who, serve_none if items is None else None)
        self._queue: Final = queue
        self.items = [] if items is None else items
        self.atomic: Final = atomic

    def refused(self) -> Outcome | None:
        """The outcome if the queue is closed; None otherwise."""
        return (None, self._queue._closed_error()) if self._queue._closed else None

    def fits(self) -> bool:
        """Whether there is room for all remaining elements."""
        return self._queue._has_room(self.items)

    def insert(self) -> Outcome:
        """Put all remaining elements."""
        for item in self.items:
            self._queue._add(item)
        return DONE

    def advance(self) -> Outcome | None:
        """Put as many elements as there is room for. If the caller waits, grant the last one its room."""
        items = self.items
        if not (self.atomic or len(items) == 1):
            assert isinstance(items, deque)
            if self._queue._is_granting():
                return None
            self._put_some(items)
        return None if len(items) > 1 and not self.atomic else super().advance()

    def _put_some(self, items: "deque[Item]") -> None:
        queue = self._queue
        for _ in range(min(BATCH, len(items) - 1)):
            if not queue._has_room((items[0],)):
                return
            queue._add(items.popleft())
        queue._unfinished = len(items) > 1


class _Take:
    """The taking of `count` elements: all of them at once, or fewer of a closed queue if `fewer`."""

    __slots__ = ("_fewer", "_queue", "count")

    def __init__(self, queue: Queue, count: int, fewer: bool = False) -> None:
        self._queue = queue
        self.count: Final = count
        self._fewer = fewer

    def __call__(self) -> Outcome | None:
        queue, size = self._queue, len(self._queue._store)
        available = size if queue._closed else size - queue._min_after
        if available >= self.count:
            return self._taken(self.count)
        if not queue._closed:
            return None
        if self._fewer and available:
            return self._taken(available)
        wanted = "an element" if self.count == 1 else f"{self.count} elements"
        return None, errors.OutOfRangeError(
            f"queue {queue.name!r} is closed and has {size} elements left; {wanted} asked for"
        )

    def _taken(self, count: int) -> Outcome:
        queue, take = self._queue, self._queue._store.take
        taken = [take() for _ in range(count)]
        if queue._capacity_bytes is not None:
            queue._bytes -= bytes_of(items_of(taken))
        queue._taken += count
        return taken, None


class _TakingOne(Attempt):
    """The taking of one element."""

    __slots__ = ()

    def __init__(self, queue: Queue, who: Any = None) -> None:
        super().__init__("take an element of", _Take(queue, 1), who)

    def result(self) -> Item:
        """The element."""
        (taken,) = super().result()
        item: Item = taken[-1]
        return item


LARGE: Final = 1 << 20
"""Bytes: copying more would hold the loop too long."""
