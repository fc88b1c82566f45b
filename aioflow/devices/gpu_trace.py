"""When a GPU's kernels ran: not when they were enqueued, but when its stream got to them."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from aioflow.devices.driver import Event
from aioflow.devices.gpu import Gpu
from aioflow.tensors.dtypes import Array
from aioflow.tracing import RunMetadata, Trace


class GpuTrace(Trace):
    """What happens on one GPU in one step. The times of its kernels are known when the GPU has done with the step."""

    def __init__(self, metadata: RunMetadata, gpu: Gpu) -> None:
        super().__init__(metadata, gpu.name, gpu.accounts)
        self._gpu: Final = gpu
        idle = gpu.driver.stream()
        with gpu.driver.select():
            self._zero: Final = gpu.driver.record(idle, timed=True)  # it happens now, for nothing is before it
        self._began: Final = self.now()
        self._before: Event | None = None
        self._spans: Final[list[tuple[int, Event, Event]]] = []
        self._stream: Final = metadata.lane_of(self, "compute stream")

    def mark_launch(self) -> None:
        """The kernel of the node that is recorded next will be enqueued."""
        self._before = self._mark()

    def record(
        self, name: str, op_type: str, waits: bool, scheduled: float, start: float, outputs: Sequence[Array]
    ) -> None:
        """Write down one execution, which is enqueued if it was launched, and else ends now."""
        super().record(name, op_type, waits, scheduled, start, outputs)
        if self._before is not None:
            self._spans.append((len(self.metadata.step_stats) - 1, self._before, self._mark()))
            self._before = None

    def settle(self) -> None:
        """The GPU has done it all: from here on the times are those of its kernels."""
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
