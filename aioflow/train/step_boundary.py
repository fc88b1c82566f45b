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
    """How a session keeps replicas from applying a step.

    Attributes:
        mark: tells holds apart.
        hold: lasts as long as they are kept from it.
        ready: done when they are, and none is under way.
    """

    mark: Tensor
    hold: Operation
    ready: Operation

    @contextlib.asynccontextmanager
    async def held(self, session: Session) -> AsyncIterator[None]:
        """Inside the block no step is applied. If the session is lost, no step is blocked.

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
