"""The GPU device: it enqueues kernels and copies, which return at once, and its waits hold no thread.

A device has one stream for kernels and one for copies in each direction. Kernels are enqueued on the loop's own thread
inside `with gpu:`. Their result is an array that is not yet filled; work enqueued later on the same stream runs after
them. Only code that needs a value on the host or on another device waits for an event, with `wait_until_done`.

CuPy's current stream belongs to the thread and not to the task, so `with gpu:` contains synchronous code only, never an
`await`. `on_stream` drives a kernel that waits: it enters the stream while the kernel computes and leaves it while the
kernel waits.

Memory is ordered by streams. Freed memory may be reused at once by later work on its stream, which is right if only one
stream uses it. If two do, `keep` holds an array until an event of the other stream is done, and the memory of a copy's
target returns behind the kernels that read it.

Records when a GPU's stream ran the kernels, and not when they were enqueued.

Compiles chains of element-wise ops to one GPU kernel, which reads and writes each element once.

The kernel's text comes from a fixed table, in an order that the plan gives; no part of it comes from a user or a peer.
CuPy compiles it at the first call. `select(c, a, b)` stands for C's `c ? a : b`.
"""

import asyncio
import contextlib
import dataclasses
import secrets
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from aioflow import errors
from aioflow.devices.driver import Driver, Event, Host, Stream
from aioflow.devices.memory import Holder, Ledger
from aioflow.graph.device_spec import DeviceSpec
from aioflow.tensors.dtypes import Array, DeviceKind, DType, Namespace, bfloat16, float32, float64
from aioflow.tracing import RunMetadata, Trace

R = TypeVar("R")
_CLOSE_LIMIT: Final = 5.0
"""Seconds that `close` waits for the GPU."""
_LAST_LIMIT: Final = 0.1
"""Seconds that `close` waits after `shut_down` has waited."""
LARGE: Final = 1 << 20
"""The bytes from which a thread, and not the loop, copies a value to page-locked memory."""
_NAMED: Final = 3
"""The number of largest holders that an error names."""
_FULL: Final = 0.7
"""The share of used memory from which a GPU counts as nearly full."""


class SwappedValue(NamedTuple):
    """A value swapped out to page-locked host memory, which is complete after the event.

    The cell holds the GPU array until `release`.
    """

    host: Host
    after: Event
    cell: list[Array]


@dataclasses.dataclass(slots=True)
class GraphCounts:
    """The CUDA graphs of a GPU.

    Attributes:
        captures: the number of captures.
        launches: the number of launches.
        failures: the kernels that could not be captured, with the reasons.
    """

    captures: int = 0
    launches: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)


class Gpu:
    """One GPU.

    Attributes:
        name: its full name.
        spec: the name in parts.
        kind: GPU.
        incarnation: a number that no other device ever has.
        memory: the ledger of the live results of its kernels; see `accounts`.
        accounts: `memory`, or None if memory is neither limited nor tracked.
        graphs: the counts of its CUDA graphs.
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
            memory_limit: the most bytes of its arrays; None for all memory.
            track_memory: whether results are charged to their ops even without a limit.
        """
        self.name: Final = name
        self.spec: Final = DeviceSpec.from_string(name)
        self.incarnation: Final = secrets.randbits(63)
        self.memory: Final = Ledger(name, memory_limit, driver.array_type)
        self.accounts: Final = self.memory if track_memory or memory_limit is not None else None
        self.graphs: Final = GraphCounts()
        self.driver: Final = driver
        self.xp: Final[Namespace] = driver.xp
        with driver.select():
            self.compute: Final[Stream] = driver.stream()
            self.to_host: Final[Stream] = driver.stream()
            self.from_host: Final[Stream] = driver.stream()
            if memory_limit is not None:
                driver.limit_memory(memory_limit)
        self._completion: Final = driver.completion()
        self._closed = False
        self._copying: ThreadPoolExecutor | None = None
        self._entered: list[Any] = []
        self._kept: dict[int, deque[tuple[Event, tuple[Any, ...]]]] = {}

    # Enqueueing

    def __enter__(self) -> None:
        """Send the kernels called inside the block to its stream. The block must be synchronous."""
        context = self.driver.select()
        context.__enter__()
        self.compute.__enter__()
        self._entered.append(context)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Leave the stream. An error of CUDA becomes an OpError."""
        self.compute.__exit__(kind, error, trace)
        self._entered.pop().__exit__(kind, error, trace)
        if error is not None:
            self.reraise(error)

    def reraise(self, error: BaseException) -> None:
        """Raise the OpError for an error of CUDA, with its traceback. Return for other errors."""
        found = self.driver.translate(error)
        if found is None:
            return
        found.message = f"{self.name}: {found.message}"
        if isinstance(found, errors.ResourceExhaustedError):
            found.message += "".join([f"; {holder.op!r} made {holder.bytes:,} bytes" for holder in self._largest()])
        try:
            raise found.with_traceback(error.__traceback__) from error
        finally:
            del found, error  # their tracebacks refer to this frame and so to arrays

    def _largest(self) -> list[Holder]:
        return [] if self.accounts is None else self.accounts.by_op()[:_NAMED]

    def share_out(self, work: Callable[[int, int], object], size: int) -> None:
        """Run work(begin, end) once for all of range(size), since a GPU's kernel uses all cores by itself."""
        work(0, size)

    def holds(self, value: Array) -> bool:
        """Whether `value` is an array in a GPU's memory."""
        return isinstance(value, self.driver.array_type)

    # Ordering

    def mark(self) -> Event:
        """Return an event after all kernels enqueued so far."""
        with self.driver.select():
            return self.driver.record(self.compute)

    def keep(self, stream: Stream, *things: Any) -> Event:
        """Keep `things` alive until the work enqueued on the stream so far is done. Returns the event of that."""
        with self.driver.select():
            event = self.driver.record(stream)
        self._kept.setdefault(id(stream), deque()).append((event, things))
        self.sweep()
        return event

    def sweep(self) -> None:
        """Release the things that no stream uses any more."""
        for kept in self._kept.values():
            while kept and kept[0][0].done:
                kept.popleft()

    async def wait_until_done(self, event: Event, *keep: Any) -> None:
        """Wait until the event is done. `keep` stays alive until then, even if the wait is cancelled."""
        try:
            await self._completion.wait_until_done(event, *keep)
        except Exception as error:
            self.reraise(error)
            raise
        finally:
            self.sweep()

    async def settled(self) -> None:
        """Wait for all kernels and copies enqueued so far. Raises the error of any of them."""
        for stream in (self.from_host, self.compute, self.to_host):
            with self.driver.select():
                event = self.driver.record(stream)
            await self.wait_until_done(event)

    # Copies

    def copy_in(self, value: Host) -> Array:
        """Copy a value to its memory, for kernels enqueued later. The caller may change the value afterwards."""
        pinned = self.driver.pinned(value.shape, value.dtype)
        np.copyto(pinned, value)
        return self._copy_pinned(pinned)

    async def copy_in_large(self, value: Host) -> Array:
        """Copy a large value to its memory without blocking the loop: a thread copies it to page-locked memory.

        The value must not change before the end. If the call is cancelled, the thread still completes its copy.
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
        """Copy another GPU's array to its memory, for kernels enqueued later."""
        target = self._landing_array(value.shape, value.dtype)
        with self.driver.select():
            self.from_host.wait_event(after)
            self.driver.device_to_device(value, target, self.from_host)
        self.compute.wait_event(self.keep(self.from_host, value))
        return target

    def _landing_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array for a copy to fill. Its memory is reused only after the kernels that may have read it."""
        try:
            with self.driver.select():
                return self.driver.landing_array(shape, dtype, self.from_host, self._order_reuse)
        except Exception as error:
            self.reraise(error)
            raise

    def _order_reuse(self) -> None:
        """Let copies to memory that is free now wait for the kernels enqueued so far."""
        if not self._closed:
            self.from_host.wait_event(self.mark())

    def contiguous(self, value: Array) -> Array:
        """Return the value, or a contiguous copy of it."""
        if value.flags.c_contiguous:
            return value
        with self:
            return self.xp.ascontiguousarray(value)

    def copy_out(self, value: Array, after: Event) -> tuple[Host, Event]:
        """Enqueue a copy of a contiguous value to host memory, complete after the returned event.

        The caller keeps both arrays alive until then.
        """
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
        """Release the GPU memory of the swapped-out value. Kernels enqueued later wait for the copy."""
        self.compute.wait_event(away.after)
        away.cell.clear()

    def swap_in(self, away: SwappedValue) -> Array:
        """Return the swapped-out value in GPU memory, for kernels enqueued later.

        The copy waits for earlier kernels.
        """
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
        """Whether its arrays use most of their limit, or most of its memory."""
        return self.driver.used_bytes() > _FULL * self.driver.capacity()

    def peek(self, value: Array) -> Host:
        """Return the value in host memory. Blocks the thread until then: for checks only."""
        home, event = self.copy_out(self.contiguous(value), self.mark())
        event.synchronize()
        return home

    # Closing

    async def shut_down(self, limit: float) -> bool:
        """Wait for its work and end its threads. Returns False if that takes more than `limit` seconds."""
        with contextlib.suppress(TimeoutError, errors.OpError):
            async with asyncio.timeout(limit):
                await self.settled()
        return self.close(_LAST_LIMIT)

    def close(self, limit: float = _CLOSE_LIMIT) -> bool:
        """End its threads. Returns False if the GPU has not finished its work after `limit` seconds."""
        if self._copying is not None:
            self._copying.shutdown()
            self._copying = None
        ended = self._completion.close(limit)
        self.sweep()
        if ended and not self._closed:
            self._closed = True
            for stream in (self.compute, self.to_host, self.from_host):
                self.driver.close_stream(stream)
        return ended

    def __repr__(self) -> str:
        return f"<Gpu {self.name} {self.driver.used_bytes()} bytes used>"


@types.coroutine
def on_stream(gpu: Gpu, kernel: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
    """Drive a coroutine with the GPU's stream current while it computes, and not while it waits."""
    step: Any = kernel.send
    value: Any = None
    while True:
        with gpu:
            try:
                waiting_on = step(value)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            finally:
                value = None  # an error's traceback refers to this frame
        try:
            step, value = kernel.send, (yield waiting_on)
        except BaseException as error:
            step, value = kernel.throw, error


class GpuTrace(Trace):
    """The trace of one GPU in one step. The times of its kernels are known after the GPU has finished the step."""

    def __init__(self, metadata: RunMetadata, gpu: Gpu) -> None:
        super().__init__(metadata, gpu.name, gpu.accounts)
        self._gpu: Final = gpu
        idle = gpu.driver.stream()
        with gpu.driver.select():
            self._zero: Final = gpu.driver.record(idle, timed=True)  # it is done now, since the stream is empty
        gpu.driver.close_stream(idle)
        self._began: Final = self.now()
        self._before: Event | None = None
        self._spans: Final[list[tuple[int, Event, Event]]] = []
        self._stream: Final = metadata.lane_of(self, "compute stream")

    def mark_launch(self) -> None:
        """Mark that the node to be recorded next enqueues its kernel."""
        self._before = self._mark()

    def record(
        self, name: str, op_type: str, waits: bool, scheduled: float, start: float, outputs: Sequence[Array],
        fast: bool = False,
    ) -> None:  # fmt: skip
        """Record one execution. It ends now, unless `mark_launch` was called: then its kernel ends later on the GPU."""
        super().record(name, op_type, waits, scheduled, start, outputs, fast)
        if self._before is not None:
            self._spans.append((len(self.metadata.step_stats) - 1, self._before, self._mark()))
            self._before = None

    def settle(self) -> None:
        """Replace the times by those of the kernels. The GPU must have finished the step."""
        stats = self.metadata.step_stats
        if self._spans:
            self._zero.synchronize()
        for index, before, after in self._spans:
            start, end = self._at(before), self._at(after)
            stats[index] = dataclasses.replace(stats[index], start=start, end=end, thread=self._stream)
        self._spans.clear()

    def _mark(self) -> Event:
        with self._gpu.driver.select():
            return self._gpu.driver.record(self._gpu.compute, timed=True)

    def _at(self, event: Any) -> float:
        return self._began + self._gpu.driver.elapsed(self._zero, event)


EXPRESSIONS: Final = {
    "abs": "fabs({0})",
    "add": "{0} + {1}",
    "ceil": "ceil({0})",
    "cos": "cos({0})",
    "divide": "{0} / {1}",
    "exp": "exp({0})",
    "expm1": "expm1({0})",
    "floor": "floor({0})",
    "gelu_tanh": "{0} * T(0.5) * (tanh({0} * ({0} * {0} * T(0.044715) + 1) * T(0.7978845608028654)) + 1)",
    "identity": "{0}",
    "log": "log({0})",
    "log1p": "log1p({0})",
    "maximum": "select({0} != {0}, {0}, select({0} > {1}, {0}, {1}))",
    "minimum": "select({0} != {0}, {0}, select({0} < {1}, {0}, {1}))",
    "multiply": "{0} * {1}",
    "multiply_no_nan": "select({1} == 0, T(0), T({0} * {1}))",
    "negative": "-{0}",
    "reciprocal": "1 / {0}",
    "relu": "select({0} < 0, T(0), {0})",
    "relu_grad": "{0} * ({1} > 0)",
    "rsqrt": "1 / sqrt({0})",
    "sigmoid": "1 / (1 + exp(-{0}))",
    "sin": "sin({0})",
    "sqrt": "sqrt({0})",
    "square": "{0} * {0}",
    "squared_difference": "({0} - {1}) * ({0} - {1})",
    "subtract": "{0} - {1}",
    "tanh": "tanh({0})",
    "xdivy": "select({0} == 0, T(0), T({0} / {1}))",
}
"""{op: expression of its inputs}; all floats have one dtype."""
PREAMBLE: Final = "template <typename T> __device__ T select(bool c, T a, T b) { return c ? a : b; }"


class ChainLink(NamedTuple):
    """One op of a chain.

    Attributes:
        op: the name of the op.
        reads: the numbers of its operands. The inputs come first, then the results of the links.
    """

    op: str
    reads: Sequence[int]


def fusible(op: str, dtypes: Sequence[DType]) -> bool:
    """Whether an op with these input and output dtypes can be part of a chain: floats of one dtype.

    A value of bfloat16 is computed in float32 and rounded, as by a kernel of its own.
    """
    return op in EXPRESSIONS and set(dtypes) in ({bfloat16}, {float32}, {float64})


def make_chain_kernel(
    xp: Namespace, links: Sequence[ChainLink], inputs: int, results: Sequence[int]
) -> Callable[..., Array]:
    """Return a function of `inputs` arrays, of one shape or of rank 0, that returns the values numbered `results`.

    It returns one array for one number, and a tuple for several.
    """
    lines = []
    for number, link in enumerate(links, inputs):
        text = EXPRESSIONS[link.op].format(*[f"v{read}" for read in link.reads])
        lines.append(f"T v{number} = {text};")
    lines += [f"r{number} = v{number};" for number in results]
    taken = ", ".join([f"T v{number}" for number in range(inputs)])
    given = ", ".join([f"T r{number}" for number in results])
    kernel: Callable[..., Array] = xp.ElementwiseKernel(
        taken, given, "\n".join(lines), "aioflow_chain", preamble=PREAMBLE
    )
    return kernel
