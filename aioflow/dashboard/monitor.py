"""A monitor runs sources while there are viewers. Sources post messages on its board.

A source looks at one part of the watched program (the steps of a session, its waits, the models of a server) again and
again. Without a viewer no source runs, and the watched program pays nothing. A source rests two hundred times as long
as its last look took, so all sources together take a few percent at the very most, however large the program is.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Event, Subject, clip
from aioflow.version import __version__

PERIOD: Final = 0.5
"""Seconds between two looks, at least."""
_SHARE: Final = 200.0
"""A source rests this many times as long as it works."""
_log: Final = logging.getLogger("aioflow.dashboard")


class Source(Protocol):
    """Looks at one part of the watched program, such as its waits."""

    async def watch(self, board: Board) -> None:
        """Post messages on the board, until the source is cancelled or its part of the program has ended."""


class Pace:
    """The pauses of a source, which it makes between its looks.

    Args:
        least: the seconds from one look to the next, at least.
    """

    def __init__(self, least: float = PERIOD) -> None:
        self._least: Final = least
        self._pause = 0.0

    @contextlib.contextmanager
    def look(self) -> Iterator[None]:
        """Measure the processor time of a look."""
        began = time.thread_time()
        yield
        self._pause = (time.thread_time() - began) * _SHARE

    async def rest(self) -> float:
        """Wait for the next look. Returns the seconds by which the timer of the loop was late."""
        loop = asyncio.get_running_loop()
        pause = max(self._least, self._pause)
        due = loop.time() + pause
        await asyncio.sleep(pause)
        return max(0.0, loop.time() - due)


class Monitor:
    """Sources that run while there are viewers.

    Attributes:
        board: has the messages of the sources.

    Args:
        title: the name of the watched program.
        what: its kind, as in `Subject`.
        sources: the sources that look at it.
        pages: the pages that have something to show.
        clock: the time of day.
    """

    def __init__(
        self, title: str, what: str, sources: Sequence[Source], pages: Sequence[str],
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.board: Final = Board()
        self._sources: Final = sources
        self._clock: Final = clock
        self._subject: Final = Subject(clip(title), what, __version__, clock(), tuple(pages))
        self._viewers = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: Final[set[asyncio.Task[None]]] = set()
        self.board.post(self._subject)

    @contextlib.contextmanager
    def viewer(self) -> Iterator[Board]:
        """Counts a viewer while the block runs; the first viewer starts the sources."""
        if not self._viewers:
            self._begin()
        self._viewers += 1
        try:
            yield self.board
        finally:
            self._viewers -= 1
            if not self._viewers:
                self._end()

    @property
    def is_watching(self) -> bool:
        """Whether there is a viewer."""
        return self._viewers > 0

    def _begin(self) -> None:
        loop, before = asyncio.get_running_loop(), list(self._ending)
        name = f"watches {self._subject.title}"
        self._tasks = [loop.create_task(self._run(each, before), name=name) for each in self._sources]

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._tasks = []

    async def _run(self, source: Source, before: Sequence[asyncio.Task[None]]) -> None:
        """Run a source, after those of earlier viewers have ended.

        A source that fails posts the error on the board; the watched program goes on.
        """
        if before:
            await asyncio.wait(before)
        try:
            await source.watch(self.board)
        except Exception as error:
            _log.warning("the live page lacks %s from now on", type(source).__name__, exc_info=error)
            text = f"{type(source).__name__} sees nothing more: {type(error).__name__}: {error}"
            self.board.post(Event(self._clock(), "bad", clip(text)))

    async def close(self) -> None:
        """Stop all sources, and wait until they have ended."""
        self._end()
        if self._ending:
            await asyncio.wait(list(self._ending))
