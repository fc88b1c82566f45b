"""Writes event files for TensorBoard: `af.summary.FileWriter`.

The writer's own thread opens, writes and closes the file, so that a step never waits for a disk. Events wait in a queue
until that thread takes them. It also imports the package `tensorboard`, and converts graphs and traces, since both take
long.
"""

import asyncio
import contextlib
import functools
import importlib.util
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
from aioflow.summary.graph_messages import to_graph_def
from aioflow.summary.messages import Event
from aioflow.tracing import NodeStats, RunMetadata, Transfer

_log: Final = logging.getLogger("aioflow.summary")
Fill = Callable[[Event], object]
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

    Examples:
        >>> async with af.summary.FileWriter("logs") as writer:
        ...     writer.add_summary(await session.run(af.summary.scalar("loss", 0.5)), global_step=1)
        >>> len(af.gfile.Glob("logs/*"))
        1
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Graph | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        check_installed()
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
        """Add the value of a summary operation, or a Summary, for that step."""
        data = _bytes_of(summary)
        self._add(lambda event: event.summary.MergeFromString(data), global_step)

    def add_event(self, event: Any) -> None:
        """Add an Event in its present state."""
        data = _bytes_of(event)
        self._open_queue.add(lambda: Event.FromString(data))

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Add a SessionLog. With status START, TensorBoard drops earlier events of later steps."""
        data = _bytes_of(session_log)
        self._add(lambda event: event.session_log.MergeFromString(data), global_step)

    def add_graph(self, graph: Graph, global_step: int | None = None) -> None:
        """Add a graph in its present state; TensorBoard shows the last one."""
        operations = graph.get_operations()
        self._add(lambda event: setattr(event, "graph_def", to_graph_def(operations)), global_step)

    def add_run_metadata(self, run_metadata: RunMetadata, tag: str, global_step: int | None = None) -> None:
        """Add the records of a traced run, which TensorBoard shows on the graph. ValueError if the tag was used."""
        if tag in self._tags:
            raise ValueError(f"the tag {tag!r} was used for an earlier run: give each run another tag")
        self._tags.add(tag)

        def fill(event: Event) -> None:
            event.tagged_run_metadata.tag = tag
            event.tagged_run_metadata.run_metadata = to_run_metadata(run_metadata)

        self._add(fill, global_step)

    def _add(self, fill: Fill, step: int | None) -> None:
        """Add an Event with the present time, which the thread creates and fills."""
        now, number = time.time(), None if step is None else int(step)

        def make() -> Event:
            event = Event(wall_time=now, step=number)
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
        self._open: Final = functools.partial(file_writer, logdir, max_queue, flush_secs, suffix)
        self._waiting: Final[deque[Callable[[], Event]]] = deque()
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

    def add(self, make: Callable[[], Event]) -> None:
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

    def _add(self, event: Event | None) -> None:
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

    def _make_event(self, make: Callable[[], Event]) -> Event | None:
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
    """Return the bytes of a summary operation's value or of a message. TypeError for other values."""
    if isinstance(message, np.ndarray) and message.shape == ():
        message = message[()]
    if isinstance(message, bytes):
        return message
    if not hasattr(message, "SerializeToString"):
        raise TypeError(f"pass the string that a summary operation gives, not {message!r:.60}")
    return bytes(message.SerializeToString())


class FileWriterCache:
    """One writer per folder, shared by all callers.

    Examples:
        >>> writer = af.summary.FileWriterCache.get("logs")
        >>> writer is af.summary.FileWriterCache.get("logs")
        True
        >>> await af.summary.FileWriterCache.clear()
    """

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


_MISSING: Final = "event files need the package tensorboard: pip install aioflow-engine[tensorboard]"


def check_installed() -> None:
    """Raise UnimplementedError if the package `tensorboard` is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise errors.UnimplementedError(_MISSING)


def _proto() -> Any:
    """Return the package of messages. Importing these two modules imports all others."""
    import tensorboard.compat.proto.config_pb2
    import tensorboard.compat.proto.event_pb2

    return tensorboard.compat.proto


class _EventFile:
    """A new event file in a folder. Its writer is TensorBoard's, and has its own thread."""

    def __init__(self, logdir: str, max_queue: int, flush_secs: float, suffix: str) -> None:
        import tensorboard.summary.writer.event_file_writer as files

        self._file: Final[Any] = files.EventFileWriter(logdir, max_queue, flush_secs, suffix)
        self.flush: Final[Callable[[], None]] = self._file.flush
        self.close: Final[Callable[[], None]] = self._file.close

    def add_event(self, event: Event) -> None:
        """Hand the event to the writer as a message of TensorBoard."""
        self._file.add_event(_proto().event_pb2.Event.FromString(event.SerializeToString()))


def file_writer(logdir: str, max_queue: int, flush_secs: float, suffix: str) -> _EventFile:
    """Open a new event file in that folder."""
    return _EventFile(logdir, max_queue, flush_secs, suffix)


# Traces


def to_run_metadata(metadata: RunMetadata) -> bytes:
    """Return the records of a traced run as a RunMetadata with step statistics by device."""
    later = time.time() - time.perf_counter()
    threads: dict[int, int] = {}
    devices: dict[str, list[Any]] = {}
    for stats in metadata.step_stats:
        thread = threads.setdefault(stats.thread, len(threads) + 1)
        devices.setdefault(stats.device, []).append(_execution(stats, later, thread))
    for transfer in metadata.transfers:
        devices.setdefault(transfer.target, []).append(_transfer(transfer, later))
    make = _proto().step_stats_pb2
    found = [make.DeviceStepStats(device=device, node_stats=made) for device, made in devices.items()]
    written = _proto().config_pb2.RunMetadata(step_stats=make.StepStats(dev_stats=found))
    data: bytes = written.SerializeToString()
    return data


def _execution(stats: NodeStats, later: float, thread: int) -> Any:
    made = _times(stats.name, later, stats.scheduled, stats.start, stats.end)
    made.thread_id, made.timeline_label = thread, f"{stats.name} = {stats.op_type}"
    made.memory.add(allocator_name=stats.device, total_bytes=stats.output_bytes, peak_bytes=stats.output_bytes)
    return made


def _transfer(transfer: Transfer, later: float) -> Any:
    made = _times("RecvTensor", later, transfer.asked, transfer.start, transfer.arrived)
    made.timeline_label = f"[{transfer.bytes} B] {transfer.key} from {transfer.source} to {transfer.target}"
    return made


def _times(name: str, later: float, scheduled: float, start: float, end: float) -> Any:
    """Return one execution: times in microseconds since 1970, `later` in seconds, the end relative to the start."""
    length = max(0, round((end - start) * 1e6))
    return _proto().step_stats_pb2.NodeExecStats(
        node_name=name, scheduled_micros=round((scheduled + later) * 1e6),
        all_start_micros=round((start + later) * 1e6),
        op_end_rel_micros=length, all_end_rel_micros=length,
    )  # fmt: skip
