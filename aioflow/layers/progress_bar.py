"""Shows how a training proceeds: a bar in a terminal, a table in a notebook, a line for each epoch elsewhere."""

import sys
import time
from typing import Final, TextIO

from aioflow.layers.callback import Callback, Logs
from aioflow.notebook.live import LiveOutput, in_notebook
from aioflow.notebook.progress import EpochRow, EpochTable, ProgressLine, texts
from aioflow.notebook.quantities import seconds
from aioflow.train.progress_output import ProgressOutput

_OFTEN: Final = 0.1
"""Seconds between two pictures of a bar."""


class ProgressBar(Callback):
    """Writes epochs, batches, time, losses and metrics.

    Args:
        bar: whether a bar is drawn again and again in one line; by default where the output is a terminal. In a
            notebook a table takes its place, unless `bar` is False or there is a file.
        file: where to; standard output by default.
    """

    def __init__(self, bar: bool | None = None, file: TextIO | None = None) -> None:
        self._file: Final = file
        self._bar: Final = bar
        self._drawn = self._began = 0.0
        self._batches = 0
        self._is_table = False
        self._rows: list[EpochRow] = []

    def on_train_begin(self, logs: Logs) -> None:
        """Begin a new table, in a notebook."""
        self._is_table = self._file is None and self._bar is not False and in_notebook()
        self._output = ProgressOutput(self._file or sys.stdout, self._bar, LiveOutput() if self._is_table else None)
        self._rows = []

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Write which epoch it is."""
        self._began, self._drawn, self._batches = time.perf_counter(), 0.0, 0
        self._rows.append(EpochRow(epoch + 1, 0, self.params["steps"], 0.0, {}))
        if not self._is_table:
            self._output.keep(f"Epoch {epoch + 1}/{self.params['epochs']}")

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Draw the bar, if it was not drawn just now."""
        self._batches = batch + 1
        now = time.perf_counter()
        if now - self._drawn > _OFTEN and self._output.replaces:
            self._drawn = now
            self._show(now, logs)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Write all values."""
        self._show(time.perf_counter(), logs)
        self._output.end()

    def _show(self, now: float, logs: Logs) -> None:
        self._rows[-1] = EpochRow(
            self._rows[-1].number, self._batches, self.params["steps"], now - self._began, _numbers(logs)
        )
        self._output.show(EpochTable(self.params["epochs"], tuple(self._rows)))


class ResultLine(Callback):
    """Writes the time and the results at the end of an evaluation or a prediction."""

    def __init__(self) -> None:
        self._began = 0.0

    def on_test_begin(self, logs: Logs) -> None:
        """Begin to count the time."""
        self._began = time.perf_counter()

    def on_test_end(self, logs: Logs) -> None:
        """Write the line."""
        took = seconds(time.perf_counter() - self._began)
        line = ProgressLine(f"{self.params['steps'] or '?'} steps", "  ".join([took, *texts(_numbers(logs))]), None)
        ProgressOutput(sys.stdout, redraws=False).show(line)

    on_predict_begin, on_predict_end = on_test_begin, on_test_end


def _numbers(logs: Logs) -> dict[str, float]:
    return {name: value for name, value in logs.items() if isinstance(value, float)}
