"""Batches of rows that several steps give: one of these steps computes a batch, the others wait for their rows.

A batch begins when it is full, or when its oldest rows have waited for the longest time allowed. Then the step that
gave its first rows leads it: this step gets all rows. The other steps learn of it at once, or, in batches that are
held, when the results are there. So a held batch can be divided again: if the leading step fails or is cancelled, each
other step leads a batch of its own rows.

All changes are made under a lock that is held for a few statements. A waiter awaits a future of its own loop.
"""

import asyncio
import contextlib
import functools
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aioflow import errors
from aioflow.waiting.lines import Attempt, Waitable, WaiterLine, serve_none, wake
from aioflow.waiting.row_batch import Batch, Rows, Values


class Limits(NamedTuple):
    """The limits of batches.

    Attributes:
        rows: the most rows of a batch.
        delay: the most seconds for which rows wait for others.
        waiting: the most batches that wait to begin.
        computing: the most held batches that are computed at the same time.
        sizes: the numbers of rows that a batch may have, in ascending order; empty for any. It is filled up to one.
    """

    rows: int
    delay: float
    waiting: int
    computing: int
    sizes: Sequence[int] = ()


class RowBatches(Waitable):
    """Gathers the rows of steps into batches, and gives the steps their rows of the results.

    Attributes:
        signature: the attributes of the handle that it was made for.
        limits: the limits of the batches.
    """

    def __init__(self, name: str, limits: Limits, held: bool, signature: Mapping[str, Any] | None = None) -> None:
        """No rows yet. With `held` the steps that do not lead a batch wait for its first results."""
        super().__init__(name)
        self.signature: Final = signature or {}
        self.limits: Final = limits
        self._held: Final = held
        self._line: Final = WaiterLine()
        self._lines = (self._line,)
        self._waiting: Final[list[Batch]] = []
        self._computing = 0
        self._begun: Final[weakref.WeakValueDictionary[int, Rows]] = weakref.WeakValueDictionary()

    async def join(self, values: Values, count: int, key: Hashable, who: Any = None) -> Rows:
        """Put rows into a batch. Returns when it has begun, or, if it is held by another leader, when it has results.

        A cancelled call takes the rows out of a batch that has not begun.

        Raises:
            InvalidArgumentError: a batch never has so many rows.
            ResourceExhaustedError: too many batches wait to begin.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._gone is not None:
                raise self._gone()
            rows = self._place(values, count, key, who)
            self._wait(rows.attempt, loop)
            woken = self._begin_batches()
        wake(woken)
        timer = None if rows.batch.leader else loop.call_later(self.limits.delay, self._end_delay, rows)
        try:
            await self._outcome(rows.attempt)
        except BaseException:
            self.leave(rows)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return rows

    def _place(self, values: Values, count: int, key: Hashable, who: Any) -> Rows:
        """Add rows to the last batch of their key if they fit, else to a new one."""
        most = self.limits.rows
        if count > most:
            text = f"{count} rows were given at once, and a batch has at most {most}"
            raise errors.InvalidArgumentError(f"{text}: give fewer, or set a larger max_batch_size")
        batch = next((batch for batch in reversed(self._waiting) if batch.key == key), None)
        if batch is None or batch.is_ready or batch.rows + count > most:
            if len(self._waiting) >= self.limits.waiting:
                text = f"{len(self._waiting)} batches wait to begin, which is all that may wait"
                raise errors.ResourceExhaustedError(f"{text}: try again later, or set max_enqueued_batches")
            if batch is not None:
                batch.is_ready = True
            batch = Batch(key)
            self._waiting.append(batch)
        rows = Rows(values, count, batch, who)
        batch.add(rows)
        batch.is_ready = batch.rows == most
        return rows

    def _end_delay(self, rows: Rows) -> None:
        """The rows have waited for the longest time allowed."""
        with self._lock:
            rows.batch.is_ready = True
            woken = self._begin_batches()
        wake(woken)

    def _begin_batches(self) -> list[Attempt]:
        """Begin the batches that are ready and may begin. Returns the waits that are over."""
        over: list[Attempt] = []
        for batch in [batch for batch in self._waiting if batch.is_ready]:
            if not self._held or self._computing < self.limits.computing:
                self._waiting.remove(batch)
                over += self._begin_batch(batch)
        return over

    def _begin_batch(self, batch: Batch) -> list[Attempt]:
        for part in [part for part in batch.parts if part.attempt.is_orphaned]:
            batch.remove(part)
        if not batch.parts:
            return []
        batch.begin(functools.partial(_end_step, weakref.ref(self)))
        self._computing += self._held
        self._begun.update({part.id: part for part in batch.parts})
        return [self._over(part.attempt) for part in (batch.parts[:1] if self._held else batch.parts)]

    def leave(self, rows: Rows) -> None:
        """The step of these rows has failed, or waits no longer."""
        batch = rows.batch
        with self._lock:
            self._line.leave(rows.attempt)
            if batch.leader:
                if rows.leads and rows.id not in batch.lost:
                    self._divide(batch)
                batch.lost.add(rows.id)
            elif rows in batch.parts:
                batch.remove(rows)
                if not batch.parts:
                    self._waiting.remove(batch)
            woken = self._changed(batch) + self._begin_batches()
        wake(woken)

    def _divide(self, batch: Batch) -> None:
        """The leader is lost: each other step that still waits for the batch gets one of its own."""
        left = [part for part in batch.parts[1:] if part.id not in batch.lost] if self._held else []
        if self._held and batch.parts:
            self._computing -= 1
        batch.parts.clear()
        for part in reversed(left):
            own = Batch(batch.key)
            own.add(part)
            own.is_ready = True
            self._waiting.insert(0, own)

    # What the steps of a batch give each other

    def part(self, number: int) -> Rows:
        """The rows of that number. InvalidArgumentError if no step has them."""
        rows = self._begun.get(number)
        if rows is None:
            text = f"no step has rows of number {number} in {self!r}"
            raise errors.InvalidArgumentError(f"{text}: give the outputs of `batch` in the same step")
        return rows

    def take(self, batch: Batch) -> list[Values]:
        """The values of all rows, for the leader."""
        with self._lock:
            values = [part.values for part in batch.parts]
            if not self._held:
                for part in batch.parts:
                    part.values = ()
                batch.parts.clear()
        return values

    def give(self, batch: Batch, name: str, results: dict[int, Values]) -> None:
        """Let all steps have their rows of results. The first results end the wait of a held batch."""
        with self._lock:
            batch.results[name] = results
            woken = self._changed(batch)
            if self._held and batch.parts:
                self._computing -= 1
                woken += [self._over(part.attempt) for part in batch.parts[1:] if part.id not in batch.lost]
                batch.parts.clear()
                woken += self._begin_batches()
        wake(woken)

    async def results(self, rows: Rows, name: str, who: Any = None) -> Values:
        """The rows of a result that belong to a step, once. Waits until the leader gives them.

        AbortedError if the step of the leader ends before.
        """
        batch = rows.batch
        await self._until(batch, lambda: name in batch.results or batch.leader in batch.lost, who)
        if name in batch.results:
            return batch.results[name].pop(rows.id)
        text = f"the step that has the rows of a batch in {self!r} has failed, or ended without these results"
        raise errors.AbortedError(text)

    def share(self, rows: Rows, name: str, values: Values) -> None:
        """Give values to the leader."""
        batch = rows.batch
        with self._lock:
            batch.shares.setdefault(name, {})[rows.id] = values
            woken = self._changed(batch)
        wake(woken)

    async def shares(self, batch: Batch, name: str, who: Any = None) -> Mapping[int, Values]:
        """The values that the steps of a batch share. Waits until all have given theirs, but those that have ended."""
        await self._until(batch, lambda: batch.places.keys() <= batch.shares[name].keys() | batch.lost, who)
        return batch.shares.pop(name)

    # Waits

    async def _until(self, batch: Batch, condition: Callable[[], bool], who: Any) -> None:
        attempt, loop = Attempt("see the results of a batch in", serve_none, who), asyncio.get_running_loop()
        with self._lock:
            if condition():
                return
            if self._gone is not None:
                raise self._gone()
            batch.waits[attempt] = condition
            self._wait(attempt, loop)
        try:
            await self._outcome(attempt)
        finally:
            with self._lock:
                self._line.leave(attempt)
                batch.waits.pop(attempt, None)

    def _wait(self, attempt: Attempt, loop: asyncio.AbstractEventLoop) -> None:
        attempt.since, attempt.future = loop.time(), loop.create_future()
        self._line.join(attempt)

    async def _outcome(self, attempt: Attempt) -> None:
        assert attempt.future is not None
        await attempt.future
        attempt.result()

    def _changed(self, batch: Batch) -> list[Attempt]:
        """The waits that are over because the batch has changed."""
        return [self._over(attempt) for attempt, condition in batch.waits.items() if condition()]

    def look_again(self, batch: Batch) -> None:
        """A step of the batch has ended."""
        with self._lock:
            woken = self._changed(batch)
        wake(woken)

    def _over(self, attempt: Attempt) -> Attempt:
        self._line.leave(attempt)
        attempt.outcome = attempt.outcome or (None, None)
        return attempt

    def _dropped_error(self) -> BaseException:
        return errors.CancelledError(f"{self!r} is gone: its container was reset or its session closed")

    def __repr__(self) -> str:
        waiting = sum([batch.rows for batch in self._waiting])
        return f"<RowBatches {self.name!r}, {waiting} rows waiting, {self._computing} batches computed>"


def _end_step(live: weakref.ref[RowBatches], batch: weakref.ref[Batch], number: int) -> None:
    """The step of a part has ended. Takes no lock, since the garbage collector may call it at any point."""
    found, batches = batch(), live()
    if found is None or batches is None:
        return
    found.lost.add(number)
    for attempt in list(found.waits):
        assert attempt.future is not None
        with contextlib.suppress(RuntimeError):  # its loop is closed
            attempt.future.get_loop().call_soon_threadsafe(batches.look_again, found)
