"""Samples of the steps of a session: a few a second are timed, and now and then one is traced.

A sampler asks the session to show it the next run. All runs in between are untouched. A traced run computes node by
node, without fused kernels, so it is slower: the next one comes when the time that the last one has cost is less than a
two hundredth of the time since. Long steps are not traced.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.config import RunOptions
from aioflow.dashboard.value_statistics import ValueCollector
from aioflow.runtime.fetches import Fetches
from aioflow.runtime.plan_cache import DEFAULT
from aioflow.runtime.run_observer import ObservedRun
from aioflow.session import Session
from aioflow.tracing import RunMetadata

_SAMPLES: Final = 64
"""The most samples that are kept between two calls of `take`."""
_TRACE_EVERY: Final = 2.0
"""Seconds from one traced step to the next, at least."""
_TRACE_SHARE: Final = 200.0
"""The time from one traced step to the next, as a multiple of the time that the first has cost."""
_TRACEABLE: Final = 0.25
"""Seconds: longer steps are not traced, since node by node they might take much longer."""
_NUMBERS: Final = 16
"""Fetched numbers of a run that are shown."""
_TRACED: Final = RunOptions(trace=True)


class Sample(NamedTuple):
    """One run.

    Attributes:
        began: when it began, in seconds since 1970.
        start: the same on the clock of traces.
        seconds: how long it took.
        numbers: the fetched numbers, by the name of the tensor.
        fetches: the names of its fetches.
        feeds: the names of the tensors that it was fed.
        trace: its trace; None for none.
        values: statistics of its results, if it was traced.
    """

    began: float
    start: float
    seconds: float
    numbers: dict[str, float]
    fetches: tuple[str, ...]
    feeds: tuple[str, ...]
    trace: RunMetadata | None
    values: ValueCollector


class Sampler:
    """Observes single runs of a session.

    Attributes:
        samples: the samples since the last call of `take`.
        failed: the number of observed runs that failed.
    """

    def __init__(self, session: Session, clock: Callable[[], float] = time.time) -> None:
        self.samples: Final[deque[Sample]] = deque(maxlen=_SAMPLES)
        self.failed: int = 0
        self._session: Final = session
        self._clock: Final = clock
        self._usual: float | None = None
        self._assembled: Final[set[tuple[str, ...]]] = set()
        self._next_trace = 0.0
        self._debt = 0.0

    def ask(self) -> None:
        """Observe the next run of the session."""
        self._session.observe_next_run(self)

    def stop(self) -> None:
        """Observe no further run."""
        self._session.observe_next_run(None)

    async def around(
        self, run: ObservedRun, fetches: Fetches, feeds: Sequence[str], options: RunOptions,
        metadata: RunMetadata | None,
    ) -> Any:  # fmt: skip
        """Time a run, and trace it if that is due and its caller wants no trace."""
        start, began = time.perf_counter(), self._clock()
        traced = options is DEFAULT and metadata is None and self._is_trace_due(began)
        trace = RunMetadata() if traced else None
        values = ValueCollector()
        if trace is not None:
            trace.on_values = values
        try:
            result = await run(options=_TRACED if traced else options, metadata=trace if traced else metadata)
        except BaseException as error:
            self.failed += isinstance(error, Exception)
            raise
        seconds, numbers = time.perf_counter() - start, numbers_in(fetches, result)
        self._keep(Sample(began, start, seconds, numbers, names_of(fetches), tuple(feeds), trace, values))
        return result

    def _keep(self, sample: Sample) -> None:
        """Keep a sample, unless its program was assembled in it, and choose the time of the next trace.

        The trace after an assembly comes soon. The pause after that trace also pays for the assembly.
        """
        if sample.trace is None:
            self._usual = sample.seconds
            self.samples.append(sample)
            return
        self._debt += max(0.0, sample.seconds - (self._usual or 0.0))
        pause = 0.0
        if sample.fetches in self._assembled:
            self.samples.append(sample)
            pause, self._debt = self._debt * _TRACE_SHARE, 0.0
        self._assembled.add(sample.fetches)
        self._next_trace = self._clock() + max(_TRACE_EVERY, pause)

    def _is_trace_due(self, now: float) -> bool:
        return self._usual is not None and self._usual < _TRACEABLE and now >= self._next_trace

    def take(self) -> Sequence[Sample]:
        """The samples since the last call."""
        found = list(self.samples)
        self.samples.clear()
        return found


def names_of(fetches: Fetches) -> tuple[str, ...]:
    """The names of the first fetches."""
    names = [*[tensor.name for tensor in fetches.tensors], *[operation.name for operation in fetches.operations]]
    return tuple(names[:_NUMBERS])


def numbers_in(fetches: Fetches, result: Any) -> dict[str, float]:
    """The single numbers among the values of a run, by the name of the tensor without `:0`."""
    if type(result) is dict:
        pairs = [(str(name), value) for name, value in result.items()]
    elif type(result) in (list, tuple):
        # `build` puts names in the places of the values
        names = fetches.build([tensor.name for tensor in fetches.tensors])
        pairs = [(name, value) for name, value in zip(names, result, strict=False) if isinstance(name, str)]
    else:
        pairs = [(tensor.name, result) for tensor in fetches.tensors[:1]]
    found = [(name.removesuffix(":0"), float(value)) for name, value in pairs if _is_number(value)]
    return dict(found[:_NUMBERS])


def _is_number(value: Any) -> bool:
    return isinstance(value, (float, int, np.floating, np.integer)) and not isinstance(value, bool)
