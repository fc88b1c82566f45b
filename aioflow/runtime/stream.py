"""Step after step as an async iterator, with the next steps under way while one is looked at."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from aioflow import errors
from aioflow.waiting.handover import Held

Run = Callable[[Held], Awaitable[Any]]
"""Runs a step, and adds its handover to the list."""


async def stream(run: Run, read_ahead: int) -> AsyncGenerator[Any, None]:
    """The results of run after run, in order, until one raises OutOfRangeError; other errors are raised.

    Up to `read_ahead` further runs are under way while the caller uses a result. Closing the iterator cancels them.
    Elements taken by runs whose results were not yielded are put back.
    """
    if not isinstance(read_ahead, int) or read_ahead < 0:
        raise ValueError(f"read_ahead is a number of runs, not {read_ahead!r}")
    under_way: deque[_Ahead] = deque()
    try:
        while True:
            while len(under_way) <= read_ahead:
                under_way.append(_Ahead(run))
            try:
                value = await under_way[0].task
            except errors.OutOfRangeError:
                return
            for handover in under_way[0].held:
                await handover.commit()
            for handover in under_way.popleft().held:
                handover.forget()
            yield value
    finally:
        await _end(under_way)


class _Ahead:
    """A run under way.

    Attributes:
        task: the task of the run.
        held: the handover of its takes and puts, once it is done.
    """

    def __init__(self, run: Run) -> None:
        self.held: Final[Held] = []
        self.task: Final[asyncio.Future[Any]] = asyncio.ensure_future(run(self.held))


async def _end(runs: deque[_Ahead]) -> None:
    """Cancel the runs, wait until all have ended, and give back the elements they took, those of the last run first."""
    for run in runs:
        run.task.cancel()
    try:
        left = [run.task for run in runs if not run.task.done()]
        if left:
            await asyncio.wait(left)
    finally:
        for run in reversed(runs):
            for handover in run.held:
                handover.give_back()
    for run in runs:
        if not run.task.cancelled():
            run.task.exception()  # mark errors after the end, or after the first error, as retrieved
