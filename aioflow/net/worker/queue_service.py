"""Live queues of a worker, used by the applications of its clients: the worker's side."""

import dataclasses
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.graph import Graph
from aioflow.kernels.state.resource_handles import live_queue
from aioflow.net.peer.serving import Call
from aioflow.net.wire.graph_updates import extend
from aioflow.net.wire.worker_verbs import QueueServed, ServeQueue
from aioflow.net.worker.step_table import StepTable
from aioflow.queues import Queue
from aioflow.resources.containers import Resources
from aioflow.tensors.dtypes import Array
from aioflow.waiting.handover import Handover

Message = ServeQueue
_KEPT: Final = 1024
"""So many handles are not built anew."""


class QueueService:
    """Serves requests to live queues.

    A request to take or put elements counts as a step of its own. Until the master reports the end of the step, the
    task can undo it. It puts elements back if the client does not get them, or the master is lost. It removes the
    elements of a cancelled put.
    """

    def __init__(self, resources: Resources, step_table: StepTable) -> None:
        self._resources: Final = resources
        self._step_table: Final = step_table
        self._handles: Final[dict[bytes, Any]] = {}

    async def serve(self, call: Call) -> QueueServed:
        """Perform the action. InvalidArgumentError if the handle is not a queue's, or the queue cannot hold a value."""
        message: Any = call.message
        action = ACTIONS.get(message.action)
        if action is None and message.action not in STEPS:
            raise errors.InvalidArgumentError(f"a live queue cannot {message.action!r}")
        try:
            queue = self._queue(bytes(message.handle))
            return await (self._step(queue, call) if action is None else action(self, queue, message))
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
                raise errors.InvalidArgumentError(
                    "a request for a queue must fetch exactly the operation of its handle"
                )
            found = self._handles[handle] = operations[0].outputs[0]
        return live_queue(self._resources, found)

    async def _step(self, queue: Queue, call: Call) -> QueueServed:
        message: Any = call.message
        worker_step = self._step_table.at(message.step)
        if worker_step.begun:
            raise errors.AlreadyExistsError(f"step {message.step:x} runs already")
        self._step_table.step_started(worker_step)
        worker_step.owner = call.peer
        worker_step.only_puts = message.action != "take"
        try:
            return await STEPS[message.action](queue, message, worker_step.handover)
        except BaseException:
            self._step_table.end(message.step, None)
            raise

    async def _close(self, queue: Queue, message: Message) -> QueueServed:
        await queue.close(message.option)
        return QueueServed()

    async def _abort(self, queue: Queue, message: Message) -> QueueServed:
        text = message.values[0][()] if message.values else b""
        queue.abort(errors.AbortedError(bytes(text).decode("utf-8", "replace")))
        return QueueServed()

    async def _facts(self, queue: Queue, message: Message) -> QueueServed:
        return QueueServed(facts={name: int(value) for name, value in dataclasses.asdict(queue.statistics()).items()})


async def _take(queue: Queue, message: Message, handover: Handover) -> QueueServed:
    taken = await queue.take_marked(message.number, message.option)
    handover.took(functools.partial(queue.put_back, taken))
    return QueueServed(tuple([np.asarray(part, _dtype(part)) for each in taken for part in each[-1]]))


async def _put(queue: Queue, message: Message, handover: Handover) -> QueueServed:
    items = await queue.put_many(_items(queue, message.values), atomic=message.option)
    handover.put(functools.partial(queue.take_out, items))
    return QueueServed()


async def _put_batch(queue: Queue, message: Message, handover: Handover) -> QueueServed:
    items = await queue.put_batch(*message.values, atomic=message.option)
    handover.put(functools.partial(queue.take_out, items))
    return QueueServed()


def _items(queue: Queue, values: Sequence[Array]) -> list[tuple[Array, ...]]:
    """The elements that these components make up."""
    width = 1 if queue.elements is None else len(queue.elements.specs)
    if len(values) % width:
        raise errors.InvalidArgumentError(f"{len(values)} components do not make elements of {width}")
    return [tuple(values[place : place + width]) for place in range(0, len(values), width)]


def _dtype(component: Any) -> Any:
    return object if isinstance(component, bytes) else None


ACTIONS: Final[Mapping[str, Callable[[QueueService, Queue, Message], Awaitable[QueueServed]]]] = {
    "close": QueueService._close,
    "abort": QueueService._abort,
    "facts": QueueService._facts,
}
"""The actions on a live queue, without those that are steps."""
STEPS: Final[Mapping[str, Callable[[Queue, Message, Handover], Awaitable[QueueServed]]]] = {
    "put": _put,
    "put_batch": _put_batch,
    "take": _take,
}
"""The actions that take or put elements. Each is a step."""
