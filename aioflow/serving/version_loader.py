"""Loads the versions of a model from its directory, each into a session of its own, and warms them up."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from aioflow import errors
from aioflow.checkpoint import locate
from aioflow.config import Config
from aioflow.files.filesystem import FILES, Path, as_name
from aioflow.graph.graph import Graph
from aioflow.saved_model.loading import LoadedModel, load
from aioflow.saved_model.manifest import MOST_DIGITS
from aioflow.saved_model.reading import is_complete, read
from aioflow.saved_model.writing import sweep
from aioflow.serving.batching import Batching
from aioflow.serving.metrics import Metrics
from aioflow.serving.replica import Replica
from aioflow.serving.replica_loader import ReplicaLoader
from aioflow.serving.served_version import Close, ServedVersion
from aioflow.serving.signature_runner import make_runners
from aioflow.session import Session


class VersionLoader:
    """The directory of a model, with a version in each folder whose name is a number."""

    def __init__(
        self,
        name: str,
        directory: Path,
        batching: Batching | None,
        config: Config | None,
        metrics: Metrics | None = None,
        replicas: Sequence[Replica] = (),
    ) -> None:
        self._name: Final = name
        self._directory: Final = as_name(directory).rstrip("/")
        self._config: Final = config
        observer = None if metrics is None else metrics.batch_observer(name)
        self._make_runners: Final = partial(make_runners, batching=batching, observer=observer)
        self._replicas: Final = ReplicaLoader(name, replicas, config, self._make_runners, metrics) if replicas else None

    async def complete_versions(self) -> list[int]:
        """Return the numbers of the versions that are completely written, rising."""
        return await asyncio.to_thread(self._complete)

    async def missing_error(self, number: int | None = None) -> errors.OpError:
        """Return the error for a version, or any version, that is not completely written."""
        present, complete = await asyncio.to_thread(self._present), await self.complete_versions()
        partial = sorted(set(present) - set(complete))
        if number in partial or (number is None and partial):
            text = f"{self._path(partial[-1] if number is None else number)!r} was written only in part"
            return errors.DataLossError(f"{text}: it has no manifest, which a save writes last; save it again")
        if await asyncio.to_thread(is_complete, self._directory):
            text = f"{self._directory!r} is a version itself: name the folder above it"
            return errors.NotFoundError(f"{text}, which has a folder for each version of model {self._name!r}")
        meant = "a version" if number is None else f"the version {number}"
        return errors.NotFoundError(
            f"{self._directory!r} does not have {meant} of model {self._name!r}: a version is a saved model in a "
            f"folder whose name is a number; there are: {', '.join(map(str, complete)) or 'none'}"
        )

    async def tidy(self) -> None:
        """Delete what killed saves have left in a directory of this machine; running saves are left alone."""
        if "://" not in self._directory:
            await asyncio.to_thread(sweep, self._directory)

    def _present(self) -> list[int]:
        storage, name = locate(self._directory, FILES)
        return sorted(int(entry) for entry in storage.entries(name) if _is_number(entry))

    def _complete(self) -> list[int]:
        return [number for number in self._present() if is_complete(self._path(number))]

    async def load(self, number: int) -> tuple[ServedVersion, Close]:
        """Return a version that is loaded and warmed up, and what closes it. Raises as `saved_model.load` does."""
        try:
            if self._replicas is None:
                return await self._load_here(number)
            stored = await asyncio.to_thread(read, self._path(number))  # once, also for replicas that come back
            return await self._replicas.load(number, stored)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(f"{self._path(number)!r} cannot be served: {error}") from error

    async def _load_here(self, number: int) -> tuple[ServedVersion, Close]:
        session = Session(graph=Graph(), config=self._config)
        try:
            model = await load(self._path(number), session)
            version = ServedVersion(self._name, number, self._make_runners(model.signatures, session))
            await _warm_up(version, model)
        except BaseException:
            await session.close()
            raise
        return version, session.close

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number}"


async def _warm_up(version: ServedVersion, model: LoadedModel) -> None:
    for request in model.warmup:
        await version.infer(request.inputs, request.signature)


def _is_number(entry: str) -> bool:
    return entry.isascii() and entry.isdigit() and len(entry) <= MOST_DIGITS and str(int(entry)) == entry
