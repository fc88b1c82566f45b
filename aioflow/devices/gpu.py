"""The GPU device: kernels that are enqueued and return at once, copies beside them, and waits that hold no thread.

A device has one stream for kernels and one for copies in each direction. Kernels are enqueued on the loop's own thread
inside `with gpu:`, and the token of their completion is the array itself: whatever reads it on the same stream comes
after it. Only who wants a value on the host, or on another device, waits for an event, with `wait_until_done`.

CuPy's current stream belongs to the thread and not to the task, so `with gpu:` holds synchronous code alone, never an
`await`; a kernel that waits is driven by `on_stream`, which enters the stream while it computes and leaves it while it
waits.

Memory is ordered by streams. What is freed may be handed out again at once, for later work on the stream it came from:
right for what one stream uses. Where two do, `keep` refers to an array until an event of the other stream is done, and
the memory that copies land in is handed back behind the kernels that read it.
"""

import asyncio
import contextlib
import secrets
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from aioflow import errors
from aioflow.devices.driver import Driver, Event, Host, Stream
from aioflow.devices.memory import Holder, Ledger
from aioflow.graph.device_spec import DeviceSpec
from aioflow.tensors.dtypes import Array, DeviceKind, Namespace

R = TypeVar("R")
_CLOSE_LIMIT: Final = 5.0
"""Seconds that closing waits for the GPU."""
_LAST_LIMIT: Final = 0.1
"""The same after it was waited for already."""
LARGE: Final = 1 << 20
"""Bytes from which on a value is copied to page-locked memory beside the loop."""
_NAMED: Final = 3
"""So many of the largest holders an error names."""
_FULL: Final = 0.7
"""A GPU counts as nearly full from this share of its memory on."""


class SwappedValue(NamedTuple):
    """An array in page-locked host memory, complete once the event is done.

    The cell holds the GPU array until `release`.
    """

    host: Host
    after: Event
    cell: list[Array]


class Gpu:
    """One GPU.

    Attributes:
        name: its full name.
        spec: the name in parts.
        kind: GPU.
        incarnation: a number no other device ever has.
        memory: what its kernels made and is still alive, where that is accounted for.
        accounts: `memory`, if it is accounted for.
        xp: its array namespace.
        compute: the stream of its kernels.
        to_host: the stream of copies to the host.
        from_host: the stream of copies from the host and from other devices.
    """

    kind: Final = DeviceKind.GPU

    def __init__(
        self, driver: Driver, name: str, *, memory_limit: int | None = None, track_memory: bool = False
    ) -> None:
        """Open the device.

        Args:
            driver: the GPU itself.
            name: its full name.
            memory_limit: how many bytes its arrays may take up; None for all there are.
            track_memory: whether what each op makes is accounted for, also without a limit.
        """
        self.name: Final = name
        self.spec: Final = DeviceSpec.from_string(name)
        self.incarnation: Final = secrets.randbits(63)
        self.memory: Final = Ledger(name, memory_limit, driver.array_type)
        self.accounts: Final = self.memory if track_memory or memory_limit is not None else None
        self.driver: Final = driver
        self.xp: Final[Namespace] = driver.xp
        with driver.select():
            self.compute: Final[Stream] = driver.stream()
            self.to_host: Final[Stream] = driver.stream()
            self.from_host: Final[Stream] = driver.stream()
            if memory_limit is not None:
                driver.limit_memory(memory_limit)
        self._completion: Final = driver.completion()
        self._copying: ThreadPoolExecutor | None = None
        self._entered: list[Any] = []
        self._kept: dict[int, deque[tuple[Event, tuple[Any, ...]]]] = {}

    # Enqueueing

    def __enter__(self) -> None:
        """Kernels called from here on go to its stream. Only around synchronous code."""
        context = self.driver.select()
        context.__enter__()
        self.compute.__enter__()
        self._entered.append(context)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Leave the stream. What CUDA raised becomes an OpError."""
        self.compute.__exit__(kind, error, trace)
        self._entered.pop().__exit__(kind, error, trace)
        if error is not None:
            self.reraise(error)

    def reraise(self, error: BaseException) -> None:
        """Raise the OpError of what CUDA raised, where that was raised; nothing for any other error."""
        found = self.driver.translate(error)
        if found is None:
            return
        found.message = f"{self.name}: {found.message}"
        if isinstance(found, errors.ResourceExhaustedError):
            found.message += "".join([f"; {holder.op!r} made {holder.bytes:,} bytes" for holder in self._largest()])
        try:
            raise found.with_traceback(error.__traceback__) from error
        finally:
            del found, error  # no frame keeps them: their tracebacks would keep that frame, and arrays with it

    def _largest(self) -> list[Holder]:
        return [] if self.accounts is None else self.accounts.by_op()[:_NAMED]

    def share_out(self, work: Callable[[int, int], object], size: int) -> None:
        """Run work(begin, end) once, for all of range(size): a kernel of a GPU uses all of its cores by itself."""
        work(0, size)

    def holds(self, value: Array) -> bool:
        """Whether it is an array in a GPU's memory."""
        return isinstance(value, self.driver.array_type)

    # Ordering

    def mark(self) -> Event:
        """The point after all kernels enqueued so far."""
        with self.driver.select():
            return self.driver.record(self.compute)

    def keep(self, stream: Stream, *things: Any) -> Event:
        """Refer to things until what is enqueued on the stream now is done. Returns that point."""
        with self.driver.select():
            event = self.driver.record(stream)
        self._kept.setdefault(id(stream), deque()).append((event, things))
        self.sweep()
        return event

    def sweep(self) -> None:
        """Let go of what no stream uses any more."""
        for kept in self._kept.values():
            while kept and kept[0][0].done:
                kept.popleft()

    async def wait_until_done(self, event: Event, *keep: Any) -> None:
        """Wait until the event is done; `keep` stays alive until then, also if the wait is cancelled."""
        try:
            await self._completion.wait_until_done(event, *keep)
        except Exception as error:
            self.reraise(error)
            raise
        finally:
            self.sweep()

    async def settled(self) -> None:
        """Wait for all kernels and copies enqueued so far. What went wrong in one of them is raised."""
        for stream in (self.from_host, self.compute, self.to_host):
            with self.driver.select():
                event = self.driver.record(stream)
            await self.wait_until_done(event)

    # Copies

    def copy_in(self, value: Host) -> Array:
        """A copy in its memory, for kernels enqueued from now on. The value may be changed afterwards."""
        pinned = self.driver.pinned(value.shape, value.dtype)
        np.copyto(pinned, value)
        return self._copy_pinned(pinned)

    async def copy_in_large(self, value: Host) -> Array:
        """The same, while the loop turns: a thread copies the value to page-locked memory.

        It must not be changed before; cancelling leaves the thread to its work.
        """
        if value.nbytes < LARGE:
            return self.copy_in(value)
        pinned = self.driver.pinned(value.shape, value.dtype)
        if self._copying is None:
            self._copying = ThreadPoolExecutor(1, f"aioflow-copy-GPU{self.spec.device_index}")
        await asyncio.get_running_loop().run_in_executor(self._copying, np.copyto, pinned, value)
        return self._copy_pinned(pinned)

    def _copy_pinned(self, pinned: Host) -> Array:
        target = self._landing_array(pinned.shape, pinned.dtype)
        with self.driver.select():
            self.driver.to_device(pinned, target, self.from_host)
        self.compute.wait_event(self.keep(self.from_host, pinned))
        return target

    def copy_from_gpu(self, value: Array, after: Event) -> Array:
        """A copy of another GPU's array in its memory, for kernels enqueued from now on."""
        target = self._landing_array(value.shape, value.dtype)
        with self.driver.select():
            self.from_host.wait_event(after)
            self.driver.device_to_device(value, target, self.from_host)
        self.compute.wait_event(self.keep(self.from_host, value))
        return target

    def _landing_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array that a copy will fill. Its memory is used again only behind the kernels that may have read it."""
        stream, mark = self.from_host, self.mark
        try:
            with self.driver.select():
                return self.driver.landing_array(shape, dtype, stream, lambda: stream.wait_event(mark()))
        except Exception as error:
            self.reraise(error)
            raise

    def contiguous(self, value: Array) -> Array:
        """The value, or a contiguous copy of it."""
        if value.flags.c_contiguous:
            return value
        with self:
            return self.xp.ascontiguousarray(value)

    def copy_out(self, value: Array, after: Event) -> tuple[Host, Event]:
        """Host memory that will hold the contiguous value once the event is done. Both have to be kept until then."""
        driver = self.driver
        pinned = driver.pinned(value.shape, value.dtype)
        with driver.select():
            self.to_host.wait_event(after)
            driver.to_host(value, pinned, self.to_host)
            return pinned, self.keep(self.to_host, value, pinned)

    def swap_out(self, value: Array) -> SwappedValue:
        """Enqueue a copy of the value to host memory.

        The GPU memory of the value is held until `release` or until the copy is done.
        """
        cell = [self.contiguous(value)]
        pinned = self.driver.pinned(value.shape, value.dtype)
        with self.driver.select():
            self.to_host.wait_event(self.mark())
            self.driver.to_host(cell[0], pinned, self.to_host)
        return SwappedValue(pinned, self.keep(self.to_host, cell, pinned), cell)

    def release(self, away: SwappedValue) -> None:
        """Give up the GPU memory of the swapped-out value: kernels enqueued from now on wait for the copy."""
        self.compute.wait_event(away.after)
        away.cell.clear()

    def swap_in(self, away: SwappedValue) -> Array:
        """The swapped-out value in GPU memory, for kernels enqueued from now on. The copy waits for earlier kernels."""
        stream, host = self.from_host, away.host
        with self.driver.select():
            stream.wait_event(away.after)
            stream.wait_event(self.mark())
        target = self._landing_array(host.shape, host.dtype)
        with self.driver.select():
            self.driver.to_device(host, target, stream)
        self.compute.wait_event(self.keep(stream, host))
        return target

    @property
    def is_nearly_full(self) -> bool:
        """Whether its arrays take up most of their limit, or most of its memory."""
        return self.driver.used_bytes() > _FULL * self.driver.capacity()

    def peek(self, value: Array) -> Host:
        """What it comes to, in host memory. Blocks the thread until that is there: for checks alone."""
        home, event = self.copy_out(self.contiguous(value), self.mark())
        event.synchronize()
        return home

    # Its life

    async def shut_down(self, limit: float) -> bool:
        """Wait until it has done what it was given, and end its threads; False if that takes more than `limit` s."""
        with contextlib.suppress(TimeoutError, errors.OpError):
            async with asyncio.timeout(limit):
                await self.settled()
        return self.close(_LAST_LIMIT)

    def close(self, limit: float = _CLOSE_LIMIT) -> bool:
        """End its threads; False if after so many seconds the GPU has not ended what it was given."""
        if self._copying is not None:
            self._copying.shutdown()
            self._copying = None
        ended = self._completion.close(limit)
        self.sweep()
        return ended

    def __repr__(self) -> str:
        return f"<Gpu {self.name} {self.driver.used_bytes()} bytes used>"


@types.coroutine
def on_stream(gpu: Gpu, kernel: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
    """Drive a coroutine with the GPU's stream current while it computes, and never while it waits."""
    step: Any = kernel.send
    value: Any = None
    while True:
        with gpu:
            try:
                waiting_on = step(value)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            finally:
                value = None  # an error's traceback leads here
        try:
            step, value = kernel.send, (yield waiting_on)
        except BaseException as error:
            step, value = kernel.throw, error
