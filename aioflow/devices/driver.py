"""What a GPU device asks of CUDA, as a protocol. CuPy is one implementation (`cuda`), the fake GPU of tests another.

Everything here returns at once, except for `Event.synchronize`. Work on one stream runs in the order it was enqueued;
work on two streams is ordered by events alone.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from aioflow import errors
from aioflow.tensors.dtypes import Array, Namespace

Host = npt.NDArray[Any]
"""An array in host memory."""


class Event(Protocol):
    """A point in a stream's work."""

    @property
    def done(self) -> bool:
        """Whether everything before it has run."""

    def synchronize(self) -> None:
        """Block the calling thread, without the interpreter's lock, until it is done. Raises what went wrong."""


class Stream(Protocol):
    """Work that runs in order. Entered, it is where the thread's kernels go: never across an `await`."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *exc: Any) -> Any: ...

    def wait_event(self, event: Any) -> None:
        """What is enqueued from now on runs after the event."""


class Driver(Protocol):
    """One GPU.

    Attributes:
        xp: the array namespace.
        array_type: the class of its arrays.
    """

    xp: Namespace
    array_type: type[Any]

    def select(self) -> AbstractContextManager[Any]:
        """Within it the thread's calls go to this GPU."""

    def stream(self) -> Stream:
        """A new stream."""

    def record(self, stream: Any, timed: bool = False) -> Event:
        """The point after all that is enqueued on the stream now; `timed` if `elapsed` will be asked about it."""

    def elapsed(self, first: Any, last: Any) -> float:
        """Seconds from one timed event to another. Both are done."""

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Host:
        """Page-locked host memory: what streams copy from and to. It is free again when nobody refers to it."""

    def landing_array(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: Any, on_free: Callable[[], object]
    ) -> Array:
        """A new array in memory of that stream. `on_free()` is called when nobody refers to it any more.

        After that call work enqueued on the stream may use its memory.
        """

    def to_device(self, source: Host, target: Array, stream: Any) -> None:
        """Enqueue a copy out of page-locked memory."""

    def to_host(self, source: Array, target: Host, stream: Any) -> None:
        """Enqueue a copy of a contiguous array into page-locked memory."""

    def device_to_device(self, source: Array, target: Array, stream: Any) -> None:
        """Enqueue a copy of a contiguous array to another GPU, or within one. The stream is the target's."""

    def limit_memory(self, limit: int) -> None:
        """Arrays may take up so many bytes from now on."""

    def used_bytes(self) -> int:
        """What its live arrays take up."""

    def capacity(self) -> float:
        """The bytes that its arrays may take up; infinity if unknown."""

    def translate(self, error: BaseException) -> errors.OpError | None:
        """The OpError of something that CUDA raised; None for everything else."""

    def completion(self) -> "Completion":
        """What awaits events for the asyncio side."""


class Completion(Protocol):
    """Turns events into things that can be awaited."""

    async def wait_until_done(self, event: Event, *keep: Any) -> None:
        """Wait for the event; `keep` is referred to until it is done, also if the wait is cancelled."""

    def close(self, limit: float) -> bool:
        """End it; False if after so many seconds something is still waited for."""
