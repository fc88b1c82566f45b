"""Gathers the calls of many tasks into few runs of a session, as a server of models does.

A batch begins when nothing runs and calls wait, when it is full, or when the oldest call has waited for the longest
time allowed. At low load there is no delay: the first call waits for one turn of the event loop, in which other tasks
may join it, and then runs in its own task.
"""

import asyncio
import contextlib
import copy
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from aioflow import errors
from aioflow.session.batch_rows import RowChecks, together
from aioflow.session.waiting_calls import Batch, BatchedCall, Results, WaitingCalls
from aioflow.tensors.dtypes import Array
from aioflow.waiting.lines import own_copy
from aioflow.waiting.tasks import Slice, slice_of

R = TypeVar("R")
Reason = Literal["idle", "full", "delay"]
"""Why a batch began: nothing ran, it had all its rows, or a call had waited for the longest time allowed."""
Run = Callable[[Sequence[Array]], Awaitable[Results]]
"""(a value for each feed) -> an array for each fetch."""

_CONCURRENT: Final = 2
"""Batches that run at the same time, at most: one is prepared while the other computes."""
_LARGE: Final = 1 << 20
"""Bytes: a thread puts larger batches together."""
_NEVER: Final = -1
"""No turn of the loop."""


@dataclass(slots=True)
class BatchingStatistics:
    """What a batcher has done so far.

    Attributes:
        calls: the calls that were accepted.
        rows: the rows that were run, without those that fill a batch up.
        batches: the batches that began, by the reason why.
        refused: the calls for which there was no room.
        cancelled: the calls whose tasks were cancelled.

    Examples:
        >>> x = af.placeholder(af.float32, [None])
        >>> double = session.batched(2 * x, feeds=[x])
        >>> value = await double([1.0, 2.0])
        >>> double.statistics.rows
        2
    """

    calls: int = 0
    rows: int = 0
    batches: Counter[Reason] = field(default_factory=Counter)
    refused: int = 0
    cancelled: int = 0


class FinishedBatch(NamedTuple):
    """A batch that has ended.

    Attributes:
        reason: why it began.
        rows: its rows, without those that fill it up.
        waits: for each call that has rows in it, the seconds from the call to the begin of the batch.
        seconds: the time of the run, with putting its rows together and dividing the results.
    """

    reason: Reason
    rows: int
    waits: Sequence[float]
    seconds: float


BatchObserver = Callable[[FinishedBatch], None]


class BatchSurroundings(Protocol):
    """Runs around each batch, as spans of it do. A call that runs alone has none: it runs in its caller's task."""

    def note_caller(self) -> object:
        """Return what is to be known of the caller of a call. It runs in the caller's task."""

    def around(self, callers: Sequence[Any], rows: int) -> AbstractContextManager[object]:
        """Return a block around a batch, with what was noted of the caller of each of its calls."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a batcher, as `Session.batched` takes them. TypeError or ValueError if one makes no sense."""

    max_rows: int
    max_delay: float
    max_waiting: int
    priorities: int

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_waiting", "priorities"):
            value = getattr(self, name)
            if not isinstance(value, int):
                raise TypeError(f"{name} is a whole number, not {value!r}")
            if value < 1:
                raise ValueError(f"{name} is {value}, and must be at least 1")
        if not isinstance(self.max_delay, (int, float)):
            raise TypeError(f"max_delay is a number of seconds, not {self.max_delay!r}")
        if not self.max_delay >= 0:
            raise ValueError(f"max_delay is {self.max_delay} s, and must not be negative")


class RequestBatcher(Generic[R]):
    """An awaitable function whose calls share runs. `Session.batched` makes it.

        predict = session.batched(probabilities, feeds=[images], max_rows=64)
        mine = await predict(my_images)

    Each value has rows in axis 0, and the results have the rows of the call, in the structure of the fetches. Rows of
    one call may be in several batches. Its results do not depend on which calls share a batch, within the rounding of
    kernels that compute differently for another number of rows, as products of matrices do.

    Cancelling the awaiting task, as `asyncio.timeout` does, takes the call out of the waiting ones, so that it is never
    run. If it is in a batch, that batch goes on for the others, and is cancelled if there are none.

    Attributes:
        statistics: what it has done so far.
        observer: is told of each batch that has ended, however it ended.
        surroundings: runs around each batch; None for nothing.

    Examples:
        >>> x = af.placeholder(af.float32, [None])
        >>> double = session.batched(2 * x, feeds=[x])
        >>> await double([1.0, 2.0])
        array([2., 4.], dtype=float32)
    """

    observer: BatchObserver | None = None
    surroundings: BatchSurroundings | None = None

    def __init__(
        self,
        run: Run,
        check: Callable[[], None],
        rows: RowChecks,
        build: Callable[[Sequence[Any]], R],
        limits: Limits,
        isolate_errors: bool,
    ) -> None:
        """A batcher without calls.

        Args:
            run: computes a batch.
            check: raises if the session cannot be used.
            rows: checks the values of a call.
            build: arranges the results as the fetches are.
            limits: its limits.
            isolate_errors: whether the calls of a batch that fails are run again one by one.
        """
        self.statistics: Final = BatchingStatistics()
        self._run: Final = run
        self._check: Final = check
        self._admits = check
        """Raises if calls are refused."""
        self._rows: Final = rows
        self._build: Final = build
        self._limits: Final = limits
        self._batch_rows: Final = limits.max_rows if rows.fixed is None else rows.fixed
        self._isolates_errors: Final = isolate_errors
        self._waiting: Final = WaitingCalls(limits.priorities)
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._running = 0
        self._is_gathering = False
        """Whether calls wait for the end of this turn of the loop."""
        self._lone_rows: Final = self._batch_rows if rows.fixed is None else -1
        """The rows of a call that may run alone, at most."""
        self._slice: Slice | None = None
        """Counts the turns of the loop. Present from the first call that runs alone."""
        self._lone_turn = _NEVER
        """The turn in which the last call began that has run alone."""
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, *values: Any, priority: int = 0) -> R:
        """Return the fetches for these values.

        Args:
            *values: a value for each feed, with rows in axis 0.
            priority: its level, from 0, which is served first.

        Raises:
            TypeError, ValueError: the values do not fit the feeds. Other calls are not affected.
            af.errors.ResourceExhaustedError: too many rows wait already; nothing was done.
            af.errors.OpError: the batch failed, and with it all its calls.
            RuntimeError: the session is closed, or belongs to another loop.
        """
        self._admits()
        call = self._rows.call(values)
        if priority != 0 or self._waiting.rows + call.count > self._limits.max_waiting:
            self._admit(call, priority)
        if self.surroundings is not None:
            call.caller = self.surroundings.note_caller()
        self.statistics.calls += 1
        try:
            results = await self._submit(call)
        except asyncio.CancelledError:
            self.statistics.cancelled += 1
            call.cancel()
            self._forget(call)
            raise
        except Exception:
            call.answer = None  # its error leads here, and would be held by itself until a garbage collection
            raise
        return self._build(self._rows.cut(call, results) if call.own_sizes else results)

    @property
    def waiting_rows(self) -> int:
        """The rows that are in no batch yet."""
        return self._waiting.rows

    @property
    def has_room(self) -> bool:
        """Whether a further row may wait: a server asks before it reads the values of a call."""
        return self._waiting.rows < self._limits.max_waiting

    def abort(self, error: errors.OpError) -> None:
        """Refuse all later calls, and end those that wait, with copies of the error. Batches that run go on."""
        unbegun = copy.copy(error)
        unbegun.begun = False
        self._admits = functools.partial(_refuse, unbegun)
        for call in self._waiting.all():
            self._fail(call, error if call.begun else unbegun)

    def _admit(self, call: BatchedCall, priority: int) -> None:
        """Refuse a call for which there is no level or no room."""
        if not isinstance(priority, int):
            raise TypeError(f"priority is a whole number, not {priority!r}")
        if not 0 <= priority < self._limits.priorities:
            raise ValueError(f"priority {priority} is none of 0 to {self._limits.priorities - 1}")
        call.priority = priority
        if self._waiting.rows + call.count > self._limits.max_waiting:
            self.statistics.refused += 1
            text = f"{self._waiting.rows} rows wait, and {call.count} more would exceed the {self._limits.max_waiting}"
            raise errors.ResourceExhaustedError(f"{text} that may; try again later, or set max_waiting=")

    def _submit(self, call: BatchedCall) -> Awaitable[Results]:
        """Let a call wait, or run it. The caller awaits its results at once."""
        waiting, slice = self._waiting, self._slice
        if not (self._running or self._is_gathering or waiting.calls):
            if slice is not None and slice.turns != self._lone_turn != _NEVER and call.count <= self._lone_rows:
                return self._run_alone(call, slice)
            return self._gather(call)
        answer = waiting.add(call, asyncio.get_running_loop())
        if self._running < _CONCURRENT:
            if waiting.rows >= self._batch_rows and waiting.rows_of(call.shape) >= self._batch_rows:
                self._begin_batches()
            elif self._timer is None and not self._is_gathering:
                self._set_timer()
        return answer

    async def _gather(self, call: BatchedCall) -> Results:
        """Let other tasks join a call, and begin. It runs in its own task if it stays alone."""
        loop = asyncio.get_running_loop()
        answer = self._waiting.add(call, loop)
        self._is_gathering = True
        self._lone_turn = _NEVER
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._waiting.remove(call)
            self._end_gathering()
            raise
        self._is_gathering = False
        if self._waiting.calls == 1 and not self._running and call.count <= self._lone_rows:
            self._waiting.remove(call)
            self._slice = self._slice or slice_of(loop)
            return await self._run_alone(call, self._slice)
        self._begin_batches()
        try:
            return await answer
        finally:
            del answer  # its error leads here, as in the call

    async def _run_alone(self, call: BatchedCall, slice: Slice) -> Results:
        """Run one call in its own task, as the plain callable would."""
        slice.begin()
        turn = slice.turns
        self._count_batch("idle", call.count)
        self._lone_turn = _NEVER
        begin = None if self.observer is None else asyncio.get_running_loop().time()
        try:
            results = await self._run(call.values)
        finally:
            self._running -= 1
            if begin is not None:
                self._observe("idle", call.count, [0.0], begin)
            if self._waiting.calls:
                self._gather_next()
            else:
                self._lone_turn = turn
        self._rows.check_results(results, call.count)
        return results

    def _forget(self, call: BatchedCall) -> None:
        """Nothing of that call is needed any more."""
        self._waiting.remove(call)
        if self._timer is not None and not self._waiting.calls:
            self._set_timer()
        call.leave()

    def _observe(self, reason: Reason, rows: int, waits: Sequence[float], begin: float) -> None:
        """Tell the observer, if there is one, of a batch that began at that time, and ends now."""
        if self.observer is not None:
            self.observer(FinishedBatch(reason, rows, waits, asyncio.get_running_loop().time() - begin))

    # When batches begin

    def _begin_batches(self) -> None:
        """Begin batches as long as there is a reason."""
        while self._running < _CONCURRENT:
            chosen = self._choose()
            if chosen is None:
                break
            self._begin_batch(*chosen)
        self._set_timer()

    def _begin_batch(self, shape: Hashable, reason: Reason) -> None:
        batch, loop = self._take_batch(shape, reason), asyncio.get_running_loop()
        batch.task = loop.create_task(self._run_batch(batch))
        self._tasks.add(batch.task)
        batch.task.add_done_callback(functools.partial(self._end_task, batch))
        if self.observer is not None:
            begin = loop.time()
            waits = [begin - call.since for call in batch.calls()]
            batch.task.add_done_callback(lambda _: self._observe(reason, batch.rows, waits, begin))

    def _choose(self) -> tuple[Hashable, Reason] | None:
        """The shape of the rows of the next batch, and why it begins now."""
        waiting, is_idle = self._waiting, not self._running and not self._is_gathering
        now = asyncio.get_running_loop().time()
        shape = waiting.urgent() if is_idle else waiting.ready(self._batch_rows, self._limits.max_delay, now)
        if shape is None:
            return None
        if waiting.rows_of(shape) >= self._batch_rows:
            return shape, "full"
        return shape, "idle" if is_idle else "delay"

    def _take_batch(self, shape: Hashable, reason: Reason) -> Batch:
        batch = self._waiting.take(shape, self._batch_rows)
        self._count_batch(reason, batch.rows)
        return batch

    def _count_batch(self, reason: Reason, rows: int) -> None:
        self.statistics.batches[reason] += 1
        self.statistics.rows += rows
        self._running += 1

    def _set_timer(self) -> None:
        """Wake up when the oldest call has waited for the longest time allowed, if a batch may begin then."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        oldest = self._waiting.oldest()
        if oldest is not None and self._running < _CONCURRENT and not self._is_gathering:
            due = oldest.since + self._limits.max_delay
            self._timer = asyncio.get_running_loop().call_at(due, self._begin_batches)

    def _end_task(self, batch: Batch, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # perhaps before it began
            for call in batch.calls():
                call.cancel()
        batch.end()
        self._running -= 1
        if self._waiting.calls:
            self._gather_next()

    def _gather_next(self) -> None:
        """Let tasks that were answered call again before the next batch begins."""
        if not self._is_gathering:
            self._is_gathering = True
            asyncio.get_running_loop().call_soon(self._end_gathering)

    def _end_gathering(self) -> None:
        self._is_gathering = False
        self._begin_batches()

    # What a batch does

    async def _run_batch(self, batch: Batch) -> None:
        """Run a batch, and answer its calls."""
        with self._around(batch):
            try:
                await self._deliver(batch)
            except Exception as error:
                await self._fail_batch(batch, error)

    def _around(self, batch: Batch) -> AbstractContextManager[object]:
        if self.surroundings is None:
            return contextlib.nullcontext()
        return self.surroundings.around([call.caller for call in batch.calls()], batch.rows)

    async def _deliver(self, batch: Batch) -> None:
        """Compute a batch, and answer its calls. The loop turns after every few answers."""
        for _ in batch.deliver(await self._compute_parts(batch.parts())):
            await asyncio.sleep(0)

    async def _compute_parts(self, parts: Sequence[Sequence[Array]]) -> Results:
        """The fetches for the values of several parts."""
        if len(parts) > 1 and sum([value.nbytes for values in parts for value in values]) > _LARGE:
            work = functools.partial(together, parts, self._rows.fixed)
            values = await asyncio.get_running_loop().run_in_executor(None, work)
        else:
            values = together(parts, self._rows.fixed)
        self._check()
        results = await self._run(values)
        self._rows.check_results(results, len(values[0]))
        return results

    async def _fail_batch(self, batch: Batch, error: Exception) -> None:
        """Give the error to the calls of the batch, or find the calls that cause it."""
        if not self._isolates_errors or len(batch.shares) == 1 or not isinstance(error, errors.OpError):
            batch.task = None  # it ends by itself
            for call in batch.calls():
                self._fail(call, error)
            return
        for share in batch.shares:
            call, own = share[0], Batch([share])
            if call.is_answered():
                continue  # it was cancelled, or other rows of it failed
            try:
                await self._deliver(own)
            except Exception as its:
                self._fail(call, its)

    def _fail(self, call: BatchedCall, error: Exception) -> None:
        own = own_copy(error)
        if isinstance(own, errors.OpError) and len(call.batches) > 1:
            own.begun = True  # other rows of it have
        call.fail(own)
        self._forget(call)


def _refuse(error: errors.OpError) -> None:
    raise own_copy(error)
