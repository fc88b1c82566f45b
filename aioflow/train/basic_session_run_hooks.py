"""Common hooks: stop at a step, count, log, watch for NaN, wait, feed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.session import Session
from aioflow.train.coordinator import Coordinator
from aioflow.train.hooked_run import finished
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from aioflow.train.step_counter import needed_step_read
from aioflow.train.triggers import SecondOrStepTimer

_log: Final = logging.getLogger("aioflow.train")
_POLLED: Final = 0.5
"""Seconds between two readings of the global step."""


class StopAtStepHook(SessionRunHook):
    """Asks for a stop when the global step reaches `last_step`, or has grown by `num_steps`."""

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
    """The loss is not a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Ends training when the loss is NaN: by an error, or by a request to stop if `fail_on_nan_loss` is false."""

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
    """Feeds the result of `feed_fn()`, an ordinary or a coroutine function, in each run."""

    def __init__(self, feed_fn: Callable[[], Awaitable[Mapping[Any, Any]] | Mapping[Any, Any]]) -> None:
        self._feed_fn: Final = feed_fn

    async def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Return the feeds."""
        return SessionRunArgs(feeds=await finished(self._feed_fn()))
