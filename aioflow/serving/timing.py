"""The time that a request took, for a client that asks by the header `Prefer: server-timing`.

The response has it in the header of the web for that, in milliseconds:

    Server-Timing: queue;dur=0.812, run;dur=2.104, total;dur=3.209, batch;desc="17 rows"

`queue` is the time before the batch of the request began, `run` that of the batch, `total` all up to the response.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from aioflow.serving.spans import BatchSpans

HEADER: Final = "server-timing"


class RequestTiming:
    """The time of a request: it knows when its batches began and ended, if it shared runs."""

    __slots__ = ("_begin", "_end", "_rows", "_since")

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._begin: float | None = None
        self._end: float | None = None
        self._rows = 0

    def begin_batch(self, rows: int) -> None:
        """Note that a batch with rows of the request begins."""
        self._rows = rows
        if self._begin is None:
            self._begin = time.perf_counter()

    def end_batch(self) -> None:
        """Note that it has ended."""
        self._end = time.perf_counter()

    def describe(self, rows: int) -> str:
        """Return the value of the header, for a request with so many rows. One that ran alone never waited."""
        now = time.perf_counter()
        begin = self._since if self._begin is None else self._begin
        end = now if self._end is None else self._end
        spent = {"queue": begin - self._since, "run": end - begin, "total": now - self._since}
        times = ", ".join(f"{name};dur={1000 * seconds:.3f}" for name, seconds in spent.items())
        return f'{times}, batch;desc="{self._rows or rows} rows"'


_current: Final[ContextVar[RequestTiming | None]] = ContextVar("timing", default=None)


def begin_timing(headers: Mapping[str, str]) -> RequestTiming | None:
    """Measure the request that the current task answers, if its headers ask for that."""
    wishes = headers.get("prefer")
    if wishes is None or HEADER not in wishes.lower():
        return None
    timing = RequestTiming()
    _current.set(timing)
    return timing


class _Caller(NamedTuple):
    """What is noted of the caller of a batched call."""

    span: Any
    timing: RequestTiming | None


class BatchNotes:
    """Gives the batches of a signature their spans, and tells the requests in them when they begin and end."""

    def __init__(self, signature: str) -> None:
        self._spans: Final = BatchSpans(signature)

    def note_caller(self) -> _Caller | None:
        """Return what is to be known of the request that the current task answers; None if that is nothing."""
        span, timing = self._spans.note_caller(), _current.get()
        return None if span is None and timing is None else _Caller(span, timing)

    @contextlib.contextmanager
    def around(self, callers: Sequence[_Caller | None], rows: int) -> Iterator[None]:
        """A block around a batch."""
        noted = [caller for caller in callers if caller is not None]
        timings = [caller.timing for caller in noted if caller.timing is not None]
        for timing in timings:
            timing.begin_batch(rows)
        with self._spans.around([caller.span for caller in noted], len(callers), rows):
            yield
        for timing in timings:
            timing.end_batch()
