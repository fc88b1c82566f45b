"""Hooks that write summaries, speed and traces for TensorBoard and trace viewers."""

import asyncio
import logging
import os
from typing import Any, Final

from aioflow.config import RunOptions
from aioflow.graph.graph import Graph
from aioflow.kernels.data import summary_wire
from aioflow.session import Session
from aioflow.session.training_report import TrainingReport
from aioflow.summary.writer import FileWriter
from aioflow.train.coordinator import Coordinator
from aioflow.train.scaffold import Scaffold
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from aioflow.train.step_counter import SecondOrStepTimer, needed_step_read

_log: Final = logging.getLogger("aioflow.train")


class SummaryOutput:
    """The writer of a hook's summaries: the caller's writer, its own one in a folder, or none.

    Its own writer is open while there is a session. It is closed when the session's coordinator stops, and begins a new
    file with the next session.
    """

    def __init__(self, output_dir: Any, writer: Any) -> None:
        self._folder: Final = output_dir
        self._writer: Any = writer
        self._own: Final = writer is None and output_dir is not None

    def open(self, graph: Graph, coord: Coordinator) -> None:
        """Check that summaries can be written. UnimplementedError if a package is not installed."""
        if self._own:
            if self._writer is None:
                self._writer = FileWriter(self._folder, graph)
            self._writer.reopen()
            coord.create_task(self._close(coord), name=f"closing the summaries of {self._folder!r}")

    def add(self, summary: bytes, step: int) -> None:
        """Add a summary for that step."""
        if self._writer is not None:
            self._writer.add_summary(summary, step)

    async def flush(self) -> None:
        """Wait until all summaries are in the file."""
        if self._writer is not None:
            await self._writer.flush()

    async def _close(self, coord: Coordinator) -> None:
        try:
            await coord.wait_for_stop()
        finally:
            await self._writer.close()


class SummarySaverHook(SessionRunHook):
    """Writes summaries every `save_steps` steps or `save_secs` seconds.

    Args:
        save_steps: steps from one summary to the next.
        save_secs: seconds from one summary to the next.
        output_dir: the folder of the event file.
        summary_writer: an `af.summary.FileWriter` instead, which the caller closes.
        scaffold: has the `summary_op`; nothing is written if it has none.
        summary_op: the summaries: a tensor, or a list of them.

    Raises:
        ValueError: not exactly one of `save_steps` and `save_secs`, or of `scaffold` and `summary_op`, is given.

    Examples:
        >>> step = af.train.create_global_step()
        >>> summary = af.summary.scalar("step", step)
        >>> count = step.assign_add(1)
        >>> hook = af.train.SummarySaverHook(save_steps=1, output_dir="logs", summary_op=summary)
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     _ = await monitored.run(count)
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
        scaffold: Scaffold | None = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) is (summary_op is None):
            raise ValueError("give either a scaffold, which has a summary_op, or the summary_op itself")
        self._timer: Final = SecondOrStepTimer(save_secs, save_steps)
        self._output: Final = SummaryOutput(output_dir, summary_writer)
        self._scaffold: Final = scaffold
        self._given: Final = summary_op
        self._next = 0

    def begin(self) -> None:
        """Check that there is a global step."""
        self._step = needed_step_read("SummarySaverHook")

    @property
    def _summaries(self) -> Any:
        return self._given if self._scaffold is None else self._scaffold.summary_op

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Begin a file."""
        if self._summaries is not None:
            self._output.open(session.graph, coord)
            self._next = int(await session.run(self._step)) + 1

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the summaries if they are due."""
        due = self._summaries is not None and self._timer.should_trigger_for_step(self._next)
        return SessionRunArgs({"step": self._step, **({"summaries": self._summaries} if due else {})})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write them."""
        step = int(run_values.results["step"])
        if "summaries" in run_values.results:
            self._timer.update_last_triggered_step(step)
            found = run_values.results["summaries"]
            for summary in found if isinstance(found, (list, tuple)) else [found]:
                self._output.add(summary, step)
                run_context.session.tell(TrainingReport(step, summaries=bytes(summary)))
        self._next = step + 1

    async def end(self, session: Session) -> None:
        """Wait until all summaries are in the file."""
        await self._output.flush()


class StepCounterHook(SessionRunHook):
    """Logs the steps per second, and writes them as the summary `global_step/sec`.

    Args:
        every_n_steps: steps from one line to the next.
        every_n_secs: seconds from one line to the next.
        output_dir: the folder of the event file; nothing is written without one.
        summary_writer: an `af.summary.FileWriter` instead, which the caller closes.

    Examples:
        >>> step = af.train.create_global_step()
        >>> count, hook = step.assign_add(1), af.train.StepCounterHook(every_n_steps=1, output_dir="logs")
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     for _ in range(3):
        ...         _ = await monitored.run(count)
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
    ) -> None:
        self._timer: Final = SecondOrStepTimer(every_n_secs, every_n_steps if every_n_secs is None else None)
        self._output: Final = SummaryOutput(output_dir, summary_writer)

    def begin(self) -> None:
        """Check that there is a global step."""
        self._step = needed_step_read("StepCounterHook")

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Begin to count."""
        self._output.open(session.graph, coord)
        self._timer.reset()
        self._timer.update_last_triggered_step(int(await session.run(self._step)))

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the steps per second if they are due."""
        step = int(run_values.results)
        if self._timer.should_trigger_for_step(step):
            seconds, steps = self._timer.update_last_triggered_step(step)
            if seconds and steps is not None:
                _log.info("global_step/sec: %g", steps / seconds)
                self._output.add(summary_wire.scalar("global_step/sec", steps / seconds), step)


class ProfilerHook(SessionRunHook):
    """Traces a run every `save_steps` steps or `save_secs` seconds, and writes `timeline-STEP.json`, a Chrome trace.

    A trace is written on a thread; the run ends afterwards.

    Args:
        save_steps: steps from one trace to the next.
        save_secs: seconds from one trace to the next.
        output_dir: the folder, created if it is missing.

    Examples:
        >>> step = af.train.create_global_step()
        >>> count, hook = step.assign_add(1), af.train.ProfilerHook(save_steps=1, output_dir="traces")
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     for _ in range(2):
        ...         _ = await monitored.run(count)
        >>> af.gfile.Glob("traces/*.json")
        ['traces/timeline-1.json', 'traces/timeline-2.json']
    """

    def __init__(self, save_steps: int | None = None, save_secs: float | None = None, output_dir: Any = "") -> None:
        self._timer: Final = SecondOrStepTimer(save_secs, save_steps)
        self._folder: Final = os.fspath(output_dir) or "."
        self._next = 0

    def begin(self) -> None:
        """Check that there is a global step."""
        self._step = needed_step_read("ProfilerHook")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request a trace if one is due."""
        due = self._timer.should_trigger_for_step(self._next)
        return SessionRunArgs(self._step, options=RunOptions(trace=True) if due else None)

    async def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write it."""
        step, metadata = int(run_values.results), run_values.run_metadata
        if metadata is not None and self._timer.should_trigger_for_step(self._next):
            self._timer.update_last_triggered_step(step)
            path = os.path.join(self._folder, f"timeline-{step}.json")

            def write() -> None:
                os.makedirs(self._folder, exist_ok=True)
                metadata.write_chrome_trace(path)

            await asyncio.get_running_loop().run_in_executor(None, write)
        self._next = step + 1
