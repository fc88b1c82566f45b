"""The common part of optimizers of several replicas: the place of their state, and a replica's work in a session."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Final

from aioflow import errors
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.train.coordinator import Coordinator


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
                raise errors.AbortedError(f"{error.message}, as another session says: was it begun twice?") from error
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
