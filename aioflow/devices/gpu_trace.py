"""Records when a GPU's stream ran the kernels, and not when they were enqueued."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from aioflow.devices.driver import Event
from aioflow.devices.gpu import Gpu
from aioflow.tensors.dtypes import Array
from aioflow.tracing import RunMetadata, Trace


class GpuTrace(Trace):
    """The trace of one GPU in one step. The times of its kernels are known after the GPU has finished the step."""

    def __init__(self, metadata: RunMetadata, gpu: Gpu) -> None:
        super().__init__(metadata, gpu.name, gpu.accounts)
        self._gpu: Final = gpu
        idle = gpu.driver.stream()
        with gpu.driver.select():
            self._zero: Final = gpu.driver.record(idle, timed=True)  # it is done now, since the stream is empty
        self._began: Final = self.now()
        self._before: Event | None = None
        self._spans: Final[list[tuple[int, Event, Event]]] = []
        self._stream: Final = metadata.lane_of(self, "compute stream")

    def mark_launch(self) -> None:
        """Mark that the node to be recorded next enqueues its kernel."""
        self._before = self._mark()

    def record(
        self, name: str, op_type: str, waits: bool, scheduled: float, start: float, outputs: Sequence[Array]
    ) -> None:
        """Record one execution. It ends now, unless `mark_launch` was called: then its kernel ends later on the GPU."""
        super().record(name, op_type, waits, scheduled, start, outputs)
        if self._before is not None:
            self._spans.append((len(self.metadata.step_stats) - 1, self._before, self._mark()))
            self._before = None

    def settle(self) -> None:
        """Replace the times by those of the kernels. The GPU must have finished the step."""
        stats = self.metadata.step_stats
        if self._spans:
            self._zero.synchronize()
        for index, before, after in self._spans:
            start, end = self._at(before), self._at(after)
            stats[index] = dataclasses.replace(stats[index], start=start, end=end, thread=self._stream)
        self._spans.clear()

    def _mark(self) -> Event:
        with self._gpu.driver.select():
            return self._gpu.driver.record(self._gpu.compute, timed=True)

    def _at(self, event: Any) -> float:
        return self._began + self._gpu.driver.elapsed(self._zero, event)
