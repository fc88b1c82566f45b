"""The user's face of a step: fetches, feeds, callables."""

import asyncio
import contextlib
import functools
import threading
import warnings
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, overload

from aioflow import errors
from aioflow.config import Config, RunOptions, expect
from aioflow.graph.building import get_default_graph
from aioflow.graph.default_session import Runner, default_session, enter_session, leave_session
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor, items_of
from aioflow.name_hints import refuse
from aioflow.plan.pipeline import Signature
from aioflow.resources.containers import Container
from aioflow.runtime.attempts import Attempt
from aioflow.runtime.call import copied
from aioflow.runtime.call_cache import CallCache
from aioflow.runtime.engine import AnyPartialRun, LocalEngine
from aioflow.runtime.explain import explain, report_stall, with_idle_runners
from aioflow.runtime.feeds import check_distinct, check_mapping, converter, feed_key, in_order, parse_feeds
from aioflow.runtime.fetches import Element, Feeds, K, Metadata, Options, Record, Row, parse_fetches
from aioflow.runtime.partial_run import stream
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.update_gate import Boundary, effects_of
from aioflow.session.batch_rows import RowChecks
from aioflow.session.default_config import AnyConfig, as_config, default_config, run_options
from aioflow.session.reports import SessionReports
from aioflow.session.request_batcher import Limits, RequestBatcher
from aioflow.tensors.dtypes import Array
from aioflow.tracing import RunMetadata
from aioflow.waiting.handover import Held

if TYPE_CHECKING:
    from aioflow.library.queues import QueueBase
    from aioflow.net.client.client import Address, RemoteEngine
    from aioflow.net.client.queue import RemoteQueue
    from aioflow.queues import Queue

_running_loop: Final = asyncio._get_running_loop


class Session(SessionReports):
    """Runs parts of a graph, with state that lives as long as the session.

    Belongs to one event loop, the first it is used on. It may be entered, used and closed in different tasks of that
    loop. Any number of tasks may run at the same time; they share variables.

        async with af.Session(graph=graph) as session:
            await session.run(init)
            value = await session.run(loss, {x: batch})

    Attributes:
        graph: its graph.
        config: its configuration.
        boundary: waits for a moment between steps, for readers of many variables such as a Saver.
        beside: the sessions of other graphs with its variables and other objects; they are closed with it.

    Args:
        target: the address of a cluster's master, as "ws://host:2222"; empty for this process.
        graph: its graph; the default graph by default.
        config: its configuration, also as TensorFlow's message.

    Examples:
        >>> async with af.Session(graph=af.get_default_graph()) as other:
        ...     print(await other.run(af.constant(2) + 3))
        5
    """

    _closed = True  # until it is made: `__del__` reads this even after an error in `__init__`

    def __init__(
        self, target: "str | Address" = "", graph: Graph | None = None, config: "AnyConfig | None" = None
    ) -> None:
        expect("graph", graph, Graph)
        self.config: Final = as_config(config) or default_config(of_cluster=bool(target))
        graph = get_default_graph() if graph is None else graph
        super().__init__(graph, self._make_engine(target, graph))
        self.boundary: Final = Boundary()
        self._calls: Final = CallCache(self.graph, self.config, self._engine, self.boundary)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outer: Runner | None = None
        self._closed = False
        self.beside: Final[weakref.WeakSet[Session]] = weakref.WeakSet()
        with _sessions_lock:
            _sessions.add(self)

    def _make_engine(self, target: "str | Address", graph: Graph) -> "LocalEngine | RemoteEngine":
        if target:
            return _engine(target, graph, self.config)
        engine = LocalEngine(SessionState(self.config))
        engine.state.on_stall = functools.partial(_report_stall, weakref.ref(self))
        return engine

    async def __aenter__(self) -> Self:
        """Open the session, and make it the default session of this task until the block ends."""
        self._check()
        self._outer = enter_session(self, self._outer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave_session(self, self._outer)
        await self.close()

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Self]:
        """Inside the block, `await tensor.eval()` and `await operation.run()` use this session."""
        token = default_session.set(self)
        try:
            yield self
        finally:
            default_session.reset(token)

    @overload
    async def run(
        self, fetches: Operation, feeds: Feeds = None, options: Options = None, metadata: Metadata = None
    ) -> None: ...
    @overload
    async def run(
        self, fetches: Element, feeds: Feeds = None, options: Options = None, metadata: Metadata = None
    ) -> Array: ...
    @overload
    async def run(
        self, fetches: Record, feeds: Feeds = None, options: Options = None, metadata: Metadata = None
    ) -> Record: ...
    @overload
    async def run(
        self, fetches: Row, feeds: Feeds = None, options: Options = None, metadata: Metadata = None
    ) -> Row: ...
    @overload
    async def run(
        self, fetches: Mapping[K, Any], feeds: Feeds = None, options: Options = None, metadata: Metadata = None
    ) -> dict[K, Any]: ...
    async def run(
        self, fetches: Any, feeds: Feeds = None, options: Options = None, metadata: Metadata = None, **wrong: Any
    ) -> Any:
        """Compute `fetches` and return their values in the same structure; an operation's value is None.

        Cancelling the awaiting task ends the step and leaves nothing of it; the session stays usable. A kernel that is
        inside C code at that moment runs to its end, detached; no update of a variable begins after the cancellation.
        Elements that the step took from queues and the like are put back, and elements that it put are removed, unless
        another step has taken one of them. The same holds when a time limit or a lost task ends the step, but not when
        a kernel fails. Updates of variables, and gradients added to accumulators, are not undone. In a cluster the
        cancellation takes its way to the tasks: the step may have run to its end there by then.

        Args:
            fetches: a tensor, an operation, a variable, the name of one, or any nesting of lists, tuples, dicts and
                dataclasses of these.
            feeds: values for tensors, by tensor, name, or a tuple of these that gets a tuple of values. They are not
                copied if dtype and layout fit.
            options: a time limit, tracing, checks.
            metadata: receives the trace.
            **wrong: refused, with the name to use.

        Raises:
            TypeError, ValueError: fetches or feeds do not fit the graph; nothing has run.
            RuntimeError: the session is closed, or belongs to another loop.
            af.errors.OpError: the run failed; the error names the operation and the user's line that built it.
        """
        if wrong:
            refuse("run", wrong)
        return await self._begun(fetches, feeds, options, metadata)

    def _begun(
        self, fetches: Any, feeds: Feeds, options: Options, metadata: Metadata = None, held: Held | None = None
    ) -> Awaitable[Any]:
        """The coroutine of a run; the caller awaits it at once."""
        self._check()
        if options is not None or metadata is not None:
            expect("options", options, RunOptions)
            expect("metadata", metadata, RunMetadata)
        if feeds is None:
            return self._calls.get(fetches, ()).call.run((), run_options(options), metadata, held)
        if type(feeds) is not dict:
            check_mapping(feeds)
        call, arrange, _ = self._calls.get(fetches, feeds)
        values = tuple(feeds.values())
        return call.run(values if arrange is None else arrange(values), run_options(options), metadata, held)

    @overload
    def make_callable(self, fetches: Operation, feeds: Sequence[Any] = ()) -> Callable[..., Awaitable[None]]: ...
    @overload
    def make_callable(self, fetches: Element, feeds: Sequence[Any] = ()) -> Callable[..., Awaitable[Array]]: ...
    @overload
    def make_callable(self, fetches: Record, feeds: Sequence[Any] = ()) -> Callable[..., Awaitable[Record]]: ...
    @overload
    def make_callable(self, fetches: Row, feeds: Sequence[Any] = ()) -> Callable[..., Awaitable[Row]]: ...
    @overload
    def make_callable(
        self, fetches: Mapping[K, Any], feeds: Sequence[Any] = ()
    ) -> Callable[..., Awaitable[dict[K, Any]]]: ...
    def make_callable(self, fetches: Any, feeds: Sequence[Any] = (), **wrong: Any) -> Callable[..., Awaitable[Any]]:
        """A coroutine function that takes values for `feeds` positionally and returns what `run` would.

        Everything that does not depend on the values is checked and planned in this call, once.
        """
        if wrong:
            refuse("make_callable", wrong)
        self._check_open()
        keys = list(items_of("feeds", feeds))
        prepare = self._calls.get if all(type(key) is Tensor for key in keys) else self._calls.make
        call, arrange, _ = prepare(fetches, keys)

        async def run(*values: Any, options: RunOptions | None = None, metadata: RunMetadata | None = None) -> Any:
            self._check()
            if len(values) != len(keys):
                names = [getattr(key, "name", key) for key in keys]
                raise TypeError(f"the callable takes {len(keys)} values, for {names}, and was given {len(values)}")
            if options is not None or metadata is not None:
                expect("options", options, RunOptions)
                expect("metadata", metadata, RunMetadata)
            given = values if arrange is None else arrange(values)
            return await call.run(given, run_options(options), metadata)

        return run

    @overload
    def batched(
        self, fetches: Element, feeds: Sequence[Any], *, max_rows: int = ..., max_delay: float = ...,
        max_waiting: int = ..., buckets: Sequence[int] = ..., priorities: int = ..., isolate_errors: bool = ...,
    ) -> RequestBatcher[Array]: ...  # fmt: skip
    @overload
    def batched(
        self, fetches: Row, feeds: Sequence[Any], *, max_rows: int = ..., max_delay: float = ...,
        max_waiting: int = ..., buckets: Sequence[int] = ..., priorities: int = ..., isolate_errors: bool = ...,
    ) -> RequestBatcher[Row]: ...  # fmt: skip
    @overload
    def batched(
        self, fetches: Mapping[K, Any], feeds: Sequence[Any], *, max_rows: int = ..., max_delay: float = ...,
        max_waiting: int = ..., buckets: Sequence[int] = ..., priorities: int = ..., isolate_errors: bool = ...,
    ) -> RequestBatcher[dict[K, Any]]: ...  # fmt: skip
    def batched(
        self, fetches: Any, feeds: Sequence[Any], *, max_rows: int = 64, max_delay: float = 0.002,
        max_waiting: int = 4096, buckets: Sequence[int] = (), priorities: int = 1, isolate_errors: bool = False,
    ) -> RequestBatcher[Any]:  # fmt: skip
        """An awaitable function that takes rows for `feeds`, and gathers the calls of many tasks into one run.

        Each value has rows in axis 0, and each result has the rows of its call. A batch begins at once when none runs,
        when it is full, or when its oldest call has waited for `max_delay`; at most two run at the same time.

        Args:
            fetches: tensors with a row for each row of the feeds, in any nesting.
            feeds: the tensors that are fed, with rows in axis 0.
            max_rows: the rows of a batch, at most. Where the graph fixes the number of rows, it is that number, and
                the last row is repeated to fill a batch up.
            max_delay: seconds.
            max_waiting: the rows that wait, at most; further calls are refused.
            buckets: sizes to which axes of rows are padded, with zeros or empty strings, if the graph does not know
                their sizes. Without buckets, rows of different shapes are in different batches. If a fetch has the
                padded size in the same axis as the first feed, and the graph does not know it, it is cut again.
            priorities: the levels of priority that a call may have.
            isolate_errors: run the calls of a batch that fails again one by one, so that only those fail which cause
                it. Updates of variables are then repeated.

        Raises:
            TypeError, ValueError: fetches or feeds do not fit the graph, or have no rows; or a limit makes no sense.
        """
        keys = [feed_key(self.graph, feed).tensors for feed in items_of("feeds", feeds)]
        parsed = parse_fetches(self.graph, fetches)
        if not keys or not parsed.tensors or parsed.operations or any(len(tensors) > 1 for tensors in keys):
            raise ValueError("a batched call feeds one tensor or more, and fetches tensors alone, at least one")
        limits = Limits(max_rows, max_delay, max_waiting, priorities)
        rows = RowChecks(parsed.tensors, [tensors[0] for tensors in keys], buckets)
        call, arrange, _ = self._calls.make(list(parsed.tensors), feeds)

        def run(values: Sequence[Array]) -> Awaitable[Sequence[Array]]:
            return call.run(values if arrange is None else arrange(values), run_options(None), None)

        return RequestBatcher(run, self._check, rows, parsed.build, limits, isolate_errors)

    async def partial_run_setup(
        self, fetches: Any, feeds: Iterable[Any] = (), options: RunOptions | None = None
    ) -> AnyPartialRun:
        """Begin a step whose feeds and fetches come with calls of `partial_run`.

        Operations that need no feed begin at once. The time limit, of `options` or else of the session, holds for each
        call of `partial_run`. `await handle.stop()` ends an unfinished step. A step with missing feeds also ends when
        its handle is garbage-collected.
        """
        self._check()
        keys = [feed_key(self.graph, feed) for feed in items_of("feeds", feeds)]
        check_distinct(keys)
        expect("options", options, RunOptions)
        parsed = parse_fetches(self.graph, fetches)
        tensors = in_order(tensor for key in keys for tensor in key.tensors)
        limit = self.config.operation_timeout if options is None or options.timeout is None else options.timeout
        return await self._engine.begin(Signature(tuple(tensors), parsed.tensors, parsed.operations), limit)

    async def partial_run(self, handle: AnyPartialRun, fetches: Any, feeds: Feeds = None) -> Any:
        """Give some feeds to a partial run and return some of its fetches, in the structure of `fetches`.

        Each feed and fetch is used once; after the last the handle is dead. Cancelling ends that partial run alone.

        Raises:
            af.errors.InvalidArgumentError: the handle is dead, a feed or fetch is not of this run or was used before,
                or a fetch needs a feed that was not given yet.
            af.errors.DeadlineExceededError: the limit passed; the partial run has ended.
            af.errors.OpError: the step failed, now or in an earlier call.
        """
        self._check()
        if not self._engine.owns_partial_run(handle):
            raise errors.InvalidArgumentError(f"{handle!r} is not a partial run of this session; see partial_run_setup")
        given = {tensor: converter(tensor)(value) for tensor, value in parse_feeds(self.graph, feeds).items()}
        parsed = parse_fetches(self.graph, fetches)
        values = await handle.call([*parsed.operations, *parsed.tensors], given)
        return parsed.build([copied(value) for value in values])

    async def take_back(self, attempt: Attempt, tasks: Sequence[str], deadline: float | None) -> tuple[str, ...]:
        """Undo a failed attempt before it is repeated, on `tasks` too. Returns the names of the effects that remain."""
        self._check()
        left = await self._engine.take_back(attempt, tasks, deadline)
        return tuple(sorted({*left}.union(*map(effects_of, attempt.untracked))))

    @overload
    def stream(
        self, fetches: Row, feeds: Feeds = None, read_ahead: int = 1, options: Options = None
    ) -> AsyncGenerator[Row, None]: ...
    @overload
    def stream(
        self, fetches: Any, feeds: Feeds = None, read_ahead: int = 1, options: Options = None
    ) -> AsyncGenerator[Any, None]: ...
    async def stream(
        self, fetches: Any, feeds: Feeds = None, read_ahead: int = 1, options: Options = None
    ) -> AsyncGenerator[Any, None]:
        """The values of step after step until the input ends, which is when a step raises OutOfRangeError.

            async for loss, _ in session.stream([loss, train]):
                ...

        Up to `read_ahead` further steps are under way while the caller looks at a result, so that they overlap. Leaving
        the loop early leaves them to be cancelled with the iterator: close it by `contextlib.aclosing`.

        Raises as `run` does, and ValueError if `read_ahead` is negative.
        """

        async def run(held: Held) -> Any:
            return await self._begun(fetches, feeds, options, None, held)

        async with contextlib.aclosing(stream(run, read_ahead)) as values:
            async for value in values:
                yield value

    @property
    def own_container(self) -> str:
        """The name of a container of this session alone, which ends with the session.

        In a session of one process it is empty, which names the default container. The default container of a cluster
        belongs to all of its sessions, so there it is another one.
        """
        return self._engine.own_container

    async def close(self) -> None:
        """End all runs with `af.errors.CancelledError`, release state and threads. Closing twice is allowed.

        Waits for kernels that cancelled runs left in C code up to `Config(close_timeout=)` seconds, then warns.
        """
        if self._closed:
            return
        self._check()
        async with contextlib.AsyncExitStack() as stack:
            for session in (*[each for each in self.beside if not each._closed], self):  # its own runs end first
                session._closed = True
                session._calls.clear()
                stack.push_async_callback(session._engine.close)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def queue(self, handle: "QueueBase | Tensor") -> "Queue | RemoteQueue":
        """Return the live queue of a handle, which the steps of this session use.

            await session.queue(images).put(image)
            async for loss in session.queue(losses): ...

        It is an `aioflow.queues.Queue`; in a session of a cluster it is a `RemoteQueue`, whose calls wait on the task
        of the queue. It is made now if no step has made it. Elements are converted like feeds: TypeError or ValueError
        if that is impossible.

        Args:
            handle: the queue in the graph, or the tensor that is its handle.

        Raises:
            TypeError, ValueError: it is not the handle of a queue, or belongs to another graph.
            af.errors.InvalidArgumentError: it is shared, and was made with other attributes.
        """
        self._check()
        tensor = self.graph.as_graph_element(getattr(handle, "queue_ref", handle), allow_operation=False)
        assert isinstance(tensor, Tensor)
        return self._engine.queue(tensor)

    async def leave(self, containers: Iterable[Container]) -> None:
        """Close it if it uses one of the containers, on its own loop if that runs."""
        engine = self._engine
        if self._closed or not isinstance(engine, LocalEngine) or not any(map(engine.state.resources.uses, containers)):
            return
        loop = self._loop
        if loop is None or loop is _running_loop():
            await self.close()
        elif loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(self.close(), loop)
            await asyncio.wait([asyncio.wrap_future(closing)])
            if not closing.cancelled():  # as it is if that loop ends meanwhile, and with it all that the session did
                closing.result()
        else:
            self._closed = True
            engine.state.resources.clear()

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
        if isinstance(self._engine, LocalEngine):
            self._engine.bind(loop)

    def __del__(self) -> None:
        if not self._closed and self._loop is not None:
            text = f"{self!r} was never closed: use `async with af.Session()`"
            warnings.warn(text, ResourceWarning, stacklevel=1, source=self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else repr(self._engine)
        return f"<af.Session of {self.graph!r}, {state}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.opened import session_html

        return session_html(self)


def _report_stall(session: "weakref.ref[Session]") -> None:
    """Say in the log why a session does not go on."""
    found = session()
    if found is not None and not found._closed:
        report = with_idle_runners(explain(found._state), found, found.graph)
        report_stall(report, found.config.stall_report or 0.0)


def _engine(target: "str | Address", graph: Graph, config: Config) -> "RemoteEngine":
    from aioflow.net.client.target import engine_at  # needs packages that a local session does not

    return engine_at(target, graph, config)


def open_sessions() -> list[Session]:
    """The sessions of all threads that were not collected."""
    with _sessions_lock:
        return list(_sessions)


def get_default_session() -> Session | None:
    """Return the innermost session that this task has entered or made its default; None if there is none.

    Examples:
        >>> with session.as_default():
        ...     print(af.get_default_session() is session)
        True
    """
    session = default_session.get()
    return session if isinstance(session, Session) else None


_sessions: Final[weakref.WeakSet[Session]] = weakref.WeakSet()
_sessions_lock: Final = threading.Lock()
