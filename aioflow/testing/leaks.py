"""Checks that a piece of code leaves nothing behind in the process.

    with no_leaks():
        server = await serve()
        await server.close()

The block must end all that it began. Earlier threads, sockets and tasks may continue.
"""

import asyncio
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Final

from aioflow.testing.loop import describe

Census = dict[object, Callable[[], str]]
"""{thing that exists now: function that describes it}."""
_SOON: Final = 2.0
"""Seconds in which a thread must end, or close a socket, after the block."""


class LeakError(AssertionError):
    """The code left something behind.

    Attributes:
        leaks: a description of each leftover.

    Examples:
        >>> from aioflow.testing import LeakError, no_leaks
        >>> try:
        ...     with no_leaks():
        ...         task = asyncio.ensure_future(asyncio.sleep(60))
        ... except LeakError:
        ...     print("a task is left")
        a task is left
        >>> task.cancel()
        True
    """

    def __init__(self, leaks: tuple[str, ...]) -> None:
        super().__init__("\n".join(["left behind:", *leaks]))
        self.leaks = leaks


def no_leaks() -> AbstractContextManager[None]:
    """Raise LeakError if the block leaves a thread, a socket or, inside a running loop, a pending task.

    Daemon threads count too, and a transport counts by its socket, whichever loop it belongs to. A thread that is about
    to end (asyncio's watcher of an ended process) gets a second for that. Inside a running loop the threads of its
    default executor do not count: they end with the loop. If the block raises, its error is raised instead.

    Examples:
        >>> from aioflow.testing import no_leaks
        >>> with no_leaks():
        ...     print(await session.run(af.constant(1) + 1))
        2
    """
    return _check_leaks(lambda: _tasks() | _threads() | _sockets())


def no_pending_tasks() -> AbstractContextManager[None]:
    """Raise LeakError if the block leaves a pending task in the running loop.

    The block may begin in one run of the loop and end in another. If the block raises, its error is raised instead.

    Examples:
        >>> from aioflow.testing import LeakError, no_pending_tasks
        >>> try:
        ...     with no_pending_tasks():
        ...         task = asyncio.ensure_future(asyncio.sleep(60))
        ... except LeakError:
        ...     print("a task is left")
        a task is left
        >>> task.cancel()
        True
    """
    return _check_leaks(_tasks)


@contextmanager
def _check_leaks(census: Callable[[], Census]) -> Iterator[None]:
    before = census()
    yield
    leaks = tuple(describe() for thing, describe in census().items() if thing not in before and not _ends_soon(thing))
    if leaks:
        raise LeakError(leaks)


def _ends_soon(thing: object) -> bool:
    """Whether a thread ends, or another thread closes a socket, without the loop; waits some seconds for that."""
    if isinstance(thing, threading.Thread):
        thing.join(timeout=_SOON)
        return not thing.is_alive()
    return isinstance(thing, int) and _closes_soon(thing)


def _closes_soon(inode: int) -> bool:
    """Whether a socket is closed soon: gRPC's threads close those of a channel after its end."""
    end = time.monotonic() + _SOON
    while inode in _sockets():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _tasks() -> Census:
    """Return the pending tasks of the running loop except the current one; empty outside of a loop."""
    if asyncio._get_running_loop() is None:
        return {}
    return {task: partial(describe, task) for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def _threads() -> Census:
    """Return the living threads; inside a running loop without those of a default executor, known only by name."""
    spared = () if asyncio._get_running_loop() is None else ("asyncio_", "uvloop_")
    return {thread: partial(repr, thread) for thread in threading.enumerate() if not thread.name.startswith(spared)}


def _sockets() -> Census:
    """Return the open sockets by inode, since a descriptor may be reused; empty where the system does not list them."""
    found: Census = {}
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ():
        with suppress(OSError):  # the descriptor of the listing itself is closed by now
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found[status.st_ino] = partial(_describe_socket, int(name))
    return found


def _describe_socket(descriptor: int) -> str:
    with socket.socket(fileno=os.dup(descriptor)) as twin:
        return f"descriptor {descriptor}, duplicated as {twin!r}"
