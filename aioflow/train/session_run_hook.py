"""Hooks: methods called before and after each run of a monitored session, and at its beginning and end.

    class LossPrinter(af.train.SessionRunHook):
        async def before_run(self, run_context):
            return af.train.SessionRunArgs(loss)

        async def after_run(self, run_context, run_values):
            print(run_values.results)

Every method but `begin` may be a coroutine function or an ordinary one.
"""

import dataclasses
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from aioflow.config import RunOptions
from aioflow.session import Session
from aioflow.tracing import RunMetadata
from aioflow.train.coordinator import Coordinator
from aioflow.train.recovery import Recovery


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SessionRunArgs:
    """The fetches, feeds and options that a hook adds to a run.

    Attributes:
        fetches: the elements to fetch, in any structure that a session fetches; None for nothing.
        feeds: values for tensors that neither the run nor another hook feeds.
        options: what the run is told besides: the shortest time limit holds, and what anybody wants traced or checked.
    """

    fetches: Any = None
    feeds: Mapping[Any, Any] | None = None
    options: RunOptions | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SessionRunValues:
    """The results of a run for one hook.

    Attributes:
        results: values of what the hook asked for, in the structure it asked for.
        options: what the run was told, by all together.
        run_metadata: the trace.
    """

    results: Any
    options: RunOptions | None
    run_metadata: RunMetadata | None


class SessionRunContext:
    """One run, as hooks see it.

    Attributes:
        original_args: what the run was asked for without hooks.
        session: the session below, for runs of the hook's own, which no hook sees.
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
        """After this run `should_stop()` of the monitored session is true."""
        self._stop_requested = True


class SessionRunHook:
    """Called around the runs of a monitored session. A method that a subclass does not override does nothing.

    Hooks are called one after the other, in the order they were given. An error of a hook is an error of the run; one
    that tells of a lost peer, as `errors.UnavailableError`, leads to a recovery as if the run had raised it.
    """

    def begin(self) -> None:
        """Once, before the graph is finalized, which is the default graph: the last moment to add operations to it."""

    def after_create_session(self, session: Session, coord: Coordinator) -> Awaitable[None] | None:
        """A session is there and its variables have values: at first, and again after each recovery.

        Args:
            session: the session.
            coord: owns the tasks of this session; those that a hook creates with it end before the session is closed.
        """
        return None

    def before_run(self, run_context: SessionRunContext) -> Awaitable[SessionRunArgs | None] | SessionRunArgs | None:
        """Return the additions to the run that is about to begin."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> Awaitable[None] | None:
        """The run has succeeded."""
        return None

    def after_recovery(self, session: Session, recovery: Recovery) -> Awaitable[None] | None:
        """A peer was lost and training goes on, after `after_create_session` of all hooks.

        Args:
            session: the session that it goes on in.
            recovery: the loss, and how the session recovered.
        """
        return None

    def end(self, session: Session) -> Awaitable[None] | None:
        """All has gone well, and the session is about to be closed; not after an error that it does not survive.

        If a peer is lost meanwhile, and no value with it, it is called again.
        """
        return None
