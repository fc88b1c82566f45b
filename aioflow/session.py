"""The user's face of a step: fetches, feeds, callables."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from aioflow import errors, scopes
from aioflow.config import Config, RunOptions
from aioflow.dtypes import Array
from aioflow.feeds import converter, parse_feeds
from aioflow.graph import Graph
from aioflow.node import Operation, Tensor
from aioflow.partial import PartialRun
from aioflow.passes.flow import Value
from aioflow.plan import Signature
from aioflow.step import CPU_NAME, DEFAULT, Local, Planned, Slice, run_step
from aioflow.structure import Fetches, parse_fetches
from aioflow.tracing import RunMetadata

_running_loop: Final = asyncio._get_running_loop


class _Call:
    """A call signature made ready: conversions for its feeds, its plan, and the way back to the fetch structure."""

    __slots__ = ("converters", "direct", "fetches", "finish", "local", "planned", "signature")

    def __init__(self, local: Local, graph: Graph, fetches: Fetches, feeds: Sequence[Tensor]) -> None:
        self.local = local
        self.fetches = fetches
        fed = set(feeds)
        computed = tuple([tensor for tensor in fetches.tensors if tensor not in fed])
        targets = fetches.operations
        self.signature = Signature(tuple(feeds), computed, targets)
        self.planned: Planned = local.planned(self.signature)
        self.converters = [converter(tensor) for tensor in feeds]
        self.finish = [_finisher(value) for value in self.planned.plan.flow.fetches]
        self.direct = {tensor: feeds.index(tensor) for tensor in fetches.tensors if tensor in fed}

    async def run(self, values: Sequence[Any], options: RunOptions, metadata: RunMetadata | None) -> Any:
        """Check and convert the feeds, run, and shape the result."""
        given = [convert(value) for convert, value in zip(self.converters, values, strict=True)]
        planned = self.local.planned(self.signature)
        outputs = await run_step(self.local, planned, given, options, metadata)
        results = [finish(value) for finish, value in zip(self.finish, outputs, strict=True)]
        return self.fetches.build(self._with_fed(results, given) if self.direct else results)

    def _with_fed(self, results: list[Any], given: Sequence[Any]) -> list[Any]:
        computed = iter(results)
        places = [self.direct.get(tensor) for tensor in self.fetches.tensors]
        return [_scalar(given[place]) if place is not None else next(computed) for place in places]


def _finisher(value: Value) -> Callable[[Array], Any]:
    """What makes a fetched value the caller's own: a copy, unless the kernel just made it for nobody else."""
    definition = value.node.definition
    kernel = definition.kernel_for("CPU", value.node.input_specs)  # type: ignore[arg-type]
    if kernel is not None and kernel.fresh:
        return _scalar
    return _copied


def _scalar(value: Array) -> Any:
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _copied(value: Array) -> Any:
    return (value.copy() if value.ndim else value[()]) if isinstance(value, np.ndarray) else value


class Session:
    """Runs parts of a graph, with state that lives as long as the session.

    Belongs to one event loop, the first it is used on. It may be entered, used and closed in different tasks of that loop.
    Any number of tasks may run at the same time; they share variables.

        async with af.Session(graph=graph) as session:
            await session.run(init)
            value = await session.run(loss, {x: batch})

    Args:
        target: the address of a cluster's master; empty for this process.
        graph: the graph to run; the default graph by default.
        config: how it works.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Config | None = None) -> None:
        if target:
            raise ValueError(f"target {target!r}: only the local session, target '', can be opened")
        self.graph: Final = scopes.get_default_graph() if graph is None else graph
        self.config: Final = config or Config()
        self._local = Local(self.config)
        self._calls: dict[Any, _Call] = {}
        self._partial: set[PartialRun] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        self._check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Self]:
        """Inside the block, `await tensor.eval()` and `await operation.run()` use this session."""
        token = scopes.default_session.set(self)
        try:
            yield self
        finally:
            scopes.default_session.reset(token)

    async def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        options: RunOptions | None = None,
        metadata: RunMetadata | None = None,
    ) -> Any:
        """Compute `fetches` and return their values in the same structure; an operation's value is None.

        Cancelling the awaiting task ends the step and leaves nothing of it; the session stays usable. A kernel that is
        inside C code at that moment runs to its end, detached.

        Args:
            fetches: a tensor, an operation, a variable, the name of one, or any nesting of lists, tuples, dicts and
                dataclasses of these.
            feeds: values for tensors, by tensor or name. They are not copied if dtype and layout fit.
            options: a time limit, tracing, checks.
            metadata: filled with what was traced.

        Raises:
            TypeError, ValueError: fetches or feeds do not fit the graph; nothing has run.
            RuntimeError: the session is closed, or belongs to another loop.
            af.errors.OpError: the run failed; the error names the operation and the user's line that built it.
        """
        self._check()
        given = parse_feeds(self.graph, feeds) if feeds else {}
        call = self._call(fetches, tuple(given))
        return await call.run(tuple(given.values()), options or DEFAULT, metadata)

    def make_callable(self, fetches: Any, feeds: Sequence[Any] = ()) -> Callable[..., Awaitable[Any]]:
        """A coroutine function that takes values for `feeds` positionally and returns what `run` would.

        What does not depend on the values is checked and planned here, once.
        """
        self._check_open()
        tensors = list(parse_feeds(self.graph, [(feed, None) for feed in feeds]))
        places = _places(self.graph, feeds, tensors)
        call = _Call(self._local, self.graph, parse_fetches(self.graph, fetches), tensors)
        names = [tensor.name for tensor in tensors]

        async def run(*values: Any, options: RunOptions | None = None, metadata: RunMetadata | None = None) -> Any:
            self._check()
            if len(values) != len(names):
                raise TypeError(f"the callable takes {len(names)} values, for {names}, and was given {len(values)}")
            ordered = values if places is None else [values[place] for place in places]
            return await call.run(ordered, options or DEFAULT, metadata)

        return run

    def _call(self, fetches: Any, feeds: tuple[Tensor, ...]) -> _Call:
        key = _key(fetches), feeds
        found = self._calls.get(key) if key[0] is not None else None
        if found is None:
            found = _Call(self._local, self.graph, parse_fetches(self.graph, fetches), feeds)
            if key[0] is not None:
                if len(self._calls) >= self.config.plan_cache_size:
                    self._calls.pop(next(iter(self._calls)))
                self._calls[key] = found
        return found

    async def partial_run_setup(self, fetches: Any, feeds: Iterable[Any] = ()) -> PartialRun:
        """Begin a step whose feeds will be given, and whose fetches will be taken, by calls of `partial_run`.

        What needs no feed begins to run at once.
        """
        self._check()
        tensors = list(parse_feeds(self.graph, [(feed, None) for feed in feeds]))
        parsed = parse_fetches(self.graph, fetches)
        signature = Signature(tuple(tensors), parsed.tensors, parsed.operations)
        planned = self._local.planned(signature)
        handle = PartialRun(self._local, planned.plan, self._local.streamed_program(planned))
        self._partial.add(handle)
        handle.start()
        return handle

    async def partial_run(self, handle: PartialRun, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
        """Give some feeds to a partial run and return some of its fetches, in the structure of `fetches`.

        Each feed and fetch is used once; after the last the handle is dead. Cancelling ends that partial run alone.

        Raises:
            af.errors.InvalidArgumentError: the handle is dead, a feed or fetch is not of this run or was used before, or
                a fetch needs a feed that was not given yet.
        """
        self._check()
        if handle not in self._partial:
            raise errors.InvalidArgumentError("the partial run is over: must run partial_run_setup again")
        given = {t: converter(t)(value) for t, value in parse_feeds(self.graph, feeds).items()}
        parsed = parse_fetches(self.graph, fetches)
        handle.check_fetches([*parsed.tensors, *parsed.operations], given)
        handle.feed(given)
        try:
            values = await handle.fetch(parsed.tensors)
        except BaseException:
            self._partial.discard(handle)
            raise
        if handle.done:
            self._partial.discard(handle)
            await handle.stop()
        return parsed.build([_copied(value) for value in values])

    async def close(self) -> None:
        """End all runs with `af.errors.CancelledError`, release state and threads. Closing twice is allowed.

        Waits for kernels that cancelled runs left in C code up to `Config(close_timeout=)` seconds, then warns.
        """
        if self._closed:
            return
        self._check()
        self._closed = True
        await self._local.abort(errors.CancelledError("the session was closed while the run went on"))
        await asyncio.gather(*[handle.stop() for handle in self._partial], return_exceptions=True)
        self._partial.clear()
        self._calls.clear()
        await self._local.close()

    def list_devices(self) -> list[str]:
        """The names of the devices it can use."""
        return [CPU_NAME]

    @property
    def cached_plans(self) -> list[Signature]:
        """The call signatures whose plans are kept, the least recently used first."""
        return self._local.plans

    @property
    def detached_kernels(self) -> list[str]:
        """Kernels that still run in C code although their run was cancelled."""
        return [*self._local.compute.detached, *self._local.python.detached]

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the session is closed; open a new one")

    def _check(self) -> None:
        """RuntimeError if it is closed or used on another loop than before."""
        if self._closed:
            self._check_open()
        loop = _running_loop()
        if loop is not self._loop:
            self._bind(loop)

    def _bind(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if self._loop is not None or loop is None:
            raise RuntimeError("the session belongs to another event loop; open one session per loop")
        self._loop = loop
        self._local.slice = Slice.of(loop)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._local.steps)} steps running"
        return f"<af.Session of {self.graph!r}, {state}>"


def _key(fetches: Any) -> Any:
    """A key for fetch structures that are often repeated: one element, or a flat list of elements."""
    if type(fetches) in (Tensor, Operation, str):
        return fetches
    if type(fetches) in (list, tuple) and all(type(item) in (Tensor, Operation, str) for item in fetches):
        return type(fetches), *fetches
    return None


def _places(graph: Graph, feeds: Sequence[Any], tensors: Sequence[Tensor]) -> list[int] | None:
    """Where the plan's feeds stand among the caller's, None if in the same order."""
    asked = [graph.as_graph_element(feed) for feed in feeds]
    places = [asked.index(tensor) for tensor in tensors]
    return None if places == list(range(len(places))) else places
