"""Leaks: what a piece of code leaves behind in the process when it is over.

    with no_leaks():
        server = await serve()
        await server.close()

What lived before the block may live on; what the block made must be gone.
"""

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from aioflow.testing.loop import describe

Census = dict[object, Callable[[], str]]
"""All that lives at a moment, each with the function that describes it to a reader."""


class LeakError(AssertionError):
    """The code left something behind.

    Attributes:
        leaks: what it left, one description each.
    """

    def __init__(self, leaks: tuple[str, ...]) -> None:
        super().__init__("\n".join(["left behind:", *leaks]))
        self.leaks = leaks


def no_leaks() -> AbstractContextManager[None]:
    """Raise LeakError when the block ends and has left a thread, a socket or, inside a running loop, a pending task.

    Daemon threads count too, and a transport counts by its socket, whichever loop it belongs to. A thread that has said
    its last word (asyncio's watcher of a process that ended) gets a second to be gone. Inside a running loop the
    threads of its default executor do not count: they end with the loop. If the block raises, that error stands.
    """
    return _no_more(lambda: _tasks() | _threads() | _sockets())


def no_pending_tasks() -> AbstractContextManager[None]:
    """Raise LeakError when the block ends and has left a pending task in the running loop.

    The block may begin in one run of the loop and end in another. If it raises, that error stands.
    """
    return _no_more(_tasks)


@contextmanager
def _no_more(census: Callable[[], Census]) -> Iterator[None]:
    before = census()
    yield
    leaks = tuple(describe() for thing, describe in census().items() if thing not in before and not _ends(thing))
    if leaks:
        raise LeakError(leaks)


def _ends(thing: object) -> bool:
    """Whether this is a thread that ends by itself, with no further turn of the loop; waits for that."""
    if isinstance(thing, threading.Thread):
        thing.join(timeout=1.0)
        return not thing.is_alive()
    return False


def _tasks() -> Census:
    """The pending tasks of the running loop but for the one that asks; none where no loop runs."""
    if asyncio._get_running_loop() is None:
        return {}
    return {task: partial(describe, task) for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def _threads() -> Census:
    """The living threads; inside a running loop without those of a default executor, known by their names only."""
    spared = () if asyncio._get_running_loop() is None else ("asyncio_", "uvloop_")
    return {thread: partial(repr, thread) for thread in threading.enumerate() if not thread.name.startswith(spared)}


def _sockets() -> Census:
    """The open sockets by inode, for a descriptor may have changed hands; none where the system does not list them."""
    found: Census = {}
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ():
        with suppress(OSError):  # the descriptor that listed the others is closed by now
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found[status.st_ino] = partial(_describe_socket, int(name))
    return found


def _describe_socket(descriptor: int) -> str:
    with socket.socket(fileno=os.dup(descriptor)) as twin:
        return f"descriptor {descriptor}, of which this is a twin: {twin!r}"
