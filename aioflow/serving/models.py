"""The models of a server, by name and version."""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self

from aioflow import errors
from aioflow.config import Config, expect
from aioflow.files.filesystem import Path
from aioflow.saved_model.signature import Signature
from aioflow.serving.batching import Batching
from aioflow.serving.choice import VersionChoice, check_labels
from aioflow.serving.local_publication import LocalPublication
from aioflow.serving.metrics import Metrics
from aioflow.serving.publication import Publication
from aioflow.serving.record import Observer
from aioflow.serving.replica import Replica, checked_replicas
from aioflow.serving.replica_loader import ReplicaLoader
from aioflow.serving.replica_publication import ReplicaPublication
from aioflow.serving.served_model import ServedModel
from aioflow.serving.served_version import ServedVersion
from aioflow.serving.signature_runner import make_runners
from aioflow.serving.status import VersionStatus
from aioflow.serving.version_loader import VersionLoader
from aioflow.session import Session
from aioflow.session.request_batcher import BatchObserver
from aioflow.tensors.recursion import safe_repr

_log: Final = logging.getLogger("aioflow.serving")
_DEFAULT: Final = Batching()


class _Source(Protocol):
    """Where the versions of a model come from: a directory, or training in this process."""

    @property
    def choice(self) -> VersionChoice: ...
    def status(self) -> Sequence[VersionStatus]: ...
    async def refresh(self, retry_failed: bool = True) -> list[errors.OpError]: ...
    async def set_label(self, label: str, version: int | None) -> None: ...
    async def close(self) -> None: ...


class Models:
    """Models by name, each with versions that are replaced while requests come.

        async with af.serving.Models() as models:
            await models.add("digits", "models/digits")
            outputs = await models.find("digits").infer({"x": images})

    A directory has a version in each folder whose name is a number, as TensorFlow Serving has it. The newest version is
    served, and each one that a label names. A new version is loaded and warmed up beside the old one. Then it takes its
    place at once: requests that run end on the old version, which is closed afterwards.

    Args:
        config: the configuration of the session of each version.
        poll_interval: the seconds between two looks of `watch` at the directories.
        chooser: draws the versions of a traffic split.
        metrics: measures the batches, and the requests of servers of these models, which show them at `/metrics`.

    Attributes:
        metrics: them; None if nothing is measured.
        observers: are told of each request to a server of these models that has ended.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": 2 * x})
        >>> await af.saved_model.save(session, "models/served", {"serving_default": signature}, version=1)
        'models/served/1'
        >>> async with af.serving.Models() as models:
        ...     version = await models.add("double", "models/served")
        ...     print(await models.find("double").infer({"x": np.array([1.0, 2.0], np.float32)}))
        {'y': array([2., 4.], dtype=float32)}
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        poll_interval: float = 1.0,
        chooser: random.Random | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        expect("config", config, Config)
        if not poll_interval > 0:
            raise ValueError(f"poll_interval is {poll_interval} s, and must be positive")
        self.metrics: Final = metrics
        self.observers: Final[set[Observer]] = set()
        self._config: Final = config
        self._poll_interval: Final = poll_interval
        self._chooser: Final = chooser or random.Random()
        self._models: Final[dict[str, _Source]] = {}
        self._ending: Final[set[_Source]] = set()
        self._closed = False

    async def add(
        self,
        name: str,
        directory: Path,
        *,
        labels: Mapping[str, int] | None = None,
        batching: Batching | None = _DEFAULT,
        replicas: Sequence[Replica] | None = None,
    ) -> ServedVersion:
        """Load the newest version in the directory, and those of the labels. Returns the newest when it can be served.

        Args:
            name: the name of the model.
            directory: the folder with a folder for each version.
            labels: versions by label.
            batching: how requests share runs; None: each has a run of its own.
            replicas: the places in a cluster where each version is loaded; by default it is loaded in this process.
                A request goes to the one with the fewest rows to compute. A replica whose task is lost is loaded again
                when the task is back. Its requests are repeated once on another one, but only those that had not begun
                or whose signature changes nothing.

        Raises:
            AlreadyExistsError: there is a model of that name.
            NotFoundError: the directory has no version, or not one that a label names.
            DataLossError, UnimplementedError, PermissionDeniedError: the version is damaged, partly written, of a
                later format, or names files elsewhere. Nothing was added.
            UnavailableError: no replica can be reached.
            ValueError: a limit of `batching` makes no sense, or there are no replicas.
        """
        expect("batching", batching, Batching)
        check_labels({} if labels is None else labels)
        places = () if replicas is None else checked_replicas(replicas)
        loader = VersionLoader(name, directory, batching, self._config, self.metrics, places)
        model = ServedModel(name, loader, self._chooser)
        self._reserve(name, model)
        try:
            return await model.open(labels or {})
        except BaseException:
            await self._end(name, model)
            raise

    async def publish(
        self,
        name: str,
        session: Session,
        signatures: Mapping[str, Signature],
        *,
        every: int = 1,
        batching: Batching | None = _DEFAULT,
        replicas: Sequence[Replica] | None = None,
    ) -> Publication:
        """Serve variables that are trained in this process, as versions that the training publishes.

            publication = await models.publish("digits", session, {"serving_default": signature}, every=100)
            async for x, y in batches:
                await train(x, y)
                await publication.step()

        Each request is computed with the values that all variables had at one moment between steps. The first version
        has their present values.

        Args:
            name: the name of the model.
            session: the session that trains. When it is closed, the model is no longer ready, and answers no request.
            signatures: functions of its graph, by name. The graph may be finalized: a graph beside it gets two copies
                of their operations, up to four while requests are slow.
            every: the number of steps from one version to the next.
            batching: how requests share runs; None: each has a run of its own.
            replicas: the places in a cluster where each version is loaded, as in `add`; by default the session that
                trains serves, too. The values pass through this process, and queues and random state are not shared
                with the training. `publish` returns when the replicas have loaded the version.

        Raises:
            AlreadyExistsError: there is a model of that name.
            FailedPreconditionError: a variable has no value.
            UnavailableError: no replica can be reached.
            ValueError: the signatures belong to another graph, or `every` is below 1, or there are no replicas.
        """
        expect("batching", batching, Batching)
        publication = self._publication(name, session, signatures, every, batching, replicas)
        self._reserve(name, publication)
        try:
            await publication.publish()
        except BaseException:
            await self._end(name, publication)
            raise
        return publication

    def _publication(
        self, name: str, session: Session, signatures: Mapping[str, Signature], every: int, batching: Batching | None,
        replicas: Sequence[Replica] | None,
    ) -> Publication:  # fmt: skip
        make = partial(make_runners, batching=batching, observer=self._observer(name))
        if replicas is None:
            return LocalPublication(name, session, signatures, every, make)
        loader = ReplicaLoader(name, checked_replicas(replicas), self._config, make, self.metrics)
        return ReplicaPublication(name, session, signatures, every, loader)

    def _observer(self, name: str) -> BatchObserver | None:
        return None if self.metrics is None else self.metrics.batch_observer(name)

    def _reserve(self, name: str, model: _Source) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a model has a name of at least one letter, not {safe_repr(name)}")
        if self._closed:
            raise errors.UnavailableError("the models are closed, and take no further model")
        if name in self._models:
            raise errors.AlreadyExistsError(f"there is a model {name!r} already: remove it first, or use another name")
        self._models[name] = model

    async def remove(self, name: str) -> None:
        """Serve the model no longer. Waits for the requests that run. NotFoundError if there is none."""
        await self._end(name, self._model(name))

    async def _end(self, name: str, model: _Source) -> None:
        """Take a model out, and close it. If that is cancelled, `close` does the rest."""
        self._models.pop(name, None)
        self._ending.add(model)
        await model.close()
        self._ending.discard(model)

    def _model(self, name: str) -> _Source:
        found = self._models.get(name)
        if found is None:
            raise errors.NotFoundError(f"there is no model {name!r}; there are: {', '.join(self.names()) or 'none'}")
        return found

    # What there is

    def find(self, name: str, version: int | None = None, label: str | None = None) -> ServedVersion:
        """Return the version of that number or label; else one that the traffic split draws, or the newest.

        Raises:
            NotFoundError: there is none; the text names those that there are.
            InvalidArgumentError: both a version and a label are given.
            TypeError: a version is no whole number.
            UnavailableError: the model has no version that can be served yet.
        """
        if self._closed:
            raise errors.UnavailableError("the server is shutting down, and takes no further requests")
        return self._model(name).choice.find(version, label)

    def names(self) -> list[str]:
        """Return the names of the models, sorted."""
        return sorted(self._models)

    def versions(self, name: str) -> list[int]:
        """Return the numbers of the versions that are available, rising. NotFoundError if there is no such model."""
        return sorted(self._model(name).choice.available)

    def served(self, name: str) -> Mapping[int, ServedVersion]:
        """Return the versions that are available, by number. NotFoundError if there is no such model."""
        return dict(self._model(name).choice.available)

    def labels(self, name: str) -> dict[str, int]:
        """Return the versions of a model by label. NotFoundError if there is no such model."""
        return dict(self._model(name).choice.labels)

    def status(self, name: str) -> Sequence[VersionStatus]:
        """Return the state of each version, newest first, also of failed ones and of the last ones that have ended."""
        return self._model(name).status()

    @property
    def ready(self) -> bool:
        """Whether there is a model, and the newest version of each one can run requests."""
        return not self._closed and bool(self._models) and all(model.choice.ready for model in self._models.values())

    # What is served

    async def set_label(self, name: str, label: str, version: int | None) -> None:
        """Let a label name another version, which is loaded first if it is not; None removes the label."""
        check_labels({label: 0 if version is None else version})
        await self._model(name).set_label(label, version)

    def split(self, name: str, shares: Mapping[str, float] | None) -> None:
        """Divide requests without version and label among labels, as {"stable": 0.9, "canary": 0.1}; None: no split.

        Raises:
            NotFoundError: there is no such model or label.
            ValueError: a share is negative, or all are 0.
        """
        self._model(name).choice.split({} if shares is None else shares)

    async def refresh(self, name: str | None = None) -> None:
        """Look for new versions now, of one model or of all, and serve them. Raises the error of one that is bad."""
        failures = [
            error for each in (self.names() if name is None else [name]) for error in await self._model(each).refresh()
        ]
        if failures:
            raise failures[0]

    async def watch(self) -> None:
        """Look for new versions every `poll_interval` seconds, until it is cancelled.

        A bad version is reported in the log and in `status`, and tried again after 1, 2, 4 seconds and so on, up to a
        minute; the version before it stays.
        """
        while True:
            for name in self.names():
                await self._look(name)
            await asyncio.sleep(self._poll_interval)

    async def _look(self, name: str) -> None:
        model = self._models.get(name)  # it may have been removed meanwhile
        try:
            if model is not None:
                await model.refresh(retry_failed=False)
        except errors.OpError as error:
            _log.error("the directory of model %r cannot be read: %s", name, error.message)

    async def close(self) -> None:
        """Refuse further requests, wait for those that run, and close all versions. Closing twice is allowed."""
        self._closed = True
        await asyncio.gather(*[model.close() for model in (*self._models.values(), *self._ending)])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
