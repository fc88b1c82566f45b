"""Common hooks: stop at a step, count, log, watch for NaN, wait, feed, and save checkpoints while training goes on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from aioflow import errors
from aioflow.files.filesystem import Path, as_name
from aioflow.session import Session
from aioflow.session.training_report import TrainingReport
from aioflow.tensors.recursion import safe_repr
from aioflow.train.coordinator import Coordinator
from aioflow.train.recovery import LOSSES, step_of_checkpoint
from aioflow.train.saver import Saver
from aioflow.train.saving import Writing
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues, finished
from aioflow.train.step_counter import SecondOrStepTimer, needed_step_read

_log: Final = logging.getLogger("aioflow.train")
_POLLED: Final = 0.5
"""Seconds between two readings of the global step."""


class StopAtStepHook(SessionRunHook):
    """Asks for a stop when the global step reaches `last_step`, or has grown by `num_steps`.

    Examples:
        >>> step = af.train.create_global_step()
        >>> train = step.assign_add(1)
        >>> async with af.train.MonitoredTrainingSession(hooks=[af.train.StopAtStepHook(last_step=2)]) as monitored:
        ...     while not monitored.should_stop():
        ...         print(await monitored.run(train))
        1
        2
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) is (last_step is None):
            raise ValueError("give either num_steps or last_step")
        self._num_steps: Final = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        """Check that there is a global step."""
        self._step = needed_step_read("StopAtStepHook")

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Record the first step at the first call. Ask for a stop if nothing is left to do."""
        step = int(await session.run(self._step))
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = step + self._num_steps
        if step >= self._last_step:
            coord.request_stop()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Ask for a stop after the last step."""
        assert self._last_step is not None
        if int(run_values.results) >= self._last_step:
            run_context.request_stop()


class NanLossDuringTrainingError(RuntimeError):
    """The loss is not a number.

    Examples:
        >>> v, step = af.Variable(0.0), af.train.create_global_step()
        >>> loss = v / v
        >>> hooks = [af.train.NanTensorHook(loss)]
        >>> try:
        ...     async with af.train.MonitoredSession(hooks=hooks) as monitored:
        ...         await monitored.run(loss)
        ... except af.train.NanLossDuringTrainingError:
        ...     print("the loss is not a number")
        the loss is not a number
    """

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Ends training when the loss is NaN: by an error, or by a request to stop if `fail_on_nan_loss` is false.

    Examples:
        >>> step, loss = af.train.create_global_step(), af.constant(float("nan"))
        >>> train = step.assign_add(1)
        >>> hooks = [af.train.NanTensorHook(loss, fail_on_nan_loss=False), af.train.StopAtStepHook(num_steps=9)]
        >>> async with af.train.MonitoredTrainingSession(hooks=hooks) as monitored:
        ...     while not monitored.should_stop():
        ...         print(await monitored.run(train))
        1
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss: Final = loss_tensor
        self._fail: Final = fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the loss."""
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Check the loss. NanLossDuringTrainingError if it is NaN and `fail_on_nan_loss` is true."""
        if np.isnan(run_values.results).any():
            _log.error("the loss is NaN")
            if self._fail:
                raise NanLossDuringTrainingError
            run_context.request_stop()


class LoggingTensorHook(SessionRunHook):
    """Logs values of tensors every `every_n_iter` runs or `every_n_secs` seconds, or only at the end.

    Args:
        tensors: a list of tensors, or a dict of them by the names to log.
        every_n_iter: runs from one line to the next.
        every_n_secs: seconds from one line to the next.
        at_end: whether to log at the end, too.
        formatter: returns the line for a dict of names and values.

    Examples:
        >>> v = af.Variable(1.0)
        >>> step, hook = v.assign_add(1.0), af.train.LoggingTensorHook({"value": v}, every_n_iter=10)
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     _ = await monitored.run(step)
    """

    def __init__(
        self,
        tensors: Sequence[Any] | Mapping[str, Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        self._timer: Final = None if only_at_end else SecondOrStepTimer(every_n_secs, every_n_iter)
        named = tensors.items() if isinstance(tensors, Mapping) else [(_name(each), each) for each in tensors]
        self._tensors: Final = dict(named)
        self._at_end: Final = at_end
        self._formatter: Final = formatter
        self._runs = 0

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the values if they are due."""
        due = self._timer is not None and self._timer.should_trigger_for_step(self._runs)
        return SessionRunArgs(self._tensors) if due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log them."""
        if run_values.results is not None and self._timer is not None:
            elapsed, _ = self._timer.update_last_triggered_step(self._runs)
            self._tell(run_values.results, elapsed)
        self._runs += 1

    async def end(self, session: Session) -> None:
        """Log them once more, if `at_end` is true."""
        if self._at_end:
            self._tell(await session.run(self._tensors), None)

    def _tell(self, values: dict[str, Any], elapsed: float | None) -> None:
        text = self._formatter(values) if self._formatter else ", ".join(f"{k} = {v}" for k, v in values.items())
        _log.info("%s%s", text, "" if elapsed is None else f" ({elapsed:.3f} sec)")


def _name(tensor: Any) -> str:
    return str(getattr(tensor, "name", tensor))


class GlobalStepWaiterHook(SessionRunHook):
    """Begins no run before the global step has reached `wait_until_step`, for workers that start one after the other.

    It reads the step twice a second.

    Examples:
        >>> step = af.train.create_global_step()
        >>> count, hook = step.assign_add(1), af.train.GlobalStepWaiterHook(wait_until_step=0)
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     print(await monitored.run(count))
        1
    """

    def __init__(self, wait_until_step: int) -> None:
        self._until: Final = wait_until_step
        self._reached = False

    def begin(self) -> None:
        """Check that there is a global step."""
        self._step = needed_step_read("GlobalStepWaiterHook")

    async def before_run(self, run_context: SessionRunContext) -> None:
        """Wait for the step."""
        while not self._reached:
            self._reached = int(await run_context.session.run(self._step)) >= self._until
            if not self._reached:
                await asyncio.sleep(_POLLED)


class FinalOpsHook(SessionRunHook):
    """Runs operations at the end.

    Attributes:
        final_ops_values: their values; None before.

    Examples:
        >>> v = af.Variable(1.0)
        >>> step, hook = v.assign_add(1.0), af.train.FinalOpsHook(v * 2.0)
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     _ = await monitored.run(step)
        >>> hook.final_ops_values
        np.float32(4.0)
    """

    def __init__(self, final_ops: Any, final_ops_feed_dict: Mapping[Any, Any] | None = None) -> None:
        self._ops: Final = final_ops
        self._feeds: Final = final_ops_feed_dict
        self.final_ops_values: Any = None

    async def end(self, session: Session) -> None:
        """Run them. Raises OutOfRangeError too, if their input has ended."""
        if self._ops is not None:
            try:
                self.final_ops_values = await session.run(self._ops, self._feeds)
            except errors.OutOfRangeError as error:
                error.add_note("aioflow: the input of FinalOpsHook's operations has ended: keep some for the end")
                raise


class FeedFnHook(SessionRunHook):
    """Feeds the result of `feed_fn()`, an ordinary or a coroutine function, in each run.

    Examples:
        >>> x = af.placeholder(af.float32, [])
        >>> y, hook = x * 2.0, af.train.FeedFnHook(lambda: {x: 3.0})
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     print(await monitored.run(y))
        6.0
    """

    def __init__(self, feed_fn: Callable[[], Awaitable[Mapping[Any, Any]] | Mapping[Any, Any]]) -> None:
        self._feed_fn: Final = feed_fn

    async def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Return the feeds."""
        return SessionRunArgs(feeds=await finished(self._feed_fn()))


WhileSaving = Literal["wait", "skip"]
"""Handling of a checkpoint that is due while earlier ones are being written."""


class CheckpointSaverListener:
    """Called before and after each checkpoint is saved. A method that a subclass does not override does nothing.

    Every method but `begin` may be a coroutine function or an ordinary one.

    Examples:
        >>> class Show(af.train.CheckpointSaverListener):
        ...     def after_save(self, session, global_step):
        ...         print("saved at", global_step)
        >>> step = af.train.create_global_step()
        >>> count = step.assign_add(1)
        >>> hook = af.train.CheckpointSaverHook("checkpoints", saver=af.train.Saver(), save_steps=2, listeners=[Show()])
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     for _ in range(3):
        ...         _ = await monitored.run(count)
        saved at 0
        saved at 2
        saved at 3
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

    Examples:
        >>> step = af.train.create_global_step()
        >>> count = step.assign_add(1)
        >>> hook = af.train.CheckpointSaverHook("checkpoints", save_steps=2, saver=af.train.Saver())
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     for _ in range(3):
        ...         _ = await monitored.run(count)
        >>> af.train.latest_checkpoint("checkpoints")
        'checkpoints/model.ckpt-3'
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
        session.tell(TrainingReport(step, event=f"checkpoint of step {step} is complete", level="good"))
        for listener in self._listeners:
            self._stops = bool(await finished(listener.after_save(session, step))) or self._stops

    async def _tell_end(self, session: Session, step: int) -> None:
        for listener in self._listeners:
            await finished(listener.end(session, step))
