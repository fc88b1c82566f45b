"""A live queue of a cluster, for application code: the client's side."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Protocol

import numpy as np

from aioflow.net.wire.worker_verbs import QueueServed
from aioflow.tensors.dtypes import Array
from aioflow.waiting.element_spec import Elements, Item, each_item
from aioflow.waiting.producer import Feed, Map, Source
from aioflow.waiting.stores import Statistics


class QueueRequests(Protocol):
    """How a queue is reached."""

    async def use_queue(self, handle: str, action: str, **more: Any) -> QueueServed:
        """Perform an action on a queue, and return its result."""

    async def put_into_queue(self, handle: str, action: str, values: Sequence[Array], atomic: bool) -> None:
        """Put elements into the queue. If the caller is cancelled, they are removed."""

    async def take_from_queue(self, handle: str, count: int, fewer: bool) -> QueueServed:
        """Take elements of the queue. If the caller is cancelled, they are put back."""

    def start_task(self, work: Any) -> None:
        """Do this in a task that ends before the session does."""


class RemoteQueue:
    """A queue on a task of the cluster. Its callers wait there, in one line with steps.

    Elements are converted and checked here. A cancelled take removes no element: elements on their way to the client
    are put back at their place. The same happens when this client is lost. A cancelled put removes its elements, unless
    one of them has been taken already. If the task is lost, calls raise UnavailableError, and the elements of the queue
    are lost.
    """

    def __init__(self, engine: QueueRequests, handle: str, elements: Elements) -> None:
        self._engine: Final = engine
        self._handle: Final = handle
        self.elements: Final = elements

    async def put(self, *components: Any) -> None:
        """Put an element as soon as there is room. TypeError or ValueError if the queue cannot hold it."""
        await self.put_many([components])

    async def put_many(self, items: Sequence[Sequence[Any]], atomic: bool = False) -> None:
        """Put elements: each as soon as there is room, or with `atomic` all at once."""
        values = [_array(value) for item in items for value in self.elements.item(item)]
        await self._engine.put_into_queue(self._handle, "put", values, atomic)

    async def put_batch(self, *columns: Any, atomic: bool = False) -> None:
        """The same for elements whose components are stacked."""
        await self._engine.put_into_queue(self._handle, "put_batch", self.elements.columns(columns), atomic)

    async def take(self) -> Item:
        """Take the next element, as soon as there is one. OutOfRangeError if the queue is closed and empty."""
        return (await self._take(1))[0]

    async def take_many(self, count: int) -> list[Item]:
        """Take the next `count` elements, as soon as the queue has that many; until then it takes none."""
        return await self._take(count)

    async def take_up_to(self, count: int) -> list[Item]:
        """The same. A closed queue gives its remaining elements, if there is at least one."""
        return await self._take(count, fewer=True)

    async def take_batch(self, count: int, fewer: bool = False) -> tuple[Array, ...]:
        """The next elements component by component, stacked."""
        return self.elements.batch(await self._take(count, fewer))

    async def _take(self, count: int, fewer: bool = False) -> list[Item]:
        if count < 0:
            raise ValueError(f"{count} elements cannot be taken of a queue")
        return self._items((await self._engine.take_from_queue(self._handle, count, fewer)).values)

    def _items(self, values: Sequence[Array]) -> list[Item]:
        width = len(self.elements.specs)
        plain = [value if value.ndim else value[()] for value in values]
        return [tuple(plain[place : place + width]) for place in range(0, len(plain), width)]

    def __aiter__(self) -> AsyncIterator[Any]:
        return each_item(self)

    def feed(
        self, source: Source, map: Map | None = None, workers: int = 1, ordered: bool = True, close: bool = True
    ) -> Feed:
        """Put the items of a source while the block runs; see `Feed`."""
        return Feed(self, source, map, workers, ordered, close)

    async def close(self, cancel_pending_enqueues: bool = False) -> None:
        """Refuse later puts; with the option, also cancel the waiting ones."""
        await self._engine.use_queue(self._handle, "close", option=cancel_pending_enqueues)

    def abort(self, error: BaseException) -> None:
        """Soon fail all puts and takes with an AbortedError of that text."""
        text = getattr(error, "message", str(error))
        self._engine.start_task(self._abort(np.array(str(text).encode(), object)))

    async def _abort(self, text: Array) -> None:
        await self._engine.use_queue(self._handle, "abort", values=(text,))

    async def statistics(self) -> Statistics:
        """Return its number of elements, its waiters and its totals."""
        facts: dict[str, Any] = dict((await self._engine.use_queue(self._handle, "facts")).facts)
        return Statistics(**{**facts, "closed": bool(facts["closed"])})

    def __repr__(self) -> str:
        return f"<RemoteQueue {self._handle!r}>"


def _array(component: Any) -> Array:
    return np.asarray(component, object if isinstance(component, bytes) else None)
