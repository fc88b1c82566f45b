"""Metrics of replicas: they are read from the replicas when Prometheus asks, so that a request pays nothing."""

from collections.abc import Iterator
from typing import Any, Final

from aioflow.serving.replica_set import ReplicaSet

_LABELS: Final = ("model", "version", "replica")


class ReplicaCollector:
    """Shows the replicas of all versions that are not closed."""

    def __init__(self, families: Any) -> None:
        """A collector without replicas. `families` is `prometheus_client.core`."""
        self._families: Final = families
        self._sets: list[tuple[str, str, ReplicaSet]] = []

    def add(self, model: str, version: int, replicas: ReplicaSet) -> None:
        """Show these replicas, too."""
        self._sets.append((model, str(version), replicas))

    def collect(self) -> Iterator[Any]:
        """The metrics as they are now."""
        self._sets = [each for each in self._sets if not each[-1].closed]
        gauge, counter = self._families.GaugeMetricFamily, self._families.CounterMetricFamily
        up = gauge("aioflow_replica_up", "Whether a replica takes requests.", labels=_LABELS)
        rows = gauge("aioflow_replica_rows", "Rows that a replica computes, or that wait for it.", labels=_LABELS)
        losses = counter("aioflow_replica_losses", "Losses of a replica.", labels=_LABELS)
        retries = counter("aioflow_retries", "Requests repeated on another replica.", labels=_LABELS[:2])
        for model, version, replicas in self._sets:
            retries.add_metric([model, version], replicas.retries)
            for status in replicas.status:
                labels = [model, version, status.name]
                up.add_metric(labels, float(status.state == "available"))
                rows.add_metric(labels, status.rows)
                losses.add_metric(labels, status.losses)
        yield from (up, rows, losses, retries)
