"""Simulated GPUs, on which the whole logic of the GPU device runs on any machine, deterministically.

    machine = Machine()
    gpu = Gpu(FakeGpu(machine), "/job:localhost/replica:0/task:0/device:GPU:0")
    with gpu:
        y = gpu.xp.add(x, 1)

A fake GPU has its own memory, ordered streams and events, counted copies and launches, a memory limit, and failures on
demand. Work runs only when the machine is ticked, by the loop's clock or by a caller that blocks on an event. An error
that real hardware shows only now and then, such as a read without an event before it, raises at once.
"""

import asyncio
import contextlib
import copy
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from aioflow import errors
from aioflow.devices.completion import EventWatcher
from aioflow.devices.driver import Completion, Host
from aioflow.tensors.dtypes import Namespace, bfloat16
from aioflow.testing.fake_arrays import FakeArray
from aioflow.testing.fake_graphs import CapturedCall, FakeGraph
from aioflow.testing.fake_memory import Block, Loan, Pool
from aioflow.testing.fake_namespace import FakeNamespace
from aioflow.testing.fake_streams import FakeEvent, FakeStream, GpuFailure, Machine, OutOfMemory

R = TypeVar("R")

_GARBAGE: Final = 0xA5
"""The byte that fills new memory."""


class FakeGpu:
    """One GPU of a machine: a `Driver`.

    Attributes:
        used: bytes of the live arrays.
        peak: the largest value of `used` so far.
        limit: the most bytes that arrays may have; None for no limit.
        fail_next: the error of the next kernel: while it runs, or at its launch for an OutOfMemory.
    """

    array_type = FakeArray

    def __init__(
        self, machine: Machine, index: int = 0, *, limit: int | None = None, threads: bool = False, period: float = 1e-4
    ) -> None:
        """Add a GPU to the machine.

        Args:
            machine: its machine.
            index: its number.
            limit: bytes of memory.
            threads: whether a thread waits for events, as with CUDA; else the loop's clock ticks the machine.
            period: seconds between two ticks.
        """
        self.machine: Final = machine
        self.index: Final = index
        self.xp: Namespace = FakeNamespace(machine)
        self.used = 0
        self.peak = 0
        self.limit = limit
        self.fail_next: Exception | None = None
        self._threads = threads
        self._period = period
        self._count = 0
        self._pool: Final = Pool(self)

    # Called by the device

    def select(self) -> contextlib.AbstractContextManager[Any]:
        """Do nothing, since streams know their GPU."""
        return contextlib.nullcontext()

    def stream(self) -> FakeStream:
        """Return a new stream."""
        self._count += 1
        return FakeStream(self.machine, self, f"gpu{self.index}.{self._count}")

    def close_stream(self, stream: FakeStream) -> None:
        """Let the stream go."""
        stream.closed = True

    def record(self, stream: FakeStream, timed: bool = False) -> FakeEvent:
        """Return the event after all work that is enqueued on the stream now."""
        return stream.record(timed)

    def elapsed(self, first: FakeEvent, last: FakeEvent) -> float:
        """Return the time between two events, a microsecond per tick."""
        return (last.tick - first.tick) * 1e-6

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Host:
        """Return new page-locked host memory, filled with garbage."""
        root = np.full(max(1, int(np.prod(shape)) * dtype.itemsize), _GARBAGE, np.uint8)
        found: Host = root[: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)
        _PINNED[id(root)] = root
        return found

    def landing_array(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: FakeStream, on_free: Callable[[], object]
    ) -> FakeArray:
        """Return a new array in memory of that stream, filled with zeros."""
        made = self._new_array(np.zeros(shape, dtype), stream)
        assert isinstance(made._block, Block)
        made._block.on_free = on_free
        return made

    def to_device(self, source: Host, target: FakeArray, stream: FakeStream) -> None:
        """Enqueue a copy from page-locked memory, including the data of enqueued copies to that memory."""
        ref = self._check_copy(source, target, stream)
        coming = _PENDING_COPIES.get(id(ref()))
        now = source.copy() if coming is None else np.frombuffer(coming, source.dtype).reshape(source.shape)

        def copy() -> None:
            root = ref()
            if root is None or root.tobytes()[: now.nbytes] != now.tobytes():
                self.machine.race("page-locked memory was freed or changed before it was copied")

        self._use([(target, True)], stream, stream.enqueue(copy))
        target._data[...] = now
        self._count_copy("H2D", now.nbytes)

    def to_host(self, source: FakeArray, target: Host, stream: FakeStream) -> None:
        """Enqueue a copy to page-locked memory."""
        ref = self._check_copy(target, source, stream)
        now = source._data.tobytes()

        def copy() -> None:
            root = ref()
            if root is None:
                self.machine.race("page-locked memory was freed before it was copied to")
            else:
                root[: len(now)] = np.frombuffer(now, np.uint8)
                _PENDING_COPIES.pop(id(root), None)

        _PENDING_COPIES[id(ref())] = now
        self._use([(source, False)], stream, stream.enqueue(copy))
        self._count_copy("D2H", len(now))

    def device_to_device(self, source: FakeArray, target: FakeArray, stream: FakeStream) -> None:
        """Enqueue a copy to this GPU."""
        if stream.device is not self or target.device is not self or not source.flags.c_contiguous:
            raise ValueError("the copy needs a contiguous source and a stream of the target GPU")
        self._use([(source, False), (target, True)], stream, stream.enqueue(lambda: None))
        target._data[...] = source._data
        self._count_copy("D2D" if source.device is self else "P2P", source.nbytes)

    def capture(self, work: Callable[[], R], stream: FakeStream) -> tuple[FakeGraph, R]:
        """Return the kernels that `work` calls as a graph, and the result of `work`. Nothing runs.

        Results of kernels are filled with zeros until a launch.
        """
        graph = FakeGraph(self.new_graph_pool(), stream)
        with FakeStream(self.machine, self, f"{stream.name}.capture") as capturing:
            capturing.capture = graph
            try:
                made = work()
            finally:
                capturing.capture = None
                self.machine.streams.remove(capturing)
        return graph, made

    def new_graph_pool(self) -> Pool:
        """Return the memory of a new graph."""
        return Pool(self, of_graph=True)

    def address(self, array: FakeArray) -> int:
        """Return where its first element is."""
        return int(array._data.__array_interface__["data"][0])

    def lend(self, array: FakeArray, on_free: Callable[[], object]) -> FakeArray:
        """Return an array in the memory of that one, which calls `on_free` with its last reference."""
        assert isinstance(array._block, Block)
        return FakeArray(array._data, Loan(array._block, self.machine.stream, on_free))

    def limit_memory(self, limit: int) -> None:
        """Set the most bytes that arrays may have."""
        self.limit = limit

    def used_bytes(self) -> int:
        """Return the bytes of the live arrays."""
        return self.used

    def capacity(self) -> float:
        """Return the most bytes that arrays may have."""
        return math.inf if self.limit is None else self.limit

    def translate(self, error: BaseException) -> errors.OpError | None:
        """Return the OpError for an error of the GPU; None for other errors."""
        if isinstance(error, OutOfMemory):
            return errors.ResourceExhaustedError(str(error))
        return errors.UnavailableError(f"the GPU failed: {error}") if isinstance(error, GpuFailure) else None

    def completion(self) -> Completion:
        """Return a thread, or a clock on the loop, that waits for events."""
        return EventWatcher(f"fake-gpu-{self.index}") if self._threads else _Clock(self.machine, self._period)

    # Called by arrays

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        changed: Sequence[Any] = (),
    ) -> Any:
        """Launch a kernel: apply the function to the arrays on the current stream."""
        stream = self.machine.stream
        if stream.device is not self:
            raise ValueError(f"an array of GPU {self.index} is used while GPU {stream.device.index} is current")
        used: list[FakeArray] = []
        bare = [_unwrap(value, used) for value in args]
        if name in ("dot", "matmul") and any(array.dtype == bfloat16.np for array in used):
            function = _summed_as_float32(function)
        named = {key: _unwrap(value, used) for key, value in (kwargs or {}).items()}
        strange = [array for array in used if array.device is not self]
        if strange:
            raise ValueError(f"{name}: an array of GPU {strange[0].device.index} is used on GPU {self.index}")
        failure, self.fail_next = self.fail_next, None
        if isinstance(failure, OutOfMemory) or (failure is not None and stream.capture is not None):
            raise copy.copy(failure)  # a copy, without the traceback to here
        of_changed = [array for array in used if any(array is each for each in changed)]
        if stream.capture is not None:
            return self._record(stream.capture, name, function, bare, named, used, of_changed)
        with np.errstate(all="ignore"):
            result = function(*bare, **named)
        number = stream.enqueue(_make_work(failure))
        self.machine.launches[name] += 1
        self._use([(array, any(array is each for each in of_changed)) for array in used], stream, number)

        def filled(data: Any) -> FakeArray:
            made = self._new_array(data, stream)
            self._use([(made, True)], stream, number)
            return made

        return _wrap(result, used, filled)

    def _record(
        self,
        graph: FakeGraph,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        used: Sequence[FakeArray],
        changed: Sequence[FakeArray],
    ) -> Any:
        """Append a kernel to the graph. It computes here only to find out the shapes of its results."""
        before = [array._data.copy() for array in changed]
        with np.errstate(all="ignore"):
            result = function(*args, **kwargs)
        for array, data in zip(changed, before, strict=True):
            array._data[...] = data
        targets: list[Any] = []
        made: list[FakeArray] = []

        def empty(data: Any) -> FakeArray:
            made.append(self._new_array(np.zeros_like(data), graph.stream, graph.pool))
            targets.append(made[-1]._data)
            return made[-1]

        wrapped = _wrap(result, used, empty, lambda: targets.append(None))
        reads, changes = ([array._block.buffer for array in arrays] for arrays in (used, [*changed, *made]))
        graph.calls.append(CapturedCall(name, function, args, kwargs, targets, reads, changes))
        return wrapped

    def launch_graph(self, graph: FakeGraph, stream: FakeStream) -> None:
        """Launch all kernels of a graph as one."""
        failure, self.fail_next = self.fail_next, None
        if isinstance(failure, OutOfMemory):
            raise copy.copy(failure)
        number = stream.enqueue(_make_work(failure))
        self.machine.launches["graph"] += 1
        graph.run(stream, number)

    def from_host(self, data: Any) -> FakeArray:
        """Copy a host array, like `cupy.asarray`."""
        stream = self.machine.stream
        number = stream.enqueue(lambda: None)
        made = self._new_array(np.array(data), stream)
        self._use([(made, True)], stream, number)
        self._count_copy("H2D", made.nbytes)
        return made

    def _new_array(self, data: Any, stream: FakeStream, pool: Pool | None = None) -> FakeArray:
        if (data.dtype.isbuiltin != 1 and data.dtype != bfloat16.np) or data.dtype.hasobject:
            raise TypeError(f"a GPU has no dtype {data.dtype}")
        block = Block(self, stream, data.nbytes, pool or self._pool)
        array = block.array(data)
        array[...] = data
        return FakeArray(array, block)

    @staticmethod
    def _use(arrays: Sequence[tuple[FakeArray, bool]], stream: FakeStream, number: int) -> None:
        for array, changes in arrays:
            array._block.buffer.use(stream, number, changes)

    def _check_copy(self, host: Host, array: FakeArray, stream: FakeStream) -> "weakref.ref[Any]":
        root: Any = host
        while root.base is not None:
            root = root.base
        if _PINNED.get(id(root)) is not root:
            raise ValueError("a stream copies only from and to page-locked memory")
        if stream.device is not self or array.device is not self or not array.flags.c_contiguous:
            raise ValueError("the copy needs a contiguous array and a stream of its GPU")
        if host.shape != array.shape or host.dtype != array.dtype:
            raise ValueError(f"{host.dtype}{list(host.shape)} does not fit {array!r}")
        return weakref.ref(root)

    def _count_copy(self, kind: str, size: int) -> None:
        self.machine.copies[kind] += 1
        self.machine.copied[kind] += size

    def __repr__(self) -> str:
        return f"<FakeGpu {self.index} {self.used} bytes used>"


_PINNED: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()
"""{id: page-locked memory}."""
_PENDING_COPIES: Final[dict[int, bytes]] = {}
"""{id of page-locked memory: the data of an enqueued copy to it}."""


def _unwrap(value: Any, used: list[FakeArray]) -> Any:
    """Replace fake arrays in the value by NumPy arrays, and append them to `used`. TypeError for a host array."""
    if isinstance(value, FakeArray):
        used.append(value)
        return value._data
    if isinstance(value, np.ndarray):
        raise TypeError("unsupported type numpy.ndarray: a kernel takes no host array")
    if isinstance(value, (tuple, list)):
        return type(value)([_unwrap(part, used) for part in value])
    return value


def _wrap(
    result: Any,
    used: Sequence[FakeArray],
    new: Callable[[Any], FakeArray],
    seen: Callable[[], object] = lambda: None,
) -> Any:
    """Replace the arrays of a result: by a used array or a view of it, after `seen()`, or else by a new one."""
    if isinstance(result, (tuple, list)):
        parts = [_wrap(part, used, new, seen) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    for array in used:
        if result is array._data or np.may_share_memory(result, array._data):
            seen()
            return array if result is array._data else FakeArray(result, array._block, array)
    return new(np.asarray(result))


def _summed_as_float32(product: Callable[..., Any]) -> Callable[..., Any]:
    """Return a product of bfloat16 that adds up as cuBLAS does, and rounds once."""

    def call(a: Any, b: Any, out: Any = None) -> Any:
        made = np.asarray(product(a.astype(np.float32), b.astype(np.float32))).astype(bfloat16.np)
        if out is None:
            return made
        out[...] = made
        return out

    return call


def _make_work(failure: Exception | None) -> Callable[[], object]:
    def run() -> None:
        if failure is not None:
            raise failure

    return run


class _Clock:
    """Waits for events by ticking the machine with timers of the loop."""

    def __init__(self, machine: Machine, period: float) -> None:
        self._machine = machine
        self._period = period
        self._kept: dict[asyncio.Future[None], tuple[FakeEvent, tuple[Any, ...]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def wait_until_done(self, event: Any, *keep: Any) -> None:
        """Wait until the event is done."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._kept[future] = event, keep
        if self._timer is None:
            self._timer = loop.call_later(self._period, self._tick, loop)
        await future
        event.synchronize()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._machine.tick()
        for future, (event, _) in list(self._kept.items()):
            if event.done:
                del self._kept[future]
                if not future.done():
                    future.set_result(None)
        if self._kept and not self._machine.held:
            self._timer = loop.call_later(self._period, self._tick, loop)

    def close(self, limit: float) -> bool:
        """Stop ticking. Returns whether no wait was in progress."""
        if self._timer is not None:
            self._timer.cancel()
        return not self._kept
