"""The replicas of one version: which of them a request gets, and whether it is repeated after a loss.

A request goes to the replica that has the fewest rows to compute. If that replica is lost, the request is repeated once
on another one, if nothing of it was done: its run had not begun, or its signature changes nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.saved_model.signature import Signature
from aioflow.serving.loaded_replica import LoadedReplica
from aioflow.serving.replica import ReplicaStatus
from aioflow.serving.replica_keeper import ReplicaKeeper
from aioflow.serving.signature_runner import Outputs, SignatureRunner

UNREACHABLE: Final = (errors.UnavailableError, errors.AbortedError, errors.DeadlineExceededError)
"""The errors of a replica that may be loaded later."""


class ReplicaSet:
    """The replicas of a version.

    Attributes:
        retries: the requests that were repeated on another replica.
        closed: whether its replicas are closed.
    """

    def __init__(self, name: str, keepers: Sequence[ReplicaKeeper]) -> None:
        self.retries: int = 0
        self._name: Final = name
        self._keepers: Final = keepers
        self._turns = 0
        self.closed: bool = False

    @property
    def status(self) -> tuple[ReplicaStatus, ...]:
        """The states of the replicas."""
        return tuple([keeper.status for keeper in self._keepers])

    @property
    def runners(self) -> list[SignatureRunner]:
        """What runs the requests of each signature on each replica that is loaded."""
        return [runner for each in self._keepers if each.loaded is not None for runner in each.loaded.runners.values()]

    @property
    def is_available(self) -> bool:
        """Whether a replica can take requests."""
        return any(keeper.loaded is not None for keeper in self._keepers)

    async def open(self) -> dict[str, "ReplicatedRunner"]:
        """Load all replicas, and keep them until they are closed. Returns a runner for each signature.

        A replica that cannot be reached is loaded later. Raises if none can be reached, or if one cannot be loaded.
        """
        try:
            outcomes = await asyncio.gather(*[keeper.open() for keeper in self._keepers], return_exceptions=True)
            failures = [outcome for outcome in outcomes if outcome is not None]
            grave = [failure for failure in failures if not isinstance(failure, UNREACHABLE)]
            if grave or len(failures) == len(self._keepers):
                raise (grave or failures)[0]
        except BaseException:
            await self.close()
            raise
        for keeper in self._keepers:
            keeper.keep()
        runners = next(keeper.loaded.runners for keeper in self._keepers if keeper.loaded is not None)
        return {name: ReplicatedRunner(name, runner, self) for name, runner in runners.items()}

    async def close(self) -> None:
        """Close all replicas."""
        self.closed = True
        await asyncio.gather(*[keeper.close() for keeper in self._keepers])

    def has_room(self, signature: str) -> bool:
        """Whether a replica has room for a further row. True if there is none, which is another error."""
        loaded = [keeper.loaded for keeper in self._keepers if keeper.loaded is not None]
        return not loaded or any(each.runners[signature].has_room for each in loaded)

    async def run(self, signature: str, rows: int, *request: Any) -> Outputs:
        """Return the outputs of a request. Raises as `ServedVersion.infer`."""
        keeper, loaded = self._choose()
        try:
            return await keeper.run(loaded, rows, signature, *request)
        except errors.OpError as error:
            lost = await keeper.is_lost(loaded, error)
            may_repeat = lost and (not error.begun or loaded.is_pure(signature))
            if not may_repeat or not any(each.loaded is not None for each in self._keepers if each is not keeper):
                raise self._told(keeper, error, lost) from None
        keeper, loaded = self._choose(keeper)
        self.retries += 1
        try:
            return await keeper.run(loaded, rows, signature, *request)
        except errors.OpError as error:
            raise self._told(keeper, error, await keeper.is_lost(loaded, error)) from None

    def _told(self, keeper: ReplicaKeeper, error: errors.OpError, lost: bool) -> errors.OpError:
        """Return the error that a request gets: not that variables have no value, if a restarted task has lost them."""
        if not lost or not isinstance(error, errors.FailedPreconditionError):
            return error
        text = f"replica {keeper.name} of {self._name} has restarted, and loads the model again: try again later"
        return errors.UnavailableError(text)

    def _choose(self, failed: ReplicaKeeper | None = None) -> tuple[ReplicaKeeper, LoadedReplica]:
        """Return the replica that has the fewest rows; of several the one whose last turn is the longest ago.

        A suspected one only if there is no other.
        """
        there = [
            (keeper.suspected, keeper.rows, keeper.turn, number)
            for number, keeper in enumerate(self._keepers)
            if keeper is not failed and keeper.loaded is not None
        ]
        if not there:
            causes = "; ".join([f"{each.name}: {each.error.message}" for each in self.status if each.error is not None])
            raise errors.UnavailableError(
                f"no replica of {self._name} can be reached: {causes or 'all were just lost'}"
            )
        keeper = self._keepers[min(there)[-1]]
        self._turns += 1
        keeper.turn = self._turns
        assert keeper.loaded is not None
        return keeper, keeper.loaded


class ReplicatedRunner:
    """Runs the requests of one signature on replicas, as `SignatureRunner` does in one session.

    Attributes:
        signature: the signature, with tensors of one of the graphs.
    """

    def __init__(self, name: str, runner: SignatureRunner, replicas: ReplicaSet) -> None:
        self.signature: Final[Signature] = runner.signature
        self.wanted: Final = runner.wanted
        self._name: Final = name
        self._replicas: Final = replicas

    @property
    def has_room(self) -> bool:
        """Whether a further row may wait."""
        return self._replicas.has_room(self._name)

    async def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, priority: int) -> Outputs:
        """Return outputs by name, all by default. Raises as `ServedVersion.infer` does."""
        return await self._replicas.run(self._name, _count_rows(inputs), inputs, outputs, priority)


def _count_rows(inputs: Any) -> int:
    """Return the size of axis 0 of the first input, at least 1. Whether the inputs make sense is checked later."""
    first = next(iter(inputs.values()), None) if isinstance(inputs, Mapping) else None
    shape = getattr(first, "shape", None)
    if shape is None:
        return max(1, len(first)) if isinstance(first, (list, tuple)) else 1
    return max(1, shape[0]) if shape else 1
