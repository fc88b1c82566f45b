"""Served models: requests, batches and why they began, percentiles of times, versions."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Points, ServedModel, ServedVersion, Serving, clip
from aioflow.dashboard.monitor import Pace
from aioflow.dashboard.session_source import resident
from aioflow.serving.models import Models
from aioflow.serving.record import Record
from aioflow.serving.signature_runner import SignatureRunner
from aioflow.serving.status import VersionStatus
from aioflow.session.request_batcher import FinishedBatch

_LAST: Final = 2000
"""Requests and calls whose times make percentiles."""
_BUCKETS: Final = 13
"""Numbers of rows of a batch: up to 1, 2, 4 and so on to 4096."""
PERCENTILES: Final = (50, 90, 99)


class ServingSource:
    """Looks at models.

    Args:
        models: the models.
        clock: the time of day.
    """

    def __init__(self, models: Models, clock: Callable[[], float] = time.time) -> None:
        self._models: Final = models
        self._clock: Final = clock
        self._watched: Final[dict[str, _WatchedModel]] = {}

    async def watch(self, board: Board) -> None:
        """Post the state of all models twice a second."""
        pace, lag = Pace(), 0.0
        self._models.observers.add(self._hear)
        try:
            while True:
                with pace.look():
                    self._look(board, lag)
                lag = await pace.rest()
        finally:
            self._models.observers.discard(self._hear)
            for model in self._watched.values():
                model.stop()
            self._watched.clear()

    def _hear(self, record: Record) -> None:
        model = self._watched.get(record.model or "")
        if model is not None:
            model.hear_request(record)

    def _look(self, board: Board, lag: float) -> None:
        names, now = self._models.names(), self._clock()
        for name in self._watched.keys() - set(names):
            self._watched.pop(name).stop()
        found = []
        numbers = {"lag:loop": lag, "process:memory": resident()}
        for name in names:
            model = self._watched.get(name) or self._watched.setdefault(name, _WatchedModel(now))
            runners = [runner for version in self._models.served(name).values() for runner in version.runners]
            model.attach(runners)
            numbers |= {group.format(clip(name)): value for group, value in model.numbers(now).items()}
            found.append(model.message(name, self._models.status(name)))
        board.post(Serving(now, tuple(found)))
        board.post(Points(now, numbers))


class _WatchedModel:
    """The requests and batches of one model since the page was opened."""

    def __init__(self, now: float) -> None:
        self._requests: Final[Counter[str]] = Counter()
        self._batches: Final[Counter[str]] = Counter()
        self._batch_rows: Final = [0] * _BUCKETS
        self._request_seconds: Final = deque[float](maxlen=_LAST)
        self._call_seconds: Final = deque[float](maxlen=_LAST)
        self._wait_seconds: Final = deque[float](maxlen=_LAST)
        self._runners: Final[dict[SignatureRunner, Callable[[], None]]] = {}
        self._calls = self._rows = self._new_calls = self._new_batches = self._new_rows = 0
        self._looked = now

    def attach(self, runners: Sequence[SignatureRunner]) -> None:
        """Listen to the batches of these runners, and of no others."""
        for runner in self._runners.keys() - set(runners):
            self._runners.pop(runner)()
        for runner in runners:
            if runner not in self._runners and runner.batcher is not None:
                self._runners[runner] = runner.observe(self.hear_batch)

    def stop(self) -> None:
        """Listen to no runner."""
        self.attach(())

    def hear_request(self, record: Record) -> None:
        """A request has ended."""
        self._requests[str(record.status)] += 1
        self._request_seconds.append(record.seconds)

    def hear_batch(self, batch: FinishedBatch) -> None:
        """A batch has ended."""
        self._batches[batch.reason] += 1
        self._batch_rows[min(_BUCKETS - 1, math.ceil(math.log2(max(1, batch.rows))))] += 1
        self._wait_seconds.extend(batch.waits)
        self._call_seconds.extend([wait + batch.seconds for wait in batch.waits])
        self._calls += len(batch.waits)
        self._rows += batch.rows
        self._new_calls += len(batch.waits)
        self._new_batches += 1
        self._new_rows += batch.rows

    def numbers(self, now: float) -> dict[str, float]:
        """The calls and batches since the last look as numbers, by the format of the name of a series."""
        seconds, self._looked = max(now - self._looked, 1e-9), now
        found = {"calls:{}": self._new_calls / seconds}
        if self._new_batches:
            half, _, most = percentiles([*self._call_seconds][-self._new_calls :])
            rows = self._new_rows / self._new_batches
            found |= {"latency:p50 {}": half, "latency:p99 {}": most, "batch:{}": rows}
        self._new_calls = self._new_batches = self._new_rows = 0
        return found

    def message(self, name: str, versions: Sequence[VersionStatus]) -> ServedModel:
        """The message about the model."""
        batchers = [runner.batcher for runner in self._runners if runner.batcher is not None]
        return ServedModel(
            clip(name), tuple(map(_version, versions)), dict(self._requests), self._calls, self._rows,
            sum([batcher.waiting_rows for batcher in batchers]),
            sum([batcher.statistics.refused for batcher in batchers]), dict(self._batches), tuple(self._batch_rows),
            percentiles(self._request_seconds), percentiles(self._call_seconds), percentiles(self._wait_seconds),
        )  # fmt: skip


def percentiles(seconds: Iterable[float]) -> tuple[float, ...]:
    """The 50th, 90th and 99th percentile; nothing of nothing."""
    values = list(seconds)
    return tuple(np.percentile(values, PERCENTILES).tolist()) if values else ()


def _version(status: VersionStatus) -> ServedVersion:
    error = "" if status.error is None else clip(status.error.message)
    return ServedVersion(status.version, status.state, tuple(map(clip, status.labels)), error)
