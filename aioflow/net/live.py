"""Live queues of a worker, used by the applications of its clients: the worker's side."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.dtypes import Array
from aioflow.graph import Graph
from aioflow.kernels.queue_handles import live_queue
from aioflow.net.graphs import extend
from aioflow.net.worker_verbs import QueueServed, ServeQueue
from aioflow.queues import Queue
from aioflow.resources import Resources

Message = ServeQueue
_KEPT: Final = 1024
"""So many handles are not built anew."""


class LiveQueues:
    """Does what is asked with live queues.

    A request to take elements can be withdrawn: then it has either taken none, or has answered with those it took,
    each with its place, to which they can be put back.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources: Final = resources
        self._handles: Final[dict[bytes, Any]] = {}
        self._taking: Final[dict[int, asyncio.Task[Any]]] = {}
        self._withdrawn: Final[set[int]] = set()

    async def serve(self, message: Message) -> QueueServed:
        """Do it. InvalidArgumentError if that is no queue, or it cannot hold what is put into it."""
        if message.action == "withdraw":
            self._withdraw(message.number)
            return QueueServed()
        action = ACTIONS.get(message.action)
        if action is None:
            raise errors.InvalidArgumentError(f"a live queue cannot {message.action!r}")
        try:
            return await action(self, self._queue(bytes(message.handle)), message)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(str(error)) from None

    def _queue(self, handle: bytes) -> Queue:
        found = self._handles.get(handle)
        if found is None:
            if len(self._handles) >= _KEPT:
                self._handles.clear()
            graph = Graph()
            extend(graph, handle, {})
            operations = graph.get_operations()
            if len(operations) != 1 or not operations[0].outputs:
                raise errors.InvalidArgumentError("a live queue is asked for by the one operation that is its handle")
            found = self._handles[handle] = operations[0].outputs[0]
        return live_queue(self._resources, found)

    async def _put(self, queue: Queue, message: Message) -> QueueServed:
        await queue.put_many(_items(queue, message.values), atomic=message.option)
        return QueueServed()

    async def _put_batch(self, queue: Queue, message: Message) -> QueueServed:
        await queue.put_batch(*message.values, atomic=message.option)
        return QueueServed()

    async def _put_back(self, queue: Queue, message: Message) -> QueueServed:
        items = _items(queue, message.values)
        if len(items) != len(message.places):
            raise errors.InvalidArgumentError(f"{len(items)} elements cannot go back to {len(message.places)} places")
        queue.put_back([(*place, item) for place, item in zip(message.places, items, strict=True)])
        return QueueServed()

    async def _take(self, queue: Queue, message: Message) -> QueueServed:
        work = asyncio.current_task()
        assert work is not None
        if message.token in self._taking:
            raise errors.AlreadyExistsError(f"somebody takes under the token {message.token:x}")
        self._taking[message.token] = work
        try:
            taken = await queue.take_marked(message.number, message.option)
        except asyncio.CancelledError:
            if message.token not in self._withdrawn:
                raise
            work.uncancel()
            raise errors.CancelledError("nobody wants the elements any more") from None
        finally:
            del self._taking[message.token]
            self._withdrawn.discard(message.token)
        values = [np.asarray(component, _dtype(component)) for each in taken for component in each[-1]]
        return QueueServed(tuple(values), tuple([tuple(each[:-1]) for each in taken]))

    def _withdraw(self, token: int) -> None:
        """Whoever takes under that token takes nothing, if it has not done so yet."""
        work = self._taking.get(token)
        if work is not None:
            self._withdrawn.add(token)
            work.cancel()

    async def _close(self, queue: Queue, message: Message) -> QueueServed:
        await queue.close(message.option)
        return QueueServed()

    async def _abort(self, queue: Queue, message: Message) -> QueueServed:
        text = message.values[0][()] if message.values else b""
        queue.abort(errors.AbortedError(bytes(text).decode("utf-8", "replace")))
        return QueueServed()

    async def _facts(self, queue: Queue, message: Message) -> QueueServed:
        return QueueServed(facts={name: int(value) for name, value in dataclasses.asdict(queue.statistics()).items()})


def _items(queue: Queue, values: Sequence[Array]) -> list[tuple[Array, ...]]:
    """The elements that these components make up."""
    width = 1 if queue.elements is None else len(queue.elements.specs)
    if len(values) % width:
        raise errors.InvalidArgumentError(f"{len(values)} components do not make elements of {width}")
    return [tuple(values[place : place + width]) for place in range(0, len(values), width)]


def _dtype(component: Any) -> Any:
    return object if isinstance(component, bytes) else None


ACTIONS: Final[Mapping[str, Callable[[LiveQueues, Queue, Message], Awaitable[QueueServed]]]] = {
    "put": LiveQueues._put,
    "put_batch": LiveQueues._put_batch,
    "put_back": LiveQueues._put_back,
    "take": LiveQueues._take,
    "close": LiveQueues._close,
    "abort": LiveQueues._abort,
    "facts": LiveQueues._facts,
}
"""What can be done with a live queue, besides withdrawing."""

__all__ = ["ACTIONS", "LiveQueues"]
