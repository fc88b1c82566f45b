"""Writes event files for TensorBoard: `af.summary.FileWriter`.

The writer's own thread opens, writes and closes the file, so that a step never waits for a disk. Events wait in a queue
until that thread takes them.
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
"""Fills the content into an Event."""


class FileWriter:
    """Writes summaries, graphs and traces to an event file in a folder, which `tensorboard --logdir` shows.

        async with af.summary.FileWriter("logs/first", session.graph) as writer:
            for step in range(1000):
                text, _ = await session.run([merged, train])
                writer.add_summary(text, step)

    The `add` methods never wait: they put the event into a queue, in order, and return. `flush` and `close` wait. When
    writing fails, as on a full disk, the log says so at once, and the next `flush` or `close` raises the error.
    Training goes on, but later events are lost, and those since the last flush may be lost. The error states both
    numbers.

    Needs `pip install aioflow-engine[tensorboard]`. Safe to use from any thread.

    Args:
        logdir: the folder, or a URL to which TensorBoard can write; created if it is missing.
        graph: a graph to add at once.
        max_queue: the most events that TensorBoard's writer buffers, in addition to the queue.
        flush_secs: seconds after which written events are in the file without `flush`.
        filename_suffix: suffix of the file's name.

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
        self._queue: _EventQueue | None = None
        self.reopen()
        if graph is not None:
            self.add_graph(graph)

    def get_logdir(self) -> str:
        """Return the folder."""
        return self._logdir

    def reopen(self) -> None:
        """Begin a new file in the same folder, if the writer is closed."""
        if self._queue is None:
            self._queue = _EventQueue(self._logdir, *self._options)

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Add the value of a summary operation, or a Summary of TensorBoard, for that step."""
        data = _bytes_of(summary)
        self._add(lambda event: event.summary.MergeFromString(data), global_step)

    def add_event(self, event: Any) -> None:
        """Add an Event of TensorBoard in its present state."""
        data = _bytes_of(event)
        self._open_queue.add(lambda: events.protocol_buffer("Event").FromString(data))

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Add a SessionLog of TensorBoard. With status START, TensorBoard drops earlier events of later steps."""
        data = _bytes_of(session_log)
        self._add(lambda event: event.session_log.MergeFromString(data), global_step)

    def add_graph(self, graph: Graph, global_step: int | None = None) -> None:
        """Add a graph in its present state; TensorBoard shows the last one."""
        operations = graph.get_operations()
        self._add(lambda event: setattr(event, "graph_def", events.graph_def(operations)), global_step)

    def add_run_metadata(self, run_metadata: RunMetadata, tag: str, global_step: int | None = None) -> None:
        """Add the records of a traced run, which TensorBoard shows on the graph. ValueError if the tag was used."""
        if tag in self._tags:
            raise ValueError(f"the tag {tag!r} was used for an earlier run: give each run another tag")
        self._tags.add(tag)

        def fill(event: Any) -> None:
            event.tagged_run_metadata.tag = tag
            event.tagged_run_metadata.run_metadata = events.run_metadata(run_metadata)

        self._add(fill, global_step)

    def _add(self, fill: Fill, step: int | None) -> None:
        """Add an Event with the present time, which the thread creates and fills."""
        now, number = time.time(), None if step is None else int(step)

        def make() -> Any:
            event = events.event(now, number)
            fill(event)
            return event

        self._open_queue.add(make)

    @property
    def _open_queue(self) -> "_EventQueue":
        if self._queue is None:
            raise RuntimeError(f"the writer of {self._logdir!r} is closed: call reopen() to begin a new file")
        return self._queue

    async def flush(self) -> None:
        """Wait until all added events are in the file. Cancelling ends the wait alone.

        Raises:
            OpError: an event since the last flush could not be written.
        """
        await self._open_queue.flush()

    async def close(self) -> None:
        """Write all added events, and close the file. May be called again. Cancelling ends the wait alone.

        Raises:
            OpError: see `flush`; the file is closed nevertheless.
        """
        queue, self._queue = self._queue, None
        if queue is not None:
            await queue.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except errors.OpError:
            if error is None:  # else only the log states it
                raise

    def __repr__(self) -> str:
        return f"<af.summary.FileWriter of {self._logdir!r}{'' if self._queue else ', closed'}>"


class _EventQueue:
    """A queue of events for one file, and the thread that writes them."""

    def __init__(self, logdir: str, max_queue: int, flush_secs: float, suffix: str) -> None:
        self._logdir: Final = logdir
        self._open: Final = functools.partial(events.file_writer, logdir, max_queue, flush_secs, suffix)
        self._waiting: Final[deque[Callable[[], Any]]] = deque()
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="aioflow-summaries")
        self._writing: Final = threading.Lock()
        self._file: Any = None
        self._broken: errors.OpError | None = None
        """The error after which nothing can be written any more."""
        self._invalid: errors.OpError | None = None
        """The error of the last invalid event, until it is raised."""
        self._lost = 0
        self._unflushed = 0
        """Number of events written since the last flush; they may be lost if a later write fails."""
        self._thread.submit(self._write)

    def add(self, make: Callable[[], Any]) -> None:
        """Queue an event. The thread calls `make` to create it."""
        self._waiting.append(make)
        self._thread.submit(self._write)

    async def flush(self) -> None:
        """Wait until all added events are in the file, or raise the error that prevents it."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, self._write, "flush"))
        error, self._invalid = self._broken or self._invalid, None
        if error is not None:
            raise self._with_losses(error)

    async def close(self) -> None:
        """Do the same, close the file and end the thread."""
        closed = asyncio.get_running_loop().run_in_executor(self._thread, self._write, "close")
        try:
            await asyncio.shield(closed)
        finally:
            self._thread.shutdown(wait=closed.done())
        if (error := self._broken or self._invalid) is not None:
            raise self._with_losses(error)

    def _with_losses(self, error: errors.OpError) -> errors.OpError:
        perhaps = f", and perhaps {self._unflushed} before them that were not flushed" if self._unflushed else ""
        return type(error)(f"{error.message}; lost events: {self._lost}{perhaps}")

    # The following methods run on the thread.

    def _write(self, then: Literal["", "flush", "close"] = "") -> None:
        """Write all queued events, then flush or close the file."""
        with self._writing:
            self._attempt(self._begin)
            while self._waiting:
                self._add(self._make_event(self._waiting.popleft()))
            if then:
                self._flush()
            if then == "close":
                self._end()

    def _add(self, event: Any) -> None:
        if event is not None and self._attempt(self._file_call("add_event", event)):
            self._unflushed += 1
        elif event is not None:
            self._lost += 1

    def _flush(self) -> None:
        if self._attempt(self._file_call("flush")):
            self._unflushed = 0

    def _file_call(self, method: str, *arguments: Any) -> Callable[[], object]:
        return lambda: getattr(self._file, method)(*arguments)

    def _begin(self) -> None:
        if self._file is None:
            self._file = self._open()

    def _end(self) -> None:
        """Close the file even after an error, since its own thread must end."""
        if not self._attempt(self._file_call("close")) and self._file is not None:
            with contextlib.suppress(Exception):  # the error was logged
                self._file.close()

    def _make_event(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except Exception as error:  # any value that a message cannot hold
            self._invalid = errors.InvalidArgumentError(f"invalid event: {type(error).__name__}: {error}")
            self._lost += 1
            _log.error("an event for %s is skipped: %s", self._logdir, self._invalid.message)
            return None

    def _attempt(self, work: Callable[[], object]) -> bool:
        """Do the work and return True. Returns False if it fails, or if an earlier write failed."""
        if self._broken is not None:
            return False
        try:
            with translate_errors(self._logdir):
                work()
        except Exception as error:  # steps go on after any error
            self._broken = errors.from_exception(error)
            _log.error("summaries cannot be written: %s", self._broken.message)
            return False
        return True


def _bytes_of(message: Any) -> bytes:
    """Return the bytes of a summary operation's value or of a message of TensorBoard. TypeError for other values."""
    if isinstance(message, np.ndarray) and message.shape == ():
        message = message[()]
    if isinstance(message, bytes):
        return message
    if not hasattr(message, "SerializeToString"):
        raise TypeError(f"pass the string that a summary operation gives, not {message!r:.60}")
    return bytes(message.SerializeToString())


class FileWriterCache:
    """One writer per folder, shared by all callers."""

    _writers: ClassVar[dict[str, FileWriter]] = {}

    @classmethod
    def get(cls, logdir: str | os.PathLike[str]) -> FileWriter:
        """Return the writer of that folder, created at the first call."""
        name = os.fspath(logdir)
        if name not in cls._writers:
            cls._writers[name] = FileWriter(name)
        return cls._writers[name]

    @classmethod
    async def clear(cls) -> None:
        """Close and forget all writers. Raises the first error of `FileWriter.close`."""
        writers = list(cls._writers.values())
        cls._writers.clear()
        ended = await asyncio.gather(*[writer.close() for writer in writers], return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error
