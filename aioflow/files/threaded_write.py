"""Writes files on a thread."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger("aioflow.files")


async def write_on_thread(path: str, write: Callable[[threading.Event], None]) -> None:
    """Call a function that writes `path` on a thread.

    If the caller is cancelled, the function is told so, and CancelledError is raised when it has ended.

    Args:
        path: what it writes, for the log.
        write: gets an event that is set when the caller is cancelled. It then raises an error and leaves nothing
            behind, unless the write is complete.
    """
    given_up = threading.Event()
    writing = asyncio.get_running_loop().run_in_executor(None, write, given_up)
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.wait([writing])
        if not writing.cancelled() and writing.exception() is not None:
            _log.info("the save of %r was given up", path)
        raise
