"""NVIDIA's GPUs through CuPy. Only this module imports CuPy, when the devices are first listed."""

import contextlib
import importlib
import importlib.util
import types
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from aioflow import errors
from aioflow.devices.completion import EventWatcher
from aioflow.devices.cublas import Cublas
from aioflow.devices.driver import Completion, Host
from aioflow.devices.graph_memory import GraphMemory
from aioflow.tensors.dtypes import Array, Namespace

R = TypeVar("R")
_STREAMS: Final[set[Any]] = set()
"""All open streams: one that is garbage together with its arrays could end before they are freed, which needs it."""


def device_count() -> int:
    """Return the number of GPUs that this process can use; 0 without CuPy or a driver. Never raises."""
    if importlib.util.find_spec("cupy") is None:
        return 0
    cupy = importlib.import_module("cupy")
    return int(cupy.cuda.runtime.getDeviceCount()) if cupy.cuda.is_available() else 0


def memory_bytes(index: int) -> int:
    """Return how many bytes of memory a GPU of this process has."""
    cupy = importlib.import_module("cupy")
    return int(cupy.cuda.runtime.getDeviceProperties(index)["totalGlobalMem"])


class CudaDriver:
    """The `Driver` of one GPU of this host."""

    def __init__(self, index: int) -> None:
        cupy = importlib.import_module("cupy")
        self._products: Final = Cublas(cupy)
        self.xp: Namespace = _Namespace(cupy, self._products.matmul)
        self.array_type: type[Any] = cupy.ndarray
        self._cuda: Final[Any] = cupy.cuda
        self._index: Final = index

    def select(self) -> Any:
        """Make it CuPy's current device of the thread."""
        return self._cuda.Device(self._index)

    def stream(self) -> Any:
        """Return a stream that does not wait for the null stream."""
        stream = self._cuda.Stream(non_blocking=True)
        _STREAMS.add(stream)
        return stream

    def close_stream(self, stream: Any) -> None:
        """Let the stream go."""
        _STREAMS.discard(stream)

    def record(self, stream: Any, timed: bool = False) -> Any:
        """Return a new event. A thread that waits for it sleeps without the GIL."""
        return stream.record(self._cuda.Event(block=True, disable_timing=not timed))

    def elapsed(self, first: Any, last: Any) -> float:
        """Return the seconds between two events; CUDA counts milliseconds."""
        return float(self._cuda.get_elapsed_time(first, last)) / 1e3

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Host:
        """Return an array in CuPy's pool of page-locked memory.

        Its memory returns to the pool with the last reference.
        """
        size = int(np.prod(shape)) * dtype.itemsize
        memory = self._cuda.alloc_pinned_memory(max(1, size))
        return np.frombuffer(memory, np.uint8, size).view(dtype).reshape(shape)

    def landing_array(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: Any, on_free: Callable[[], object]
    ) -> Array:
        """Return an array in the stream's memory arena. CuPy keeps its owner alive while views of it exist."""
        size = int(np.prod(shape)) * dtype.itemsize
        with stream:
            pointer = self._cuda.alloc(max(1, size))
        owner = _Owner(pointer, on_free)
        memory = self._cuda.UnownedMemory(pointer.ptr, max(1, size), owner, self._index)
        return self.array_type(shape, dtype, self._cuda.MemoryPointer(memory, 0))

    def to_device(self, source: Host, target: Array, stream: Any) -> None:
        """Enqueue a copy from page-locked memory."""
        target.data.copy_from_host_async(source.ctypes.data, source.nbytes, stream)

    def to_host(self, source: Array, target: Host, stream: Any) -> None:
        """Enqueue a copy to page-locked memory."""
        source.data.copy_to_host_async(target.ctypes.data, target.nbytes, stream)

    def device_to_device(self, source: Array, target: Array, stream: Any) -> None:
        """Enqueue a copy from any GPU, directly if the GPUs can reach each other's memory."""
        target.data.copy_from_device_async(source.data, source.nbytes, stream)

    def capture(self, work: Callable[[], R], stream: Any) -> "tuple[CudaGraph, R]":
        """Capture on a stream of its own, so that events on the streams of the device are no part of the graph.

        The graph's memory is a pool on top of CuPy's, which counts it and limits it.
        """

        def allocate(size: int) -> Any:
            with stream:
                return self.xp.get_default_memory_pool().malloc(size)

        memory = GraphMemory(self._cuda, allocate, self._index)
        capturing = self._cuda.Stream(non_blocking=True)
        with self.select(), capturing, self._cuda.using_allocator(memory.malloc):
            capturing.begin_capture()
            try:
                with self._products.captured(capturing, stream):
                    made = work()
            except BaseException:
                with contextlib.suppress(self._cuda.runtime.CUDARuntimeError):  # of a capture that is invalid by now
                    capturing.end_capture()
                memory.end()
                raise
            return CudaGraph(capturing.end_capture(), memory), made

    def address(self, array: Array) -> int:
        """Return its pointer."""
        return int(array.data.ptr)

    def lend(self, array: Array, on_free: Callable[[], object]) -> Array:
        """Return an array whose memory has a new owner, which keeps the array."""
        memory = self._cuda.UnownedMemory(array.data.ptr, max(1, array.nbytes), _Owner(array, on_free), self._index)
        return self.array_type(array.shape, array.dtype, self._cuda.MemoryPointer(memory, 0), array.strides)

    def limit_memory(self, limit: int) -> None:
        """Limit CuPy's pool on this GPU."""
        self.xp.get_default_memory_pool().set_limit(size=limit)

    def used_bytes(self) -> int:
        """Return the bytes that CuPy's pool has allocated to arrays on this GPU."""
        with self.select():
            return int(self.xp.get_default_memory_pool().used_bytes())

    def capacity(self) -> float:
        """Return the pool's limit; without one, the free memory of this GPU plus the memory of the pool."""
        with self.select():
            pool = self.xp.get_default_memory_pool()
            free, _ = self._cuda.runtime.memGetInfo()
            return float(pool.get_limit() or free + pool.total_bytes())

    def translate(self, error: BaseException) -> errors.OpError | None:
        """Return ResourceExhaustedError for lack of memory, and UnavailableError for all other errors of CUDA.

        After these others the process can no longer use the GPU.
        """
        if isinstance(error, self._cuda.memory.OutOfMemoryError):
            return errors.ResourceExhaustedError(str(error))
        if isinstance(error, self._cuda.runtime.CUDARuntimeError):
            return errors.UnavailableError(f"the GPU failed: {error}")
        return None

    def completion(self) -> Completion:
        """Return a thread that waits for blocking events."""
        return EventWatcher(f"aioflow-gpu-{self._index}")


class _Namespace(types.ModuleType):
    """CuPy, but for products of matrices."""

    def __init__(self, cupy: Any, matmul: Callable[..., Array]) -> None:
        super().__init__("cupy")
        self._cupy = cupy
        self.matmul = matmul

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cupy, name)
        setattr(self, name, found)
        return found


class CudaGraph:
    """A graph of CuPy, and its memory."""

    def __init__(self, graph: Any, memory: GraphMemory) -> None:
        self._graph: Final = graph
        self._memory: Final = memory

    def launch(self, stream: Any) -> None:
        """Launch it."""
        self._graph.launch(stream)

    def __del__(self) -> None:
        self._memory.end()


class _Owner:
    """Keeps memory for arrays, and is told when the last of them is gone."""

    def __init__(self, memory: Any, on_free: Callable[[], object]) -> None:
        self._memory = memory
        self._on_free = on_free

    def __del__(self) -> None:
        self._on_free()  # before the memory is freed
