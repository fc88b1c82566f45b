"""Step after step as an async iterator, with the next steps under way while one is looked at."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from aioflow import errors


async def stream(run: Callable[[], Awaitable[Any]], read_ahead: int) -> AsyncGenerator[Any, None]:
    """The results of run after run, in order, until one raises OutOfRangeError; other errors are raised.

    Up to `read_ahead` further runs are under way while the caller looks at a result. Closing the iterator cancels them;
    what they have taken out of a queue by then is gone.
    """
    if not isinstance(read_ahead, int) or read_ahead < 0:
        raise ValueError(f"read_ahead is a number of runs, not {read_ahead!r}")
    under_way: deque[asyncio.Task[Any]] = deque()
    try:
        while True:
            while len(under_way) <= read_ahead:
                under_way.append(asyncio.ensure_future(run()))
            try:
                value = await under_way[0]
            except errors.OutOfRangeError:
                return
            under_way.popleft()
            yield value
    finally:
        await _end(under_way)


async def _end(tasks: deque[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and return when all have ended."""
    for task in tasks:
        task.cancel()
    left = [task for task in tasks if not task.done()]
    if left:
        await asyncio.wait(left)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen: what follows the end, or the first error, is no news


__all__ = ["stream"]
