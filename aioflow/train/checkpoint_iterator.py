"""`checkpoints_iterator`: the checkpoints of a directory as they appear, for an evaluation beside a training."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from aioflow.checkpoint import latest_checkpoint
from aioflow.files.filesystem import Path
from aioflow.train.session_run_hook import finished

_PERIOD: Final = 1.0
"""Seconds between two looks at the directory."""


async def checkpoints_iterator(
    checkpoint_dir: Path,
    min_interval_secs: float = 0,
    timeout: float | None = None,  # noqa: ASYNC109  # TensorFlow's name
    timeout_fn: Callable[[], Awaitable[bool] | bool] | None = None,
) -> AsyncIterator[str]:
    """Yield the path of the newest checkpoint of a directory, whenever there is a newer one.

    It looks once a second, on a thread. Checkpoints that appear while the caller works on one are skipped, except the
    newest.

        async for path in af.train.checkpoints_iterator("run"):
            await saver.restore(session, path)

    Args:
        checkpoint_dir: the directory.
        min_interval_secs: the least seconds between two checkpoints.
        timeout: the most seconds to wait for one; then it ends, or calls `timeout_fn`. None for no limit.
        timeout_fn: a function or coroutine function. If it returns false, the wait begins again.

    Examples:
        >>> state = af.Variable(7)
        >>> await session.run(state.initializer)
        >>> path = await af.train.Saver().save(session, "watched/model", 100)
        >>> [path async for path in af.train.checkpoints_iterator("watched", timeout=0)]
        ['watched/model-100']
    """
    now = asyncio.get_running_loop().time
    last: str | None = None
    while True:
        begun = now()
        found = await _newer(checkpoint_dir, last, begun + (math.inf if timeout is None else timeout))
        if found is not None:
            last = found
            given = now()
            yield found
            await asyncio.sleep(max(0.0, given + min_interval_secs - now()))
        elif timeout_fn is None or await finished(timeout_fn()):
            return


async def _newer(directory: Path, last: str | None, due: float) -> str | None:
    """Return the newest checkpoint when it is another one than the last; None if it is not there in time."""
    now = asyncio.get_running_loop().time
    while True:
        found = await asyncio.to_thread(latest_checkpoint, directory)
        if found not in (None, last):
            return found
        if now() + _PERIOD > due:
            return None
        await asyncio.sleep(_PERIOD)
