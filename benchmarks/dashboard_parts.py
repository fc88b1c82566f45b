"""The processor time of each part of a live page, in the watched process.

Steps with and without a page differ by less than two rounds of the same steps do on a busy machine. So the parts are
measured directly: the time that their coroutines hold the thread of the event loop, and that a traced step takes longer
than an ordinary one.
"""

import contextlib
import statistics
import time
from collections import Counter
from collections.abc import Coroutine, Generator, Iterator
from typing import Any
from unittest.mock import patch

from aioflow.dashboard import app
from aioflow.dashboard.graph_source import GraphSource
from aioflow.dashboard.sampling import Sampler
from aioflow.dashboard.session_source import SessionSource
from aioflow.dashboard.training_source import TrainingSource
from aioflow.dashboard.wait_source import WaitSource

TRACES, UPDATES, LOOKS = "traced steps", "updates of the page", "looks of sources"
PARTS: tuple[tuple[Any, str, str], ...] = (
    (app, "_send", UPDATES),
    *[(source, "watch", LOOKS) for source in (SessionSource, WaitSource, GraphSource, TrainingSource)],
)


class Measured:
    """An awaitable that counts the processor time of a coroutine as that of a part."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], part: str, spent: Counter[str]) -> None:
        self._coroutine, self._part, self._spent = coroutine, part, spent

    def __await__(self) -> Generator[Any, Any, Any]:
        go_on, value = self._coroutine.send, None
        while True:
            began = time.thread_time()
            try:
                awaited = go_on(value)
            except StopIteration as done:
                return done.value
            finally:
                self._spent[self._part] += time.thread_time() - began
            try:
                go_on, value = self._coroutine.send, (yield awaited)
            except BaseException as error:
                go_on, value = self._coroutine.throw, error


@contextlib.contextmanager
def accounted() -> Iterator[Counter[str]]:
    """The seconds of each part of the pages that are opened in the block; complete after it."""
    spent: Counter[str] = Counter()
    traced: list[float] = []
    plain: list[float] = []
    with contextlib.ExitStack() as stack:
        for owner, name, part in PARTS:
            stack.enter_context(patch.object(owner, name, measured(getattr(owner, name), part, spent)))
        stack.enter_context(patch.object(Sampler, "around", sorted_runs(Sampler.around, traced, plain)))
        yield spent
    spent[TRACES] += sum(traced) - len(traced) * statistics.median(plain)


def measured(function: Any, part: str, spent: Counter[str]) -> Any:
    """The same coroutine function, whose time is counted."""

    async def call(*arguments: Any) -> Any:
        return await Measured(function(*arguments), part, spent)

    return call


def sorted_runs(around: Any, traced: list[float], plain: list[float]) -> Any:
    """`Sampler.around`, which adds the processor time of each run to one of the lists."""

    async def call(sampler: Any, run: Any, *rest: Any) -> Any:
        kinds = []

        async def seen(*, options: Any, metadata: Any) -> Any:
            kinds.append(traced if options.trace else plain)
            return await run(options=options, metadata=metadata)

        began = time.process_time()
        result = await around(sampler, seen, *rest)
        kinds[0].append(time.process_time() - began)
        return result

    return call
