"""The models of a server, by name and version."""

import random
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from aioflow.config import Config
from aioflow.files.filesystem import Path
from aioflow.serving.batching import Batching
from aioflow.serving.served_version import ServedVersion
from aioflow.serving.status import VersionStatus


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
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        poll_interval: float = 1.0,
        chooser: random.Random | None = None,
    ) -> None:
        raise NotImplementedError

    async def add(
        self,
        name: str,
        directory: Path,
        *,
        labels: Mapping[str, int] | None = None,
        batching: Batching | None = Batching(),  # noqa: B008
    ) -> ServedVersion:
        """Load the newest version in the directory, and those of the labels. Returns the newest when it can be served.

        Args:
            name: the name of the model.
            directory: the folder with a folder for each version.
            labels: versions by label.
            batching: how requests share runs; None: each has a run of its own.

        Raises:
            AlreadyExistsError: there is a model of that name.
            NotFoundError: the directory has no version, or not one that a label names.
            DataLossError, UnimplementedError, PermissionDeniedError: the version is damaged, partly written, of a
                later format, or names files elsewhere. Nothing was added.
        """
        raise NotImplementedError

    async def remove(self, name: str) -> None:
        """Serve the model no longer. Waits for the requests that run. NotFoundError if there is none."""
        raise NotImplementedError

    # What there is

    def find(self, name: str, version: int | None = None, label: str | None = None) -> ServedVersion:
        """Return the version of that number or label; else one that the traffic split draws, or the newest.

        Raises:
            NotFoundError: there is none; the text names those that there are.
            InvalidArgumentError: both a version and a label are given.
            UnavailableError: the model has no version that can be served yet.
        """
        raise NotImplementedError

    def names(self) -> list[str]:
        """Return the names of the models, sorted."""
        raise NotImplementedError

    def versions(self, name: str) -> list[int]:
        """Return the numbers of the versions that are available, rising. NotFoundError if there is no such model."""
        raise NotImplementedError

    def labels(self, name: str) -> dict[str, int]:
        """Return the versions of a model by label. NotFoundError if there is no such model."""
        raise NotImplementedError

    def status(self, name: str) -> Sequence[VersionStatus]:
        """Return the state of each version, newest first, also of failed ones and of the last ones that have ended."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Whether there is a model, and each one has a version that is available."""
        raise NotImplementedError

    # What is served

    async def set_label(self, name: str, label: str, version: int | None) -> None:
        """Let a label name another version, which is loaded first if it is not; None removes the label."""
        raise NotImplementedError

    def split(self, name: str, shares: Mapping[str, float] | None) -> None:
        """Divide requests without version and label among labels, as {"stable": 0.9, "canary": 0.1}; None: no split.

        Raises:
            NotFoundError: there is no such model or label.
            ValueError: a share is negative, or all are 0.
        """
        raise NotImplementedError

    async def refresh(self, name: str | None = None) -> None:
        """Look for new versions now, of one model or of all, and serve them. Raises the error of one that is bad."""
        raise NotImplementedError

    async def watch(self) -> None:
        """Look for new versions every `poll_interval` seconds, until it is cancelled.

        A bad version is reported in the log and in `status`, and not tried again until its folder changes; the version
        before it stays.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Refuse further requests, wait for those that run, and close all versions. Closing twice is allowed."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
