"""Event files, which TensorBoard reads: `af.summary.FileWriter`.

A file is opened, written and closed on a thread of the writer's own, so that a step never waits for a disk: what is
added stands in a line until that thread has taken it.
"""

import asyncio
import contextlib
import functools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np

from aioflow import errors
from aioflow.files.filesystem import translate_errors
from aioflow.graph.graph import Graph
from aioflow.summary import events
from aioflow.tracing import RunMetadata

_log: Final = logging.getLogger("aioflow.summary")
Fill = Callable[[Any], object]
"""Puts into an Event what it is about."""


class FileWriter:
    """Writes summaries, graphs and traces to an event file in a folder, which `tensorboard --logdir` shows.

        async with af.summary.FileWriter("logs/first", session.graph) as writer:
            for step in range(1000):
                text, _ = await session.run([merged, train])
                writer.add_summary(text, step)

    What is added is on its way when the method returns, in the order it was added, and none of them waits; `flush` and
    `close` do. What cannot be written, as on a full disk, is told in the log at once, and is the error of the next
    `flush` or `close`: training goes on, and what is added meanwhile is lost, as may be what was added since the last
    flush. The error counts both.

    It needs `pip install aioflow-engine[tensorboard]`. May be used on any thread.

    Args:
        logdir: the folder, or a URL of one that TensorBoard's files can write to; made if it is missing.
        graph: a graph to add at once.
        max_queue: how many events may be on their way to the file, beside those in the line.
        flush_secs: seconds after which what was written is in the file, also without `flush`.
        filename_suffix: what the file's name ends with.

    Raises:
        UnimplementedError: the package `tensorboard` is not installed.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Graph | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        events.check_installed()
        self._logdir: Final = os.fspath(logdir)
        self._options: Final = max_queue, flush_secs, filename_suffix
        self._tags: Final[set[str]] = set()
        self._line: _Line | None = None
        self.reopen()
        if graph is not None:
            self.add_graph(graph)

    def get_logdir(self) -> str:
        """The folder."""
        return self._logdir

    def reopen(self) -> None:
        """If it was closed, what is added from here on goes to a new file in the same folder."""
        if self._line is None:
            self._line = _Line(self._logdir, *self._options)

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Add what a summary operation has given, or a Summary of TensorBoard's, as of that step."""
        data = _bytes_of(summary)
        self._add(lambda event: event.summary.MergeFromString(data), global_step)

    def add_event(self, event: Any) -> None:
        """Add an Event of TensorBoard's, as it is now."""
        data = _bytes_of(event)
        self._lined.add(lambda: events.protocol_buffer("Event").FromString(data))

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Add a SessionLog of TensorBoard's: one of status START has TensorBoard forget what came at later steps."""
        data = _bytes_of(session_log)
        self._add(lambda event: event.session_log.MergeFromString(data), global_step)

    def add_graph(self, graph: Graph, global_step: int | None = None) -> None:
        """Add a graph as it is now; TensorBoard shows the last."""
        operations = graph.get_operations()
        self._add(lambda event: setattr(event, "graph_def", events.graph_def(operations)), global_step)

    def add_run_metadata(self, run_metadata: RunMetadata, tag: str, global_step: int | None = None) -> None:
        """Add what a traced run has written down, to be shown on the graph. ValueError if the tag was used before."""
        if tag in self._tags:
            raise ValueError(f"the tag {tag!r} was used for an earlier run: give each a tag of its own")
        self._tags.add(tag)

        def fill(event: Any) -> None:
            event.tagged_run_metadata.tag = tag
            event.tagged_run_metadata.run_metadata = events.run_metadata(run_metadata)

        self._add(fill, global_step)

    def _add(self, fill: Fill, step: int | None) -> None:
        """Add an Event of now that the thread makes and fills."""
        now, number = time.time(), None if step is None else int(step)

        def make() -> Any:
            event = events.event(now, number)
            fill(event)
            return event

        self._lined.add(make)

    @property
    def _lined(self) -> "_Line":
        if self._line is None:
            raise RuntimeError(f"the writer of {self._logdir!r} is closed: reopen() it, and it begins a new file")
        return self._line

    async def flush(self) -> None:
        """What was added is in the file. Cancelling ends the wait alone.

        Raises:
            OpError: something could not be written since the last time this was asked.
        """
        await self._lined.flush()

    async def close(self) -> None:
        """What was added is in the file, and it is closed. May be called again. Cancelling ends the wait alone.

        Raises:
            OpError: as of `flush`; it is closed nevertheless.
        """
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except errors.OpError:
            if error is None:  # else it is in the log alone
                raise

    def __repr__(self) -> str:
        return f"<af.summary.FileWriter of {self._logdir!r}{'' if self._line else ', closed'}>"


class _Line:
    """Events on their way to one file, and the thread that takes them."""

    def __init__(self, logdir: str, max_queue: int, flush_secs: float, suffix: str) -> None:
        self._logdir: Final = logdir
        self._open: Final = functools.partial(events.file_writer, logdir, max_queue, flush_secs, suffix)
        self._waiting: Final[deque[Callable[[], Any]]] = deque()
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="aioflow-summaries")
        self._writing: Final = threading.Lock()
        self._file: Any = None
        self._broken: errors.OpError | None = None
        """Why nothing can be written any more."""
        self._misfit: errors.OpError | None = None
        """Why the last event that is none was left out, until that is raised."""
        self._lost = 0
        self._unsure = 0
        """How many were written since the file was last flushed: they may be lost, too, once something is wrong."""
        self._thread.submit(self._write)

    def add(self, make: Callable[[], Any]) -> None:
        """The Event that this makes on the thread is the last in the line."""
        self._waiting.append(make)
        self._thread.submit(self._write)

    async def flush(self) -> None:
        """All that was added is in the file, or it is raised why not."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, self._write, "flush"))
        error, self._misfit = self._broken or self._misfit, None
        if error is not None:
            raise self._told(error)

    async def close(self) -> None:
        """The same, and the file is closed, and its thread has ended."""
        closed = asyncio.get_running_loop().run_in_executor(self._thread, self._write, "close")
        try:
            await asyncio.shield(closed)
        finally:
            self._thread.shutdown(wait=closed.done())
        if (error := self._broken or self._misfit) is not None:
            raise self._told(error)

    def _told(self, error: errors.OpError) -> errors.OpError:
        perhaps = f", and perhaps {self._unsure} before them, which were not flushed" if self._unsure else ""
        return type(error)(f"{error.message}; events that are lost: {self._lost}{perhaps}")

    # On the thread

    def _write(self, then: Literal["", "flush", "close"] = "") -> None:
        """All that waits is written, and then the file is flushed or closed."""
        with self._writing:
            self._do(self._begin)
            while self._waiting:
                self._add(self._made(self._waiting.popleft()))
            if then:
                self._flush()
            if then == "close":
                self._end()

    def _add(self, event: Any) -> None:
        if event is not None and self._do(self._file_does("add_event", event)):
            self._unsure += 1
        elif event is not None:
            self._lost += 1

    def _flush(self) -> None:
        if self._do(self._file_does("flush")):
            self._unsure = 0

    def _file_does(self, method: str, *arguments: Any) -> Callable[[], object]:
        return lambda: getattr(self._file, method)(*arguments)

    def _begin(self) -> None:
        if self._file is None:
            self._file = self._open()

    def _end(self) -> None:
        """Close the file, whatever is wrong with it: it has a thread of its own, which ends."""
        if not self._do(self._file_does("close")) and self._file is not None:
            with contextlib.suppress(Exception):  # what is wrong was told
                self._file.close()

    def _made(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except Exception as error:  # whatever a message cannot hold
            self._misfit = errors.InvalidArgumentError(f"it is no event: {type(error).__name__}: {error}")
            self._lost += 1
            _log.error("an event is left out of %s: %s", self._logdir, self._misfit.message)
            return None

    def _do(self, work: Callable[[], object]) -> bool:
        """Whether it was done; once something went wrong with the file, nothing more is."""
        if self._broken is not None:
            return False
        try:
            with translate_errors(self._logdir):
                work()
        except Exception as error:  # whatever it is, steps go on
            self._broken = errors.from_exception(error)
            _log.error("summaries cannot be written: %s", self._broken.message)
            return False
        return True


def _bytes_of(message: Any) -> bytes:
    """As bytes what a summary operation gives, or a message of TensorBoard's. TypeError for anything else."""
    if isinstance(message, np.ndarray) and message.shape == ():
        message = message[()]
    if isinstance(message, bytes):
        return message
    if not hasattr(message, "SerializeToString"):
        raise TypeError(f"what a summary operation gives is needed, which is a string, not {message!r:.60}")
    return bytes(message.SerializeToString())


class FileWriterCache:
    """One writer for each folder, for whoever writes there."""

    _writers: ClassVar[dict[str, FileWriter]] = {}

    @classmethod
    def get(cls, logdir: str | os.PathLike[str]) -> FileWriter:
        """The writer of that folder, made if there is none."""
        name = os.fspath(logdir)
        if name not in cls._writers:
            cls._writers[name] = FileWriter(name)
        return cls._writers[name]

    @classmethod
    async def clear(cls) -> None:
        """All of them are closed, and forgotten. Raises the first error that `FileWriter.close` does."""
        writers = list(cls._writers.values())
        cls._writers.clear()
        ended = await asyncio.gather(*[writer.close() for writer in writers], return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error
