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
        fetches: the elements to fetch, in any structure that a session can fetch; None for none.
        feeds: values for tensors that neither the run nor another hook feeds.
        options: further options of the run: the shortest time limit holds, and every requested trace and check.
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
    """

    results: Any
    options: RunOptions | None
    run_metadata: RunMetadata | None


class SessionRunContext:
    """One run, as hooks see it.

    Attributes:
        original_args: the arguments of the run without hooks.
        session: the underlying session, for runs without hooks.
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
