"""Traces of steps: one event per node and per transfer, recorded only in traced runs."""

import dataclasses
import itertools
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from aioflow.tensors.dtypes import Array

_SHORTEST: Final = 1e-9
"""The least seconds with which a transfer is drawn, so that its arrow has a target."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeStats:
    """One execution of one node. Times are in seconds on the clock of `time.perf_counter`.

    Attributes:
        name: the name of the operation.
        op_type: its type.
        device: its device.
        scheduled: the time at which its inputs were there.
        start: the time at which its kernel began, on a compute thread perhaps later.
        end: the time at which its kernel was done, waiting included.
        output_bytes: the size of its outputs.
        thread: its thread.
        waits: whether it may have waited, so that end - start does not measure work.
        fast: whether its kernel approximates, as `Config(fast_math=True)` allows.

    Examples:
        >>> total, metadata = af.reduce_sum(af.Variable([1, 2]).initialized_value(), name="total"), af.RunMetadata()
        >>> value = await session.run(total, None, af.RunOptions(trace=True), metadata)
        >>> [stats.op_type for stats in metadata.step_stats if stats.name == "total"]
        ['reduce_sum']
    """

    name: str
    op_type: str
    device: str
    scheduled: float
    start: float
    end: float
    output_bytes: int
    thread: int
    waits: bool
    fast: bool = False

    @property
    def busy(self) -> float:
        """Seconds of work; 0 for a node that may have waited."""
        return 0.0 if self.waits else self.end - self.start

    @property
    def waiting(self) -> float:
        """Seconds of waiting: for a thread, and, if the kernel may wait, during the kernel."""
        return self.end - self.scheduled - self.busy


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """One value that went from one device to another. Times are as in NodeStats.

    Attributes:
        key: the key it was sent with, as text.
        source: the device it came from.
        target: the device it came to.
        bytes: its size.
        sent: when it was sent; None if that was in another process.
        asked: when the receiver began to wait for it.
        arrived: when the receiver had it.
        threads: those that sent and received it; 0 for one in another process.
    """

    key: str
    source: str
    target: str
    bytes: int
    sent: float | None
    asked: float
    arrived: float
    threads: tuple[int, int]

    @property
    def start(self) -> float:
        """When it could begin, with both sides there."""
        return self.asked if self.sent is None else max(self.asked, self.sent)


class MemorySample(NamedTuple):
    """How many bytes were alive on a device at a time."""

    device: str
    time: float
    bytes: int


@dataclasses.dataclass(slots=True)
class DeviceStats:
    """The work of a step on one device.

    Attributes:
        busy: seconds of work, of all its threads together.
        waiting: seconds of waiting, of all its nodes together.
        sent: bytes sent to other devices.
        received: bytes received from other devices.
        peak: the most live bytes after a node; 0 if they were not tracked.
    """

    busy: float = 0.0
    waiting: float = 0.0
    sent: int = 0
    received: int = 0
    peak: int = 0


class RunMetadata:
    """Filled by a run that is given one with `RunOptions(trace=True)`.

    Attributes:
        step_id: the number of the step.
        step_stats: each execution of a node, in the order they ended.
        transfers: each value that went from one device to another, in the order they arrived.
        memory: how much was alive, after each node.
        on_values: is called with the name and the results of each operation of this process; None for nothing.

    Examples:
        >>> metadata = af.RunMetadata()
        >>> await session.run(af.add(1, af.Variable(2).initialized_value()), None, af.RunOptions(trace=True), metadata)
        np.int32(3)
        >>> metadata.write_chrome_trace("trace.json")
    """

    def __init__(self) -> None:
        self.on_values: Callable[[str, Sequence[Array]], object] | None = None
        self.step_id: int | None = None
        self.step_stats: list[NodeStats] = []
        self.transfers: list[Transfer] = []
        self.memory: list[MemorySample] = []
        self._traced = False
        self._threads: dict[int, str] = {}
        self._sent: dict[Hashable, tuple[float, int]] = {}

    @property
    def thread_names(self) -> dict[int, str]:
        """The names of the threads that events name by number."""
        return dict(self._threads)

    def lane_of(self, owner: object, name: str) -> int:
        """Return the number of a lane that is not a thread; it stays valid while the owner lives."""
        self._threads[id(owner)] = name
        return id(owner)

    def to_plain(self, later: float) -> dict[str, Any]:
        """Return the trace as plain data for another process, with all times `later` seconds later."""
        return {
            "step": self.step_id,
            "stats": [[*_fields(stats)[:3], *_shifted(stats, _NODE_TIMES, later), *_fields(stats)[6:]]
                      for stats in self.step_stats],
            "transfers": [[*_fields(each)[:4], *_shifted(each, _TRANSFER_TIMES, later), list(each.threads)]
                          for each in self.transfers],
            "memory": [[sample.device, sample.time + later, sample.bytes] for sample in self.memory],
            "threads": [[thread, name] for thread, name in self._threads.items()],
            "sent": [[str(key), when + later, thread] for key, (when, thread) in self._sent.items()],
        }  # fmt: skip

    def add_plain(self, data: Any, later: float) -> None:
        """Add the trace of another process, as `to_plain` gave it, with all times `later` seconds later.

        A transfer between the two processes becomes one event with both ends.
        """
        self._traced = True
        self.step_id = data["step"] or self.step_id
        first = min(0, *self._threads) - 1 if self._threads else -1
        lanes = {thread: first - place for place, (thread, _) in enumerate(data["threads"])}
        self._threads |= {lanes[thread]: name for thread, name in data["threads"]}
        for name, op_type, device, *times, size, thread, waits, fast in data["stats"]:
            scheduled, start, end = [when + later for when in times]
            stats = NodeStats(name, op_type, device, scheduled, start, end, size, lanes[thread], waits, fast)
            self.step_stats.append(stats)
        for key, source, target, size, sent, asked, arrived, threads in data["transfers"]:
            began = None if sent is None else sent + later
            ends = lanes.get(threads[0], 0), lanes.get(threads[1], 0)
            self.transfers.append(Transfer(key, source, target, size, began, asked + later, arrived + later, ends))
        self.memory += [MemorySample(device, when + later, size) for device, when, size in data["memory"]]
        self._sent |= {key: (when + later, lanes[thread]) for key, when, thread in data["sent"]}
        self.transfers[:] = [self._with_sender(transfer) for transfer in self.transfers]

    def add_step(self, step: int, other: "RunMetadata") -> None:
        """Add the trace of another step of this process. The number of the step distinguishes its keys."""
        self._traced = True
        self.step_stats += other.step_stats
        self.memory += other.memory
        self._threads |= other._threads
        self.transfers += [dataclasses.replace(each, key=f"{step:x};{each.key}") for each in other.transfers]
        self._sent |= {f"{step:x};{key}": sent for key, sent in other._sent.items()}

    def _with_sender(self, transfer: Transfer) -> Transfer:
        """The transfer, with when and where it was sent, if that was written down in another process."""
        if transfer.sent is not None or transfer.key not in self._sent:
            return transfer
        sent, thread = self._sent.pop(transfer.key)
        return dataclasses.replace(transfer, sent=sent, threads=(thread, transfer.threads[1]))

    def by_device(self) -> dict[str, DeviceStats]:
        """Sums over each device that did something."""
        found: dict[str, DeviceStats] = {}
        for stats in self.step_stats:
            sums = found.setdefault(stats.device, DeviceStats())
            sums.busy += stats.busy
            sums.waiting += stats.waiting
        for transfer in self.transfers:
            found.setdefault(transfer.source, DeviceStats()).sent += transfer.bytes
            found.setdefault(transfer.target, DeviceStats()).received += transfer.bytes
        for sample in self.memory:
            sums = found.setdefault(sample.device, DeviceStats())
            sums.peak = max(sums.peak, sample.bytes)
        return found

    def write_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in the form that Perfetto and chrome://tracing open. Blocks while it writes.

        ValueError if no run was traced.
        """
        if not self._traced:
            raise ValueError("no run was traced: pass options=af.RunOptions(trace=True) beside metadata= to the run")
        Path(path).write_text(json.dumps(self.chrome_trace()))

    def chrome_trace(self) -> dict[str, Any]:
        """Return the events as Chrome trace JSON, with times in microseconds.

        Each device is a process, with a lane for each thread, lanes for concurrent received values, and a counter of
        its memory. Arrows go from the send of a value to its receive.
        """
        return {"traceEvents": list(_Drawing(self).events())}

    def _repr_html_(self) -> str:
        from aioflow.notebook.timeline import trace_html

        return trace_html(self)


class Memory(Protocol):
    """The part of a device's memory that a trace reads."""

    @property
    def live(self) -> int:
        """Bytes alive now."""


class Trace:
    """Records the events of one device in one step.

    Attributes:
        metadata: receives the events.
    """

    def __init__(self, metadata: RunMetadata, device: str, memory: Memory | None = None) -> None:
        metadata._traced = True
        self.metadata: Final = metadata
        self._device = device
        self._memory = memory
        self._begun: dict[str, deque[tuple[int, float]]] = {}

    def on(self, device: str, memory: Memory | None = None) -> "Trace":
        """Return the trace of another device in that step. With `memory` it also records the live bytes."""
        return Trace(self.metadata, device, memory)

    @staticmethod
    def now() -> float:
        """The clock of all events."""
        return time.perf_counter()

    def on_thread(self, name: str) -> None:
        """The node begins now, on the thread that calls this."""
        self._begun.setdefault(name, deque()).append((_here(self.metadata), self.now()))

    def record(
        self, name: str, op_type: str, waits: bool, scheduled: float, start: float, outputs: Sequence[Array],
        fast: bool = False,
    ) -> None:  # fmt: skip
        """Write down one execution that ends now. It began at `start`, unless it did so on a thread."""
        size = sum(getattr(value, "nbytes", 0) for value in outputs)
        begun = self._begun.get(name)
        thread, start = begun.popleft() if begun else (_here(self.metadata), start)
        end = self.now()
        stats = NodeStats(name, op_type, self._device, scheduled, start, end, size, thread, waits, fast)
        self.metadata.step_stats.append(stats)
        if self.metadata.on_values is not None:
            self.metadata.on_values(name, outputs)
        if self._memory is not None:
            self.metadata.memory.append(MemorySample(self._device, end, self._memory.live))

    def sent(self, key: Hashable) -> None:
        """The thread that calls this sends a value, now. Each key is used once in a step."""
        self.metadata._sent[key] = self.now(), _here(self.metadata)

    def received(self, key: Hashable, source: str, nbytes: int, asked: float) -> None:
        """The thread that calls this has received a value, now; it began to wait for it when it `asked`."""
        sent, sender = self.metadata._sent.pop(key, (None, 0))
        threads = sender, _here(self.metadata)
        made = Transfer(str(key), source, self._device, nbytes, sent, asked, self.now(), threads)
        self.metadata.transfers.append(made)


def _here(metadata: RunMetadata) -> int:
    """The thread that calls this, whose name is kept for the lanes."""
    thread = threading.get_ident()
    if thread not in metadata._threads:
        metadata._threads[thread] = threading.current_thread().name
    return thread


_NODE_TIMES: Final = ("scheduled", "start", "end")
_TRANSFER_TIMES: Final = ("sent", "asked", "arrived")


def _fields(thing: Any) -> list[Any]:
    return [getattr(thing, field.name) for field in dataclasses.fields(thing)]


def _shifted(thing: Any, names: Sequence[str], later: float) -> list[float | None]:
    times = [getattr(thing, name) for name in names]
    return [None if when is None else when + later for when in times]


Event = dict[str, Any]


class _Drawing:
    """The events of one trace as Chrome's."""

    def __init__(self, metadata: RunMetadata) -> None:
        self._metadata = metadata
        self._serial = itertools.count(1)  # of devices and lanes together: 0 has a special meaning in Perfetto
        self._processes = {device: next(self._serial) for device in metadata.by_device()}
        self._lanes: dict[tuple[str, str, int], int] = {}

    def events(self) -> Iterator[Event]:
        """Yield the names of devices and lanes, and then the events."""
        drawn = [*self._nodes(), *self._transfers(), *self._counters()]
        for device, process in self._processes.items():
            yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": device}}
        for (device, name, _), lane in self._lanes.items():
            yield {"name": "thread_name", "ph": "M", **self._at(device, lane), "args": {"name": name}}
        yield from drawn

    def _at(self, device: str, lane: int) -> Event:
        return {"pid": self._processes[device], "tid": lane}

    def _lane(self, device: str, name: str, number: int) -> Event:
        """A lane of a device, the same for the same name and number."""
        place = device, name, number
        if place not in self._lanes:
            self._lanes[place] = next(self._serial)
        return self._at(device, self._lanes[place])

    def _thread(self, device: str, thread: int) -> Event:
        return self._lane(device, self._metadata._threads[thread], thread)

    def _nodes(self) -> Iterator[Event]:
        """Yield a slice for each node on the lane of its thread; a wait, which may overlap others, has its own lane."""
        for number, stats in enumerate(self._metadata.step_stats):
            arguments = {
                "op": stats.name,
                "output_bytes": stats.output_bytes,
                "ready": stats.scheduled * 1e6,
                "waited": stats.waiting * 1e6,
            } | ({"fast_math": True} if stats.fast else {})
            event = {"name": stats.op_type, **self._thread(stats.device, stats.thread), "args": arguments}
            if stats.waits:
                yield {**event, "cat": "wait", "ph": "b", "id": number, "ts": stats.start * 1e6}
                yield {**event, "cat": "wait", "ph": "e", "id": number, "ts": stats.end * 1e6}
            else:
                yield {**event, "cat": "compute", "ph": "X", **_span(stats.start, stats.end)}

    def _transfers(self) -> Iterator[Event]:
        """A slice where the value came, and an arrow to its beginning."""
        taken: dict[str, list[float]] = {}
        for number, transfer in enumerate(sorted(self._metadata.transfers, key=lambda transfer: transfer.start)):
            start, end = transfer.start, max(transfer.arrived, transfer.start + _SHORTEST)
            lane = _free(taken.setdefault(transfer.target, []), start, end)
            event = {"name": "transfer", "cat": "transfer", **self._lane(transfer.target, "receives", lane)}
            arguments = {
                "key": transfer.key,
                "bytes": transfer.bytes,
                "from": transfer.source,
                "waited": (start - transfer.asked) * 1e6,
            }
            yield {**event, "ph": "X", **_span(start, end), "args": arguments}
            if transfer.sent is not None:
                sender = self._thread(transfer.source, transfer.threads[0])
                yield {**event, **sender, "ph": "s", "id": number, "ts": transfer.sent * 1e6}
                yield {**event, "ph": "f", "bp": "e", "id": number, "ts": start * 1e6}

    def _counters(self) -> Iterator[Event]:
        for device, when, alive in self._metadata.memory:
            process = self._processes[device]
            yield {"name": "memory", "ph": "C", "pid": process, "ts": when * 1e6, "args": {"bytes": alive}}


def _span(start: float, end: float) -> Event:
    """Return a rounded begin and duration, so that adjacent events do not overlap."""
    return {"ts": start * 1e6, "dur": end * 1e6 - start * 1e6}


def _free(taken: list[float], start: float, end: float) -> int:
    """Return the first lane that is free at `start`, or a new one, and take it until `end`."""
    lane = next((lane for lane, until in enumerate(taken) if until <= start), len(taken))
    taken[lane : lane + 1] = [end]
    return lane
