"""Monitored sessions, which initialize or restore variables, call hooks around each run, and survive lost peers.

async with af.train.MonitoredTrainingSession("ws://host:2222", checkpoint_dir="checkpoints") as session:
    while not session.should_stop():
        await session.run(train)
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

from aioflow import errors
from aioflow.config import RunOptions
from aioflow.files.filesystem import Path
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, items_of
from aioflow.name_hints import refuse
from aioflow.runtime.attempts import Attempt, Attempts
from aioflow.runtime.fetches import Element, Feeds, K, Metadata, Options, Record, Row
from aioflow.session import Session
from aioflow.session.default_config import AnyConfig
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr
from aioflow.tracing import RunMetadata
from aioflow.train.recovery import LOSSES, Patience, Recovery, patiently, step_of_checkpoint
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_creator import ChiefSessionCreator, FailedRuns, SessionCreator
from aioflow.train.session_life import Life
from aioflow.train.session_manager import Preparation
from aioflow.train.session_run_hook import MergedRun, SessionRunArgs, SessionRunContext, SessionRunHook, finished
from aioflow.train.session_run_hook import SessionRunValues as SessionRunValues
from aioflow.train.step_counter import StepReadHook

if TYPE_CHECKING:
    from aioflow.net.client.client import Address

T = TypeVar("T")
_log: Final = logging.getLogger("aioflow.train")
_GRACE: Final = 2.0
"""Seconds that tasks of hooks may take to end after a loss."""
_LONGEST_PAUSE: Final = 1.0
_SUSPECTS: Final = (*LOSSES, errors.FailedPreconditionError)  # errors that may indicate a loss
_ENDS: Final = (errors.OutOfRangeError, StopAsyncIteration)
"""The end of the input, which is the end of the training."""


class StepContext:
    """The argument of a step function of `run_step_fn`.

    Attributes:
        session: the underlying session, for runs without hooks.
    """

    def __init__(self, monitored: "_MonitoredSession", life: Life) -> None:
        self.session: Final = life.session
        self._monitored: Final = monitored
        self._life: Final = life

    async def run_with_hooks(
        self, fetches: Any, feeds: Mapping[Any, Any] | None = None, options: RunOptions | None = None
    ) -> Any:
        """Run with hooks, as `MonitoredSession.run` does."""
        return await self._monitored._run_with_hooks(self._life, SessionRunArgs(fetches, feeds, options), None)

    def request_stop(self) -> None:
        """Make `should_stop()` of the monitored session true."""
        self._monitored._stop_requested = True


StepFn = Callable[[StepContext], Awaitable[T]]


class _MonitoredSession:
    """The common part of monitored sessions. See `MonitoredSession`.

    Attributes:
        graph: the graph of the session.
        recoveries: the losses so far, and the recovery of each.
    """

    _recovers = True

    def __init__(
        self,
        session_creator: SessionCreator,
        hooks: Sequence[SessionRunHook] | None,
        stop_grace_period_secs: float,
        examples_per_step: int | None = None,
    ) -> None:
        self.graph: Final[Graph] = get_default_graph()
        self.recoveries: Final[list[Recovery]] = []
        self._creator: Final = session_creator
        self._progress: Final = StepReadHook()
        self._hooks: Final[list[SessionRunHook]] = [*items_of("hooks", hooks or ()), self._progress]
        """Record the step in the last hook. A run in which an earlier hook failed is repeated and does not count."""
        for hook in self._hooks:
            if not isinstance(hook, SessionRunHook):
                raise TypeError(f"a hook is a SessionRunHook, not {safe_repr(hook)}")
            hook.begin()
        session_creator.finalize()
        self._grace: Final = stop_grace_period_secs
        self._examples: Final = examples_per_step
        self._attempts: Final = Attempts()
        self._patience: Final = Patience(session_creator.max_wait_secs, _LONGEST_PAUSE)
        self._recovering: Final = asyncio.Lock()
        self._life: Life | None = None
        self._stop_requested = self._closed = False

    async def __aenter__(self) -> Self:
        """Open the session, make it ready and show it to the hooks. Cancelling this leaves nothing open.

        RuntimeError at a second call.
        """
        if self._closed or self._life is not None:
            raise RuntimeError("a monitored session is entered once: make another")
        deadline = self._deadline()
        life = self._life = Life(await self._creator.create_session())
        try:
            await self._begin(life, deadline)
        except BaseException:
            life, self._life = self._life, None
            await self._finish(life, clean=False)
            raise
        return self

    def _deadline(self) -> float:
        """Return the time by which a session that is opened now must be ready and known to the hooks."""
        return asyncio.get_running_loop().time() + self._creator.max_wait_secs

    async def _begin(self, life: Life, deadline: float) -> None:
        try:
            await life.begin(self._hooks, deadline)
        except _SUSPECTS as error:
            if not await self._is_loss(life, error):
                raise
            life.lose(error)
            await self._alive()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        await self._end(error is None or isinstance(error, _ENDS))
        return isinstance(error, _ENDS)

    # Runs

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
        """Return the result of `Session.run`, with the hooks called before and after.

        If it ends because a peer is lost, the session recovers and repeats the run with the same feeds. The effects of
        the failed run are undone first, so that the run happens once. If the feeds depend on the step, use
        `run_step_fn`: after a recovery the variables may have earlier values, or those after the run, if a checkpoint
        was saved before it ended. The log, `recoveries` and the hooks report lost values, and effects that may have
        happened twice.

        Raises:
            TypeError, ValueError, RuntimeError: as `Session.run` does.
            af.errors.DeadlineExceededError: the time of the run, or of the recovery, is over.
            af.errors.OpError: the run, a hook, or a task of the coordinator failed for another reason than a loss.
        """
        if wrong:
            refuse("run", wrong)
        args = SessionRunArgs(fetches, feeds, options)
        return await self._surviving(lambda life: self._run_with_hooks(life, args, metadata))

    async def run_step_fn(self, step_fn: StepFn[T]) -> T:
        """Return the result of the coroutine function `step_fn(step_context)`; call it again after a loss."""
        return await self._surviving(lambda life: step_fn(StepContext(self, life)))

    def should_stop(self) -> bool:
        """Whether a hook, or a task of the coordinator, has asked for a stop, or the session is closed."""
        if self._stop_requested or self._closed or self._life is None:
            return True
        return self._life.coord.should_stop() and not (self._recovers and isinstance(self._life.error, LOSSES))

    @property
    def opened(self) -> Session | None:
        """The underlying session, another one after a recovery; None while it is not open."""
        return None if self._closed or self._life is None else self._life.session

    async def _surviving(self, step: Callable[[Life], Awaitable[T]]) -> T:
        while True:
            life = await self._alive()
            with self._attempts.one() as attempt:
                life.attempts.add(attempt)
                try:
                    value = await life.run(functools.partial(step, life))
                except _SUSPECTS as error:
                    suspect = error
                except BaseException:
                    self._settle(life, attempt)
                    raise
                else:
                    self._settle(life, attempt)
                    self._patience.succeeded()
                    return value
            try:
                if not await self._is_loss(life, suspect):
                    self._settle(life, attempt)
                    raise suspect
                await self._undo(life, attempt, suspect)
            finally:
                del suspect

    def _settle(self, life: Life, attempt: Attempt) -> None:
        life.attempts.discard(attempt)
        self._attempts.settle(attempt)

    async def _undo(self, life: Life, attempt: Attempt, error: errors.OpError) -> None:
        """Undo the attempt in the recovery from the loss that ended it, or after that recovery.

        If this is cancelled before the recovery, the recovery undoes the attempt.
        """
        life.lose(error, attempt)
        try:
            now = await self._alive()
            while not self._attempts.is_settled(attempt):
                async with self._recovering:
                    if now is self._life and now.lost is None and not await self._undone(now, FailedRuns([attempt])):
                        now.lose(error, attempt)
                now = await self._alive()
        except BaseException:
            if self._life is not life:
                self._settle(life, attempt)
            raise

    async def _undone(self, life: Life, failed: FailedRuns) -> bool:
        """Undo runs that failed after the last recovery. False if another recovery is needed for that."""
        try:
            left = await failed.take_back(life.session, self._deadline())
        except errors.OpError:
            return False
        for attempt in () if left else failed.undone:
            self._settle(life, attempt)
        return not left

    async def _is_loss(self, life: Life, error: errors.OpError) -> bool:
        """Whether the error indicates a loss, such as a variable without a value because its task restarted."""
        if not self._recovers or isinstance(error, LOSSES):
            return self._recovers
        try:
            return not await self._creator.is_ready(life.session)
        except LOSSES:
            return True

    async def _run_with_hooks(self, life: Life, args: SessionRunArgs, metadata: RunMetadata | None) -> Any:
        context = SessionRunContext(args, life.session)
        merged = MergedRun(self.graph, args, [await finished(hook.before_run(context)) for hook in self._hooks])
        if metadata is None and merged.options is not None and merged.options.trace:
            metadata = RunMetadata()
        values = await life.session.run(merged.elements, merged.feeds, merged.options, metadata)
        own, *others = merged.split(values)
        for hook, found in zip(self._hooks, others, strict=True):
            await finished(hook.after_run(context, SessionRunValues(found, merged.options, metadata)))
        self._stop_requested = self._stop_requested or context.stop_requested
        return own

    # Recovery

    async def _alive(self) -> Life:
        """Return the present life; begin a new one after a loss."""
        while True:
            life = self._life
            if self._closed or life is None:
                raise RuntimeError("the monitored session is not open: use `async with`")
            if life.lost is None or not self._recovers:
                return life
            async with self._recovering:
                if self._life is life:
                    await self._recover(life, life.lost)

    async def _recover(self, life: Life, error: errors.OpError) -> None:
        """Begin a new life, or raise the error that prevents it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        pause = self._patience.failed(began)
        if pause is None:
            self._patience.succeeded()  # the next run has the full time again
            raise errors.DeadlineExceededError(
                f"for {self._patience.seconds:g} s runs have failed again after each recovery: {error.message}"
            ) from error
        await asyncio.sleep(pause)
        before = self._progress.step
        self._stop_requested = self._stop_requested or (life.coord.should_stop() and life.error is None)
        with contextlib.suppress(Exception):  # the loss is known already
            await life.end(_GRACE)
        deadline = self._deadline()
        try:
            fresh = self._life = Life(await self._repair_or_replace(life))
        except errors.DeadlineExceededError:
            self._patience.succeeded()  # the next run has the full time again
            raise
        try:
            await fresh.begin(self._hooks, deadline)
            recovery = await self._make_recovery(fresh, error, before, loop.time() - began)
        except _SUSPECTS as again:
            fresh.lose(again)
            fresh.unfit = isinstance(again, errors.AbortedError)
            if not await self._is_loss(fresh, again):
                raise
        except BaseException:
            fresh.lose(error)
            raise
        else:
            self._creator.settled()
            self.recoveries.append(recovery)
            _log.warning("%s", recovery)

    async def _repair_or_replace(self, life: Life) -> Session:
        """Return a ready session in which the failed runs are undone, or all variables are restored."""
        is_in_vain = life.unfit and self._creator.ends_runs
        session = None if is_in_vain else await self._creator.repair_session(life.session, life.failed)
        undone = life.failed.undone
        if session is None:
            if self._creator.ends_runs:
                await life.end_runs()
            undone = list(life.attempts)
            await self._give_up(life, undone)
            session = await self._creator.recover_session(life.session)
        for attempt in undone:
            self._settle(life, attempt)
        return session

    async def _give_up(self, life: Life, attempts: Sequence[Attempt]) -> None:
        """Stop all steps of these attempts on the reachable tasks, and undo their changes."""
        if not life.session.closed:
            with contextlib.suppress(errors.OpError):
                await FailedRuns(list(attempts)).take_back(life.session, asyncio.get_running_loop().time() + _GRACE)

    async def _make_recovery(self, life: Life, error: errors.OpError, before: int | None, seconds: float) -> Recovery:
        """Return the result of the recovery, for the hooks."""
        done = self._creator.prepared
        after = self._step_after(done, before)
        saved = before is not None and after is not None and after > before  # the checkpoint includes the failed run
        repeated = (*done.repeated, *done.restored) if saved else done.repeated
        recovery = Recovery(
            error, done.checkpoint, done.restored, done.initialized, before, after, self._examples, seconds, repeated,
        )  # fmt: skip
        for hook in self._hooks:
            await finished(hook.after_recovery(life.session, recovery))
        return recovery

    def _step_after(self, done: Preparation, before: int | None) -> int | None:
        """Return the global step of the restored values, which this session or another chief has restored."""
        now = self._progress.step
        if not done.restored and not done.initialized:
            return before if before is None or now is None else min(before, now)
        if self._progress.name in (*done.restored, *done.initialized):
            return now
        return 0 if done.checkpoint is None else step_of_checkpoint(done.checkpoint)

    # The end

    async def close(self) -> None:
        """End regularly, as leaving the block does. Closing twice is allowed."""
        await self._end(clean=True)

    async def _end(self, clean: bool) -> None:
        if self._closed:
            return
        try:
            if clean:
                await self._end_hooks()
        finally:
            self._closed = True
            if self._life is not None:
                await self._finish(self._life, clean)

    async def _end_hooks(self) -> None:
        """Call `end` of the hooks, unless a task of the coordinator has failed."""
        life = await self._alive()
        if isinstance(life.error, LOSSES):
            life.lose(life.error)
            life = await self._alive()
        if life.error is None:
            for hook in self._hooks:
                end = functools.partial(self._end_hook, hook, life.session)
                await (patiently(end, "the end", self._patience.seconds, _LONGEST_PAUSE) if self._recovers else end())

    async def _end_hook(self, hook: SessionRunHook, session: Session) -> None:
        """Call `end` of the hook. Tries again after a loss that took no values.

        FailedPreconditionError if values were lost: then the training has not reached its end.
        """
        try:
            await finished(hook.end(session))
        except LOSSES as error:
            if self._recovers and not await self._creator.is_ready(session):
                text = f"values of variables were lost before the training could end in order: {error.message}"
                raise errors.FailedPreconditionError(text) from error
            raise

    async def _finish(self, life: Life, clean: bool) -> None:
        """Close the session and end its tasks. Raises an error of a task if there is no earlier error."""
        try:
            with contextlib.suppress(*(() if clean else (Exception,))):
                await life.end(self._grace if clean else 0.0)
                if clean:
                    await self._let_go(life)
        finally:
            await life.session.close()

    async def _let_go(self, life: Life) -> None:
        """Let the reachable tasks drop the values from before the last runs."""
        with self._attempts.one() as none:
            pass
        await self._give_up(life, [none])
        self._attempts.settle(none)


class MonitoredSession(_MonitoredSession):
    """A session that makes itself ready, calls hooks around each run, and goes on after the loss of a peer.

        async with af.train.MonitoredSession(creator, [af.train.StopAtStepHook(last_step=1000)]) as session:
            while not session.should_stop():
                await session.run(train)

    Entering it opens a session, initializes or restores its variables and starts the graph's queue runners. Leaving it
    calls `end` of all hooks and closes the session. If the block raises, `end` is not called, except at the end of the
    input: an OutOfRangeError ends the block without an error. Cancelling a task that waits inside ends its run.

    A loss ends a run with AbortedError or UnavailableError, or because variables have lost their values. Then the
    session recovers: it waits until the needed tasks are back, undoes the run on all of them, restores the lost values,
    and repeats the run. If all variables are restored, runs of other asyncio tasks are repeated, too.
    `session_creator.max_wait_secs` limits the time of a recovery. So each run happens once; `Recovery.repeated` names
    the exceptions [P15 section 3.3; P16 section 4.3].

    Args:
        session_creator: opens sessions; by default those of a chief in this process.
        hooks: objects called around each run; `begin` of each is called now, and then the graph is finalized.
        stop_grace_period_secs: seconds that tasks of hooks have to stop at the end.
        examples_per_step: number of examples in a step, to report how many were lost.

    Examples:
        >>> v = af.Variable(1.0)
        >>> async with af.train.MonitoredSession() as monitored:
        ...     print(await monitored.run(v))
        1.0
    """

    def __init__(
        self, session_creator: SessionCreator | None = None, hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120, examples_per_step: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(session_creator or ChiefSessionCreator(), hooks, stop_grace_period_secs, examples_per_step)


class SingularMonitoredSession(_MonitoredSession):
    """A monitored session of a chief without recovery: the loss of a peer is an error like any other.

    Examples:
        >>> v = af.Variable(1.0)
        >>> async with af.train.SingularMonitoredSession() as monitored:
        ...     print(await monitored.raw_session().run(v))
        1.0
    """

    _recovers = False

    def __init__(
        self, hooks: Sequence[SessionRunHook] | None = None, scaffold: Scaffold | None = None,
        master: "str | Address" = "", config: "AnyConfig | None" = None, checkpoint_dir: Path | None = None,
        stop_grace_period_secs: float = 120, checkpoint_filename_with_path: Path | None = None,
    ) -> None:  # fmt: skip
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, stop_grace_period_secs)

    def raw_session(self) -> Session:
        """The underlying session, for runs without hooks. RuntimeError if it is not open."""
        if self.opened is None:
            raise RuntimeError("the monitored session is not open: use `async with`")
        return self.opened
