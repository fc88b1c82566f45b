"""Shows how a training proceeds: a bar in a terminal, a table in a notebook, a line for each epoch elsewhere."""

import sys
import time
from typing import Final, TextIO

from aioflow.layers.callback import Callback, Logs
from aioflow.notebook.live import LiveOutput, in_notebook
from aioflow.notebook.progress import EpochRow, EpochTable

_OFTEN: Final = 0.1
"""Seconds between two pictures of a bar."""
_WIDTH: Final = 20


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
        self._rows: list[EpochRow] = []
        self._live: LiveOutput | None = None

    def on_train_begin(self, logs: Logs) -> None:
        """Begin a new table, in a notebook."""
        is_table = self._file is None and self._bar is not False and in_notebook()
        self._live, self._rows = LiveOutput() if is_table else None, []

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Write which epoch it is."""
        self._began, self._drawn, self._batches = time.perf_counter(), 0.0, 0
        if self._live is None:
            self._write(f"Epoch {epoch + 1}/{self.params['epochs']}\n")
        else:
            self._rows.append(EpochRow(epoch + 1, 0, self.params["steps"], 0.0, {}))

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Draw the bar, if it was not drawn just now."""
        self._batches = batch + 1
        now = time.perf_counter()
        if now - self._drawn > _OFTEN and (self._live is not None or self._draws):
            self._drawn = now
            self._draw(now, logs)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Write all values."""
        self._draw(time.perf_counter(), logs, end="\n")

    def _draw(self, now: float, logs: Logs, end: str = "") -> None:
        if self._live is None:
            start = "\r" if self._draws else ""
            self._write(f"{start}{self._picture(now)}  {_texts(logs)}{end}")
            return
        values = {name: value for name, value in logs.items() if isinstance(value, float)}
        number = self._rows[-1].number
        self._rows[-1] = EpochRow(number, self._batches, self.params["steps"], now - self._began, values)
        self._live.show(EpochTable(self.params["epochs"], self._rows))

    @property
    def _draws(self) -> bool:
        """Whether there is a bar."""
        return self._output.isatty() if self._bar is None else self._bar

    @property
    def _output(self) -> TextIO:
        return self._file or sys.stdout

    def _picture(self, now: float) -> str:
        steps, done = self.params["steps"], self._batches
        took = now - self._began
        bar = ""
        if steps:
            full = _WIDTH * done // steps
            bar = f" [{'=' * full}{'.' * (_WIDTH - full)}]"
        each = f" {1e3 * took / done:.1f} ms/step" if done else ""
        return f"{done}/{steps or '?'}{bar} {took:.1f} s{each}"

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()


class ResultLine(Callback):
    """Writes the time and the results at the end of an evaluation or a prediction."""

    def __init__(self) -> None:
        self._began = 0.0

    def on_test_begin(self, logs: Logs) -> None:
        """Begin to count the time."""
        self._began = time.perf_counter()

    def on_test_end(self, logs: Logs) -> None:
        """Write the line."""
        took = time.perf_counter() - self._began
        sys.stdout.write(f"{self.params['steps'] or '?'} steps {took:.1f} s  {_texts(logs)}".rstrip() + "\n")

    on_predict_begin, on_predict_end = on_test_begin, on_test_end


def _texts(logs: Logs) -> str:
    return "  ".join(f"{name}: {value:.4g}" for name, value in logs.items() if isinstance(value, float))
