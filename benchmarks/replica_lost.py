"""One of four synchronous workers is killed: the time until the others go on, with and without a backup worker.

Each worker is a process, and so is the parameter server. A timer sets the duration of a step. The longest pause is the
longest time between the ends of two consecutive steps of the chief after the kill. The longest of as many steps before
stands beside it, for the noise of this machine.
"""

import itertools
import statistics
from collections.abc import AsyncIterator

from benchmarks.replica import WORKERS, Plan, together
from benchmarks.report import Claim, Row, span

KILLED, AFTER = 500, 100
SECONDS = 0.05
PAUSE = 3.0


async def rows() -> AsyncIterator[Row]:
    """Measure without a backup, and with one."""
    before, after = await steps(WORKERS)
    claim = Claim("training goes on after", max(after), PAUSE, unit=" s")
    yield Row(f"worker of {WORKERS} killed at step {KILLED}, in step", figures(before, after), [claim])
    before, after = await steps(WORKERS - 1)
    claim = Claim("pause beside the step itself / step", max(after) / statistics.median(before) - 1, 1.0)
    yield Row(f"worker of {WORKERS} killed at step {KILLED}, one of them a backup", figures(before, after), [claim])


async def steps(required: int) -> tuple[list[float], list[float]]:
    """Return the seconds of the chief's last steps before the kill, and of each step after it."""
    done = await together(Plan(required, KILLED + AFTER, SECONDS, dies=KILLED))
    spent = [(step, at - before) for (_, before), (step, at) in itertools.pairwise(done)]
    return [s for step, s in spent if step <= KILLED][-AFTER:], [s for step, s in spent if step > KILLED]


def figures(before: list[float], after: list[float]) -> dict[str, str]:
    told = {"step, before": before, "step, after": after}
    return {name: f"{span(statistics.median(spent))}, at most {span(max(spent))}" for name, spent in told.items()}
