"""Streams and events of fake GPUs, and the machine to which they belong.

Enqueued work runs when the machine is ticked, or when a caller blocks on an event; the host sees its effects, such as a
copy to the host, only then. Vector clocks record which work certainly precedes which. A kernel that uses the result of
another stream without an event between them raises Race, even if this run would have gone well.
"""

import asyncio
import copy
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol


class Race(AssertionError):
    """Two streams use the same memory, and no event orders them."""


class Synchronised(AssertionError):
    """The host looked at a value in GPU memory, for which the thread would have waited."""


class GpuFailure(Exception):
    """Work on the GPU failed. As with CUDA, a later call raises it."""


class CaptureFailure(GpuFailure):
    """A stream that captures a graph was asked for work that no graph can contain."""


class OutOfMemory(Exception):
    """An array does not fit into the memory of a fake GPU."""


class Machine:
    """The fake GPUs of one host.

    Attributes:
        strict: whether looking at a value raises Synchronised instead of being counted.
        looks: number of looks of the host at a value, by method.
        copies: number of copies by kind: "H2D", "D2H", "D2D", "P2P".
        copied: their bytes, by kind.
        launches: number of launched kernels, by name.
        ticks: number of ticks.
        held: while True, nothing runs, even if a caller blocks.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.ticks: int = 0
        self.looks: Counter[str] = Counter()
        self.copies: Counter[str] = Counter()
        self.copied: Counter[str] = Counter()
        self.launches: Counter[str] = Counter()
        self.streams: Final[list[FakeStream]] = []
        self.seen: Final[dict[FakeStream, int]] = {}
        """The work that the host knows to be done."""
        self._races: list[str] = []
        self._lock: Final = threading.Condition(threading.RLock())
        self._current: Final = threading.local()
        self._held = False

    @property
    def current(self) -> "list[FakeStream]":
        """The streams that the thread has entered, innermost last."""
        found: list[FakeStream] = self._current.__dict__.setdefault("streams", [])
        return found

    @property
    def stream(self) -> "FakeStream":
        """The current stream. RuntimeError if the thread has entered none, or if another task has entered it."""
        if not self.current:
            raise RuntimeError("no stream is current: call kernels inside `with gpu:`")
        stream, task = self.current[-1], _task()
        if stream.entered[-1] is not task:
            raise RuntimeError(f"stream {stream.name!r} was entered by another task, which held it across an await")
        return stream

    def look(self, how: str) -> None:
        """Let the host look at a value: all earlier work runs first. CaptureFailure while the stream captures."""
        if self.current and self.current[-1].capture is not None:
            raise CaptureFailure(f"{how} waits for the GPU, and nothing runs during a capture")
        self.looks[how] += 1
        if self.strict:
            raise Synchronised(f"{how} waits for the GPU")
        self.run()

    # Running

    @property
    def held(self) -> bool:
        """Whether work is held back."""
        return self._held

    @held.setter
    def held(self, held: bool) -> None:
        with self._lock:
            self._held = held
            self._lock.notify_all()

    def tick(self) -> bool:
        """Run one piece of work of each stream that can run. Returns False if none can."""
        with self._lock:
            self.ticks += 1
            return not self._held and sum(stream.advance() for stream in self.streams) > 0

    def run(self) -> None:
        """Run all work."""
        while self.tick():
            pass

    def run_until(self, done: Callable[[], bool]) -> None:
        """Run work, or wait while the machine is held, until `done` returns True."""
        with self._lock:
            while not done():
                if not self.tick():
                    self._lock.wait(10)

    # Races

    def race(self, what: str) -> None:
        """Remember a race that was detected where nothing can be raised."""
        self._races.append(what)

    def check(self) -> None:
        """Raise Race if memory was freed or changed while a stream used it."""
        if self._races:
            raise Race("; ".join(self._races))

    def observe(self, clock: "dict[FakeStream, int]") -> None:
        """Let the host know that this work is done."""
        _merge(self.seen, clock)


class FakeDevice(Protocol):
    """The part of a fake GPU that its streams and arrays use.

    Attributes:
        limit: the most bytes that arrays may have; None for no limit.
        peak: the largest value of `used` so far.
        used: bytes of the live arrays.
    """

    limit: int | None
    peak: int
    used: int

    @property
    def index(self) -> int:
        """Its number in its machine."""

    @property
    def machine(self) -> Machine:
        """Its machine."""

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        changed: Sequence[Any] = (),
    ) -> Any:
        """Launch a kernel on the current stream."""

    def from_host(self, data: Any) -> Any:
        """Copy a host array."""

    def launch_graph(self, graph: Any, stream: "FakeStream") -> None:
        """Launch a graph on one of its streams."""


class FakeStream:
    """Work in order.

    Attributes:
        clock: {stream: number of its work that certainly precedes the next work here}.
        capture: the graph that receives its kernels, none of which runs; None if the stream captures none.
        entered: the tasks that have entered the stream.
        failure: the first error of its work; it stays.
        closed: whether it was let go: a real one may be gone then, and the process dies if it is used.
    """

    def __init__(self, machine: Machine, device: FakeDevice, name: str) -> None:
        self.machine: Final = machine
        self.device: Final = device
        self.name: Final = name
        self.clock: Final[dict[FakeStream, int]] = {self: 0}
        self.capture: Any = None
        self.entered: Final[list[Any]] = []
        self.failure: Exception | None = None
        self.closed = False
        self.ran: int = 0
        self._work: Final[deque[FakeEvent | Callable[[], object]]] = deque()
        machine.streams.append(self)

    def __enter__(self) -> "FakeStream":
        self.machine.current.append(self)
        self.entered.append(_task())
        return self

    def __exit__(self, *exc: Any) -> None:
        if self.machine.current.pop() is not self or self.entered.pop() is not _task():
            raise RuntimeError(f"stream {self.name!r} was held across an await, and left in another order")

    def enqueue(self, work: "FakeEvent | Callable[[], object]") -> int:
        """Append work. Returns its number. CaptureFailure while it captures: a graph contains kernels only."""
        if self.capture is not None:
            raise CaptureFailure(f"{self.name} captures a graph: it neither copies nor waits for events")
        self._check_open()
        with self.machine._lock:
            _merge(self.clock, self.machine.seen)
            self.clock[self] += 1
            self._work.append(work)
            return self.clock[self]

    def wait_event(self, event: "FakeEvent") -> None:
        """Order all later work of this stream after the event. CaptureFailure for an event inside of a capture."""
        if event.captured:
            raise CaptureFailure(f"{self.name} waits for an event inside of a capture, and would be captured, too")
        self.enqueue(event)
        _merge(self.clock, event.clock)

    def record(self, timed: bool = False) -> "FakeEvent":
        """Return the event after all work so far. A timed event is work too, which records its time."""
        self._check_open()
        event = FakeEvent(self, dict(self.clock))
        if timed:
            event.clock[self] = self.enqueue(event.note_time)
        return event

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError(f"{self.name} is used after it was let go")

    def knows(self, stream: "FakeStream", number: int) -> bool:
        """Whether that work of the stream certainly precedes the next work here."""
        return max(self.clock.get(stream, 0), self.machine.seen.get(stream, 0)) >= number

    def advance(self) -> bool:
        """Run the first piece of work. Returns False if there is none or if it must wait."""
        if not self._work:
            return False
        first = self._work[0]
        if isinstance(first, FakeEvent):
            if not first.reached:
                return False
        elif self.failure is None:
            try:
                first()
            except Exception as error:
                self.failure = error.with_traceback(None)
        self._work.popleft()
        self.ran += 1
        return True

    def __repr__(self) -> str:
        return f"<FakeStream {self.name!r} {self.ran}/{self.clock[self]}>"


class FakeEvent:
    """A position in the work of a stream.

    Attributes:
        captured: whether it was recorded during a capture, so that no host ever sees it done.
    """

    def __init__(self, stream: FakeStream, clock: dict[FakeStream, int]) -> None:
        self.stream: Final = stream
        self.clock: Final = clock
        self.captured: Final = stream.capture is not None
        self.tick: int = 0

    def note_time(self) -> None:
        """Record the present time."""
        self.tick = self.stream.machine.ticks

    @property
    def reached(self) -> bool:
        """Whether all work before it is done. The host does not learn it."""
        if self.captured:
            raise CaptureFailure("an event inside of a capture is never done")
        return self.stream.ran >= self.clock[self.stream]

    @property
    def done(self) -> bool:
        """Whether all work before it is done. The host learns it."""
        if self.reached:
            self.stream.machine.observe(self.clock)
        return self.reached

    def synchronize(self) -> None:
        """Block until it is done. Raises the failure of its stream."""
        self.stream.machine.run_until(lambda: self.reached)
        self.stream.machine.observe(self.clock)
        if self.stream.failure is not None:
            raise copy.copy(self.stream.failure)  # a new traceback each time, as with CUDA


def _merge(into: dict[FakeStream, int], clock: dict[FakeStream, int]) -> None:
    for stream, number in clock.items():
        into[stream] = max(into.get(stream, 0), number)


def _task() -> Any:
    """Return the running task; None outside of a loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
