"""Time limits for actions of peers, which count only the time in which this loop turns."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

_PARTS: Final = 5
"""The number of parts in which the time is counted."""


@contextlib.asynccontextmanager
async def listening_timeout(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Like `asyncio.timeout`, but a part of the time counts only if the loop turned meanwhile."""
    loop = asyncio.get_running_loop()
    part, left = seconds / _PARTS, _PARTS

    timer: asyncio.TimerHandle

    def look(due: float) -> None:
        nonlocal left, timer
        left -= loop.time() < due + part
        if left:
            timer = loop.call_later(part, look, loop.time() + part)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(part, look, loop.time() + part)
        try:
            yield limit
        finally:
            timer.cancel()
