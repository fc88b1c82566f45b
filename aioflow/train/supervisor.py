"""`af.train.Supervisor`: a ready session, with checkpoints and summaries written during the user's own loop.

    supervisor = af.train.Supervisor(logdir="checkpoints")
    async with supervisor.managed_session() as session:
        while not supervisor.should_stop():
            await session.run(train)

It has no hooks and does not recover; `MonitoredSession` does both.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from aioflow import errors
from aioflow.config import RunOptions
from aioflow.files.filesystem import Path, as_name
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.session.default_config import AnyConfig
from aioflow.summary.writer import FileWriter
from aioflow.train.coordinator import Coordinator
from aioflow.train.looper import repeat
from aioflow.train.queue_runner import QueueRunner, start_queue_runners
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_manager import LONGEST, SessionManager
from aioflow.train.session_run_hook import finished
from aioflow.train.step_counter import get_global_step

if TYPE_CHECKING:
    from aioflow.net.client.client import Address

_log: Final = logging.getLogger("aioflow.train")


class Supervisor:
    """Prepares a session, and owns the tasks beside it. The arguments that are operations default as `Scaffold`'s do.

    Args:
        graph: the graph; the default graph by default. Nothing can be added to it from here on.
        ready_op: returns the names of the variables without a value.
        ready_for_local_init_op: the same for the variables that `local_init_op` needs.
        is_chief: whether it initializes, restores and saves; the others wait for the chief.
        init_op: gives variables their initial values.
        init_feed_dict: feeds for `init_op`.
        local_init_op: gives local variables their initial values.
        logdir: the directory of checkpoints and event files; without one nothing is written or restored.
        summary_op: returns all summaries.
        saver: saves and restores.
        global_step: the global step; by default the graph's.
        save_summaries_secs: seconds between summaries; 0 for none.
        save_model_secs: seconds between checkpoints; 0 for none but the last.
        recovery_wait_secs: the most seconds between two checks whether all is ready.
        stop_grace_secs: seconds that tasks may take to end after a stop request.
        checkpoint_basename: prefix of the names of checkpoints.
        session_manager: opens sessions; created by default.
        summary_writer: an `af.summary.FileWriter`, which the caller closes; by default a new one in `logdir`.
        init_fn: (session), called after `init_op`.
        local_init_run_options: options of runs of `local_init_op`.

    Examples:
        >>> v = af.Variable(1.0)
        >>> supervisor = af.train.Supervisor(logdir="logs", save_model_secs=0, save_summaries_secs=0)
        >>> async with supervisor.managed_session() as managed:
        ...     print(await managed.run(v))
        1.0
    """

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        is_chief: bool = True,
        init_op: Any = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        local_init_op: Any = None,
        logdir: Path | None = None,
        summary_op: Any = None,
        saver: Any = None,
        global_step: Variable | Tensor | None = None,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 1.0,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = None,
        init_fn: Callable[[Session], Awaitable[None] | None] | None = None,
        local_init_run_options: RunOptions | None = None,
    ) -> None:
        self.graph: Final = get_default_graph() if graph is None else graph
        with self.graph.as_default():
            scaffold = Scaffold(
                init_op=init_op, ready_op=ready_op, ready_for_local_init_op=ready_for_local_init_op,
                local_init_op=local_init_op, summary_op=summary_op, saver=saver,
            ).finalize()  # fmt: skip
            self.global_step: Final = get_global_step() if global_step is None else global_step
        self.is_chief: Final = is_chief
        self.coord: Final = Coordinator()
        self.session_manager: Final = session_manager or SessionManager(
            scaffold.local_init_op, scaffold.ready_op, scaffold.ready_for_local_init_op, self.graph,
            recovery_wait_secs, local_init_run_options,
        )  # fmt: skip
        self._scaffold: Final = scaffold
        self._init: Final = init_feed_dict, init_fn
        self._logdir: Final = None if logdir is None else as_name(logdir).rstrip("/")
        self._basename: Final = checkpoint_basename
        self._seconds: Final = save_summaries_secs, save_model_secs
        self._grace: Final = stop_grace_secs
        self._writer: Any = summary_writer
        self._own_writer: Final = summary_writer is None and self._logdir is not None

    @property
    def saver(self) -> Any:
        """The saver; None if the graph has no variables."""
        return self._scaffold.saver

    @property
    def summary_op(self) -> Any:
        """The operation that returns all summaries; None if there are none."""
        return self._scaffold.summary_op

    @property
    def summary_writer(self) -> Any:
        """The writer of summaries; None while there are none to write."""
        return self._writer

    @property
    def save_path(self) -> str | None:
        """The prefix of paths of checkpoints; None if nothing is saved."""
        return None if self._logdir is None else f"{self._logdir}/{self._basename}"

    # Sessions

    @contextlib.asynccontextmanager
    async def managed_session(
        self,
        master: "str | Address" = "",
        config: "AnyConfig | None" = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
        max_wait_secs: float = LONGEST,
    ) -> AsyncIterator[Session]:
        """Yield a ready session. An error of the block stops all tasks, and is raised.

        The end of the input, an OutOfRangeError, ends the block without an error. After a regular end the chief saves a
        last checkpoint. Raises as `prepare_or_wait_for_session` does.
        """
        session = await self.prepare_or_wait_for_session(master, config, max_wait_secs, start_standard_services)
        try:
            async with self.coord:
                with self.coord.stop_on_exception():
                    yield session
                self.coord.raise_requested_exception()
                await self._save_last(session)
                await self.stop()
        finally:
            try:
                if close_summary_writer and self._own_writer and self._writer is not None:
                    await self._writer.close()
            finally:
                await session.close()

    async def prepare_or_wait_for_session(
        self,
        master: "str | Address" = "",
        config: "AnyConfig | None" = None,
        max_wait_secs: float = LONGEST,
        start_standard_services: bool = True,
    ) -> Session:
        """Return a ready session with running queue runners. The caller closes it, after `stop`.

        Raises:
            RuntimeError: variables have no source of values.
            af.errors.DeadlineExceededError: a needed task was not there in time; the error names it.
        """
        if not self.is_chief:
            session = await self.session_manager.wait_for_session(master, config, max_wait_secs)
        else:
            feeds, init_fn = self._init
            session = await self.session_manager.prepare_session(
                master, self._scaffold.init_op, self.saver, self._logdir, max_wait_secs=max_wait_secs, config=config,
                init_feed_dict=feeds, init_fn=init_fn,
            )  # fmt: skip
        self.start_queue_runners(session)
        if start_standard_services and self.is_chief:
            self.start_standard_services(session)
        return session

    # Tasks

    def start_standard_services(self, sess: Session) -> list[asyncio.Task[None]]:
        """Start the tasks that write checkpoints and summaries. ValueError if this is not the chief."""
        if not self.is_chief:
            raise ValueError("only the chief writes checkpoints and summaries")
        summaries, model = self._seconds
        tasks = []
        if summaries > 0 and self._begin_summaries():
            tasks.append(self.loop(summaries, self._write_summaries, (sess,)))
        if model > 0 and self.save_path is not None and self.saver is not None:
            tasks.append(self.loop(model, self._save, (sess,)))
        return tasks

    def _begin_summaries(self) -> bool:
        """Whether there are summaries and a writer."""
        if self.summary_op is not None and self._writer is None and self._logdir is not None:
            self._writer = FileWriter(self._logdir, self.graph)
        return self.summary_op is not None and self._writer is not None

    async def _write_summaries(self, sess: Session) -> None:
        fetched = [self.summary_op] if self.global_step is None else [self.summary_op, self.global_step]
        summary, *step = await sess.run(fetched)
        self.summary_computed(sess, summary, int(step[0]) if step else None)

    async def _save(self, sess: Session) -> None:
        """Save a checkpoint. If it cannot be written, training goes on."""
        try:
            await self.saver.save(sess, self.save_path, self.global_step)
        except errors.OpError as error:
            _log.error("a checkpoint is not saved, training goes on: %s", error.message)

    async def _save_last(self, sess: Session) -> None:
        if self.is_chief and self.save_path is not None and self.saver is not None:
            await self.saver.save(sess, self.save_path, self.global_step)

    def start_queue_runners(
        self, sess: Session, queue_runners: Sequence[QueueRunner] | None = None
    ) -> list[asyncio.Task[None]]:
        """Start and return the tasks of these queue runners, or of all of the graph."""
        if queue_runners is None:
            return start_queue_runners(sess, self.coord)
        return [task for runner in queue_runners for task in runner.create_tasks(sess, self.coord)]

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Awaitable[object] | object],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> asyncio.Task[None]:
        """Start a task that calls `target`, a function or coroutine function, at this interval until the stop.

        See `looper.repeat`. An error of `target` requests a stop.
        """
        call = functools.partial(target, *args, **(kwargs or {}))
        return self.coord.create_task(repeat(self.coord, timer_interval_secs, call), name=f"calling {target!r}")

    def summary_computed(self, sess: Session, summary: bytes, global_step: int | None = None) -> None:
        """Write a summary from a run. RuntimeError if there is no writer."""
        if self._writer is None:
            raise RuntimeError("there is no summary_writer: give one, or a logdir and a summary_op")
        self._writer.add_summary(summary, global_step)

    # The stop

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self.coord.should_stop()

    def request_stop(self, ex: Any = None) -> None:
        """Request a stop; see `Coordinator.request_stop`."""
        self.coord.request_stop(ex)

    async def wait_for_stop(self) -> None:
        """Wait until a stop is requested."""
        await self.coord.wait_for_stop()

    def stop_on_exception(self) -> contextlib.AbstractContextManager[None]:
        """Turn exceptions of the block into a request to stop."""
        return self.coord.stop_on_exception()

    async def stop(self, tasks: Sequence[asyncio.Task[Any]] | None = None) -> None:
        """Wait until all tasks have ended. Raises the first error of one."""
        self.coord.request_stop()
        await self.coord.join(tasks, self._grace)

    # Older names of TensorFlow's

    PrepareSession = prepare_or_wait_for_session
    StartStandardServices = start_standard_services
    StartQueueRunners = start_queue_runners
    Loop = loop
    SummaryComputed = summary_computed
    ShouldStop = should_stop
    RequestStop = request_stop
    WaitForStop = wait_for_stop
    StopOnException = stop_on_exception
    Stop = stop


async def basic_train_loop(
    supervisor: Supervisor,
    train_step_fn: Callable[..., Awaitable[object] | object],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    master: "str | Address" = "",
) -> None:
    """Call `train_step_fn(session, *args, **kwargs)` again and again in a session of the supervisor, until it stops.

    Args:
        supervisor: makes the session ready, saves checkpoints, and stops.
        train_step_fn: a function or coroutine function that makes a step.
        args: its further arguments.
        kwargs: its arguments by name.
        master: the master of the session.

    Examples:
        >>> steps = af.train.get_or_create_global_step()
        >>> count = steps.assign_add(1)
        >>> supervisor = af.train.Supervisor()
        >>> async def step(session):
        ...     if await session.run(count) == 3:
        ...         supervisor.request_stop()
        >>> await af.train.basic_train_loop(supervisor, step)
    """
    async with supervisor.managed_session(master) as session:
        while not supervisor.should_stop():
            await finished(train_step_fn(session, *(args or ()), **(kwargs or {})))
