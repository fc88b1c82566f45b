"""The protocol between a GPU device and CUDA. CuPy is one implementation (`cuda`), the fake GPU of tests another.

Every call returns at once, except for `Event.synchronize`. Work on one stream runs in the order of its enqueuing; only
events order work on two streams.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from aioflow import errors
from aioflow.tensors.dtypes import Array, Namespace

Host = npt.NDArray[Any]
"""An array in host memory."""
R = TypeVar("R")


class Event(Protocol):
    """A point in the work of a stream."""

    @property
    def done(self) -> bool:
        """Whether all work before it has run."""

    def synchronize(self) -> None:
        """Block the calling thread, without the GIL, until the event is done. Raises the error of the work."""


class Stream(Protocol):
    """A queue of work that runs in order.

    Inside `with stream:`, which must not contain an `await`, it receives the thread's kernels.
    """

    def __enter__(self) -> Any: ...

    def __exit__(self, *exc: Any) -> Any: ...

    def wait_event(self, event: Any) -> None:
        """Make work that is enqueued later run after the event."""


class Graph(Protocol):
    """Captured kernels. It owns the memory that was allocated while they were captured."""

    def launch(self, stream: Any) -> None:
        """Enqueue all of them, on the memory that they used when they were captured."""


class Driver(Protocol):
    """One GPU.

    Attributes:
        xp: the array namespace.
        array_type: the class of its arrays.
    """

    xp: Namespace
    array_type: type[Any]

    def select(self) -> AbstractContextManager[Any]:
        """Direct the thread's calls to this GPU inside the block."""

    def stream(self) -> Stream:
        """Return a new stream. It lives until `close_stream`."""

    def close_stream(self, stream: Any) -> None:
        """Let a stream go whose work is done."""

    def record(self, stream: Any, timed: bool = False) -> Event:
        """Return an event after all work enqueued on the stream so far; `timed` allows `elapsed` for it."""

    def elapsed(self, first: Any, last: Any) -> float:
        """Return the seconds from one timed event to another. Both are done."""

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Host:
        """Return an array in page-locked host memory, for copies by streams. Its last reference frees it."""

    def landing_array(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: Any, on_free: Callable[[], object]
    ) -> Array:
        """Return a new array in memory of that stream. Its last reference calls `on_free()`.

        Work that is enqueued on the stream after that call may reuse the memory.
        """

    def to_device(self, source: Host, target: Array, stream: Any) -> None:
        """Enqueue a copy from page-locked memory."""

    def to_host(self, source: Array, target: Host, stream: Any) -> None:
        """Enqueue a copy of a contiguous array to page-locked memory."""

    def device_to_device(self, source: Array, target: Array, stream: Any) -> None:
        """Enqueue a copy of a contiguous array to another GPU, or within one. The stream is the target's."""

    def capture(self, work: Callable[[], R], stream: Any) -> tuple[Graph, R]:
        """Return the kernels that `work` enqueues as a graph, and the result of `work`. None of them runs.

        Memory that is allocated meanwhile comes from the stream's, and no other array uses it while the graph lives.
        Raises any error of `work`, and one of CUDA if a graph cannot contain what `work` does.
        """

    def address(self, array: Array) -> int:
        """Return the address of its first element."""

    def lend(self, array: Array, on_free: Callable[[], object]) -> Array:
        """Return an array in the memory of that one. Its last reference, or that of its views, calls `on_free()`."""

    def limit_memory(self, limit: int) -> None:
        """Limit the memory of arrays to `limit` bytes."""

    def used_bytes(self) -> int:
        """Return the bytes of its live arrays."""

    def capacity(self) -> float:
        """Return the most bytes that its arrays may use; infinity if unknown."""

    def translate(self, error: BaseException) -> errors.OpError | None:
        """Return the OpError for an error of CUDA; None for other errors."""

    def completion(self) -> "Completion":
        """Return an object that lets coroutines wait for events."""


class Completion(Protocol):
    """Lets coroutines wait for events."""

    async def wait_until_done(self, event: Event, *keep: Any) -> None:
        """Wait for the event. `keep` stays alive until the event is done, even if the wait is cancelled."""

    def close(self, limit: float) -> bool:
        """End it. Returns False if a wait is still open after `limit` seconds."""
