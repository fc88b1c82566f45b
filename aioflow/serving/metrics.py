"""Metrics of served models, as Prometheus reads them."""

import asyncio
import importlib
import os
from typing import Any, Final

from aioflow import errors
from aioflow.serving.record import Record
from aioflow.serving.replica_metrics import ReplicaCollector
from aioflow.serving.replica_set import ReplicaSet
from aioflow.serving.request import Response
from aioflow.session.request_batcher import BatchObserver, FinishedBatch

SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable of the environment with the directory by which the processes of a server share metrics."""
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_ROWS: Final = tuple(2**power for power in range(11))
_BEAT: Final = 0.1
"""Seconds between two looks at the event loop."""


class Metrics:
    """Counters and histograms of the models that are given them, and of the process.

        metrics = af.serving.Metrics()
        async with af.serving.Models(metrics=metrics) as models:
            app.add_subapp("/ml", af.serving.aiohttp_app(models))  # GET /ml/metrics

    If the environment names a directory for the metrics of several processes, as prometheus-client has it, they are
    those of all. Then there are none of the process itself, such as its memory, or of replicas.

    UnimplementedError if the extra `metrics` is not installed: `pip install aioflow-engine[metrics]`.

    Examples:
        >>> async with af.serving.Models(metrics=af.serving.Metrics()) as models:
        ...     application = af.serving.aiohttp_app(models)
    """

    def __init__(self) -> None:
        self._client: Final = _client()
        self._registry: Final = self._client.CollectorRegistry()
        self._client.ProcessCollector(registry=self._registry)
        self._requests: Final = self._counter("requests", "Requests that have ended", "model", "version", "status")
        self._request_seconds: Final = self._histogram("request_seconds", "Time of a request", _SECONDS, "model")
        self._rows: Final = self._counter("rows", "Rows of the inputs of requests", "model")
        self._batches: Final = self._counter("batches", "Batches that have ended, by why they began", "model", "reason")
        self._batch_rows: Final = self._histogram("batch_rows", "Rows of a batch", _ROWS, "model")
        self._queue_seconds: Final = self._histogram(
            "queue_seconds", "Time of a call before its batch", _SECONDS, "model"
        )
        self._run_seconds: Final = self._histogram("run_seconds", "Time of the run of a batch", _SECONDS, "model")
        self._replicas: Final = ReplicaCollector(self._client.core)
        self._registry.register(self._replicas)
        self._lag: Final = self._histogram("event_loop_lag_seconds", "Delay of a timer of the event loop", _SECONDS)

    def _counter(self, name: str, text: str, *labels: str) -> Any:
        return self._client.Counter(f"aioflow_{name}", f"{text}.", labels, registry=self._registry)

    def _histogram(self, name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Any:
        text = f"{text}."
        return self._client.Histogram(f"aioflow_{name}", text, labels, registry=self._registry, buckets=bounds)

    def observe_request(self, record: Record) -> None:
        """Count a request that has ended. Those for no model have an empty label."""
        model = record.model or ""
        version = "" if record.version is None else str(record.version)
        self._requests.labels(model, version, str(record.status)).inc()
        self._request_seconds.labels(model).observe(record.seconds)
        self._rows.labels(model).inc(record.rows)

    def batch_observer(self, model: str) -> BatchObserver:
        """Return what is told of the batches of a model."""
        rows, waits, seconds = (
            each.labels(model) for each in (self._batch_rows, self._queue_seconds, self._run_seconds)
        )

        def observe(batch: FinishedBatch) -> None:
            self._batches.labels(model, batch.reason).inc()
            rows.observe(batch.rows)
            seconds.observe(batch.seconds)
            for wait in batch.waits:
                waits.observe(wait)

        return observe

    def watch_replicas(self, model: str, version: int, replicas: ReplicaSet) -> None:
        """Show the replicas of a version from now on, until they are closed."""
        self._replicas.add(model, version, replicas)

    async def watch_loop(self) -> None:
        """Measure the lag of the event loop, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _BEAT
            await asyncio.sleep(_BEAT)
            self._lag.observe(max(0.0, loop.time() - due))

    def show(self) -> Response:
        """Return them as a response."""
        registry = self._registry
        if SHARED in os.environ:
            registry = self._client.CollectorRegistry()
            importlib.import_module("prometheus_client.multiprocess").MultiProcessCollector(registry)
        return Response(200, {"content-type": _TEXT}, [self._client.generate_latest(registry)])


def _client() -> Any:
    try:
        import prometheus_client.core
    except ImportError:
        text = "metrics need the package prometheus-client: pip install aioflow-engine[metrics]"
        raise errors.UnimplementedError(text) from None
    return prometheus_client
