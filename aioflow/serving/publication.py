"""Serves variables while they are trained: requests see all of them as they were at one moment between steps.

`local_publication` serves them in the session that trains, `replica_publication` on tasks of a cluster. A version takes
the place of the one before it at once, and requests that run go on with the version that they began with.
"""

import abc
import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Final

from aioflow import errors
from aioflow.saved_model.export import Exported, export
from aioflow.saved_model.signature import Signature, check_signatures
from aioflow.serving.choice import VersionChoice
from aioflow.serving.served_version import ServedVersion
from aioflow.serving.status import VersionStatus
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr

_log: Final = logging.getLogger("aioflow.serving")
PATIENCE: Final = 10.0
"""Seconds within which a moment between steps must come."""
MOST_VERSIONS: Final = 4
"""Versions that requests use at the same time, at most."""


class Publication(abc.ABC):
    """The versions of a model that is being trained. `Models.publish` makes it.

    Attributes:
        choice: the version that is served.
        every: the number of steps from one version to the next.

    Examples:
        >>> v, x = af.Variable(2.0), af.placeholder(af.float32, [None], name="x")
        >>> signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": v * x})
        >>> await session.run(v.initializer)
        >>> async with af.serving.Models() as models:
        ...     publication = await models.publish("scale", session, {"serving_default": signature}, every=100)
        ...     print(await models.find("scale").infer({"x": np.array([3.0], np.float32)}))
        {'y': array([6.], dtype=float32)}
    """

    def __init__(self, name: str, session: Session, signatures: Mapping[str, Signature], every: int) -> None:
        if not isinstance(every, int):
            raise TypeError(f"every is a whole number of steps, not {safe_repr(every)}")
        if every < 1:
            raise ValueError(f"every is {every} steps, and must be at least 1")
        check_signatures(session.graph, signatures)
        self.choice: Final = VersionChoice(name, random.Random())
        self.every: Final = every
        self._name: Final = name
        self._session: Final = session
        self._signatures: Final = dict(signatures)
        self._exported: Exported | None = None
        self._publishing: Final = asyncio.Lock()
        self._steps = self._number = 0
        self._closed = False

    async def step(self) -> None:
        """Count a step of the training. After each `every` steps it publishes."""
        self._steps += 1
        if not self._steps % self.every:
            await self.publish()

    async def publish(self) -> int:
        """Serve the present values from now on. Returns the number of the version.

        Waits until no step is changing the variables, but for no request. If steps do not end for 10 s, requests use
        four versions, or no replica can be reached, the last version stays, and the log says so.

        Raises:
            FailedPreconditionError: a variable has no value, or there is no version that could stay.
            UnavailableError: the model is served no longer, or no replica can be reached and no version could stay.
        """
        async with self._publishing:
            if self._closed:
                raise errors.UnavailableError(f"model {self._name!r} is served no longer, and takes no further version")
            version = await self._next_version(self._number + 1)
            if version is not None:
                self._serve(version)
            return self._number

    @abc.abstractmethod
    async def _next_version(self, number: int) -> ServedVersion | None:
        """Return a version of that number with the present values; None if the last one stays."""

    def _serve(self, version: ServedVersion) -> None:
        """Let a version serve all further requests."""
        for last in self.choice.available.values():
            last.state = "ending"
        self.choice.available.clear()
        self._number = version.version
        version.state = "available"
        self.choice.available[self._number] = version
        self.choice.newest = self._number

    async def _export(self) -> Exported:
        """Return what the signatures need."""
        if self._exported is None:
            self._exported = await asyncio.to_thread(export, self._signatures)
        return self._exported

    def _note_no_moment(self) -> None:
        """Say in the log that the last version stays, since steps do not end. FailedPreconditionError without one."""
        if not self._number:
            raise errors.FailedPreconditionError(
                f"steps that change the variables of {self._name!r} are never all done"
            )
        _log.warning("steps that change variables are never all done: model %r keeps its version", self._name)

    def _note_full(self) -> None:
        """Say in the log that the last version stays, since requests use all the copies."""
        _log.warning("requests use %d versions of model %r, which keeps its version", MOST_VERSIONS, self._name)

    # A source of versions for `Models`

    @abc.abstractmethod
    def _versions(self) -> list[ServedVersion]:
        """Return the versions that requests may use."""

    def status(self) -> list[VersionStatus]:
        """Return the state of the versions that have not ended, newest first."""
        shown = [VersionStatus(each.version, each.state) for each in self._versions() if each.state != "ended"]
        return sorted(shown, key=lambda status: -status.version)

    async def refresh(self, retry_failed: bool = True) -> list[errors.OpError]:
        """New versions come by `publish` alone."""
        return []

    async def set_label(self, label: str, version: int | None) -> None:
        """Raise FailedPreconditionError: each version gives its place to the next one."""
        raise errors.FailedPreconditionError(
            f"model {self._name!r} is being trained, so a label cannot keep a version: save it, and add the directory"
        )

    async def close(self) -> None:
        """Publish no further version, and wait for the requests that run."""
        self._closed = True
        async with self._publishing:
            self.choice.available.clear()
            await self._end_versions()

    @abc.abstractmethod
    async def _end_versions(self) -> None:
        """End all versions, each after its last request."""
