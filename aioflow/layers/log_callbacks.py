"""Callbacks that write the logs of training: to a table, and to event files for TensorBoard."""

import asyncio
import csv
import io
import os
import time
from typing import Any, Final, Literal

from aioflow.files.filesystem import Files, Path, as_name
from aioflow.graph.operation import Tensor
from aioflow.kernels.data import summary_wire
from aioflow.layers.callback import Callback, Logs
from aioflow.layers.live_summaries import weight_histograms
from aioflow.layers.numbers import switch, whole
from aioflow.session.training_report import TrainingReport
from aioflow.summary.writer import FileWriter
from aioflow.tensors.recursion import safe_repr


class CSVLogger(Callback):
    """Writes a table of all logs: a line for each epoch, and a column for each name in logs; "NA" where one is missing.

    Args:
        filename: the file, which is there in whole after each epoch.
        separator: what stands between two columns.
        append: whether lines are added to a file that exists already.

    Examples:
        >>> model = af.Sequential([af.layers.Dense(1)])
        >>> model.compile(loss="mse")
        >>> x = np.ones((4, 2), np.float32)
        >>> _ = await model.fit(x, x[:, :1], epochs=2, verbose=0, callbacks=[af.callbacks.CSVLogger("log.csv")])
        >>> len(af.gfile.FastGFile("log.csv").readlines())
        3
    """

    def __init__(self, filename: Path, separator: str = ",", append: bool = False) -> None:
        """TypeError for a name that is no path, ValueError for a separator that is not one character."""
        self.filename: Final = as_name(filename)
        self.append: Final = switch("append", append)
        if not isinstance(separator, str) or len(separator) != 1:
            raise ValueError(f"separator is one character, not {safe_repr(separator)}")
        self.separator: Final = separator
        self._lines: list[dict[str, Any]] = []

    async def on_train_begin(self, logs: Logs) -> None:
        """Begin a table, or go on with the one that exists."""
        self._lines = []
        if self.append and await asyncio.to_thread(Files().exists, self.filename):
            text = (await asyncio.to_thread(Files().read, self.filename)).decode()
            self._lines = list(csv.DictReader(io.StringIO(text), delimiter=self.separator))

    def backup_state(self) -> Any:
        """The lines of the table."""
        return self._lines

    def restore_state(self, state: Any) -> None:
        """Go on with them."""
        self._lines = state

    async def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Write the table with one more line."""
        self._lines.append({"epoch": epoch, **logs})
        names = list(dict.fromkeys(name for line in self._lines for name in line))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, "NA", delimiter=self.separator, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._lines)
        await asyncio.to_thread(Files().write, self.filename, text.getvalue().encode())


class TensorBoard(Callback):
    """Writes the logs to event files in the folders `train` and `validation`: `tensorboard --logdir` draws them.

    Needs `pip install aioflow-engine[tensorboard]`; see `af.summary.FileWriter`. The live page shows the histograms.

    Args:
        log_dir: the folder.
        histogram_freq: after how many epochs the values of all weights are written; 0 for never.
        write_graph: whether the graph is written.
        write_steps_per_second: whether the steps in a second of each epoch are written.
        update_freq: "epoch", or after how many batches the loss is written, too; "batch" stands for 1.

    Examples:
        >>> model = af.Sequential([af.layers.Dense(1)])
        >>> model.compile(loss="mse")
        >>> x = np.ones((4, 2), np.float32)
        >>> _ = await model.fit(x, x[:, :1], verbose=0, callbacks=[af.callbacks.TensorBoard("logs")])
        >>> af.gfile.ListDirectory("logs")
        ['train']
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = True,
        write_steps_per_second: bool = False,
        update_freq: int | Literal["epoch", "batch"] = "epoch",
    ) -> None:
        """TypeError or ValueError for a setting that means nothing."""
        self.log_dir: Final = as_name(log_dir)
        self.histogram_freq: Final = whole("histogram_freq", histogram_freq, 0)
        self.write_graph: Final = switch("write_graph", write_graph)
        self.write_steps_per_second: Final = switch("write_steps_per_second", write_steps_per_second)
        if update_freq not in ("epoch", "batch"):
            whole("update_freq", update_freq, 1)
        self.update_freq: Final = 1 if update_freq == "batch" else update_freq
        self._writers: dict[str, FileWriter] = {}
        self._histograms: tuple[Any, Tensor | None] | None = None
        self._steps, self._began = 0, (0.0, 0)

    def on_train_begin(self, logs: Logs) -> None:
        """Open the first file. UnimplementedError without the package `tensorboard`."""
        self._steps = 0
        self._writer("train", self.model.graph if self.write_graph else None)

    def backup_state(self) -> Any:
        """The number of steps."""
        return self._steps

    def restore_state(self, state: Any) -> None:
        """Go on with it."""
        self._steps = state

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Begin to count the time."""
        self._began = time.perf_counter(), self._steps

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Write the loss, if that is asked for."""
        self._steps += 1
        if self.update_freq != "epoch" and self._steps % self.update_freq == 0:
            self._add("train", "batch_loss", logs["loss"], self._steps)

    async def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Write the logs, and what else is asked for."""
        for name, value in logs.items():
            side, short = ("validation", name[4:]) if name.startswith("val_") else ("train", name)
            if isinstance(value, float):
                self._add(side, f"epoch_{short}", value, epoch)
        rate = self.model.learning_rate
        if rate is not None and "learning_rate" not in logs:
            self._add("train", "epoch_learning_rate", float(await self.session.run(rate)), epoch)
        if self.write_steps_per_second:
            began, steps = self._began
            self._add("train", "epoch_steps_per_second", (self._steps - steps) / (time.perf_counter() - began), epoch)
        is_due = self.histogram_freq and epoch % self.histogram_freq == 0
        if is_due and (weights := self._weights()) is not None:
            summary = await self.session.run(weights)
            self._writer("train").add_summary(summary, epoch)
            self.session.tell(TrainingReport(summaries=summary))
        for writer in self._writers.values():
            await writer.flush()

    async def aclose(self) -> None:
        """Close the files."""
        while self._writers:
            _, writer = self._writers.popitem()
            await writer.close()

    def _writer(self, side: str, graph: Any = None) -> FileWriter:
        if side not in self._writers:
            self._writers[side] = FileWriter(os.path.join(self.log_dir, side), graph)
        return self._writers[side]

    def _add(self, side: str, tag: str, value: float, step: int) -> None:
        self._writer(side).add_summary(summary_wire.scalar(tag, value), step)

    def _weights(self) -> Tensor | None:
        """The summary of all weights, built once for a model; None if it has none."""
        if self._histograms is None or self._histograms[0] is not self.model:
            self._histograms = self.model, weight_histograms(self.model)
        return self._histograms[1]
