"""Loads versions of a model on replicas in a cluster."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from aioflow.config import Config
from aioflow.saved_model.reading import StoredModel
from aioflow.serving.loaded_replica import LoadedReplica, MakeRunners
from aioflow.serving.metrics import Metrics
from aioflow.serving.replica import Replica
from aioflow.serving.replica_keeper import ReplicaKeeper
from aioflow.serving.replica_set import ReplicaSet
from aioflow.serving.served_version import Close, ServedVersion


class ReplicaLoader:
    """The replicas of a model, which hold one version after another."""

    def __init__(
        self, name: str, replicas: Sequence[Replica], config: Config | None, make_runners: MakeRunners,
        metrics: Metrics | None = None,
    ) -> None:  # fmt: skip
        self._name: Final = name
        self._replicas: Final = replicas
        self._config: Final = config
        self._make_runners: Final = make_runners
        self._metrics: Final = metrics

    async def load(self, number: int, stored: StoredModel) -> tuple[ServedVersion, Close]:
        """Return a version that is loaded on the replicas, and what closes it.

        Replicas that are lost and come back get the same values. Raises as `ReplicaSet.open`.
        """
        keepers = [
            ReplicaKeeper(replica.name, partial(LoadedReplica.load, replica, stored, self._config, self._make_runners))
            for replica in self._replicas
        ]
        replicas = ReplicaSet(f"version {number} of model {self._name!r}", keepers)
        version = ServedVersion(self._name, number, await replicas.open(), replicas)
        if self._metrics is not None:
            self._metrics.watch_replicas(self._name, number, replicas)
        return version, replicas.close
