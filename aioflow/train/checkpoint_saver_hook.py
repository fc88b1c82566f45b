"""A hook that saves checkpoints while training goes on."""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Final, Literal

from aioflow import errors
from aioflow.files.filesystem import Path, as_name
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr
from aioflow.train.coordinator import Coordinator
from aioflow.train.hooked_run import finished
from aioflow.train.recovery import LOSSES, step_of_checkpoint
from aioflow.train.saver import Saver
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from aioflow.train.step_counter import needed_step_read
from aioflow.train.triggers import SecondOrStepTimer
from aioflow.train.writing import Writing

_log: Final = logging.getLogger("aioflow.train")

WhileSaving = Literal["wait", "skip"]
"""Handling of a checkpoint that is due while earlier ones are being written."""


class CheckpointSaverListener:
    """Called before and after each checkpoint is saved. A method that a subclass does not override does nothing.

    Every method but `begin` may be a coroutine function or an ordinary one.
    """

    def begin(self) -> None:
        """Called once, before the graph is finalized."""

    def before_save(self, session: Session, global_step_value: int) -> Awaitable[None] | None:
        """Called before the variables are saved."""
        return None

    def after_save(self, session: Session, global_step_value: int) -> Awaitable[bool | None] | bool | None:
        """Called when the checkpoint is complete. True asks for a stop."""
        return None

    def end(self, session: Session, global_step_value: int) -> Awaitable[None] | None:
        """Called at the end of training."""
        return None


class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint every `save_steps` steps or `save_secs` seconds, when training begins, and at the end.

    If the saver's mode is "consistent", the values are taken at the end of a run, and written while training continues.
    The saver writes up to `max_in_flight` checkpoints at the same time. If a further one is due, the run waits until
    one of them is written. So a recovery never loses more steps than `save_steps` plus those in flight. If a checkpoint
    cannot be written, the log reports it at once and again at the end, and training continues; only the last
    checkpoint, at the end, has to succeed.

    Args:
        checkpoint_dir: the directory.
        save_secs: seconds from one checkpoint to the next.
        save_steps: steps from one checkpoint to the next.
        saver: the saver; excludes `scaffold`, which has one.
        checkpoint_basename: prefix of the names of checkpoints; the global step follows.
        scaffold: has the saver.
        listeners: called before and after each save.
        while_saving: "wait", or "skip", which leaves out a checkpoint that is due while one is being written, with a
            warning in the log. The next one is due when the writing has ended.

    Raises:
        ValueError: not exactly one of `save_secs` and `save_steps`, or both `saver` and `scaffold`, are given, or
            `while_saving` is neither "wait" nor "skip".
    """

    def __init__(
        self,
        checkpoint_dir: Path,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Scaffold | None = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        while_saving: WhileSaving = "wait",
    ) -> None:
        if while_saving not in ("wait", "skip"):
            raise ValueError(f"while_saving is 'wait' or 'skip', not {safe_repr(while_saving)}")
        if (saver is None) is (scaffold is None):
            raise ValueError("give either a saver, or a scaffold, which has one")
        self._timer: Final = SecondOrStepTimer(save_secs, save_steps)
        self._folder: Final = as_name(checkpoint_dir)
        self._path: Final = f"{self._folder.rstrip('/')}/{checkpoint_basename}"
        self._given: Final = saver
        self._scaffold: Final = scaffold
        self._listeners: Final = tuple(listeners or ())
        self._saved: int | None = None
        self._failed: list[str] = []
        self._stops = False
        self._skips: Final = while_saving == "skip"
        self._skipped: int | None = None
        self._begun = 0
        self._writings: Final[set[asyncio.Task[None]]] = set()

    def begin(self) -> None:
        """Check that there is a global step."""
        self._step = needed_step_read("CheckpointSaverHook")
        for listener in self._listeners:
            listener.begin()

    @property
    def _saver(self) -> Saver:
        found: Saver | None = self._given if self._scaffold is None else self._scaffold.saver
        if found is None:
            raise RuntimeError("there is nothing to save: the graph has no variables")
        return found

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Save a checkpoint, unless the step has one."""
        self._coord = coord
        step = int(await session.run(self._step))
        latest = await self._saver.latest_checkpoint(session, self._folder)
        self._timer.reset()
        if latest is None or step_of_checkpoint(latest) != step:
            await self._save(session, step)
        else:
            self._saved = step
            self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the step."""
        return SessionRunArgs(self._step)

    async def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Take the values, if a checkpoint is due, and start writing them."""
        step = int(run_values.results)
        if self._timer.should_trigger_for_step(step) and not self._skip(step):
            await self._save(run_context.session, step)
        if self._stops:
            run_context.request_stop()

    async def end(self, session: Session) -> None:
        """Wait for the running write, and save the last step.

        Raises the error of a failed save after the listeners were called, unless a peer is lost: then `end` is called
        again.
        """
        while self._writings:
            await asyncio.wait(self._writings)
        try:
            step = int(await session.run(self._step))
            try:
                await self._save_last(session, step)
            except LOSSES:
                raise
            except Exception:
                await self._tell_end(session, step)
                raise
            await self._tell_end(session, step)
        finally:
            while self._failed:
                _log.warning("a checkpoint was not saved: %s", self._failed.pop(0))

    # Saving

    def _skip(self, step: int) -> bool:
        """Whether the checkpoint of that step is left out. The log warns once for each writing."""
        if not self._skips or not (self._begun or self._writings):
            return False
        if self._skipped is None:
            _log.warning("the checkpoint of step %d is skipped: an earlier one is still being written", step)
            self._skipped = step
        return True

    async def _save(self, session: Session, step: int) -> None:
        """Take the values. A task of the coordinator writes them."""
        self._begun += 1
        self._skipped = None
        try:
            self._timer.update_last_triggered_step(step)
            await self._tell_before(session, step)
            writing = await self._saver.save_async(session, self._path, step)
        finally:
            self._begun -= 1
        self._saved = step
        task = self._coord.create_task(self._written(session, step, writing), name=f"saving {writing.path!r}")
        self._writings.add(task)
        task.add_done_callback(self._writings.discard)

    async def _save_last(self, session: Session, step: int) -> None:
        """Save the step."""
        if step != self._saved:
            await self._tell_before(session, step)
            await self._saver.save(session, self._path, step)
            await self._tell_after(session, step)

    async def _written(self, session: Session, step: int, writing: Writing) -> None:
        """Wait until the checkpoint is complete and call the listeners, or record that the write failed."""
        try:
            await writing
        except asyncio.CancelledError:
            await writing.cancel()
            self._forget(step)
            raise
        except errors.OpError as error:
            self._forget(step)
            self._failed.append(f"{writing.path}: {error.message}")
            _log.error("a checkpoint is not saved, training goes on: %s", self._failed[-1])
        else:
            await self._tell_after(session, step)

    def _forget(self, step: int) -> None:
        """Record that the step has no checkpoint."""
        if self._saved == step:
            self._saved = None

    async def _tell_before(self, session: Session, step: int) -> None:
        for listener in self._listeners:
            await finished(listener.before_save(session, step))

    async def _tell_after(self, session: Session, step: int) -> None:
        for listener in self._listeners:
            self._stops = bool(await finished(listener.after_save(session, step))) or self._stops

    async def _tell_end(self, session: Session, step: int) -> None:
        for listener in self._listeners:
            await finished(listener.end(session, step))
