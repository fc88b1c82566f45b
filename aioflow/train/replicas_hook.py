"""The hook by which a replica takes part in a monitored session."""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from aioflow.graph.operation import Tensor
from aioflow.replication.quorum import Dropped
from aioflow.session import Session
from aioflow.train.coordinator import Coordinator
from aioflow.train.replicas import Participation
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

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
        self._report(run_values.results)

    def _report(self, found: Any) -> None:
        for drop in self._replica.dropped_of(found):
            self._last = drop
            if drop.replica == self._replica.task_index:
                _log.info("%s", drop)
                if self._on_dropped is not None:
                    self._on_dropped(drop)

    async def end(self, session: Session) -> None:
        """Let the replica leave, so that no replica waits for it. Reports the drops of its last step."""
        asked = self._replica.dropped_args(self._known)
        if asked is not None:
            self._report(await session.run(asked.fetches, asked.feeds))
        if self._part is not None:
            await self._part.leave()
