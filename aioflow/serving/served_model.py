"""A model from a directory: which of its versions are loaded, and how a new one takes the place of an old one."""

import asyncio
import dataclasses
import logging
import random
from collections.abc import Mapping
from typing import Final

from aioflow import errors
from aioflow.serving.choice import VersionChoice
from aioflow.serving.served_version import Close, ServedVersion
from aioflow.serving.status import State, VersionStatus
from aioflow.serving.version_loader import VersionLoader

_log: Final = logging.getLogger("aioflow.serving")
_LONGEST_PAUSE: Final = 60.0
"""Seconds until a version that could not be loaded is tried again, at most."""
_ENDED: Final = 16
"""Versions that have ended, of which `status` still tells."""


@dataclasses.dataclass(slots=True)
class _Record:
    """What is known of a version: it is loaded, or could not be, or is being loaded."""

    version: ServedVersion | None = None
    close: Close | None = None
    error: errors.OpError | None = None
    attempts: int = 0
    retry_at: float = 0.0

    @property
    def state(self) -> State:
        if self.error is not None:
            return "failed"
        return "loading" if self.version is None else self.version.state


class ServedModel:
    """A model from a directory.

    Attributes:
        choice: the versions that are available, and which of them a request gets.
    """

    def __init__(self, name: str, loader: VersionLoader, chooser: random.Random) -> None:
        self.choice: Final = VersionChoice(name, chooser)
        self._name: Final = name
        self._loader: Final = loader
        self._records: Final[dict[int, _Record]] = {}
        self._endings: Final[set[asyncio.Task[None]]] = set()
        self._changing: Final = asyncio.Lock()
        self._closed = False

    async def open(self, labels: Mapping[str, int]) -> ServedVersion:
        """Load the newest version and those of the labels. Returns the newest. Raises if one cannot be loaded."""
        async with self._changing:
            await self._loader.tidy()
            found = await self._loader.complete_versions()
            if not found:
                raise await self._loader.missing_error()
            for number in {found[-1], *labels.values()}:
                await self._load(number)
            for label, number in labels.items():
                self.choice.set_label(label, number)
            self.choice.newest = found[-1]
            return self.choice.find(found[-1], None)

    async def refresh(self, retry_failed: bool = True) -> list[errors.OpError]:
        """Serve the newest version in the directory from now on. Returns the errors of newer ones that are bad.

        A bad version is tried again after 1, 2, 4 seconds and so on; if `retry_failed`, now. An older one in the
        directory is served instead; without any the last one stays.
        """
        async with self._changing:
            failures: list[errors.OpError] = []
            if not self._closed:
                await self._loader.tidy()
                for number in reversed(await self._loader.complete_versions()):
                    if await self._is_loaded(number, retry_failed, failures):
                        self.choice.newest = number
                        break
                self._end_unneeded()
            return failures

    async def set_label(self, label: str, version: int | None) -> None:
        """Let a label name a version, which is loaded first, or none. See `Models.set_label`."""
        async with self._changing:
            if self._closed:
                raise errors.UnavailableError(f"model {self._name!r} is served no longer, and takes no further label")
            if version is not None:
                await self._load(version)
            self.choice.set_label(label, version)
            self._end_unneeded()

    def status(self) -> list[VersionStatus]:
        """Return the state of each version, newest first."""
        return [
            VersionStatus(number, record.state, self.choice.labels_of(number), record.error)
            for number, record in sorted(self._records.items(), reverse=True)
        ]

    async def close(self) -> None:
        """End all versions, and wait until they have ended."""
        self._closed = True
        async with self._changing:
            for number in [*self.choice.available]:
                self._end(number)
        if self._endings:
            await asyncio.wait(self._endings)

    # Loading

    async def _is_loaded(self, number: int, retry_failed: bool, failures: list[errors.OpError]) -> bool:
        """Whether a version is available, perhaps loaded now. Notes why it cannot be."""
        record = self._records.get(number)
        now = asyncio.get_running_loop().time()
        if record is not None and record.error is not None and not retry_failed and now < record.retry_at:
            return False
        try:
            await self._load(number)
        except errors.OpError as error:
            failures.append(error)
            return False
        return True

    async def _load(self, number: int) -> None:
        """Make a version available. Raises, and remembers, the error of one that cannot be loaded."""
        if number in self.choice.available:
            return
        before = self._records.get(number) or _Record()
        record = self._records[number] = _Record(attempts=before.attempts)
        try:
            if number not in await self._loader.complete_versions():
                raise await self._loader.missing_error(number)
            version, record.close = await self._loader.load(number)
        except errors.OpError as error:
            self._note(number, record, before, error)
            raise
        except BaseException:
            del self._records[number]
            raise
        record.version, version.state = version, "available"
        self.choice.available[number] = version

    def _note(self, number: int, record: _Record, before: _Record, error: errors.OpError) -> None:
        """Remember that a version could not be loaded; the log says so once."""
        if before.error is None or before.error.message != error.message:
            _log.error("version %d of model %r cannot be served: %s", number, self._name, error.message)
        pause = min(2.0**record.attempts, _LONGEST_PAUSE)
        record.attempts, record.error = record.attempts + 1, error
        record.retry_at = asyncio.get_running_loop().time() + pause

    # Ending

    def _end_unneeded(self) -> None:
        """End the versions that neither are the newest nor have a label."""
        needed = {self.choice.newest, *self.choice.labels.values()}
        for number in [number for number in self.choice.available if number not in needed]:
            self._end(number)

    def _end(self, number: int) -> None:
        """Give a version to no further request, and close it after the last one that it has."""
        version, record = self.choice.available.pop(number), self._records[number]
        version.state = "ending"
        ending = asyncio.get_running_loop().create_task(version.end(record.close))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        self._forget_ended()

    def _forget_ended(self) -> None:
        ended = [number for number, record in sorted(self._records.items()) if record.state == "ended"]
        for number in ended[:-_ENDED]:
            del self._records[number]
