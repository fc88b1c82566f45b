"""Hooks: methods called before and after each run of a monitored session, and at its beginning and end.

    class LossPrinter(af.train.SessionRunHook):
        async def before_run(self, run_context):
            return af.train.SessionRunArgs(loss)

        async def after_run(self, run_context, run_values):
            print(run_values.results)

Every method but `begin` may be a coroutine function or an ordinary one.

Merges a run with the additions of hooks: fetches, feeds and options in one, and the values separated again.
"""

import dataclasses
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

from aioflow.config import RunOptions
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.runtime.feeds import parse_feeds
from aioflow.runtime.fetches import Fetches, parse_fetches
from aioflow.session import Session
from aioflow.tracing import RunMetadata
from aioflow.train.coordinator import Coordinator
from aioflow.train.recovery import Recovery


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SessionRunArgs:
    """The fetches, feeds and options that a hook adds to a run.

    Attributes:
        fetches: the elements to fetch, in any structure that a session can fetch; None for none.
        feeds: values for tensors that neither the run nor another hook feeds.
        options: further options of the run: the shortest time limit holds, and every requested trace and check.

    Examples:
        >>> class ShowLoss(af.train.SessionRunHook):
        ...     def before_run(self, run_context):
        ...         return af.train.SessionRunArgs(loss)
        ...     def after_run(self, run_context, run_values):
        ...         print("loss", run_values.results)
        >>> v = af.Variable(3.0)
        >>> loss = v * v
        >>> async with af.train.MonitoredSession(hooks=[ShowLoss()]) as monitored:
        ...     _ = await monitored.run(v)
        loss 9.0
    """

    fetches: Any = None
    feeds: Mapping[Any, Any] | None = None
    options: RunOptions | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SessionRunValues:
    """The results of a run for one hook.

    Attributes:
        results: values of the hook's fetches, in their structure.
        options: the merged options of the run.
        run_metadata: the trace.

    Examples:
        >>> class ShowLoss(af.train.SessionRunHook):
        ...     def before_run(self, run_context):
        ...         return af.train.SessionRunArgs({"loss": loss})
        ...     def after_run(self, run_context, run_values):
        ...         print(run_values.results)
        >>> v = af.Variable(3.0)
        >>> loss = v * v
        >>> async with af.train.MonitoredSession(hooks=[ShowLoss()]) as monitored:
        ...     _ = await monitored.run(v)
        {'loss': np.float32(9.0)}
    """

    results: Any
    options: RunOptions | None
    run_metadata: RunMetadata | None


class SessionRunContext:
    """One run, as hooks see it.

    Attributes:
        original_args: the arguments of the run without hooks.
        session: the underlying session, for runs without hooks.

    Examples:
        >>> class StopWhenSmall(af.train.SessionRunHook):
        ...     def before_run(self, run_context):
        ...         return af.train.SessionRunArgs(v)
        ...     def after_run(self, run_context, run_values):
        ...         if run_values.results < 1.0:
        ...             run_context.request_stop()
        >>> v = af.Variable(4.0)
        >>> halve = v.assign(v / 2.0)
        >>> async with af.train.MonitoredSession(hooks=[StopWhenSmall()]) as monitored:
        ...     while not monitored.should_stop():
        ...         value = await monitored.run(halve)
        >>> value
        np.float32(0.25)
    """

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        self.original_args: Final = original_args
        self.session: Final = session
        self._stop_requested = False

    @property
    def stop_requested(self) -> bool:
        """Whether a stop was requested in this run."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Make `should_stop()` of the monitored session true after this run."""
        self._stop_requested = True


class SessionRunHook:
    """Called around the runs of a monitored session. A method that a subclass does not override does nothing.

    Hooks are called one after the other, in the order they were given. An error of a hook is an error of the run.
    One that indicates a lost peer, such as `errors.UnavailableError`, leads to a recovery as if the run had raised it.

    Examples:
        >>> class CountRuns(af.train.SessionRunHook):
        ...     runs = 0
        ...     def after_run(self, run_context, run_values):
        ...         self.runs += 1
        >>> hook, v = CountRuns(), af.Variable(1.0)
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     for _ in range(3):
        ...         _ = await monitored.run(v)
        >>> hook.runs
        3
    """

    def begin(self) -> None:
        """Called once, before the default graph is finalized: the last moment to add operations to it."""

    def after_create_session(self, session: Session, coord: Coordinator) -> Awaitable[None] | None:
        """Called when a session is ready: at first, and again after each recovery.

        Args:
            session: the session.
            coord: owns the tasks of this session; tasks that a hook creates with it end before the session is closed.
        """
        return None

    def before_run(self, run_context: SessionRunContext) -> Awaitable[SessionRunArgs | None] | SessionRunArgs | None:
        """Return the additions to the run that is about to begin."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> Awaitable[None] | None:
        """Called after the run has succeeded."""
        return None

    def after_recovery(self, session: Session, recovery: Recovery) -> Awaitable[None] | None:
        """Called when training goes on after the loss of a peer, after `after_create_session` of all hooks.

        Args:
            session: the session in which training goes on.
            recovery: the loss, and the recovery of the session.
        """
        return None

    def end(self, session: Session) -> Awaitable[None] | None:
        """Called before the session is closed regularly, not after an error.

        If a peer is lost meanwhile without loss of values, it is called again.
        """
        return None


T = TypeVar("T")


class MergedRun:
    """The fetches, feeds and options of one run, merged from its caller and all hooks.

    Attributes:
        elements: all fetches, for `Session.run`.
        feeds: all feeds.
        options: the options of the run; None if neither the caller nor a hook gave any.

    Raises:
        TypeError, ValueError: a fetch or feed does not fit the graph, or two of them feed the same tensor.
    """

    def __init__(self, graph: Graph, own: SessionRunArgs, hooks: Sequence[SessionRunArgs | None]) -> None:
        wanted = [own, *[args or SessionRunArgs() for args in hooks]]
        self._parsed: Final = [None if args.fetches is None else parse_fetches(graph, args.fetches) for args in wanted]
        if own.fetches is None:
            parse_fetches(graph, None)  # which raises
        self.elements: Final = list(dict.fromkeys(e for parsed in self._parsed if parsed for e in _elements(parsed)))
        self.feeds: Final = _merge_feeds(graph, [args.feeds for args in wanted if args.feeds])
        self.options: Final = merged_options([args.options for args in wanted if args.options is not None])

    def split(self, values: Sequence[Any]) -> list[Any]:
        """Return the values in the structures of the caller and of each hook; None for an empty structure."""
        found = dict(zip(self.elements, values, strict=True))
        return [None if p is None else p.build([found[tensor] for tensor in p.tensors]) for p in self._parsed]


def _elements(parsed: Fetches) -> list[Tensor | Operation]:
    return [*parsed.tensors, *parsed.operations]


def _merge_feeds(graph: Graph, several: Sequence[Mapping[Any, Any]]) -> dict[Any, Any] | None:
    together: dict[Any, Any] = {}
    for feeds in several:
        given = parse_feeds(graph, feeds)
        twice = [tensor.name for tensor in given if tensor in together]
        if twice:
            raise ValueError(
                f"{', '.join(twice)}: fed by the run and by a hook, or by two hooks; one of them has to do"
            )
        together |= given
    return together or None


def merged_options(several: Sequence[RunOptions]) -> RunOptions | None:
    """Return the shortest time limit, and every check and trace that any of the options requests."""
    if len(several) < 2:
        return several[0] if several else None
    limits = [options.timeout for options in several if options.timeout is not None]
    return RunOptions(
        timeout=min(limits, default=None),
        trace=any(options.trace for options in several),
        check_numerics=any(options.check_numerics for options in several),
    )


async def finished(value: Awaitable[T] | T) -> T:
    """Return the result of a hook's method; await it if possible."""
    return await value if inspect.isawaitable(value) else value
