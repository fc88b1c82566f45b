"""A worker of four that train in step is killed: how long until the others go on, with and without a backup worker.

Each is a process, and a parameter server another. A step computes for a time that a timer says. The longest pause is
the longest time from the end of one of the chief's steps to the end of the next, of those after the kill; beside it
stands the longest of as many steps before, which is what else this machine does to a step.
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
    """Without a backup, and with one."""
    before, after = await steps(WORKERS)
    claim = Claim("training goes on after", max(after), PAUSE, unit=" s")
    yield Row(f"worker of {WORKERS} killed at step {KILLED}, in step", figures(before, after), [claim])
    before, after = await steps(WORKERS - 1)
    claim = Claim("pause beside the step itself / step", max(after) / statistics.median(before) - 1, 1.0)
    yield Row(f"worker of {WORKERS} killed at step {KILLED}, one of them a backup", figures(before, after), [claim])


async def steps(required: int) -> tuple[list[float], list[float]]:
    """Seconds of each of the chief's last steps before the kill, and of each step after it."""
    done = await together(Plan(required, KILLED + AFTER, SECONDS, dies=KILLED))
    spent = [(step, at - before) for (_, before), (step, at) in itertools.pairwise(done)]
    return [s for step, s in spent if step <= KILLED][-AFTER:], [s for step, s in spent if step > KILLED]


def figures(before: list[float], after: list[float]) -> dict[str, str]:
    told = {"step, before": before, "step, after": after}
    return {name: f"{span(statistics.median(spent))}, at most {span(max(spent))}" for name, spent in told.items()}
