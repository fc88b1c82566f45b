"""GPUs that are not there: the device's whole logic runs on them, on any machine, without luck.

    machine = Machine()
    gpu = Gpu(FakeGpu(machine), "/job:localhost/replica:0/task:0/device:GPU:0")
    with gpu:
        y = gpu.xp.add(x, 1)

A fake GPU has memory of its own, ordered streams and events, counted copies and launches, a limit of memory, and
failures on demand. Nothing runs until the machine is ticked, by the loop's clock or by who blocks on an event. What
only real hardware would show now and then, as a read without an event before it, raises at once.
"""

import asyncio
import contextlib
import copy
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.devices.completion import EventWatcher
from aioflow.devices.driver import Completion, Host
from aioflow.tensors.dtypes import Namespace
from aioflow.testing.fake_arrays import Block, FakeArray
from aioflow.testing.fake_namespace import FakeNamespace
from aioflow.testing.fake_streams import FakeEvent, FakeStream, GpuFailure, Machine, OutOfMemory

_GARBAGE: Final = 0xA5
"""What new memory is filled with."""


class FakeGpu:
    """One GPU of a machine: a `Driver`.

    Attributes:
        used: bytes that live arrays take up.
        peak: the most that they ever did.
        limit: how many they may take up; None for any number.
        fail_next: what the next kernel fails with: while it runs, or at its launch if it is an OutOfMemory.
    """

    array_type = FakeArray

    def __init__(
        self, machine: Machine, index: int = 0, *, limit: int | None = None, threads: bool = False, period: float = 1e-4
    ) -> None:
        """Plug a GPU into the machine.

        Args:
            machine: where it is plugged in.
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

    # What the device asks of it

    def select(self) -> contextlib.AbstractContextManager[Any]:
        """Nothing to do: its streams know their GPU."""
        return contextlib.nullcontext()

    def stream(self) -> FakeStream:
        """A new stream."""
        self._count += 1
        return FakeStream(self.machine, self, f"gpu{self.index}.{self._count}")

    def record(self, stream: FakeStream, timed: bool = False) -> FakeEvent:
        """The point after all that is enqueued on the stream now."""
        return stream.record(timed)

    def elapsed(self, first: FakeEvent, last: FakeEvent) -> float:
        """A microsecond for each tick."""
        return (last.tick - first.tick) * 1e-6

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Host:
        """Host memory that streams copy from and to, full of garbage."""
        root = np.full(max(1, int(np.prod(shape)) * dtype.itemsize), _GARBAGE, np.uint8)
        found: Host = root[: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)
        _PINNED[id(root)] = root
        return found

    def landing_array(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: FakeStream, on_free: Callable[[], object]
    ) -> FakeArray:
        """A new array in memory of that stream."""
        made = self._made(np.empty(shape, dtype), stream)
        made._block.on_free = on_free
        return made

    def to_device(self, source: Host, target: FakeArray, stream: FakeStream) -> None:
        """Enqueue a copy out of page-locked memory, including the data of copies to it that are still enqueued."""
        ref = self._checked(source, target, stream)
        coming = _COMING.get(id(ref()))
        now = source.copy() if coming is None else np.frombuffer(coming, source.dtype).reshape(source.shape)

        def copy() -> None:
            root = ref()
            if root is None or root.tobytes()[: now.nbytes] != now.tobytes():
                self.machine.race("page-locked memory was freed or changed before it was copied")

        self._use([(target, True)], stream, stream.enqueue(copy))
        target._data[...] = now
        self._count_copy("H2D", now.nbytes)

    def to_host(self, source: FakeArray, target: Host, stream: FakeStream) -> None:
        """Enqueue a copy into page-locked memory."""
        ref = self._checked(target, source, stream)
        now = source._data.tobytes()

        def copy() -> None:
            root = ref()
            if root is None:
                self.machine.race("page-locked memory was freed before it was copied to")
            else:
                root[: len(now)] = np.frombuffer(now, np.uint8)
                _COMING.pop(id(root), None)

        _COMING[id(ref())] = now
        self._use([(source, False)], stream, stream.enqueue(copy))
        self._count_copy("D2H", len(now))

    def device_to_device(self, source: FakeArray, target: FakeArray, stream: FakeStream) -> None:
        """Enqueue a copy to this GPU."""
        if stream.device is not self or target.device is not self or not source.flags.c_contiguous:
            raise ValueError("a contiguous array is copied by a stream of the GPU it goes to")
        self._use([(source, False), (target, True)], stream, stream.enqueue(lambda: None))
        target._data[...] = source._data
        self._count_copy("D2D" if source.device is self else "P2P", source.nbytes)

    def limit_memory(self, limit: int) -> None:
        """Arrays may take up so many bytes from now on."""
        self.limit = limit

    def used_bytes(self) -> int:
        """What its live arrays take up."""
        return self.used

    def capacity(self) -> float:
        """The bytes that the arrays may take up."""
        return math.inf if self.limit is None else self.limit

    def translate(self, error: BaseException) -> errors.OpError | None:
        """The OpError of what it raises."""
        if isinstance(error, OutOfMemory):
            return errors.ResourceExhaustedError(str(error))
        return errors.UnavailableError(f"the GPU failed: {error}") if isinstance(error, GpuFailure) else None

    def completion(self) -> Completion:
        """A thread, or the loop's clock."""
        return EventWatcher(f"fake-gpu-{self.index}") if self._threads else _Clock(self.machine, self._period)

    # What its arrays ask of it

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        changed: Sequence[Any] = (),
    ) -> Any:
        """Launch a kernel: what the function makes of the arrays, on the current stream."""
        stream = self.machine.stream
        if stream.device is not self:
            raise ValueError(f"an array of GPU {self.index} is used while GPU {stream.device.index} is current")
        used: list[FakeArray] = []
        bare = [_bare(value, used) for value in args]
        named = {key: _bare(value, used) for key, value in (kwargs or {}).items()}
        strange = [array for array in used if array.device is not self]
        if strange:
            raise ValueError(f"{name}: an array of GPU {strange[0].device.index} is used on GPU {self.index}")
        failure, self.fail_next = self.fail_next, None
        if isinstance(failure, OutOfMemory):
            raise copy.copy(failure)  # its traceback leads here
        with np.errstate(all="ignore"):
            result = function(*bare, **named)
        number = stream.enqueue(_failing(failure))
        self.machine.launches[name] += 1
        self._use([(array, any(array is each for each in changed)) for array in used], stream, number)
        return self._wrapped(result, used, stream, number)

    def from_host(self, data: Any) -> FakeArray:
        """A copy of an array of the host, as `cupy.asarray` makes one."""
        stream = self.machine.stream
        made = self._made(np.array(data), stream)
        self._use([(made, True)], stream, stream.enqueue(lambda: None))
        self._count_copy("H2D", made.nbytes)
        return made

    def _wrapped(self, result: Any, used: list[FakeArray], stream: FakeStream, number: int) -> Any:
        if isinstance(result, (tuple, list)):
            parts = [self._wrapped(part, used, stream, number) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
        if not isinstance(result, (np.ndarray, np.generic)):
            return result
        for array in used:
            if result is array._data:
                return array
            if np.may_share_memory(result, array._data):
                return FakeArray(result, array._block, array)
        made = self._made(np.asarray(result), stream)
        self._use([(made, True)], stream, number)
        return made

    def _made(self, data: Any, stream: FakeStream) -> FakeArray:
        if data.dtype.isbuiltin != 1 or data.dtype.hasobject:
            raise TypeError(f"a GPU has no dtype {data.dtype}")
        return FakeArray(data, Block(self, stream, data.nbytes))

    @staticmethod
    def _use(arrays: Sequence[tuple[FakeArray, bool]], stream: FakeStream, number: int) -> None:
        for array, changes in arrays:
            array._block.use(stream, number, changes)

    def _checked(self, host: Host, array: FakeArray, stream: FakeStream) -> "weakref.ref[Any]":
        root: Any = host
        while root.base is not None:
            root = root.base
        if _PINNED.get(id(root)) is not root:
            raise ValueError("a stream copies from and to page-locked memory alone")
        if stream.device is not self or array.device is not self or not array.flags.c_contiguous:
            raise ValueError("a contiguous array is copied by a stream of its own GPU")
        if host.shape != array.shape or host.dtype != array.dtype:
            raise ValueError(f"{host.dtype}{list(host.shape)} is not like {array!r}")
        return weakref.ref(root)

    def _count_copy(self, kind: str, size: int) -> None:
        self.machine.copies[kind] += 1
        self.machine.copied[kind] += size

    def __repr__(self) -> str:
        return f"<FakeGpu {self.index} {self.used} bytes used>"


_PINNED: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()
"""Page-locked memory by its id."""
_COMING: Final[dict[int, bytes]] = {}
"""The data of enqueued copies that are not done, by the id of their page-locked target."""


def _bare(value: Any, used: list[FakeArray]) -> Any:
    """The value as NumPy takes it; the arrays in it are noted. TypeError for an array of the host."""
    if isinstance(value, FakeArray):
        used.append(value)
        return value._data
    if isinstance(value, np.ndarray):
        raise TypeError("unsupported type numpy.ndarray: a kernel takes no array of the host")
    if isinstance(value, (tuple, list)):
        return type(value)([_bare(part, used) for part in value])
    return value


def _failing(failure: Exception | None) -> Callable[[], object]:
    def run() -> None:
        if failure is not None:
            raise failure

    return run


class _Clock:
    """The loop's clock as the hardware: while somebody waits, the machine is ticked."""

    def __init__(self, machine: Machine, period: float) -> None:
        self._machine = machine
        self._period = period
        self._kept: dict[asyncio.Future[None], tuple[FakeEvent, tuple[Any, ...]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def wait_until_done(self, event: Any, *keep: Any) -> None:
        """Wait for the event."""
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
        """Stop ticking."""
        if self._timer is not None:
            self._timer.cancel()
        return not self._kept
