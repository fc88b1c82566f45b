"""Opens the sessions of a monitored session, and makes them ready again after the loss of a peer."""

import abc
import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from aioflow import errors
from aioflow.files.filesystem import Path
from aioflow.graph.building import get_default_graph
from aioflow.runtime.attempts import Attempt
from aioflow.session import Session
from aioflow.session.default_config import AnyConfig
from aioflow.tensors.recursion import safe_repr
from aioflow.train.recovery import LOSSES, patiently
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_manager import LONGEST, Preparation, Scope, SessionManager, Source, opened
from aioflow.train.session_run_hook import finished

if TYPE_CHECKING:
    from aioflow.net.client.client import Address


@dataclasses.dataclass(slots=True)
class FailedRuns:
    """The runs that a loss has ended, to be repeated.

    Attributes:
        attempts: the attempts of these runs.
        tasks: the lost tasks that errors have named.
        undone: the attempts that were undone.
    """

    attempts: list[Attempt] = dataclasses.field(default_factory=list)
    tasks: set[str] = dataclasses.field(default_factory=set)
    undone: list[Attempt] = dataclasses.field(default_factory=list)

    def add(self, attempt: Attempt | None, error: errors.OpError) -> None:
        """Add a failed attempt, and the task that the error names."""
        if attempt is not None:
            self.attempts.append(attempt)
        if error.task is not None:
            self.tasks.add(error.task)

    async def take_back(self, session: Session, deadline: float) -> tuple[str, ...]:
        """Undo the runs. Returns the names of the effects that remain; UnavailableError names a missing task."""
        tasks, left, attempts = sorted(self.tasks), set[str](), list(self.attempts)
        for attempt in attempts:
            left.update(await session.take_back(attempt, tasks, deadline))
        self.undone = attempts
        return tuple(sorted(left))


class SessionCreator(abc.ABC):
    """Opens sessions. A subclass has to define only `create_session`.

    Attributes:
        max_wait_secs: seconds that a session, or a recovery, may take to be ready and known to the hooks.
        ends_runs: whether all runs have to end before `recover_session`, because it restores all variables.
        prepared: the way the last session was made ready.

    Examples:
        >>> issubclass(af.train.ChiefSessionCreator, af.train.SessionCreator)
        True
    """

    max_wait_secs: float = LONGEST
    ends_runs: bool = True
    prepared: Preparation = Preparation()

    def finalize(self) -> None:  # noqa: B027 - not all have something to build
        """Build the missing operations; the graph, which is the default graph, is finalized afterwards."""

    @abc.abstractmethod
    async def create_session(self) -> Session:
        """Return a session that is ready."""

    def settled(self) -> None:  # noqa: B027 - not all remember losses
        """Note that the session is in use: a later loss is a new one."""

    async def is_ready(self, session: Session) -> bool:
        """Whether the values of a ready session are still there; True by default."""
        return True

    async def repair_session(self, session: Session, failed: FailedRuns) -> Session | None:
        """Return a ready session after a loss that took no values, or only some of them.

        Undoes the failed runs, so that they can be repeated. Returns None, the default, if a repair would not be
        exact; then `recover_session` restores everything.
        """
        return None

    async def recover_session(self, session: Session) -> Session:
        """Return a ready session after a loss. By default closes the old one and opens a new one."""
        await session.close()
        opened = await self.create_session()
        opened.listeners.update(session.listeners)
        return opened


class _ScaffoldSessionCreator(SessionCreator):
    """Opens sessions by the operations of a scaffold."""

    def __init__(
        self, scaffold: Scaffold | None, master: "str | Address", config: "AnyConfig | None", max_wait_secs: float
    ) -> None:
        self.scaffold: Final = scaffold or Scaffold()
        self.max_wait_secs = max_wait_secs
        self._master: Final = master
        self._config: Final = config
        self._repeated: Final[set[str]] = set()
        """The names of effects that could not be undone since the last session was in use."""
        self._graph: Final = get_default_graph()

    def finalize(self) -> None:
        with self._graph.as_default():
            self.scaffold.finalize()

    @functools.cached_property
    def _manager(self) -> SessionManager:
        self.finalize()
        scaffold = self.scaffold
        return SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            graph=self._graph,
            local_init_feed_dict=scaffold.local_init_feed_dict,
        )

    async def is_ready(self, session: Session) -> bool:
        """Whether all variables have values."""
        return await self._manager.is_ready(session)

    async def repair_session(self, session: Session, failed: FailedRuns) -> Session | None:
        """Return the session, ready again, or a new one if its master has lost it. None if a repair is not enough.

        Raises:
            af.errors.DeadlineExceededError: a needed task, which the error names, has not come back in `max_wait_secs`.
        """
        deadline = asyncio.get_running_loop().time() + self.max_wait_secs
        if not session.closed:
            with contextlib.suppress(errors.AbortedError):
                return await self._repair(session, failed, deadline, (errors.UnavailableError,))
            await session.close()
        async with opened(self._master, self._graph, self._config) as fresh:
            repaired = await self._repair(fresh, failed, deadline, LOSSES)
        if repaired is None:
            await fresh.close()
        return repaired

    async def _repair(
        self, session: Session, failed: FailedRuns, deadline: float, retried: tuple[type[Exception], ...]
    ) -> Session | None:
        again = functools.partial(self._repair_once, session, failed, deadline)
        left = max(deadline - asyncio.get_running_loop().time(), 0.0)
        done = await patiently(again, "the session", left, 1.0, retried)
        if done is None:
            return None
        self.prepared = done
        return session

    def settled(self) -> None:
        """Forget the effects that could not be undone: the last recovery has reported them."""
        self._repeated.clear()

    @abc.abstractmethod
    async def _repair_once(self, session: Session, failed: FailedRuns, deadline: float) -> Preparation | None:
        """Make the session ready and undo the runs. None if a repair is not enough; an error names a missing task."""


class ChiefSessionCreator(_ScaffoldSessionCreator):
    """Opens sessions whose variables it restores, or initializes if there is no checkpoint.

    Args:
        scaffold: the operations to use.
        master: the address of a cluster's master; empty for this process.
        config: configuration of sessions.
        checkpoint_dir: the directory of checkpoints, whose newest undamaged one is restored.
        checkpoint_filename_with_path: a checkpoint to restore instead.
        max_wait_secs: seconds that a session, or a recovery, may take to be ready.
        restore: the variables to restore when some have lost their values. "all", for synchronous training: all
            variables go back to the checkpoint. "lost", for asynchronous training: only variables without a value, like
            those of a lost parameter server; other variables keep their values, and runs under way continue. In both
            modes, if no variable was lost and the failed run was undone, nothing is restored and the run is repeated.
            If an effect of the run cannot be undone, "all" restores all variables, and "lost" names the effect in
            `Recovery.repeated`. "all" also restores all variables if the saver saves `state`.

    Examples:
        >>> v = af.Variable(1.0)
        >>> creator = af.train.ChiefSessionCreator(checkpoint_dir="checkpoints")
        >>> async with af.train.MonitoredSession(creator) as monitored:
        ...     print(await monitored.run(v))
        1.0
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: "str | Address" = "",
        config: "AnyConfig | None" = None,
        checkpoint_dir: Path | None = None,
        checkpoint_filename_with_path: Path | None = None,
        max_wait_secs: float = LONGEST,
        restore: Scope = "all",
    ) -> None:
        if restore not in ("all", "lost"):
            raise ValueError(f"restore is 'all' or 'lost', not {safe_repr(restore)}")
        if checkpoint_dir is not None and checkpoint_filename_with_path is not None:
            raise ValueError("checkpoint_dir and checkpoint_filename_with_path exclude each other")
        super().__init__(scaffold, master, config, max_wait_secs)
        self.ends_runs = restore == "all"
        self._scope: Final[Scope] = restore
        self._folder: Final = checkpoint_dir
        self._path: Final = checkpoint_filename_with_path
        self._lost: Final[set[str]] = set()

    async def create_session(self) -> Session:
        """Return a ready session. Raises the errors of `SessionManager.prepare_session`."""
        session, self.prepared = await self._manager.prepared(
            self._master, self._config, self._source, self._scope, self.max_wait_secs
        )
        if self._scope == "all":  # all variables were restored
            self._repeated.clear()
        return session

    async def _repair_once(self, session: Session, failed: FailedRuns, deadline: float) -> Preparation | None:
        self._repeated.update(await failed.take_back(session, deadline))
        is_partial = self._repeated or self._saves_state or not await self._manager.is_ready(session)
        if self._scope == "all" and is_partial:
            return None
        done = await self._manager.prepare(session, self._source, "lost", deadline, self._lost, "lost")
        return dataclasses.replace(done, repeated=tuple(sorted(self._repeated)))

    @property
    def _saves_state(self) -> bool:
        """Whether checkpoints hold state besides variables, whose loss is not detected."""
        return self.scaffold.saver is not None and self.scaffold.saver.state

    def settled(self) -> None:
        """Note that the loss was reported."""
        super().settled()
        self._lost.clear()

    @property
    def _source(self) -> Source:
        scaffold = self.scaffold
        call = None if scaffold.init_fn is None else self._call_init_fn
        return Source(scaffold.init_op, scaffold.init_feed_dict, call, scaffold.saver, self._folder, self._path)

    def _call_init_fn(self, session: Session) -> Awaitable[None]:
        assert self.scaffold.init_fn is not None
        return finished(self.scaffold.init_fn(self.scaffold, session))


class WorkerSessionCreator(_ScaffoldSessionCreator):
    """Opens sessions and waits until a chief has initialized or restored their variables.

    Args:
        scaffold: the operations that check whether all is ready.
        master: the address of a cluster's master; empty for this process.
        config: configuration of sessions.
        max_wait_secs: seconds to wait for the chief, and for lost tasks.

    Examples:
        >>> creator = af.train.WorkerSessionCreator(max_wait_secs=60.0)
        >>> isinstance(creator, af.train.SessionCreator)
        True
    """

    ends_runs = False

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: "str | Address" = "",
        config: "AnyConfig | None" = None,
        max_wait_secs: float = 30 * 60,
    ) -> None:
        super().__init__(scaffold, master, config, max_wait_secs)

    async def create_session(self) -> Session:
        """Return a ready session. Raises the errors of `SessionManager.wait_for_session`."""
        return await self._manager.wait_for_session(self._master, self._config, self.max_wait_secs)

    async def _repair_once(self, session: Session, failed: FailedRuns, deadline: float) -> Preparation | None:
        self._repeated.update(await failed.take_back(session, deadline))
        await self._manager.wait_until_ready(session, deadline, "lost")
        return Preparation(repeated=tuple(sorted(self._repeated)))
