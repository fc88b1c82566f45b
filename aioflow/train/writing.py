"""Checkpoints that are written while training goes on, and reports of failing writes."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

from aioflow.tensors.recursion import safe_repr

_log: Final = logging.getLogger("aioflow.train")

OnFailure = Callable[[str, BaseException], object]
"""Called with a checkpoint's path and the error of its write."""


class Writing:
    """A checkpoint that a task of its Saver writes. Awaiting it returns the path, or raises the error of the write.

    Cancelling a task that awaits it does not end the write; `cancel` does.

    Attributes:
        path: the path of the checkpoint.
    """

    def __init__(self, path: str, work: Coroutine[Any, Any, str]) -> None:
        self.path: Final = path
        self._awaited = False
        self._heard = False
        self._task: Final = asyncio.get_running_loop().create_task(work, name=f"writing {path!r}")

    def done(self) -> bool:
        """Whether the write has ended."""
        return self._task.done()

    def __await__(self) -> Generator[Any, None, str]:
        self._awaited = True
        yield from asyncio.wait([self._task]).__await__()
        self._heard = True
        return self._task.result()

    async def cancel(self) -> None:
        """Give up the write. No checkpoint exists then, but perhaps a draft, which a later save removes."""
        self._heard = True
        await asyncio.sleep(0)  # a task that has not begun would not clean up
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def unheard(self) -> BaseException | None:
        """The error of the write, unless a task that awaited it has got it."""
        return None if self._heard or not self._task.done() or self._task.cancelled() else self._task.exception()

    def __repr__(self) -> str:
        return f"<af.train.Writing of {self.path!r}{', done' if self.done() else ''}>"


class Writings:
    """The writes of a Saver, at most `most` at a time.

    Args:
        most: the most writes at a time.
        on_failure: called at once for each failure.
    """

    def __init__(self, most: int, on_failure: OnFailure | None) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(f"max_in_flight must be a whole number of at least 1, not {safe_repr(most)}")
        self._room: Final = asyncio.Semaphore(most)
        self._on_failure: Final = on_failure
        self._under_way: dict[Writing, None] = {}
        self._failed: list[Writing] = []

    async def room(self) -> None:
        """Reserve room for one more write until `begin` or `withdraw`. Waits for others to end."""
        await self._room.acquire()

    def withdraw(self) -> None:
        """Give back the room."""
        self._room.release()

    def begin(self, path: str, work: Coroutine[Any, Any, str]) -> Writing:
        """Begin to write a checkpoint in the reserved room, and return it."""
        made = Writing(path, work)
        self._under_way[made] = None
        made._task.add_done_callback(lambda task: self._on_write_end(made))
        return made

    def _on_write_end(self, writing: Writing) -> None:
        del self._under_way[writing]
        self._room.release()
        error = None if writing._task.cancelled() else writing._task.exception()
        if error is None:
            return
        self._failed.append(writing)
        if not writing._awaited:
            _log.error("checkpoint %r could not be written, training goes on without: %s", writing.path, error)
        if self._on_failure is not None:
            self._on_failure(writing.path, error)

    async def finish(self) -> None:
        """Wait until no write is under way. Raises the error of a failed write that no task has got yet."""
        while self._under_way:
            await asyncio.wait([writing._task for writing in self._under_way])
            await asyncio.sleep(0)
        unheard = [writing.unheard for writing in self._failed if writing.unheard is not None]
        self._failed.clear()
        for error in unheard[:1]:
            raise error

    async def cancel(self) -> None:
        """Give up all writes, and wait until they have ended."""
        while self._under_way:
            await next(iter(self._under_way)).cancel()
            await asyncio.sleep(0)
