"""Makes sessions ready: initializes their variables, restores a checkpoint, or waits for another task to do so."""

import asyncio
import contextlib
import dataclasses
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from aioflow import errors
from aioflow.checkpoint import last_checkpoints
from aioflow.config import RunOptions
from aioflow.files.filesystem import Path, as_name
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.session.default_config import AnyConfig
from aioflow.train.recovery import patiently
from aioflow.train.saver import Saver
from aioflow.train.session_run_hook import finished

if TYPE_CHECKING:
    from aioflow.net.client.client import Address

_log: Final = logging.getLogger("aioflow.train")
Scope = Literal["all", "lost"]
"""Whether all variables get new values, or only those that have none."""
LONGEST: Final = 7200.0
"""Default of the seconds that a session may take to be ready."""
_TOLD: Final = 0.5
"""The most seconds by which a task that waits gets less time, so that its own error, which tells more, comes first."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The sources of values of variables.

    Attributes:
        init_op: gives all variables their initial values.
        init_feed_dict: feeds for `init_op`.
        init_fn: (session), called after `init_op`.
        saver: restores checkpoints.
        checkpoint_dir: the directory of checkpoints, whose newest undamaged one is restored.
        checkpoint_path: a checkpoint to restore instead.
        wait_for_checkpoint: whether a checkpoint is required.
    """

    init_op: Any = None
    init_feed_dict: Mapping[Any, Any] | None = None
    init_fn: Callable[[Session], Awaitable[None] | None] | None = None
    saver: Saver | None = None
    checkpoint_dir: Path | None = None
    checkpoint_path: Path | None = None
    wait_for_checkpoint: bool = False

    async def restore(
        self, session: Session, left: Callable[[], RunOptions], variables: Sequence[Variable] | None = None
    ) -> str | None:
        """Give values to all variables or to these. Returns the path of the restored checkpoint; None if there is none.

        A damaged checkpoint in the directory is logged, and the next older one is used.

        Raises:
            af.errors.DataLossError: all checkpoints are damaged; the error is that of the newest.
            af.errors.UnavailableError: a required checkpoint does not exist yet.
        """
        damaged: dict[str, errors.DataLossError] = {}
        while self.saver is not None and (path := await self.checkpoint(session, damaged)) is not None:
            try:
                await self.saver.restore(session, path, left(), variables=variables)
            except errors.DataLossError as error:
                if self.checkpoint_path is not None:
                    raise
                damaged[path] = error
                _log.error("checkpoint %s is damaged, an older one is looked for: %s", path, error.message)
            else:
                return path
        if damaged:
            raise next(iter(damaged.values()))
        return None

    async def checkpoint(self, session: Session, damaged: Collection[str] = ()) -> str | None:
        """Return the undamaged checkpoint to restore, as the committing task sees it. None if there is none.

        Raises:
            af.errors.UnavailableError: a required checkpoint does not exist yet.
        """
        if self.saver is None:
            return None
        if self.checkpoint_path is not None:
            return as_name(self.checkpoint_path)
        found = (
            None
            if self.checkpoint_dir is None
            else await self._newest(session, self.saver, as_name(self.checkpoint_dir), damaged)
        )
        if found is None and self.wait_for_checkpoint and not damaged:
            raise errors.UnavailableError(f"there is no checkpoint in {self.checkpoint_dir!r} yet")
        return found

    async def _newest(self, session: Session, saver: Saver, folder: str, damaged: Collection[str]) -> str | None:
        found = await saver.latest_checkpoint(session, folder, damaged)
        if found is not None and not saver.last_checkpoints:
            await self._recover_last(saver, folder)
        return found

    async def _recover_last(self, saver: Saver, folder: str) -> None:
        """Let the saver count the checkpoints of an earlier saver of its kind, if this process sees the directory."""
        with contextlib.suppress(errors.OpError):
            found = await asyncio.get_running_loop().run_in_executor(None, last_checkpoints, folder)
            saver.find_last_checkpoints_with_time([(checkpoint.path, checkpoint.created) for checkpoint in found])


@dataclasses.dataclass(frozen=True, slots=True)
class Preparation:
    """The way a session was made ready.

    Attributes:
        checkpoint: the restored checkpoint; None if there was none.
        restored: the names of the variables that got their values from it.
        initialized: the names of the variables that got their initial values.
        repeated: the names of variables and operations whose effects of the failed runs were not undone.
    """

    checkpoint: str | None = None
    restored: tuple[str, ...] = ()
    initialized: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


class SessionManager:
    """Opens sessions and makes them ready; waits for the tasks of a cluster and for the chief to initialize variables.

    Args:
        local_init_op: gives local variables their initial values, in each session that is made ready. After a loss that
            `ready_op` detects, it runs only if a local variable has no value, since they may hold sums.
        ready_op: returns the names of the variables without a value; None for no check.
        ready_for_local_init_op: the same for the variables that `local_init_op` needs.
        graph: the graph of sessions; the default graph by default.
        recovery_wait_secs: the most seconds between two checks whether all is ready.
        local_init_run_options: options of runs of `local_init_op`.
        local_init_feed_dict: feeds for `local_init_op`.

    Examples:
        >>> v = af.Variable(1.0)
        >>> manager = af.train.SessionManager()
        >>> prepared = await manager.prepare_session("", init_op=af.global_variables_initializer())
        >>> await prepared.run(v)
        np.float32(1.0)
        >>> await prepared.close()
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 1.0,
        local_init_run_options: RunOptions | None = None,
        local_init_feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        self.graph: Final = get_default_graph() if graph is None else graph
        self._local_init_op: Final = local_init_op
        self._ready_op: Final = ready_op
        self._ready_for_local_init_op: Final = ready_for_local_init_op
        self._longest_pause: Final = recovery_wait_secs
        self._local_options: Final = local_init_run_options
        self._local_feeds: Final = local_init_feed_dict

    # Sessions of the chief

    async def prepare_session(
        self,
        master: "str | Address",
        init_op: Any = None,
        saver: Saver | None = None,
        checkpoint_dir: Path | None = None,
        checkpoint_filename_with_path: Path | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = LONGEST,
        config: "AnyConfig | None" = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: Callable[[Session], Awaitable[None] | None] | None = None,
    ) -> Session:
        """Return a session with values of variables: of the newest checkpoint, or else initial ones.

        Raises:
            RuntimeError: variables have no source of values, or some stay without a value.
            af.errors.DeadlineExceededError: a needed task was not there in time; the error names it.
        """
        source = Source(
            init_op, init_feed_dict, init_fn, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint
        )
        return (await self.prepared(master, config, source, "all", max_wait_secs))[0]

    async def recover_session(
        self,
        master: "str | Address",
        saver: Saver | None = None,
        checkpoint_dir: Path | None = None,
        checkpoint_filename_with_path: Path | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = LONGEST,
        config: "AnyConfig | None" = None,
    ) -> tuple[Session, bool]:
        """Return a session with the values of the newest checkpoint, if there is one; and whether all is ready."""
        source = Source(None, None, None, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint)

        async def attempt() -> tuple[Session, bool]:
            async with opened(master, self.graph, config) as session:
                if await source.restore(session, RunOptions) is not None:
                    await self._initialize_locals(session, RunOptions())
                return session, not await self._missing(session, self._ready_op, RunOptions())

        return await patiently(attempt, f"a session of {_target_name(master)}", max_wait_secs, self._longest_pause)

    async def prepared(
        self, master: "str | Address", config: "AnyConfig | None", source: Source, scope: Scope, seconds: float
    ) -> tuple[Session, Preparation]:
        """Return a ready session, and how it was prepared. Raises as `prepare_session` does."""

        async def attempt() -> tuple[Session, Preparation]:
            async with opened(master, self.graph, config) as session:
                return session, await self.prepare(session, source, scope, deadline)

        deadline = _in(seconds)
        return await patiently(attempt, f"a session of {_target_name(master)}", seconds, self._longest_pause)

    async def prepare(
        self, session: Session, source: Source, scope: Scope, deadline: float, known: set[str] | None = None,
        of_locals: Scope = "all",
    ) -> Preparation:  # fmt: skip
        """Make the session ready, in one attempt. Raises as `prepare_session` does, and errors of missing tasks.

        `known` holds the names of variables that an earlier attempt, which may have got far, found without values; this
        attempt adds more. With "lost", local variables stay unchanged if all of them have values.
        """
        for _ in range(2):  # a task may restart between giving values and checking them
            done = await self._give_values(session, source, scope, deadline, set() if known is None else known)
            await self._initialize_locals(session, _remaining_options(deadline), of_locals)
            missing = await self._missing(session, self._ready_op, _remaining_options(deadline))
            if not missing:
                return done
        raise RuntimeError(
            f"{', '.join(missing)}: without a value after {_source_name(done)}; give them one by init_op, init_fn or "
            "local_init_op, or leave them out of ready_op"
        )

    async def _give_values(
        self, session: Session, source: Source, scope: Scope, deadline: float, known: set[str]
    ) -> Preparation:
        if scope == "lost":
            missing = set(await self._missing(session, self._ready_op, _remaining_options(deadline)))
            known |= missing
            lost = [variable for variable in self._variables() if variable.op.name in known]
            if len(missing) < len(self._variables()):
                return await self._give_back(session, source, lost, missing, deadline)
        path = await source.restore(session, functools.partial(_remaining_options, deadline))
        if path is None or source.saver is None:
            return await self._initialize(session, source, deadline)
        return Preparation(path, restored=_names(source.saver.variables))

    async def _give_back(
        self, session: Session, source: Source, lost: Sequence[Variable], missing: set[str], deadline: float
    ) -> Preparation:
        """Give values to the missing variables: of the newest checkpoint if the saver has them, else initial ones.

        The result names all lost variables, also those to which an earlier attempt gave values.
        """
        path = await source.checkpoint(session) if lost else None
        saved = set() if path is None or source.saver is None else set(_names(source.saver.variables))
        back = [variable for variable in lost if variable.op.name in saved]
        fresh = [variable for variable in lost if variable.op.name not in saved]
        wanted = [variable for variable in back if variable.op.name in missing]
        if wanted:
            path = await source.restore(session, functools.partial(_remaining_options, deadline), wanted)
        anew = [variable.initializer for variable in fresh if variable.op.name in missing]
        if anew:
            await session.run(anew, options=_remaining_options(deadline))
        return Preparation(path if back else None, _names(back), _names(fresh))

    async def _initialize(self, session: Session, source: Source, deadline: float) -> Preparation:
        if source.init_op is None and source.init_fn is None and self._local_init_op is None:
            raise RuntimeError("variables have no source of values: there is no checkpoint, no init_op and no init_fn")
        if source.init_op is not None:
            await session.run(source.init_op, source.init_feed_dict, options=_remaining_options(deadline))
        if source.init_fn is not None:
            await finished(source.init_fn(session))
        return Preparation(initialized=_names(self._variables()))

    # Sessions that wait for a chief

    async def wait_for_session(
        self, master: "str | Address", config: "AnyConfig | None" = None, max_wait_secs: float = LONGEST
    ) -> Session:
        """Return a session after another task has given values to its variables.

        Raises:
            af.errors.DeadlineExceededError: not in time; the error names the missing task or variable.
        """

        async def attempt() -> Session:
            async with opened(master, self.graph, config) as session:
                await self.wait_until_ready(session, deadline)
                return session

        deadline = _in(max_wait_secs)
        return await patiently(attempt, f"a session of {_target_name(master)}", max_wait_secs, self._longest_pause)

    async def wait_until_ready(self, session: Session, deadline: float, of_locals: Scope = "all") -> None:
        """Wait until another task has given values to all variables, and initialize local ones.

        With "lost", local variables stay unchanged if all of them have values. Raises the errors of missing tasks, and
        DeadlineExceededError with the names of the variables without a value.
        """

        async def look() -> None:
            await self._initialize_locals(session, _remaining_options(end), of_locals)
            missing = await self._missing(session, self._ready_op, _remaining_options(end))
            if missing:
                raise _NotReadyError(f"not initialized by the chief: {', '.join(missing)}")

        seconds = _share(deadline)
        end = _in(seconds)
        await patiently(look, "the state of others", seconds, self._longest_pause, (_NotReadyError,))

    # Checks

    async def is_ready(self, session: Session) -> bool:
        """Whether all variables have values."""
        return not await self._missing(session, self._ready_op, RunOptions())

    def _variables(self) -> list[Variable]:
        collections = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
        return [variable for key in collections for variable in self.graph.get_collection(key)]

    async def _initialize_locals(self, session: Session, options: RunOptions, scope: Scope = "all") -> None:
        if self._local_init_op is None or await self._missing(session, self._ready_for_local_init_op, options):
            return
        if scope == "lost" and self._ready_op_asks_locals:
            missing = await self._missing(session, self._ready_op, options)
            if not any(variable.op.name in missing for variable in self._session_states):
                return
        await session.run(self._local_init_op, self._local_feeds, options=self._local_options or options)

    @property
    def _session_states(self) -> list[Variable]:
        return self.graph.get_collection(GraphKeys.LOCAL_VARIABLES)

    @functools.cached_property
    def _ready_op_asks_locals(self) -> bool:
        """Whether there are local variables, and `ready_op` is computed from all of them."""
        if not self._session_states or not isinstance(self._ready_op, Tensor):
            return False
        found = {self._ready_op.op}
        line = list(found)
        while line:
            new = {tensor.op for tensor in line.pop().inputs} - found
            found |= new
            line += new
        return all(variable.handle.op in found for variable in self._session_states)

    async def _missing(self, session: Session, asked: Any, options: RunOptions) -> list[str]:
        if asked is None:
            return []
        names = await session.run(asked, options=options)
        return [] if names is None else [name.decode() for name in names.ravel()]


class _NotReadyError(Exception):
    """Some variables have no values yet."""


@contextlib.asynccontextmanager
async def opened(target: "str | Address", graph: Graph, config: "AnyConfig | None") -> AsyncIterator[Session]:
    """Yield a session, which is closed only if the block raises."""
    session = Session(target, graph, config)
    try:
        yield session
    except BaseException:
        await session.close()
        raise


def _in(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


def _remaining_options(deadline: float) -> RunOptions:
    """Return options with a limit for a run before the deadline. DeadlineExceededError if it has passed."""
    left = _share(deadline)
    if left <= 0:
        raise errors.DeadlineExceededError("there is no time left to make the session ready")
    return RunOptions(timeout=left)


def _share(deadline: float) -> float:
    """Return the limit of a wait that must report its cause before the deadline."""
    left = max(deadline - asyncio.get_running_loop().time(), 0.0)
    return left - min(0.1 * left, _TOLD)


def _names(variables: Sequence[Variable]) -> tuple[str, ...]:
    return tuple([variable.op.name for variable in variables])


def _target_name(target: "str | Address") -> str:
    if isinstance(target, str):
        return target or "this process"
    return target.address


def _source_name(done: Preparation) -> str:
    return "initializing" if done.checkpoint is None else f"restoring {done.checkpoint}"
