"""The moment between two steps of several replicas, which a consistent checkpoint waits for and holds."""

import asyncio
import contextlib
import dataclasses
import secrets
from collections.abc import AsyncIterator

from aioflow.graph.operation import Operation, Tensor
from aioflow.session import Session


@dataclasses.dataclass(frozen=True, slots=True)
class StepBoundary:
    """The operations by which a session keeps replicas from applying a step.

    Attributes:
        mark: the number of the hold.
        hold: keeps replicas from applying steps while it runs.
        ready: done when no step is being applied and none can begin.
    """

    mark: Tensor
    hold: Operation
    ready: Operation

    @contextlib.asynccontextmanager
    async def held(self, session: Session) -> AsyncIterator[None]:
        """Let no step be applied inside the block. If the session is lost, nothing is blocked.

        AbortedError if a step was applied in part.
        """
        feeds = {self.mark: secrets.randbits(62)}
        holding = asyncio.ensure_future(session.run(self.hold, feeds))
        ready = asyncio.ensure_future(session.run(self.ready, feeds))
        try:
            await asyncio.wait((holding, ready), return_when=asyncio.FIRST_COMPLETED)
            if holding.done():
                holding.result()
            await ready
            yield
        finally:
            for running in (ready, holding):
                running.cancel()
            await asyncio.gather(ready, holding, return_exceptions=True)
