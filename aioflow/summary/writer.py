"""Writes event files for TensorBoard: `af.summary.FileWriter`.

The writer's own thread opens, writes and closes the file, so that a step never waits for a disk. Events wait in a queue
until that thread takes them.

Converts graphs and traces to the protocol buffers of TensorFlow, which the package `tensorboard` contains.

The writer calls it on its thread, since importing the package or converting a large graph takes long.
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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np

from aioflow import errors
from aioflow.files.dtype_numbers import NUMBERS
from aioflow.files.filesystem import translate_errors
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation
from aioflow.graph.subgraph import Body
from aioflow.tensors.dtypes import DType, Spec, TensorShape
from aioflow.tracing import NodeStats, RunMetadata, Transfer

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
        """Add the value of a summary operation, or a Summary of TensorBoard, for that step."""
        data = _bytes_of(summary)
        self._add(lambda event: event.summary.MergeFromString(data), global_step)

    def add_event(self, event: Any) -> None:
        """Add an Event of TensorBoard in its present state."""
        data = _bytes_of(event)
        self._open_queue.add(lambda: protocol_buffer("Event").FromString(data))

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Add a SessionLog of TensorBoard. With status START, TensorBoard drops earlier events of later steps."""
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

        def fill(event: Any) -> None:
            event.tagged_run_metadata.tag = tag
            event.tagged_run_metadata.run_metadata = to_run_metadata(run_metadata)

        self._add(fill, global_step)

    def _add(self, fill: Fill, step: int | None) -> None:
        """Add an Event with the present time, which the thread creates and fills."""
        now, number = time.time(), None if step is None else int(step)

        def make() -> Any:
            event = new_event(now, number)
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
_PRODUCER: Final = 22
"""The version of the format."""
_LONGEST: Final = 200
"""The most characters of an attribute's text."""


def check_installed() -> None:
    """Raise UnimplementedError if the package `tensorboard` is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise errors.UnimplementedError(_MISSING)


def _proto() -> Any:
    """Return the package of messages. Importing these two modules imports all others."""
    import tensorboard.compat.proto.config_pb2
    import tensorboard.compat.proto.event_pb2

    return tensorboard.compat.proto


def file_writer(logdir: str, max_queue: int, flush_secs: float, suffix: str) -> Any:
    """Open a new event file in that folder. Its writer has its own thread."""
    import tensorboard.summary.writer.event_file_writer as files

    return files.EventFileWriter(logdir, max_queue, flush_secs, suffix)


def protocol_buffer(name: str) -> Any:
    """Return the message class Event, SessionLog, Summary, SummaryDescription or TaggedRunMetadata."""
    check_installed()
    return getattr(_proto().summary_pb2 if name.startswith("Summary") else _proto().event_pb2, name)


def __getattr__(name: str) -> Any:
    """Import a message class of TensorBoard. UnimplementedError if the package is not installed."""
    if name in ("Event", "SessionLog", "Summary", "SummaryDescription", "TaggedRunMetadata"):
        return protocol_buffer(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def new_event(wall_time: float, step: int | None) -> Any:
    """Return an empty Event."""
    made = protocol_buffer("Event")(wall_time=wall_time)
    if step is not None:
        made.step = step
    return made


# Graphs


def to_graph_def(operations: Iterable[Operation]) -> bytes:
    """Return the operations as a GraphDef. The operations of a branch or loop are in a scope named after it."""
    nodes = [_node(operation, prefix) for operation, prefix in _with_bodies(operations, "")]
    versions = _proto().versions_pb2.VersionDef(producer=_PRODUCER)
    data: bytes = _proto().graph_pb2.GraphDef(node=nodes, versions=versions).SerializeToString()
    return data


def _with_bodies(operations: Iterable[Operation], prefix: str) -> Iterator[tuple[Operation, str]]:
    """Yield all operations and those in their bodies, each with the prefix of its name."""
    for operation in operations:
        yield operation, prefix
        for name, value in operation.attrs.items():
            if isinstance(value, Body):
                yield from _with_bodies(value.graph.get_operations(), f"{prefix}{operation.name}/{name}/")


def _node(operation: Operation, prefix: str) -> Any:
    reads = [f"{prefix}{tensor.op.name}" + (f":{tensor.index}" if tensor.index else "") for tensor in operation.inputs]
    after = [f"^{prefix}{control.name}" for control in operation.control_inputs]
    make = _proto().attr_value_pb2.AttrValue
    shapes = make.ListValue(shape=[_shape(output.spec.shape) for output in operation.outputs])
    attributes = {name: _attribute(value) for name, value in operation.attrs.items() if not isinstance(value, Body)}
    attributes["_output_shapes"] = make(list=shapes)
    if operation.outputs:
        attributes["T"] = make(type=NUMBERS[operation.outputs[0].dtype])
    return _proto().node_def_pb2.NodeDef(
        name=prefix + operation.name, op=operation.type, input=[*reads, *after], device=operation.device,
        attr=attributes,
    )  # fmt: skip


def _shape(shape: TensorShape) -> Any:
    make = _proto().tensor_shape_pb2.TensorShapeProto
    if shape.ndims is None:
        return make(unknown_rank=True)
    sizes = [-1 if size is None else size for size in shape.as_list()]
    return make(dim=[make.Dim(size=size) for size in sizes])


def _attribute(value: Any) -> Any:
    """Return an attribute as its own kind if the format has it, else as text."""
    make = _proto().attr_value_pb2.AttrValue
    match value:
        case bool():
            return make(b=value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return make(i=value)
        case float():
            return make(f=value)
        case DType():
            return make(type=NUMBERS[value])
        case TensorShape():
            return make(shape=_shape(value))
        case np.ndarray():
            return make(s=f"{value.dtype.name} {list(value.shape)}".encode())
        case str() | bytes():
            return make(s=value.encode() if isinstance(value, str) else value)
        case Spec():
            return make(s=str(value).encode())
    return make(s=repr(value)[:_LONGEST].encode())


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
