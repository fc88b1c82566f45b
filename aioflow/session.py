"""The user's face of a step: fetches, feeds, callables."""

import asyncio
import contextlib
import functools
import threading
import warnings
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from aioflow import errors
from aioflow.config import Config, RunOptions, expect
from aioflow.devices.device import DeviceAttributes
from aioflow.devices.memory import MemoryUse
from aioflow.graph.building import get_default_graph
from aioflow.graph.default_session import Runner, default_session, enter_session, leave_session
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor, items_of
from aioflow.plan.cost_model import CostModel
from aioflow.plan.pipeline import Signature
from aioflow.plan.placement.report import Placement
from aioflow.resources.containers import Container, drop_shared
from aioflow.runtime.attempts import Attempt
from aioflow.runtime.call import copied
from aioflow.runtime.call_cache import CallCache
from aioflow.runtime.engine import AnyPartialRun, LocalEngine
from aioflow.runtime.explain import Report, explain, report_stall, with_idle_runners
from aioflow.runtime.feeds import check_distinct, check_mapping, converter, feed_key, in_order, parse_feeds
from aioflow.runtime.fetches import parse_fetches
from aioflow.runtime.plan_cache import DEFAULT
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.stream import stream
from aioflow.runtime.update_gate import Boundary, effects_of
from aioflow.tensors.codecs import Saving
from aioflow.tensors.recursion import safe_repr
from aioflow.tracing import RunMetadata
from aioflow.waiting.handover import Held

if TYPE_CHECKING:
    from aioflow.net.client.client import Address, RemoteEngine

_running_loop: Final = asyncio._get_running_loop


class Session:
    """Runs parts of a graph, with state that lives as long as the session.

    Belongs to one event loop, the first it is used on. It may be entered, used and closed in different tasks of that
    loop. Any number of tasks may run at the same time; they share variables.

        async with af.Session(graph=graph) as session:
            await session.run(init)
            value = await session.run(loss, {x: batch})

    Attributes:
        graph: what it runs.
        config: how it works.
        boundary: the moments between its steps, for who takes the values of many variables, as a Saver does.

    Args:
        target: the address of a cluster's master, as "ws://host:2222"; empty for this process.
        graph: the graph to run; the default graph by default.
        config: how it works.
    """

    _closed = True  # until it is made: `__del__` looks, whatever `__init__` raised

    def __init__(self, target: "str | Address" = "", graph: Graph | None = None, config: Config | None = None) -> None:
        expect("graph", graph, Graph)
        expect("config", config, Config)
        self.graph: Final = get_default_graph() if graph is None else graph
        self.config: Final = config or Config()
        self._engine: Final = _engine_at(target, self.graph, self.config) if target else LocalEngine(self.config)
        if isinstance(self._engine, LocalEngine):
            self._engine.state.on_stall = functools.partial(_report_stall, weakref.ref(self))
        self.boundary: Final = Boundary()
        self._calls: Final = CallCache(self.graph, self.config, self._engine, self.boundary)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outer: Runner | None = None
        self._closed = False
        with _sessions_lock:
            _sessions.add(self)

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

    async def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        options: RunOptions | None = None,
        metadata: RunMetadata | None = None,
    ) -> Any:
        """Compute `fetches` and return their values in the same structure; an operation's value is None.

        Cancelling the awaiting task ends the step and leaves nothing of it; the session stays usable. A kernel that is
        inside C code at that moment runs to its end, detached; no update of a variable begins after it. Elements that
        the step took from queues and the like are put back, and elements that it put are removed, unless another step
        has taken one of them. The same holds when a time limit or a lost task ends the step, but not when a kernel
        fails. Updates of variables, and gradients added to accumulators, are not undone. In a cluster the cancellation
        takes its way to the tasks: the step may have run to its end there by then.

        Args:
            fetches: a tensor, an operation, a variable, the name of one, or any nesting of lists, tuples, dicts and
                dataclasses of these.
            feeds: values for tensors, by tensor, name, or a tuple of these that gets a tuple of values. They are not
                copied if dtype and layout fit.
            options: a time limit, tracing, checks.
            metadata: filled with what was traced.

        Raises:
            TypeError, ValueError: fetches or feeds do not fit the graph; nothing has run.
            RuntimeError: the session is closed, or belongs to another loop.
            af.errors.OpError: the run failed; the error names the operation and the user's line that built it.
        """
        return await self._begun(fetches, feeds, options, metadata)

    def _begun(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None,
        options: RunOptions | None,
        metadata: RunMetadata | None = None,
        held: Held | None = None,
    ) -> Awaitable[Any]:
        """The coroutine of a run; the caller awaits it at once."""
        self._check()
        if options is not None or metadata is not None:
            expect("options", options, RunOptions)
            expect("metadata", metadata, RunMetadata)
        if feeds is None:
            return self._calls.get(fetches, ()).call.run((), options or DEFAULT, metadata, held)
        if type(feeds) is not dict:
            check_mapping(feeds)
        call, arrange, _ = self._calls.get(fetches, feeds)
        values = tuple(feeds.values())
        return call.run(values if arrange is None else arrange(values), options or DEFAULT, metadata, held)

    def make_callable(self, fetches: Any, feeds: Sequence[Any] = ()) -> Callable[..., Awaitable[Any]]:
        """A coroutine function that takes values for `feeds` positionally and returns what `run` would.

        What does not depend on the values is checked and planned here, once.
        """
        self._check_open()
        keys = list(items_of("feeds", feeds))
        call, arrange, _ = self._calls.make(fetches, keys)

        async def run(*values: Any, options: RunOptions | None = None, metadata: RunMetadata | None = None) -> Any:
            self._check()
            if len(values) != len(keys):
                names = [getattr(key, "name", key) for key in keys]
                raise TypeError(f"the callable takes {len(keys)} values, for {names}, and was given {len(values)}")
            if options is not None or metadata is not None:
                expect("options", options, RunOptions)
                expect("metadata", metadata, RunMetadata)
            given = values if arrange is None else arrange(values)
            return await call.run(given, options or DEFAULT, metadata)

        return run

    async def partial_run_setup(
        self, fetches: Any, feeds: Iterable[Any] = (), options: RunOptions | None = None
    ) -> AnyPartialRun:
        """Begin a step whose feeds will be given, and whose fetches will be taken, by calls of `partial_run`.

        What needs no feed begins to run at once. The time limit, of `options` or else of the session, is for each call
        of `partial_run`. What is given up is ended by `await handle.stop()`, or by itself when nobody has the handle
        any more and feeds are missing.
        """
        self._check()
        keys = [feed_key(self.graph, feed) for feed in items_of("feeds", feeds)]
        check_distinct(keys)
        expect("options", options, RunOptions)
        parsed = parse_fetches(self.graph, fetches)
        tensors = in_order(tensor for key in keys for tensor in key.tensors)
        limit = self.config.operation_timeout if options is None or options.timeout is None else options.timeout
        return await self._engine.begin(Signature(tuple(tensors), parsed.tensors, parsed.operations), limit)

    async def partial_run(self, handle: AnyPartialRun, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
        """Give some feeds to a partial run and return some of its fetches, in the structure of `fetches`.

        Each feed and fetch is used once; after the last the handle is dead. Cancelling ends that partial run alone.

        Raises:
            af.errors.InvalidArgumentError: the handle is dead, a feed or fetch is not of this run or was used before,
                or a fetch needs a feed that was not given yet.
            af.errors.DeadlineExceededError: the limit passed; the partial run has ended.
            af.errors.OpError: the step failed, now or in an earlier call.
        """
        self._check()
        if not self._engine.began(handle):
            raise errors.InvalidArgumentError(f"{handle!r} is no partial run of this session; see partial_run_setup")
        given = {tensor: converter(tensor)(value) for tensor, value in parse_feeds(self.graph, feeds).items()}
        parsed = parse_fetches(self.graph, fetches)
        values = await handle.call([*parsed.operations, *parsed.tensors], given)
        return parsed.build([copied(value) for value in values])

    async def take_back(self, attempt: Attempt, tasks: Sequence[str], deadline: float | None) -> tuple[str, ...]:
        """Undo a failed attempt before it is repeated, on `tasks` too. Returns the names of the effects that remain."""
        self._check()
        left = await self._engine.take_back(attempt, tasks, deadline)
        return tuple(sorted({*left}.union(*map(effects_of, attempt.untracked))))

    async def explain(self) -> Report:
        """What is under way, what each operation waits for, since when, and where the user built it.

        Also which queue runners of the graph were never started. `str` of it is the text.
        """
        self._check()
        return with_idle_runners(await self._engine.explain(), self, self.graph)

    async def stream(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        read_ahead: int = 1,
        options: RunOptions | None = None,
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

    async def close(self) -> None:
        """End all runs with `af.errors.CancelledError`, release state and threads. Closing twice is allowed.

        Waits for kernels that cancelled runs left in C code up to `Config(close_timeout=)` seconds, then warns.
        """
        if self._closed:
            return
        self._check()
        self._closed = True
        self._calls.clear()
        await self._engine.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def queue(self, handle: Any) -> Any:
        """The live queue behind a handle: what steps of this session put elements into and take them off.

            await session.queue(images).put(image)
            async for loss in session.queue(losses): ...

        It is an `aioflow.queues.Queue`; of a session of a cluster a `RemoteQueue`, whose waiting is done where the
        queue lives. It is made now if no step has made it. What is put is converted as feeds are: TypeError or
        ValueError if an element cannot be so.

        Args:
            handle: the queue in the graph, or the tensor that is its handle.

        Raises:
            TypeError, ValueError: it is no handle of a queue, or of another graph.
            af.errors.InvalidArgumentError: it is shared, and was made with other attributes.
        """
        self._check()
        tensor = self.graph.as_graph_element(getattr(handle, "queue_ref", handle), allow_operation=False)
        assert isinstance(tensor, Tensor)
        return self._engine.queue(tensor)

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices it can use. Of a cluster's session they are known once it has run something."""
        return list(self._engine.devices)

    async def memory(self) -> dict[str, MemoryUse]:
        """What kernels have made and is still alive, by the names of the devices that account for it.

        Feeds count from when a kernel returns them, constants from when they are first used; what kernels allocate and
        free again does not.

        Raises:
            ValueError: none does, as neither `Config(track_memory=True)` nor a memory limit asks for it.
        """
        self._check()
        found = await self._engine.memory()
        if not found:
            raise ValueError("no device accounts for its memory: open the session with af.Config(track_memory=True)")
        return found

    async def placement(self, fetches: Any, feeds: Iterable[Any] = ()) -> Placement:
        """Where each node of a run would be put, and why; `str` of it is a table. Nothing runs.

        Args:
            fetches: as for `run`.
            feeds: the tensors that would be fed.
        """
        self._check()
        keys = [feed_key(self.graph, feed) for feed in feeds]
        tensors = tuple(in_order(tensor for key in keys for tensor in key.tensors))
        parsed = parse_fetches(self.graph, fetches)
        computed = tuple([tensor for tensor in parsed.tensors if tensor not in tensors])
        return await self._engine.placement(Signature(tensors, computed, parsed.operations))

    async def savings(self) -> dict[str, Saving]:
        """What lossy forms have saved so far, by the edge between devices that they went along."""
        self._check()
        return await self._engine.savings()

    @property
    def cost_model(self) -> CostModel:
        """What its placement takes operations and transfers to cost; each traced run teaches it what they took."""
        return self._state.plans.model

    async def replan(self) -> None:
        """Forget all plans, so that each call is placed anew, by what the cost model has learnt. State stays.

            await session.run(train, feeds, af.RunOptions(trace=True))
            await session.replan()

        A model that was saved serves another session: `af.Config(cost_model=af.CostModel.load(path))`.
        """
        self._check()
        await self._engine.replan()

    @property
    def cached_plans(self) -> list[Signature]:
        """The call signatures whose plans are kept, the least recently used first."""
        return self._state.plans.signatures

    @property
    def detached_kernels(self) -> list[str]:
        """Kernels that still run in C code although their run was cancelled."""
        return [name for threads in self._state.threads for name in threads.detached]

    async def _leave(self, containers: Iterable[Container]) -> None:
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

    @property
    def _state(self) -> SessionState:
        """What its steps share. UnimplementedError if they run elsewhere."""
        if isinstance(self._engine, LocalEngine):
            return self._engine.state
        raise errors.UnimplementedError("a session of a cluster has this with its master, and it is not shown")

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


def _report_stall(session: "weakref.ref[Session]") -> None:
    """Say in the log why a session does not go on."""
    found = session()
    if found is not None and not found._closed:
        report = with_idle_runners(explain(found._state), found, found.graph)
        report_stall(report, found.config.stall_report or 0.0)


def _engine_at(target: "str | Address", graph: Graph, config: Config) -> "RemoteEngine":
    """What runs a graph by the master at an address `ws://host:port`. ValueError if the target is something else."""
    from aioflow.net.client.client import Address, RemoteEngine
    from aioflow.net.transport.access import network_of_client

    if isinstance(target, Address):
        return RemoteEngine(target, graph, config)
    if not isinstance(target, str):
        raise TypeError(
            f"target must be text, 'ws://host:2222', not {safe_repr(target)}; pass graph= and config= by name"
        )
    scheme, separator, address = target.partition("://")
    if not separator or scheme not in ("ws", "wss") or not address:
        raise ValueError(f"target {target!r}: '' for this process, or the address of a master, as 'ws://host:2222'")
    return RemoteEngine(Address(address, network_of_client(config, scheme == "wss")), graph, config)


def get_default_session() -> Session | None:
    """The innermost session that this task has entered or made its default, None if there is none."""
    session = default_session.get()
    return session if isinstance(session, Session) else None


_sessions: Final[weakref.WeakSet[Session]] = weakref.WeakSet()
_sessions_lock: Final = threading.Lock()


async def reset(
    containers: Iterable[str] | None = None, target: "str | Address" = "", config: Config | None = None
) -> None:
    """The named containers, all by default, are gone: what they held is released, sessions that used them are closed.

    A later session that names one of them finds it empty. Sessions of other loops are closed there. With a target it is
    the containers of all tasks of that cluster, their default ones, too, if none are named; the sessions of that master
    end, and those of others find the containers empty.

    Args:
        containers: their names.
        target: the address of a cluster's master; empty for this process.
        config: how it is reached.
    """
    if isinstance(containers, str):
        raise TypeError(f"containers are a list of names, not {containers!r}")
    if target:
        await _engine_at(target, Graph(), config or Config()).reset(tuple(containers or ()))
        return
    dropped = drop_shared(containers)
    with _sessions_lock:
        sessions = list(_sessions)
    try:
        await asyncio.gather(*[session._leave(dropped) for session in sessions])
    finally:
        for container in dropped:
            container.clear()
