"""The calls of a request batcher, those that wait by the shape of their rows and by priority, and their batches."""

import asyncio
import functools
import itertools
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.tensors.dtypes import Array

Results = Sequence[Array]
"""An array for each fetch."""


class BatchedCall:
    """One call of a batcher.

    Attributes:
        values: an array for each feed, with the rows in axis 0.
        count: the number of rows.
        shape: equal for calls that can share a batch.
        own_sizes: the axes of the first feed that were padded: the axis, its size now, and its size before.
        priority: its level; 0 is served first.
        since: the time of the loop from which it waits.
        begun: its first rows, which are in batches that have begun.
        batches: these batches.
        answer: gets the results of its rows; None before the call waits, and after its error was raised.
        caller: what the observer of batches has noted of its caller.
    """

    __slots__ = (
        "_parts", "answer", "batches", "begun", "caller", "count", "own_sizes", "priority", "shape", "since", "values",
    )  # fmt: skip

    def __init__(
        self, values: Sequence[Array], count: int, shape: Hashable, own_sizes: Sequence[tuple[int, int, int]] = ()
    ) -> None:
        self.values: Final = values
        self.count: Final = count
        self.shape: Final = shape
        self.own_sizes: Final = own_sizes
        self.priority: int = 0
        self.since: float = 0.0
        self.begun: int = 0
        self.batches: tuple[Batch, ...] = ()
        self.answer: asyncio.Future[Results] | None = None
        self.caller: object = None
        self._parts: tuple[tuple[int, int, Results], ...] = ()

    def leave(self) -> None:
        """Need no answer. A batch that no call needs is cancelled."""
        for batch in self.batches:
            batch.wanted -= 1
            if not batch.wanted and batch.task is not None:
                batch.task.cancel()
        self.batches = ()

    def deliver(self, start: int, stop: int, results: Results) -> None:
        """Take the results of some rows. With the last ones the call has its answer."""
        self._parts += ((start, stop, results),)
        if sum([stop - start for start, stop, _ in self._parts]) == self.count:
            parts = [part for _, _, part in sorted(self._parts, key=_start)]
            self._join(list(zip(*parts, strict=True)))

    def _join(self, results: Sequence[Sequence[Array]]) -> None:
        """Finish with the parts of each result, one after another. It fails if their rows differ in shape."""
        for arrays in results:
            if any(array.shape[1:] != arrays[0].shape[1:] for array in arrays):
                text = f"the batches of this call have results of shapes {[list(array.shape) for array in arrays]}"
                self.fail(errors.InvalidArgumentError(f"{text}: their rows do not fit together"))
                return
        self.finish([np.concatenate(arrays) for arrays in results])

    def finish(self, results: Results) -> None:
        """Take the results of all rows."""
        answer = self.answer
        if answer is not None and not answer.done():
            answer.set_result(results)

    def is_answered(self) -> bool:
        """Whether it has waited, and has results or an error, or was cancelled."""
        return self.answer is None or self.answer.done()

    def cancel(self) -> None:
        """Its task is cancelled, or must be."""
        answer = self.answer
        if answer is not None and not answer.cancel() and not answer.cancelled():
            answer.exception()  # an error that came at the same time, which nobody reads

    def fail(self, error: BaseException) -> None:
        """Its rows have no results."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


def _start(part: tuple[int, int, Results]) -> int:
    return part[0]


Share = tuple[BatchedCall, int, int]
"""Rows of a call that are part of a batch: the call, the first row, and the row after the last."""


class Batch:
    """Rows of calls that are run together.

    Attributes:
        shares: the rows.
        rows: how many they are.
        task: the task that runs them.
        wanted: its calls that still want an answer.
    """

    __slots__ = ("rows", "shares", "task", "wanted")

    def __init__(self, shares: Sequence[Share] = ()) -> None:
        self.shares: Final = [*shares]
        self.rows: int = 0
        self.wanted: int = 0
        self.task: asyncio.Task[None] | None = None

    def fill(self, calls: Iterable[BatchedCall], most: int) -> int:
        """Take rows that have not begun, until it has `most`. Returns the number of calls of which no row is left."""
        ended, rows, alone = 0, self.rows, (self,)
        for call in calls:
            if rows == most:
                break
            start, stop = call.begun, min(call.count, call.begun + most - rows)
            self.shares.append((call, start, stop))
            rows += stop - start
            call.begun = stop
            call.batches = (*call.batches, self) if start else alone
            ended += stop == call.count
        self.rows, self.wanted = rows, len(self.shares)
        return ended

    def parts(self) -> list[Sequence[Array]]:
        """The values of its rows."""
        return [
            call.values if stop - start == call.count else [value[start:stop] for value in call.values]
            for call, start, stop in self.shares
        ]

    def calls(self) -> list[BatchedCall]:
        """The calls that have rows in it."""
        return [call for call, _, _ in self.shares]

    def deliver(self, results: Results) -> Iterator[None]:
        """Give its calls the results of their rows. Yields after every few calls."""
        ends = [0, *itertools.accumulate([stop - start for _, start, stop in self.shares])]
        divided = zip(*[_divided(result, ends) for result in results], strict=True)
        pairs = zip(self.shares, divided, strict=True)
        for left in range(len(self.shares), 0, -_AT_ONCE):
            for (call, start, stop), rows in itertools.islice(pairs, _AT_ONCE):
                if stop - start == call.count:
                    call.finish(rows)
                else:
                    call.deliver(start, stop, rows)
            if left > _AT_ONCE:
                yield

    def end(self) -> None:
        """Let go of its calls and its task, which lead back to it: nothing is left for the garbage collector."""
        self.shares.clear()
        self.task = None


_AT_ONCE: Final = 32
"""Calls that are answered in one turn of the loop: their tasks go on in the next one, all in one turn."""


def _divided(result: Array, ends: Sequence[int]) -> Iterable[Array]:
    """The rows between these ends."""
    if result.nbytes <= _LITTLE:
        return [result[start:stop] for start, stop in itertools.pairwise(ends)]
    return itertools.starmap(functools.partial(own_rows, result), itertools.pairwise(ends))


_LITTLE: Final = 1 << 15
"""Bytes that may be copied, and that may stay in memory, for some rows."""


def own_rows(result: Array, start: int, stop: int) -> Array:
    """Those rows of a result. Few rows of a large one are copied, so that they do not keep all of it in memory."""
    rows: Array = result[start:stop]
    return rows.copy() if rows.nbytes <= _LITTLE < result.nbytes else rows


class _Line:
    """Calls whose rows have one shape: a queue for each priority."""

    def __init__(self, priorities: int) -> None:
        self.queues: Final = [OrderedDict[BatchedCall, None]() for _ in range(priorities)]
        self.rows = 0

    def heads(self) -> Iterator[BatchedCall]:
        """The first call of each priority, the most urgent one first."""
        return (next(iter(queue)) for queue in self.queues if queue)

    def since(self) -> float:
        """The time from which its oldest call waits."""
        return min([head.since for head in self.heads()])


class WaitingCalls:
    """All calls that wait.

    Attributes:
        rows: their rows that are in no batch.
        calls: how many they are.
    """

    def __init__(self, priorities: int) -> None:
        self._priorities: Final = priorities
        self._lines: Final[dict[Hashable, _Line]] = {}
        self.rows: int = 0
        self.calls: int = 0

    def add(self, call: BatchedCall, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[Results]":
        """Let a call wait. Returns its answer."""
        call.answer = answer = loop.create_future()
        call.since = loop.time()
        line = self._lines.get(call.shape)
        if line is None:
            line = self._lines[call.shape] = _Line(self._priorities)
        line.queues[call.priority][call] = None
        count = call.count
        line.rows += count
        self.rows += count
        self.calls += 1
        return answer

    def remove(self, call: BatchedCall) -> None:
        """Forget a call that waits; one that does not is left alone."""
        line = self._lines.get(call.shape)
        if line is not None and call in line.queues[call.priority]:
            del line.queues[call.priority][call]
            self.calls -= 1
            self.rows -= call.count - call.begun
            line.rows -= call.count - call.begun
            self._tidy(call.shape, line)

    def all(self) -> list[BatchedCall]:
        """All of them."""
        return [call for line in self._lines.values() for queue in line.queues for call in queue]

    def take(self, shape: Hashable, most: int) -> Batch:
        """A batch of up to `most` rows of that shape, which wait no longer: the most urgent first, then the oldest."""
        line, batch = self._lines[shape], Batch()
        for queue in line.queues:
            ended = batch.fill(queue, most)
            self.calls -= ended
            if ended == len(queue):
                queue.clear()
            for _ in range(min(ended, len(queue))):
                queue.popitem(last=False)
        line.rows -= batch.rows
        self.rows -= batch.rows
        self._tidy(shape, line)
        return batch

    def rows_of(self, shape: Hashable) -> int:
        """The rows of that shape that are in no batch."""
        return self._lines[shape].rows

    def ready(self, most: int, delay: float, now: float) -> Hashable | None:
        """The shape to serve next of those of which that many rows wait, or a call that waits for that long."""
        return _next(line for line in self._lines.values() if line.rows >= most or line.since() + delay <= now)

    def urgent(self) -> Hashable | None:
        """The shape of the call to serve next."""
        return _next(self._lines.values())

    def oldest(self) -> BatchedCall | None:
        """The call that waits for the longest time."""
        heads = [head for line in self._lines.values() for head in line.heads()]
        return min(heads, key=_age) if heads else None

    def _tidy(self, shape: Hashable, line: _Line) -> None:
        if not any(line.queues):
            del self._lines[shape]


def _next(lines: Iterable[_Line]) -> Hashable | None:
    """The shape of the most urgent call of these lines, and of these the oldest."""
    head = min([head for line in lines for head in line.heads()], key=_urgency, default=None)
    return None if head is None else head.shape


def _urgency(call: BatchedCall) -> tuple[int, float]:
    return call.priority, call.since


def _age(call: BatchedCall) -> float:
    return call.since
