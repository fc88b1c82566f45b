"""The progress of training and other long work, in one redrawn line of a terminal or notebook, or as lines of a log."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TextIO

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.notebook.live import LiveOutput, in_notebook
from aioflow.notebook.progress import ProgressLine
from aioflow.notebook.quantities import size
from aioflow.session import Session
from aioflow.session.training_report import ReportPace, TrainingReport
from aioflow.train.coordinator import Coordinator
from aioflow.train.progress_output import ProgressOutput
from aioflow.train.recovery import Recovery
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from aioflow.train.step_counter import needed_step_read

_DRAWN, _PRINTED = 0.2, 10.0
"""Seconds between two updates: on a terminal, and elsewhere."""
_WINDOW: Final = 10.0
"""The shortest time in seconds over which the speed is measured."""
_NO_WORKERS: Final = ("ps", "localhost")
"""Jobs whose tasks do not train by themselves."""


class Speed:
    """The speed in steps per second over the last seconds, for `Progress`. It has no clock.

    Args:
        window: the seconds over which it is measured.
    """

    def __init__(self, window: float = _WINDOW) -> None:
        self._window: Final = window
        self._seen: Final[deque[tuple[float, int]]] = deque()

    def reached(self, now: float, step: int) -> None:
        """Record a step. A step before the last one, as after a recovery, restarts the measurement."""
        if self._seen and step < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, step))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._window:
            self._seen.popleft()

    @property
    def steps_per_second(self) -> float | None:
        """The speed; None if it is unknown."""
        (began, first), (ended, last) = (self._seen[0], self._seen[-1]) if self._seen else ((0.0, 0), (0.0, 0))
        return (last - first) / (ended - began) if ended > began else None


class Progress:
    """Shows how far training is: step, loss, speed, workers, staleness, time left.

        with af.train.Progress(total_steps=1000, examples_per_step=32) as progress:
            for step in range(1000):
                loss, _ = await session.run([loss_, train])
                progress.update(step + 1, loss=loss)

    On a terminal a bar with a line is redrawn a few times a second, as in a notebook; elsewhere a line is printed every
    ten seconds. The last values are always shown at the end. If writing fails, as when the reader has gone,
    nothing more is shown, and training goes on.

    It also shows other long work, such as checkpoints and imports, which call it with the done and with all parts:

        with af.train.Progress(unit="node") as progress:
            model = af.onnx.load("model.onnx", progress=progress)
        with af.train.Progress(unit="byte") as progress:
            await saver.restore(session, "run/model.ckpt-100", progress=progress)

    Args:
        total_steps: number of all steps, for the time left.
        examples_per_step: number of examples in a step, for the speed.
        stream: the output; by default the cell in a notebook, and stderr elsewhere.
        every: seconds between two updates.
        clock: returns the time in seconds; by default that of the running loop, or else `time.monotonic`.
        unit: the word for a step; "byte" shows sizes.

    Examples:
        >>> import sys
        >>> with af.train.Progress(total_steps=2, stream=sys.stdout, clock=lambda: 0.0) as progress:
        ...     for step in range(2):
        ...         progress.update(step + 1, loss=0.5)
        step 1/2  loss 0.5
        step 2/2  loss 0.5
    """

    def __init__(
        self,
        total_steps: int | None = None,
        examples_per_step: int | None = None,
        stream: TextIO | None = None,
        every: float | None = None,
        clock: Callable[[], float] | None = None,
        unit: str = "step",
    ) -> None:
        self._total = total_steps
        self._examples: Final = examples_per_step
        live = LiveOutput() if stream is None and in_notebook() else None
        output = sys.stderr if stream is None else stream  # a process may have no stderr
        self._output: Final = ProgressOutput(output, live=live)
        self._every: Final = (_DRAWN if self._output.replaces else _PRINTED) if every is None else every
        self._clock: Final = clock or _now
        self._unit: Final = unit
        self._speed: Final = Speed()
        self._due: float | None = None
        self._line: ProgressLine | None = None

    @property
    def total_steps(self) -> int | None:
        """The number of all steps; None if it is unknown."""
        return self._total

    @property
    def due(self) -> bool:
        """Whether new values would be shown now."""
        return self._due is None or self._clock() >= self._due

    def update(
        self, step: int, loss: Any = None, workers: int | None = None, staleness: float | None = None, **more: Any
    ) -> None:
        """Record the progress of training.

        Args:
            step: number of done steps.
            loss: the loss: a number, or an array with one number.
            workers: number of workers.
            staleness: number of steps by which the values are old at which gradients are computed.
            **more: further numbers by name.
        """
        now, due = self._clock(), self.due
        self._speed.reached(now, step)
        numbers = self._numbers(step, {"loss": loss, **more}, workers, staleness)
        self._line = ProgressLine(self._done(step), numbers, step / self._total if self._total else None)
        if due:
            self._due = now + self._every
            self._show()

    def __call__(self, done: int, total: int) -> None:
        """Record the number of done steps, and of all steps."""
        self._total = total
        self.update(done)

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._output.keep(text)
        self._show()

    def close(self) -> None:
        """Show the last values, and end the line. May be called again."""
        self._show()
        self._output.end()
        self._line = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _show(self) -> None:
        if self._line is not None:
            self._output.show(self._line)

    def _done(self, step: int) -> str:
        if self._unit == "byte":
            return size(step) if self._total is None else f"{size(step)} of {size(self._total)}"
        return f"{self._unit} {step}" if self._total is None else f"{self._unit} {step}/{self._total}"

    def _numbers(self, step: int, numbers: Mapping[str, Any], workers: int | None, staleness: float | None) -> str:
        parts = [f"{name} {_number(name, value):.4g}" for name, value in numbers.items() if value is not None]
        parts += self._speeds(step)
        if workers is not None:
            parts.append(f"{workers} worker{'' if workers == 1 else 's'}")
        if staleness is not None:
            parts.append(f"staleness {_number('staleness', staleness):.3g}")
        return "  ".join(parts)

    def _speeds(self, step: int) -> list[str]:
        """Return the text of the speed and of the time left."""
        speed = self._speed.steps_per_second
        if not speed:
            return []
        found = [self._speed_text(speed)]
        if self._total is not None and step < self._total:
            found.append(f"{_as_time((self._total - step) / speed)} left")
        return found

    def _speed_text(self, speed: float) -> str:
        if self._examples is not None:
            return f"{speed * self._examples:.4g} examples/s"
        return f"{size(speed)}/s" if self._unit == "byte" else f"{speed:.3g} {self._unit}s/s"


class ProgressHook(SessionRunHook):
    """Shows the progress of a monitored session, as `Progress` does. Values are fetched only when they are shown.

        async with af.train.MonitoredTrainingSession(hooks=[af.train.ProgressHook(loss, total_steps=1000)]) as session:
            ...

    Recoveries get a line of their own. The graph needs a global step.

    Args:
        loss: the tensor of the loss.
        total_steps: see `Progress`.
        examples_per_step: see `Progress`.
        workers: a tensor with the number of workers; by default the number of tasks on whose devices the session can
            run, without parameter servers.
        staleness: a tensor with the number of steps by which the values are old at which gradients are computed.
        progress: shows the values; created from `total_steps` and `examples_per_step` by default.

    Examples:
        >>> step = af.train.create_global_step()
        >>> count, hook = step.assign_add(1), af.train.ProgressHook(total_steps=2)
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     for _ in range(2):
        ...         _ = await monitored.run(count)
    """

    def __init__(
        self,
        loss: Tensor | None = None,
        total_steps: int | None = None,
        examples_per_step: int | None = None,
        workers: Tensor | None = None,
        staleness: Tensor | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._progress: Final = progress or Progress(total_steps, examples_per_step)
        asked = {"loss": loss, "workers": workers, "staleness": staleness}
        self._asked: Final[dict[str, Any]] = {name: tensor for name, tensor in asked.items() if tensor is not None}
        self._known: dict[str, Any] = {}
        self._reports: Final = ReportPace()

    def begin(self) -> None:
        """Check that there is a global step. RuntimeError if not."""
        self._step = needed_step_read("ProgressHook")

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Show the first step."""
        self._progress.update(int(await session.run(self._step)))

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the values to show, if they are due on the terminal or for those that watch the session."""
        is_due = self._progress.due or (run_context.session.listeners and self._reports.is_due)
        return SessionRunArgs({"step": self._step, **self._asked}) if is_due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Show the values."""
        if run_values.results is None:
            return
        found = dict(run_values.results)
        step, workers = int(found.pop("step")), found.pop("workers", None)
        self._known = {"workers": _workers(run_context.session) if workers is None else int(workers), **found}
        self._progress.update(step, **self._known)
        if run_context.session.listeners:
            self._reports.told()
            shown = {name: _number(name, value) for name, value in self._known.items() if value is not None}
            run_context.session.tell(TrainingReport(step, self._progress.total_steps, values=shown))

    def after_recovery(self, session: Session, recovery: Recovery) -> None:
        """Show the loss."""
        self._progress.note(str(recovery))

    async def end(self, session: Session) -> None:
        """Show the last step, with the loss that was fetched last."""
        self._progress.update(int(await session.run(self._step)), **(self._known or {"workers": _workers(session)}))
        self._progress.close()


def _workers(session: Session) -> int | None:
    """Return the number of training tasks with devices of the session; None for a session of this process alone."""
    tasks = {device.name.partition("/device:")[0] for device in session.list_devices()}
    found = [task for task in tasks if task.split("/")[1].removeprefix("job:") not in _NO_WORKERS]
    return len(found) or None


def _number(name: str, value: Any) -> float:
    if np.size(value) != 1:
        raise ValueError(f"{name} must be one number, not an array of shape {list(np.shape(value))}")
    return float(np.asarray(value).item())


def _now() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


def _as_time(seconds: float) -> str:
    """Return the time as `1:02:03`, `2:03` or `0:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
