"""One version of a model: its signatures, and its requests."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from aioflow import errors
from aioflow.saved_model.signature import SERVING_DEFAULT, Signature
from aioflow.serving.replica import ReplicaStatus
from aioflow.serving.replica_set import ReplicaSet
from aioflow.serving.signature_runner import Outputs, SignatureRunner
from aioflow.serving.status import State
from aioflow.tensors.dtypes import Array

Close: TypeAlias = Callable[[], Awaitable[None]]
"""Closes what a version has."""


class _Runner(Protocol):
    """Runs the requests of one signature, in a session of this process or on replicas in a cluster."""

    @property
    def signature(self) -> Signature: ...
    @property
    def has_room(self) -> bool: ...
    def wanted(self, outputs: Sequence[str] | None) -> tuple[str, ...]: ...
    async def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, priority: int) -> Outputs: ...


class ServedVersion:
    """One version of a model. `Models.find` gives it.

    A version that has been replaced ends when its last request has its answer, so a request that is running never
    fails for that. A caller that awaits something between `find` and `infer` holds the version meanwhile:

        with models.find("digits").held() as version:
            inputs = await decode(body, version.signatures)
            outputs = await version.infer(inputs)

    Attributes:
        name: the name of the model.
        version: its number.
        signatures: its functions by name; each has tensors with dtypes and shapes as inputs and outputs.
        state: its state.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": 2 * x})
        >>> _ = await af.saved_model.save(session, "models/double", {"serving_default": signature}, version=1)
        >>> async with af.serving.Models() as models:
        ...     version = await models.add("double", "models/double")
        ...     print(models.find("double").version)
        1
    """

    def __init__(
        self, name: str, version: int, runners: Mapping[str, _Runner], replicas: ReplicaSet | None = None
    ) -> None:
        self.name: Final = name
        self.version: Final = version
        self.signatures: Final[Mapping[str, Signature]] = {key: runner.signature for key, runner in runners.items()}
        self.state: State = "loading"
        self._runners: Final = runners
        self._replicas: Final = replicas
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()

    @property
    def runners(self) -> list[SignatureRunner]:
        """What runs its requests in sessions: one for each signature, on each of its replicas if it has any."""
        if self._replicas is not None:
            return self._replicas.runners
        return [runner for runner in self._runners.values() if isinstance(runner, SignatureRunner)]

    @property
    def is_used(self) -> bool:
        """Whether a request runs, or a caller holds it."""
        return bool(self._users)

    @property
    def ready(self) -> bool:
        """Whether a request can be run now: it is available, and so is its session, or one of its replicas."""
        if self._replicas is not None:
            return self.state == "available" and self._replicas.is_available
        return self.state == "available" and all(runner.is_open for runner in self.runners)

    @property
    def replicas(self) -> tuple[ReplicaStatus, ...]:
        """The states of its replicas in a cluster; none if it runs in this process."""
        return () if self._replicas is None else self._replicas.status

    def held(self) -> contextlib.AbstractContextManager["ServedVersion"]:
        """Inside the block it is not closed, even if another version replaces it. UnavailableError if it has ended."""
        return _Hold(self)

    def _enter(self) -> None:
        """Hold the version. UnavailableError if it has ended."""
        if self.state == "ended":
            raise errors.UnavailableError(
                f"version {self.version} of model {self.name!r} has ended: find the model again, or hold a version"
            )
        self._users += 1
        self._unused.clear()

    def _leave(self) -> None:
        self._users -= 1
        if not self._users:
            self._unused.set()

    def check_room(self) -> None:
        """ResourceExhaustedError if the queues of all signatures are full, so that a request need not be read."""
        for runner in self._runners.values():
            if runner.has_room:
                return
        text = f"as many rows wait for model {self.name!r} as may; try again later, or set max_waiting="
        raise errors.ResourceExhaustedError(text)

    async def infer(
        self,
        inputs: Mapping[str, Any],
        signature: str = SERVING_DEFAULT,
        outputs: Sequence[str] | None = None,
        priority: int = 0,
    ) -> dict[str, Array]:
        """Return the outputs of a signature, by name, for these inputs.

        Requests share runs if all inputs and outputs of the signature have rows, any number of them, in axis 0. A
        cancelled request is not run if its run has not begun.

        Args:
            inputs: an array for each input. Arrays have its dtype; lists of Python's numbers and texts are converted.
            signature: the name of the signature.
            outputs: the names of the outputs to return; all by default.
            priority: the level of priority, from 0, which is served first.

        Raises:
            af.errors.InvalidArgumentError: there is no such signature, input or output, or an array has another dtype
                or shape. The text names what was expected.
            af.errors.ResourceExhaustedError: too many rows wait already; nothing was done.
            af.errors.UnavailableError: the version has ended.
            af.errors.OpError: the run failed.
        """
        self._enter()
        try:
            return await self._runner(signature).run(inputs, outputs, priority)
        finally:
            self._leave()

    async def stream(
        self,
        inputs: Mapping[str, Any],
        signature: str = SERVING_DEFAULT,
        outputs: Sequence[str] | None = None,
        priority: int = 0,
    ) -> AsyncGenerator[dict[str, Array], None]:
        """The outputs of iteration after iteration of a signature with `repeat_while`.

        Iterations of several streams share runs. Leaving early stops the loop; close the iterator by
        `contextlib.aclosing`. Raises as `infer` does, and InvalidArgumentError for a signature without iterations.
        """
        with self.held():
            runner = self._runner(signature)
            more = runner.signature.repeat_while
            if more is None:
                raise errors.InvalidArgumentError(f"signature {signature!r} has no repeat_while, so it is no loop")
            wanted = runner.wanted(outputs)
            while True:
                results = await runner.run(inputs, None, priority)
                yield {name: results[name] for name in wanted}
                if not results[more].any():
                    return
                inputs = {name: results.get(name, value) for name, value in inputs.items()}

    def _runner(self, signature: str) -> _Runner:
        found = self._runners.get(signature)
        if found is None:
            raise errors.InvalidArgumentError(
                f"model {self.name!r} has no signature {signature!r}; it has {', '.join(self._runners)}"
            )
        return found

    async def end(self, close: Close | None = None) -> None:
        """Wait until nothing uses it, and close what it has."""
        self.state = "ending"
        while self._users:  # a request may have come between the end of the last one and this
            await self._unused.wait()
        self.state = "ended"
        if close is not None:
            await close()

    def __repr__(self) -> str:
        return f"<af.serving.ServedVersion {self.name!r} {self.version}, {self.state}>"


class _Hold:
    """Holds a version in a block. Each request has one, so it is no generator, which takes three times as long."""

    __slots__ = ("_version",)

    def __init__(self, version: ServedVersion) -> None:
        self._version: Final = version

    def __enter__(self) -> ServedVersion:
        self._version._enter()
        return self._version

    def __exit__(self, *_: object) -> None:
        self._version._leave()
