"""A task that makes elements before they are asked for, up to a bound.

The elements wait in a live queue, whose capacity holds the task back: it makes the next element while the others are
in the queue, so that `limit` elements at most are made and not taken. Errors wait in the queue, too, and are raised
after the elements before them.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from aioflow import errors
from aioflow.data.stage import EndOfData
from aioflow.queues import Queue
from aioflow.waiting.stores import Fifo
from aioflow.waiting.tasks import OwnedTasks

E = TypeVar("E")


class Ahead(Generic[E]):
    """What a function makes, in order, and made ahead once the first was asked for.

    Args:
        name: the name of the task and the queue.
        make: an async function that returns the next one; EndOfData after the last one.
        limit: the most that are made and not taken.
    """

    def __init__(self, name: str, make: Callable[[], Awaitable[E]], limit: int) -> None:
        self.limit: Final = limit
        self._name: Final = name
        self._make: Final = make
        self._queue: Final = Queue(name, Fifo(), limit - 1)
        self._tasks: Final = OwnedTasks()
        self._begun = False

    async def take(self) -> E:
        """Return the next one. EndOfData after the last one, or the error of making it."""
        if not self._begun:
            self._begun = True
            self._tasks.start(self._fill(), self._name)
        try:
            made, error = await self._queue.take()
        except errors.OutOfRangeError:
            raise EndOfData from None
        if error is not None:
            raise error
        found: E = made
        return found

    async def _fill(self) -> None:
        try:
            while True:
                await self._queue.put(await self._make(), None)
        except EndOfData:
            await self._queue.close()
        except Exception as error:
            await self._queue.put(None, error)

    @property
    def size(self) -> int:
        """The number of those that are made and wait to be taken."""
        statistics = self._queue.statistics()
        return statistics.size + statistics.putting

    async def close(self) -> None:
        """End the task."""
        await self._tasks.stop()
