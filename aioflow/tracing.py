"""What happened in a step: one event per node, written down only when asked."""

import dataclasses
import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aioflow.dtypes import Array


@dataclasses.dataclass(frozen=True, slots=True)
class NodeStats:
    """One execution of one node. Times are in seconds on the clock of `time.perf_counter`.

    Attributes:
        name: the operation's name.
        op_type: its type.
        device: where it ran.
        scheduled: when its inputs were there.
        start: when its kernel began.
        end: when its kernel was done, waiting included.
        output_bytes: the size of what it made.
        thread: the thread it ran on.
        waits: whether it may have waited, so that end - start is no measure of work.
    """

    name: str
    op_type: str
    device: str
    scheduled: float
    start: float
    end: float
    output_bytes: int
    thread: int
    waits: bool


class RunMetadata:
    """Filled by a run that is given one with `RunOptions(trace=True)`."""

    def __init__(self) -> None:
        self.step_id: int | None = None
        self.step_stats: list[NodeStats] = []
        self._traced = False

    def write_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in the form that Perfetto and chrome://tracing open. Blocks while it writes.

        ValueError if no run was traced.
        """
        if not self._traced:
            raise ValueError("no run was traced: pass options=af.RunOptions(trace=True) beside metadata= to the run")
        Path(path).write_text(json.dumps(self.chrome_trace()))

    def chrome_trace(self) -> dict[str, Any]:
        """The events as Chrome trace JSON: a process per device, a track per thread, times in microseconds."""
        devices = {name: index for index, name in enumerate(dict.fromkeys(stats.device for stats in self.step_stats))}
        names = [
            {"name": "process_name", "ph": "M", "pid": index, "args": {"name": name}} for name, index in devices.items()
        ]
        events = [event for stats in self.step_stats for event in _events(stats, devices[stats.device])]
        return {"traceEvents": names + events}


def _events(stats: NodeStats, process: int) -> list[dict[str, Any]]:
    """A slice on the track of the thread; for a wait, which may overlap others, a track of its own."""
    arguments = {"op": stats.name, "output_bytes": stats.output_bytes, "ready": stats.scheduled * 1e6}
    event = {"name": stats.op_type, "pid": process, "tid": stats.thread, "ts": stats.start * 1e6, "args": arguments}
    if not stats.waits:
        return [{**event, "cat": "compute", "ph": "X", "dur": (stats.end - stats.start) * 1e6}]
    begin = {**event, "cat": "wait", "ph": "b", "id": stats.name}
    return [begin, {**begin, "ph": "e", "ts": stats.end * 1e6}]


class Trace:
    """Collects the events of one step."""

    def __init__(self, metadata: RunMetadata, device: str) -> None:
        metadata._traced = True
        self._metadata = metadata
        self._device = device
        self._threads: dict[str, int] = {}

    def on_thread(self, name: str) -> None:
        """The node runs on the thread that calls this."""
        self._threads[name] = threading.get_ident()

    @staticmethod
    def now() -> float:
        """The clock of all events."""
        return time.perf_counter()

    def record(
        self, name: str, op_type: str, waits: bool, scheduled: float, start: float, outputs: Sequence[Array]
    ) -> None:
        """Write down one execution that ends now."""
        size = sum(getattr(value, "nbytes", 0) for value in outputs)
        thread = self._threads.pop(name, None) or threading.get_ident()
        stats = NodeStats(name, op_type, self._device, scheduled, start, self.now(), size, thread, waits)
        self._metadata.step_stats.append(stats)
