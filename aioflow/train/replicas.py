"""The common part of optimizers of several replicas: the place of their state, and a replica's work in a session."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from aioflow import errors
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.variables import Variable
from aioflow.replication.quorum import Dropped
from aioflow.session import Session
from aioflow.session.training_report import TrainingReport
from aioflow.train.coordinator import Coordinator
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues


@contextlib.contextmanager
def beside(graph: Graph, variable: Variable) -> Iterator[None]:
    """Build the operations inside on a CPU of the variable's task; their state is in the variable's container."""
    asked = DeviceSpec.from_string(variable.device)
    with graph.container(variable.op.attrs["container"]):
        if variable.device:
            there = dataclasses.replace(asked, device_type="CPU", device_index=0)
            with graph.colocate_with(None, ignore_existing=True), graph.device(there):
                yield
        else:
            with graph.colocate_with(variable.handle, ignore_existing=True):
                yield


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicaOps:
    """The operations that a replica runs besides its train operation.

    Attributes:
        admit: waits until the replica may begin.
        present: runs as long as the replica is present.
        leave: says that the replica has no more data.
        advance: applies one step, once it is decided and no other replica leads; None without leading.
        open: begins training, or resumes it after a restore; run by the chief.
        fail: reports that a run of `advance` has failed.
        why: the cause, to be fed to `fail`.
    """

    admit: Operation
    present: Operation
    leave: Operation
    advance: Operation | None = None
    open: Operation | None = None
    fail: Operation | None = None
    why: Tensor | None = None


class Participation:
    """One replica in one session, from its admission until the coordinator stops or it leaves.

    The coordinator owns its tasks: one keeps it present, one leads when its turn comes, one ends both. It leads before
    it is admitted: admission waits for the end of a decided step, and other replicas that could apply it may be lost.
    """

    def __init__(self, ops: ReplicaOps, session: Session, coord: Coordinator) -> None:
        self._ops: Final = ops
        self._session: Final = session
        self._coord: Final = coord
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._leading: asyncio.Task[None] | None = None
        self._left = False

    async def begin(self, is_chief: bool) -> None:
        """Let the replica begin once training is open, and lead when its turn comes. The chief opens training first."""
        if is_chief and self._ops.open is not None:
            await self._session.run(self._ops.open)
        create = self._coord.create_task
        self._tasks.append(create(self._ends(self._ops.present), name="replica present"))
        create(self._close(), name="replica leaving")
        if self._ops.advance is not None:
            self._leading = create(self._lead(self._ops.advance), name="replica leading")
            self._tasks.append(self._leading)
        await self.admit()

    async def admit(self) -> None:
        """Admit the replica, at first and after a run whose end it has not learned."""
        await self._session.run(self._ops.admit)

    async def _lead(self, advance: Operation) -> None:
        """Apply steps until the replica has left. If a run fails, report the cause to the others."""
        try:
            await self._ends(advance)
        except (errors.AbortedError, errors.UnavailableError):  # the others know it or cannot be reached
            raise
        except errors.OpError as error:
            if self._ops.fail is not None and self._ops.why is not None:
                with contextlib.suppress(errors.OpError):
                    await self._session.run(self._ops.fail, {self._ops.why: error.message})
            raise

    async def _ends(self, op: Operation) -> None:
        """Run the operation again and again until the replica has left. AbortedError if it was declared lost."""
        step = self._session.make_callable(op)
        try:
            while True:
                await step()
        except errors.OutOfRangeError as error:
            if not self._left:
                raise errors.AbortedError(
                    f"{error.message}, as another session reports: did the replica start twice?"
                ) from error
        except errors.OpError:
            if not (self._left or self._session.closed):
                raise

    async def _close(self) -> None:
        try:
            await self._coord.wait_for_stop()
            await self.leave()
        finally:
            for task in self._tasks:
                task.cancel()

    async def leave(self) -> None:
        """Let the replica leave after the step that it is applying. May be repeated."""
        if self._left:
            return
        self._left = True
        if not self._session.closed:
            with contextlib.suppress(errors.OpError):
                await self._session.run(self._ops.leave)
                if self._leading is not None:
                    await asyncio.wait((self._leading,))
        for task in self._tasks:
            task.cancel()


_log: Final = logging.getLogger("aioflow.train")
OnDropped = Callable[[Dropped], object]
"""Called with a dropped gradient; the result is ignored."""


class Replica(Protocol):
    """An optimizer of one of several replicas."""

    @property
    def task_index(self) -> int:
        """The number of the replica."""

    @property
    def next_step(self) -> Tensor:
        """A tensor that is available when the train operation is done."""

    async def start(self, session: Session, coord: Coordinator, is_chief: bool = False) -> Participation:
        """Let the replica begin."""

    def dropped_args(self, since: int) -> SessionRunArgs | None:
        """Return the fetches that report drops after the first `since`."""

    def dropped_of(self, found: Any) -> list[Dropped]:
        """Return the drops in the result of such a run."""


class ReplicasHook(SessionRunHook):
    """Announces the replica while the session lives, lets it leave at the end, and reports its dropped examples.

    A failed run may have ended in the middle of a step, so the replica is admitted again before the next one. Each drop
    is reported once, even if training recovers; earlier drops are not reported.

    Args:
        replica: its optimizer.
        is_chief: whether it opens training, after variables were initialized or restored.
        on_dropped: called with each dropped gradient of this replica.
    """

    def __init__(self, replica: Replica, is_chief: bool, on_dropped: OnDropped | None = None) -> None:
        self._replica: Final = replica
        self._is_chief: Final = is_chief
        self._on_dropped: Final = on_dropped
        self._part: Participation | None = None
        self._last: Dropped | None = None
        self._begun = self._failed = False

    def begin(self) -> None:
        """ValueError if the optimizer has not applied gradients."""
        _ = self._replica.next_step

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Let the replica begin, once the chief has opened training."""
        self._failed = False
        self._part = await self._replica.start(session, coord, self._is_chief)
        await self._find_known(session)

    async def _find_known(self, session: Session) -> None:
        """Learn how many drops came before training or are reported already; none if the counting task was lost."""
        last = self._last
        asked = self._replica.dropped_args(0 if last is None else last.number - 1)
        if asked is None:
            return
        found = self._replica.dropped_of(await session.run(asked.fetches, asked.feeds))
        if not self._begun:
            self._begun, self._last = True, found[-1] if found else None
        elif last is not None and not (found and (found[0] == last or found[0].number > last.number)):
            self._last = None

    @property
    def _known(self) -> int:
        """The number of drops that are already reported."""
        return 0 if self._last is None else self._last.number

    async def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Admit the replica."""
        if self._failed and self._part is not None:
            await self._part.admit()
        self._failed = True
        return self._replica.dropped_args(self._known)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log and report the drops."""
        self._failed = False
        self._report(run_values.results, run_context.session)

    def _report(self, found: Any, session: Session) -> None:
        for drop in self._replica.dropped_of(found):
            self._last = drop
            if drop.replica == self._replica.task_index:
                _log.info("%s", drop)
                session.tell(TrainingReport(event=str(drop)))
                if self._on_dropped is not None:
                    self._on_dropped(drop)

    async def end(self, session: Session) -> None:
        """Let the replica leave, so that no replica waits for it. Reports the drops of its last step."""
        asked = self._replica.dropped_args(self._known)
        if asked is not None:
            self._report(await session.run(asked.fetches, asked.feeds), session)
        if self._part is not None:
            await self._part.leave()
