"""The observer of one run: it sees the call of a session from outside, and may have it traced."""

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from aioflow.config import RunOptions
from aioflow.runtime.fetches import Fetches
from aioflow.tracing import RunMetadata


class ObservedRun(Protocol):
    """The rest of a run, which its observer awaits once."""

    def __call__(self, *, options: RunOptions, metadata: RunMetadata | None) -> Awaitable[Any]:
        """Run, and return the result in the structure of the fetches."""


class RunObserver(Protocol):
    """Runs around one run. Without an observer, a run has no cost for it but a look at one attribute."""

    async def around(
        self, run: ObservedRun, fetches: Fetches, feeds: Sequence[str], options: RunOptions,
        metadata: RunMetadata | None,
    ) -> Any:  # fmt: skip
        """The result of `run`, with these options or with a trace. Nothing may be awaited after it.

        Args:
            run: the run.
            fetches: what it fetches.
            feeds: the names of the tensors that it is fed.
            options: those of the caller.
            metadata: receives the trace of the caller.
        """
