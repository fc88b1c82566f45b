"""CUDA graphs of a fake GPU: kernels that a stream captured, and that one launch runs again on the same memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.testing.fake_memory import Buffer, Pool
from aioflow.testing.fake_streams import FakeStream, Race


class CapturedCall(NamedTuple):
    """A kernel with the memory that it had when it was captured.

    Attributes:
        name: its name.
        function: the function of NumPy that computes it.
        args: its arguments. Arrays are views of buffers.
        kwargs: its named arguments.
        targets: the array for each array that the function returns; None for one that is in the memory of another.
        reads: the buffers that it reads.
        changes: the buffers that it changes.
    """

    name: str
    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    targets: Sequence[Any]
    reads: Sequence[Buffer]
    changes: Sequence[Buffer]


class FakeGraph:
    """A CUDA graph.

    Attributes:
        calls: its kernels.
        pool: the memory that was allocated during the capture. It belongs to the graph as long as this lives.
        stream: the stream whose memory that is.
    """

    def __init__(self, pool: Pool, stream: FakeStream) -> None:
        self.calls: Final[list[CapturedCall]] = []
        self.pool: Final = pool
        self.stream: Final = stream

    def __del__(self) -> None:
        if self.pool.is_of_graph:
            self.pool.close()

    def launch(self, stream: FakeStream) -> None:
        """Enqueue all its kernels. Race if memory that they use belongs to other arrays by now."""
        stream.device.launch_graph(self, stream)

    def run(self, stream: FakeStream, number: int) -> None:
        """Compute the kernels, as work of that number of the stream."""
        for call in self.calls:
            self._check(call)
            for buffer in call.reads:
                buffer.use(stream, number, changes=False)
            for buffer in call.changes:
                buffer.use(stream, number, changes=True)
            with np.errstate(all="ignore"):
                results = leaves(call.function(*call.args, **call.kwargs))
            for target, result in zip(call.targets, results, strict=True):
                if target is not None:
                    target[...] = result

    def _check(self, call: CapturedCall) -> None:
        for buffer in call.reads:
            if buffer.pool is not self.pool and buffer.owner() is None:
                raise Race(f"{call.name} of a graph reads memory that was freed after the capture")
        for buffer in call.changes:
            if buffer.pool is not self.pool or not self.pool.is_of_graph:
                raise Race(f"{call.name} of a graph changes memory that does not belong to the graph")


def leaves(result: Any) -> Iterator[Any]:
    """The arrays of a result, in their order."""
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from leaves(part)
    elif isinstance(result, (np.ndarray, np.generic)):
        yield result
