"""From an async source into a queue, while a block runs: read ahead, map, put, with back-pressure."""

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Protocol, Self, runtime_checkable

from aioflow import errors
from aioflow.graph.operation import user_line


@runtime_checkable
class Explained(Protocol):
    """A source that can tell what it waits for."""

    def waits_for(self) -> str:
        """Return which part of it waits for what; empty if none does."""


Source = AsyncIterable[Any] | Iterable[Any]
Map = Callable[[Any], Awaitable[Any]]


class Sink(Protocol):
    """Where elements go: a live queue."""

    async def put(self, *components: Any) -> None:
        """Put an element as soon as there is room."""

    async def close(self) -> None:
        """No more will come."""

    def abort(self, error: BaseException) -> None:
        """Fail all puts and takes with this error."""


class Feed:
    """Puts the items of a source into a queue while the block runs.

        async with session.queue(queue).feed(lines, map=parse, workers=4):
            async for loss in session.stream(train):
                ...

    One task iterates the source, and up to `workers` others map its items; at most that many elements are in flight.
    When the source ends, the queue is closed, so that its consumers end, too. If the source or `map` fails, consumers
    get an AbortedError with that cause at once, and a block that has not failed raises the error itself when it is
    left. Leaving the block ends all tasks.

    Args:
        queue: the queue.
        source: an async iterable, or an ordinary one that never blocks.
        map: an async function of an item; it returns the element: a tuple of components, or the only component.
        workers: the most concurrent calls of `map`.
        ordered: whether elements are put in the order of the source; else each as soon as it is ready.
        close: whether to close the queue when the source has ended.
    """

    def __init__(self, queue: Sink, source: Source, map: Map | None, workers: int, ordered: bool, close: bool) -> None:
        if not isinstance(workers, int) or workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers!r}")
        if not hasattr(source, "__aiter__") and not hasattr(source, "__iter__"):
            raise TypeError(f"a source is an async iterable, not {source!r}")
        if map is not None and not callable(map):
            raise TypeError(f"map must be an async function of an item of the source, not {map!r}")
        self._queue: Final = queue
        self._source: Final = source
        self._map: Final = map
        self._workers: Final = workers
        self._ordered: Final = ordered
        self._close: Final = close
        line = user_line()
        place = "" if line is None else f" at {line[0]}:{line[1]} in {line[2]}"
        self._name: Final = f"feed of {queue!r}{place}"
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise RuntimeError("a feed is entered once; make another by queue.feed(...)")
        self._task = asyncio.create_task(self._run(), name=self._name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        failed = None if self._task.cancelled() else self._task.exception()
        if failed is not None and (error is None or isinstance(error, asyncio.CancelledError)):
            raise failed

    def waits_for(self) -> str:
        """Return what the source waits for, while the block runs; empty if it cannot tell."""
        running = self._task is not None and not self._task.done()
        return self._source.waits_for() if running and isinstance(self._source, Explained) else ""

    async def _run(self) -> None:
        try:
            with _as_error("the source"):
                await self._flow()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            first = _first(error)
            failed = errors.AbortedError(f"what feeds {self._queue!r} has failed: {first!r}")
            failed.__cause__ = first
            self._queue.abort(failed)
            raise first from first.__cause__
        if self._close:
            await self._queue.close()

    async def _flow(self) -> None:
        slots = asyncio.Semaphore(self._workers)
        async with asyncio.TaskGroup() as group:
            before: asyncio.Task[None] | None = None
            async with _closing(_iterated(self._source)) as items:
                async for item in items:
                    await slots.acquire()
                    passing = self._pass(item, before if self._ordered else None, slots)
                    before = group.create_task(passing, name=self._name)

    async def _pass(self, item: Any, before: "asyncio.Task[None] | None", slots: asyncio.Semaphore) -> None:
        """One element's way: mapped, and put after the one before it."""
        with _as_error("map"):
            made = item if self._map is None else await self._map(item)
        if before is not None:
            await asyncio.wait([before])  # not its result: if it failed, so has the whole group
        await self._queue.put(*(made if isinstance(made, tuple) else (made,)))
        slots.release()


class Feeds:
    """The feeds of one queue."""

    def __init__(self) -> None:
        self._feeds: Final[weakref.WeakSet[Feed]] = weakref.WeakSet()

    def with_one(self, feed: Feed) -> Feed:
        """Add a feed, and return it."""
        self._feeds.add(feed)
        return feed

    def waits_for(self) -> str:
        """Return what their sources wait for, as the end of a sentence about the queue."""
        return "".join([f", which is fed by {text}" for feed in self._feeds if (text := feed.waits_for())])


async def _iterated(source: Source) -> AsyncIterator[Any]:
    if isinstance(source, AsyncIterable):
        async with _closing(aiter(source)) as items:
            async for item in items:
                yield item
        return
    for item in source:
        yield item
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def _closing(items: AsyncIterator[Any]) -> AsyncIterator[AsyncIterator[Any]]:
    """Inside, an iterator that is closed at the end, if it can be."""
    try:
        yield items
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


@contextlib.contextmanager
def _as_error(what: str) -> Iterator[None]:
    """Turn an asyncio.CancelledError that does not cancel this task into an error, which would otherwise be lost."""
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise errors.CancelledError(f"{what} raised asyncio.CancelledError") from error


def _first(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
