"""`CheckpointManager`: the checkpoints of one directory, numbered, of which some are kept."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aioflow.checkpoint import Retention, last_checkpoints
from aioflow.config import RunOptions
from aioflow.files.filesystem import Path, as_name
from aioflow.graph.default_session import current_session
from aioflow.graph.operation import Tensor
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr
from aioflow.train.checkpoints import latest_checkpoint
from aioflow.train.object_checkpoint import Checkpoint
from aioflow.train.saver import Saver
from aioflow.train.session_run_hook import finished


class CheckpointManager:
    """Saves the checkpoints `directory/name-N` of a Saver or Checkpoint, in the default session; keeps the last ones.

    It goes on with the numbers, and with the deletions, where an earlier process has stopped.

        manager = af.train.CheckpointManager(af.train.Saver(), "run", max_to_keep=3)
        await manager.restore_or_initialize()
        await manager.save()

    Args:
        checkpoint: the Saver, or the Checkpoint, whose `save_counter` is the number of each checkpoint then. From here
            on the manager says which checkpoints it keeps.
        directory: the directory.
        max_to_keep: number of checkpoints to keep; None for all.
        keep_checkpoint_every_n_hours: one checkpoint in this many hours stays, in addition to the newest ones.
        checkpoint_name: the first part of the names of checkpoints.
        step_counter: the number of steps so far, such as the global step, for `checkpoint_interval`.
        checkpoint_interval: the least number of steps between two checkpoints.
        init_fn: a function or coroutine function that initializes where there is no checkpoint.
        last_checkpoint_step: the step of the last checkpoint.

    Attributes:
        checkpoint: the Saver or Checkpoint.
        directory: the directory.
        checkpoint_interval: the least number of steps between two checkpoints; None for no limit.

    Raises:
        TypeError, ValueError: an argument cannot be, or an interval has no `step_counter`.

    Examples:
        >>> state = af.Variable(7)
        >>> manager = af.train.CheckpointManager(af.train.Saver(), "managed", max_to_keep=2)
        >>> await session.run(state.initializer)
        >>> [await manager.save() for _ in range(3)]
        ['managed/ckpt-1', 'managed/ckpt-2', 'managed/ckpt-3']
        >>> manager.checkpoints
        ['managed/ckpt-2', 'managed/ckpt-3']
    """

    def __init__(
        self,
        checkpoint: Saver | Checkpoint,
        directory: Path,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Variable | Tensor | None = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Awaitable[object] | object] | None = None,
        last_checkpoint_step: int | None = None,
    ) -> None:
        if not isinstance(checkpoint, (Saver, Checkpoint)):
            raise TypeError(f"a CheckpointManager manages an af.train.Saver or Checkpoint, not {safe_repr(checkpoint)}")
        if max_to_keep is not None and max_to_keep < 1:
            raise ValueError(f"max_to_keep is 1 or more, or None for all, not {max_to_keep}")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("a checkpoint_interval needs a step_counter")
        self.checkpoint: Final = checkpoint
        self.directory: Final = as_name(directory)
        self.checkpoint_interval: Final = checkpoint_interval
        self._name: Final = checkpoint_name
        self._counter: Final = step_counter
        self._init: Final = init_fn
        self._last_step = last_checkpoint_step
        hours = float("inf") if keep_checkpoint_every_n_hours is None else keep_checkpoint_every_n_hours
        self._retention: Final = Retention(max_to_keep or 0, hours, time.time())
        self._went_on = False
        if isinstance(checkpoint, Saver):
            checkpoint.keep(self._retention)

    @property
    def checkpoints(self) -> list[str]:
        """The paths of the checkpoints that were saved and may still be deleted, oldest first."""
        return [path for path, _ in self._retention.last]

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the last checkpoint that was saved; None before the first."""
        return self.checkpoints[-1] if self.checkpoints else None

    async def save(
        self, checkpoint_number: int | Variable | Tensor | None = None, check_interval: bool = True,
        options: RunOptions | None = None,
    ) -> str | None:  # fmt: skip
        """Save a checkpoint in the default session. Returns its path.

        Returns None, and saves nothing, if there were fewer steps than `checkpoint_interval` since the last one.

        Args:
            checkpoint_number: the number of the checkpoint; by default the next one.
            check_interval: whether to look at the `checkpoint_interval`.
            options: with a time limit for taking the values, and for writing them.
        """
        session = _session()
        await self._go_on()
        step = None if self._counter is None else int(await session.run(self._counter))
        if check_interval and self._is_too_early(step):
            return None
        number = await self._next(session) if checkpoint_number is None else checkpoint_number
        path = await self._saver().save(session, f"{self.directory}/{self._name}", number, options)
        self._last_step = step
        return path

    def _saver(self) -> Saver:
        """Return the Saver, or that of the variables that the Checkpoint has now."""
        if isinstance(self.checkpoint, Saver):
            return self.checkpoint
        saver = self.checkpoint.saver()
        saver.keep(self._retention)
        return saver

    async def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint of the directory, in the default session, and return its path.

        Where there is none, call `init_fn`, and return None.
        """
        session = _session()
        await self._go_on()
        newest = await asyncio.to_thread(latest_checkpoint, self.directory)
        if newest is not None:
            if isinstance(self.checkpoint, Saver):
                await self.checkpoint.restore(session, newest)
            else:
                await self.checkpoint.restore(newest, session)
            if self._counter is not None:
                self._last_step = int(await session.run(self._counter))
        elif self._init is not None:
            await finished(self._init())
        return newest

    async def _go_on(self) -> None:
        """Count the checkpoints of earlier processes among those that may be deleted, once."""
        if not self._went_on:
            found = await asyncio.to_thread(last_checkpoints, self.directory)
            own = f"{self.directory}/{self._name}-"
            self._retention.recover([(each.path, each.created) for each in found if each.path.startswith(own)])
            self._went_on = True

    def _is_too_early(self, step: int | None) -> bool:
        if self.checkpoint_interval is None or step is None or self._last_step is None:
            return False
        return step - self._last_step < self.checkpoint_interval

    async def _next(self, session: Session) -> int:
        """Return the next number of a checkpoint."""
        if isinstance(self.checkpoint, Checkpoint):
            return await self.checkpoint.count(session)
        ends = [path.rpartition("-")[2] for path in self.checkpoints]
        return max([int(end) for end in ends if end.isdecimal()], default=0) + 1


def _session() -> Session:
    session = current_session()
    assert isinstance(session, Session)
    return session
