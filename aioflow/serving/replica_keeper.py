"""Keeps one replica of a version: loads it, watches it, and loads it again after it was lost."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aioflow import errors
from aioflow.serving.loaded_replica import LoadedReplica
from aioflow.serving.replica import ReplicaState, ReplicaStatus
from aioflow.serving.signature_runner import Outputs

_log: Final = logging.getLogger("aioflow.serving")
_LOOKS: Final = 1.0
"""Seconds between two looks at a replica."""
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 4.0
"""Seconds between two attempts to load a lost replica."""


class ReplicaKeeper:
    """One replica of a version, through all of its losses.

    Attributes:
        name: its name.
        rows: the rows of the requests that it runs, or that wait for it.
        turn: the number of the last request that was given to it.
    """

    def __init__(self, name: str, load: Callable[[], Awaitable[LoadedReplica]]) -> None:
        self.name: Final = name
        self.rows: int = 0
        self.turn = 0
        self._load: Final = load
        self._loaded: LoadedReplica | None = None
        self._state: ReplicaState = "loading"
        self._error: errors.OpError | None = None
        self._losses = 0
        self._suspected: Final = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    # What requests see

    @property
    def loaded(self) -> LoadedReplica | None:
        """The version as it is loaded; None while it is lost."""
        return self._loaded

    @property
    def suspected(self) -> bool:
        """Whether a request has failed, and no look has told yet whether it is lost."""
        return self._suspected.is_set()

    @property
    def status(self) -> ReplicaStatus:
        """Its state."""
        return ReplicaStatus(self.name, self._state, self.rows, self._losses, self._error)

    async def run(self, loaded: LoadedReplica, rows: int, signature: str, *request: Any) -> Outputs:
        """Return the outputs of a request with that number of rows."""
        self.rows += rows
        try:
            return await loaded.run(signature, *request)
        finally:
            self.rows -= rows

    async def is_lost(self, loaded: LoadedReplica, error: errors.OpError) -> bool:
        """Whether a request has failed since the replica is lost, or may be. Then it is suspected until a look.

        A variable without a value may be one that a restarted task has lost, or the model's own fault: a look tells.
        """
        if isinstance(error, errors.FailedPreconditionError) and self._loaded is loaded:
            with contextlib.suppress(errors.OpError):
                await loaded.look()
                return False
        elif not isinstance(error, errors.UnavailableError | errors.AbortedError) and self._loaded is loaded:
            return False
        if self._loaded is loaded:
            self._suspected.set()
        return True

    # Its life

    async def open(self) -> None:
        """Load it for the first time. Raises the error of loading."""
        try:
            self._take(await self._load())
        except errors.OpError as error:
            self._set("lost", error)
            raise

    def keep(self) -> None:
        """From now on look at it, and load it again after each loss, until it is closed."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep(), name=f"keep replica {self.name}")

    async def close(self) -> None:
        """Keep it no longer, and close what is loaded."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        self._end(errors.UnavailableError(f"replica {self.name} is closed"))
        if self._ending is not None:
            await self._ending

    async def _keep(self) -> None:
        while True:
            loaded = self._loaded or await self._restored()
            error = await self._loss_of(loaded)
            self._losses += 1
            _log.warning("replica %s is lost: %s", self.name, error.message)
            self._set("lost", error)
            self._end(error)
            if self._ending is not None:
                await asyncio.shield(self._ending)

    async def _restored(self) -> LoadedReplica:
        """Load it as soon as that succeeds."""
        pause = _FIRST_PAUSE
        while True:
            try:
                loaded = await self._load()
            except Exception as error:
                self._set("lost", errors.from_exception(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                _log.warning("replica %s is back", self.name)
                self._take(loaded)
                return loaded

    async def _loss_of(self, loaded: LoadedReplica) -> errors.OpError:
        """Look at it again and again, and at once when a request suspects it. Returns the error by which it is lost."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOKS):
                    await self._suspected.wait()
            try:
                await loaded.look()
            except Exception as error:
                return errors.from_exception(error)
            self._suspected.clear()

    def _take(self, loaded: LoadedReplica) -> None:
        """Give it requests from now on."""
        self._loaded = loaded
        self._suspected.clear()
        self._set("available", None)

    def _end(self, error: errors.OpError) -> None:
        """Close what is loaded, in a task of its own, which a cancelled keeper leaves to `close`."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            self._ending = asyncio.get_running_loop().create_task(loaded.abort(error), name=f"end {self.name}")

    def _set(self, state: ReplicaState, error: errors.OpError | None) -> None:
        self._state, self._error = state, error
