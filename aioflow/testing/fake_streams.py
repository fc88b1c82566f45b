"""Streams and events of fake GPUs, and the machine that they all belong to.

What is enqueued runs when the machine is ticked, or when somebody blocks on an event. What the host may see of it, as
a copy to the host, happens only then. Which work surely comes before which is kept in vector clocks: a kernel that uses
what another stream makes, without an event between them, raises Race, whether or not it would have gone well this time.
"""

import asyncio
import copy
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol


class Race(AssertionError):
    """Two streams use the same memory, and no event says which comes first."""


class Synchronised(AssertionError):
    """The host looked at a value in a GPU's memory: the thread would have waited for the GPU."""


class GpuFailure(Exception):
    """Something that runs on the GPU failed, as CUDA would say later, to whoever asks next."""


class OutOfMemory(Exception):
    """An array does not fit the memory of a fake GPU."""


class Machine:
    """Some fake GPUs on one host.

    Attributes:
        strict: whether looking at a value raises Synchronised, instead of being counted.
        looks: how often the host looked at a value, by how it did it.
        copies: how many copies were made, by kind: "H2D", "D2H", "D2D", "P2P".
        copied: the bytes of them.
        launches: how many kernels were launched, by name.
        ticks: how often it was ticked.
        held: while it is set, nothing runs, even for who blocks.
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
        """What the host knows to have run."""
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
        """The stream that kernels go to. RuntimeError if the thread has entered none, or another task has."""
        if not self.current:
            raise RuntimeError("no stream is current: kernels are called inside `with gpu:`")
        stream, task = self.current[-1], _task()
        if stream.entered[-1] is not task:
            raise RuntimeError(f"stream {stream.name!r} was entered by another task, which held it across an await")
        return stream

    def look(self, how: str) -> None:
        """The host looks at a value: everything before it has to run."""
        self.looks[how] += 1
        if self.strict:
            raise Synchronised(f"{how} waits for the GPU")
        self.run()

    # Running

    @property
    def held(self) -> bool:
        """Whether nothing runs."""
        return self._held

    @held.setter
    def held(self, held: bool) -> None:
        with self._lock:
            self._held = held
            self._lock.notify_all()

    def tick(self) -> bool:
        """Run one piece of work of each stream that can. False if none could."""
        with self._lock:
            self.ticks += 1
            return not self._held and sum(stream.advance() for stream in self.streams) > 0

    def run(self) -> None:
        """Run everything."""
        while self.tick():
            pass

    def run_until(self, done: Callable[[], bool]) -> None:
        """Run, or wait while the machine is held, until it is done."""
        with self._lock:
            while not done():
                if not self.tick():
                    self._lock.wait(10)

    # Races

    def race(self, what: str) -> None:
        """Remember a race found where nothing can be raised."""
        self._races.append(what)

    def check(self) -> None:
        """Race, if memory was freed or changed while a stream used it."""
        if self._races:
            raise Race("; ".join(self._races))

    def observe(self, clock: "dict[FakeStream, int]") -> None:
        """The host has learnt that this has run."""
        _merge(self.seen, clock)


class FakeDevice(Protocol):
    """A fake GPU, as far as its streams and arrays know it.

    Attributes:
        limit: how many bytes its arrays may take up; None for any number.
        peak: the largest number of bytes that its arrays took up.
        used: bytes that live arrays take up.
    """

    limit: int | None
    peak: int
    used: int

    @property
    def index(self) -> int:
        """Its number in its machine."""

    @property
    def machine(self) -> Machine:
        """The machine that it belongs to."""

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
        """Copy an array of the host."""


class FakeStream:
    """Work in order.

    Attributes:
        clock: how much of each stream's work surely comes before what is enqueued here next.
        entered: the tasks that have entered it.
        failure: what went wrong on it; it stays.
    """

    def __init__(self, machine: Machine, device: FakeDevice, name: str) -> None:
        self.machine: Final = machine
        self.device: Final = device
        self.name: Final = name
        self.clock: Final[dict[FakeStream, int]] = {self: 0}
        self.entered: Final[list[Any]] = []
        self.failure: Exception | None = None
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
        """Put work at its end; returns the number of that work."""
        with self.machine._lock:
            _merge(self.clock, self.machine.seen)
            self.clock[self] += 1
            self._work.append(work)
            return self.clock[self]

    def wait_event(self, event: "FakeEvent") -> None:
        """What is enqueued from now on comes after the event."""
        self.enqueue(event)
        _merge(self.clock, event.clock)

    def record(self, timed: bool = False) -> "FakeEvent":
        """The point after all work so far. Timed, it is work itself, which notes when it ran."""
        event = FakeEvent(self, dict(self.clock))
        if timed:
            event.clock[self] = self.enqueue(event.note_time)
        return event

    def knows(self, stream: "FakeStream", number: int) -> bool:
        """Whether that work of the stream surely comes before what is enqueued here next."""
        return max(self.clock.get(stream, 0), self.machine.seen.get(stream, 0)) >= number

    def advance(self) -> bool:
        """Run the first of its work. False if there is none or it has to wait."""
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
    """A point in a stream's work."""

    def __init__(self, stream: FakeStream, clock: dict[FakeStream, int]) -> None:
        self.stream: Final = stream
        self.clock: Final = clock
        self.tick: int = 0

    def note_time(self) -> None:
        """It is now."""
        self.tick = self.stream.machine.ticks

    @property
    def reached(self) -> bool:
        """Whether everything before it has run; the host learns nothing."""
        return self.stream.ran >= self.clock[self.stream]

    @property
    def done(self) -> bool:
        """Whether everything before it has run."""
        if self.reached:
            self.stream.machine.observe(self.clock)
        return self.reached

    def synchronize(self) -> None:
        """Block until it is done. Raises what failed on its stream."""
        self.stream.machine.run_until(lambda: self.reached)
        self.stream.machine.observe(self.clock)
        if self.stream.failure is not None:
            raise copy.copy(self.stream.failure)  # each time with a traceback of its own, as CUDA's


def _merge(into: dict[FakeStream, int], clock: dict[FakeStream, int]) -> None:
    for stream, number in clock.items():
        into[stream] = max(into.get(stream, 0), number)


def _task() -> Any:
    """The task that runs, if a loop does."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
