"""A call signature that a master makes ready."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from aioflow import errors
from aioflow.config import RunOptions
from aioflow.graph.operation import Tensor
from aioflow.net.client.open_session import OpenSession
from aioflow.net.spans import current_trace
from aioflow.net.wire.limits import check_sizes
from aioflow.net.wire.master_verbs import MakeCallable, ReleaseCallable, RunCallable, RunStep
from aioflow.net.worker.introspection import unpack_trace
from aioflow.runtime.attempts import current_attempt
from aioflow.runtime.call import copied, scalar
from aioflow.runtime.feeds import converter
from aioflow.runtime.fetches import Fetches
from aioflow.tracing import RunMetadata
from aioflow.waiting.handover import Held

if TYPE_CHECKING:
    from aioflow.net.client.client import RemoteEngine

_NAMED: Final = 3
"""The most fetches that an error names."""


class RemoteCall:
    """A call signature that a master makes ready: conversions for its feeds, and the way back to the fetches."""

    def __init__(self, engine: "RemoteEngine", fetches: Fetches, feeds: Sequence[Tensor]) -> None:
        self._engine: Final = engine
        self._fetches: Final = fetches
        self._converters: Final[list[Callable[[Any], Any]]] = [converter(tensor) for tensor in feeds]
        self._feeds: Final = tuple([tensor.name for tensor in feeds])
        computed = [tensor for tensor in fetches.tensors if tensor not in feeds]
        self._given: Final = [place for place, tensor in enumerate(feeds) if tensor in fetches.tensors]
        """The feeds that are fetched, too."""
        self._names: Final = tuple(dict.fromkeys([tensor.name for tensor in computed]))
        self._targets: Final = tuple([operation.name for operation in fetches.operations])

    async def run(
        self, values: Sequence[Any], options: RunOptions, metadata: RunMetadata | None, held: Held | None = None
    ) -> Any:
        """Check and convert the feeds, run, and shape the result."""
        if self._engine.observer is not None:
            observer, self._engine.observer = self._engine.observer, None
            run = functools.partial(self.run, values, held=held)
            return await observer.around(run, self._fetches, self._feeds, options, metadata)
        self._engine.runs += 1
        given = [convert(value) for convert, value in zip(self._converters, values, strict=True)]
        deadline = self._engine.deadline(options)
        try:
            if deadline is None:
                found, request = await self._ready(given, options, None)
            else:
                found, request = await self._ready_in_time(given, options, deadline)
        except errors.OpError as error:
            error.begun = False
            raise
        handover = found.handover(self._engine.limit(options))
        try:
            run = request(token=handover.token)
            answer = await found.peer.request(run, deadline=deadline, trace=current_trace())
            if metadata is not None and options.trace:
                unpack_trace(bytes(answer.metadata), metadata, found.peer.clock_offset)
            built = self._built(answer.values, given)
            handover.uncommitted = answer.uncommitted
            if held is None:
                await handover.commit(deadline)
        except BaseException as error:
            handover.ended(error)
            if isinstance(error, errors.CancelledError | errors.AbortedError):
                self._engine.check_open()
            raise
        if answer.held and held is None:
            handover.forget()
        elif answer.held and held is not None:
            held.append(handover)
        return built

    async def _ready_in_time(self, given: list[Any], options: RunOptions, deadline: float) -> tuple[OpenSession, Any]:
        names = ", ".join([*self._names, *self._targets][:_NAMED])
        async with self._engine.within(deadline, f"the call of {names} did not begin in the session {self._engine}"):
            return await self._ready(given, options, deadline)

    async def _ready(self, given: list[Any], options: RunOptions, deadline: float | None) -> tuple[OpenSession, Any]:
        """The session, and the request that runs the call there, without its token."""
        found = await self._engine.ready(deadline)
        flags = {name: True for name in ("check_numerics", "trace") if getattr(options, name)}
        feeds = dict(zip(self._feeds, given, strict=True))
        if feeds:
            check_sizes(feeds, found.peer.limits)
        attempt = current_attempt()
        ticket = () if attempt is None else tuple(attempt.ticket)
        if flags:
            request = functools.partial(RunStep, found.session, feeds, self._names, self._targets, flags)
            return found, functools.partial(request, attempt=ticket)
        handle = await self._handle(found, deadline)
        return found, functools.partial(RunCallable, found.session, handle, tuple(given), attempt=ticket)

    def _built(self, values: Sequence[Any], given: Sequence[Any]) -> Any:
        known: dict[str, Any] = {name: scalar(value) for name, value in zip(self._names, values, strict=True)}
        known.update({self._feeds[place]: copied(given[place]) for place in self._given})
        found = [known[tensor.name] for tensor in self._fetches.tensors]
        if len(found) > len(known):  # a tensor fetched twice gives two arrays
            found = [copied(value) for value in found]
        return self._fetches.build(found)

    async def _handle(self, found: OpenSession, deadline: float | None) -> int:
        """The number of the call in that session; asked for once."""
        handle = found.handles.get(self)
        if handle is not None and handle.done() and not handle.cancelled() and handle.exception() is None:
            return handle.result()
        if handle is None or (handle.done() and (handle.cancelled() or handle.exception() is not None)):
            handle = found.handles[self] = asyncio.ensure_future(self._made(found))
            handle.add_done_callback(lambda done: done.cancelled() or done.exception())
        number = await asyncio.shield(handle)
        self._engine.check_open()
        return number

    async def _made(self, found: OpenSession) -> int:
        answer = await found.peer.request(MakeCallable(found.session, self._feeds, self._names, self._targets))
        number: int = answer.handle
        self._engine.send_when_collected(self, found, ReleaseCallable(found.session, number))
        return number
