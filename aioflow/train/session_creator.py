"""What opens the sessions of a monitored session, and makes them ready again when a peer was lost."""

import abc
import asyncio
import functools
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.files import Path
from aioflow.graph import get_default_graph
from aioflow.session import Session
from aioflow.train.hooked_run import finished
from aioflow.train.recovery import patiently
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_manager import LONGEST, Preparation, Scope, SessionManager, Source

if TYPE_CHECKING:
    from aioflow.net.client import Address


class SessionCreator(abc.ABC):
    """Opens sessions. One of a user's own has to define `create_session`, and no more.

    Attributes:
        max_wait_secs: seconds that a session, or a recovery, may take to be ready and known to the hooks.
        ends_runs: whether runs that are under way have to end before a recovery, which puts everything back.
        prepared: what was done until the last session was ready.
    """

    max_wait_secs: float = LONGEST
    ends_runs: bool = True
    prepared: Preparation = Preparation()

    def finalize(self) -> None:  # noqa: B027 - not all have something to build
        """The graph, which is the default graph, will not grow any more: what is missing is built now."""

    @abc.abstractmethod
    async def create_session(self) -> Session:
        """A session that is ready."""

    def settled(self) -> None:  # noqa: B027 - not all remember losses
        """The session is in use: what is lost from here on is another loss."""

    async def is_ready(self, session: Session) -> bool:
        """Whether what made the session ready still holds; assumed to by default."""
        return True

    async def recover_session(self, session: Session) -> Session:
        """A session that is ready, after a loss: a new one by default, and the old one is closed."""
        await session.close()
        return await self.create_session()


class _ScaffoldSessionCreator(SessionCreator):
    """Opens sessions by the operations of a scaffold."""

    def __init__(
        self, scaffold: Scaffold | None, master: "str | Address", config: Config | None, max_wait_secs: float
    ) -> None:
        self.scaffold: Final = scaffold or Scaffold()
        self.max_wait_secs = max_wait_secs
        self._master: Final = master
        self._config: Final = config
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

    async def recover_session(self, session: Session) -> Session:
        """The session itself, ready again; a new one if its master does not know it any more, or if `ends_runs`.

        Raises:
            af.errors.DeadlineExceededError: somebody who is needed, named, has not come back in `max_wait_secs`.
        """
        if self.ends_runs or session.closed:
            return await super().recover_session(session)
        again = functools.partial(self._ready_again, session, asyncio.get_running_loop().time() + self.max_wait_secs)
        try:
            self.prepared = await patiently(again, "the session", self.max_wait_secs, 1.0, (errors.UnavailableError,))
        except errors.AbortedError:
            return await super().recover_session(session)
        return session

    @abc.abstractmethod
    async def _ready_again(self, session: Session, deadline: float) -> Preparation:
        """The session is ready, or an error tells who is missing."""


class ChiefSessionCreator(_ScaffoldSessionCreator):
    """Opens sessions whose variables it restores, or initializes if there is no checkpoint.

    Args:
        scaffold: by which operations.
        master: the address of a cluster's master; empty for this process.
        config: how sessions work.
        checkpoint_dir: where checkpoints are, of which the newest is restored that is not damaged.
        checkpoint_filename_with_path: the checkpoint that is restored instead.
        max_wait_secs: seconds that a session, or a recovery, may take to be ready.
        restore: which variables get values. "all", so that everything is as it was at the checkpoint, as synchronous
            training needs it. "lost": those that have none, as when a parameter server was lost; what others hold
            stays, and runs that are under way go on, as suits asynchronous training.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: "str | Address" = "",
        config: Config | None = None,
        checkpoint_dir: Path | None = None,
        checkpoint_filename_with_path: Path | None = None,
        max_wait_secs: float = LONGEST,
        restore: Scope = "all",
    ) -> None:
        if restore not in ("all", "lost"):
            raise ValueError(f"restore is 'all' or 'lost', not {restore!r}")
        if checkpoint_dir is not None and checkpoint_filename_with_path is not None:
            raise ValueError("checkpoint_dir and checkpoint_filename_with_path exclude each other")
        super().__init__(scaffold, master, config, max_wait_secs)
        self.ends_runs = restore == "all"
        self._scope: Final[Scope] = restore
        self._folder: Final = checkpoint_dir
        self._path: Final = checkpoint_filename_with_path
        self._lost: Final[set[str]] = set()

    async def create_session(self) -> Session:
        """A session that is ready. See `SessionManager.prepare_session` for what it raises."""
        session, self.prepared = await self._manager.prepared(
            self._master, self._config, self._source, self._scope, self.max_wait_secs
        )
        return session

    async def _ready_again(self, session: Session, deadline: float) -> Preparation:
        return await self._manager.prepare(session, self._source, self._scope, deadline, self._lost, "lost")

    def settled(self) -> None:
        """What was lost has been told."""
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
    """Opens sessions whose variables a chief gives values.

    Args:
        scaffold: by which operations it sees whether all is ready.
        master: the address of a cluster's master; empty for this process.
        config: how sessions work.
        max_wait_secs: seconds that it waits for the chief, and for tasks that are lost.
    """

    ends_runs = False

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: "str | Address" = "",
        config: Config | None = None,
        max_wait_secs: float = 30 * 60,
    ) -> None:
        super().__init__(scaffold, master, config, max_wait_secs)

    async def create_session(self) -> Session:
        """A session that is ready. See `SessionManager.wait_for_session` for what it raises."""
        return await self._manager.wait_for_session(self._master, self._config, self.max_wait_secs)

    async def _ready_again(self, session: Session, deadline: float) -> Preparation:
        await self._manager.wait_until_ready(session, deadline, "lost")
        return Preparation()


__all__ = ["ChiefSessionCreator", "SessionCreator", "WorkerSessionCreator"]
