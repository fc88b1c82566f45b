"""Alternating measurement: every round times one block of each side, and a ratio is a median of ratios per round.

Noise on a shared machine comes in waves longer than a block. A wave hits all sides of a round, so a ratio within the
round stays valid when absolute times do not. Sides take turns at being first. Between two blocks the loop sleeps until
the thread pools of the side before, which spin for tens of milliseconds, sleep too.
"""

import asyncio
import gc
import inspect
import itertools
import math
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

Step = Callable[..., Any]
"""One step of a side: a plain function, or a coroutine function, which is awaited. Returns the value to compare."""

Side = AbstractAsyncContextManager[Step]
"""Builds a side on entry, yields its step, and closes it on exit. ImportError on entry: the peer is not installed."""

SETTLE = 0.06
FIRST = 3
"""Number of first steps whose values are compared: the second and third include the gradients."""


@dataclass
class Timing:
    """Seconds per step: one median per round and side. `missing` gives the reason for a side without figures."""

    rounds: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def seconds(self, side: str) -> float | None:
        """Return the median over all rounds, None for a missing side."""
        return statistics.median(self.rounds[side]) if side in self.rounds else None

    def ratio(self, above: str, below: str) -> float | None:
        """Return the median over rounds of `above`'s time by `below`'s, None unless both were measured."""
        if above not in self.rounds or below not in self.rounds:
            return None
        return statistics.median(a / b for a, b in zip(self.rounds[above], self.rounds[below], strict=True))

    def ratio_to_best(self, above: str, others: Sequence[str]) -> float | None:
        """Return the median over rounds of `above`'s time by the fastest other's, None unless all were measured."""
        if not {above, *others} <= self.rounds.keys():
            return None
        best: list[float] = [min(times) for times in zip(*(self.rounds[other] for other in others), strict=True)]
        return statistics.median(a / b for a, b in zip(self.rounds[above], best, strict=True))


async def alternate(
    sides: Mapping[str, Side], *, rounds: int = 15, block: float = 0.25, agree: float | None = None
) -> Timing:
    """Build all sides, time `rounds` rounds of blocks of about `block` seconds each, and close the sides.

    With `agree`, the values of the first steps of all sides must agree to this relative tolerance; else ValueError is
    raised, since sides that compute different things must not be compared.
    """
    timing = Timing()
    async with AsyncExitStack() as stack:
        built, values = await enter(stack, sides, timing.missing)
        if agree is not None:
            check(values, agree)
        counts = {name: await calibrate(step, block) for name, step in built.items()}
        freeze()
        for turn in range(rounds):
            for name in rotated(list(built), turn):
                await asyncio.sleep(SETTLE)
                timing.rounds.setdefault(name, []).append(await timed(built[name], counts[name]))
    return timing


async def enter(
    stack: AsyncExitStack, sides: Mapping[str, Side], missing: dict[str, str], first: int = FIRST
) -> tuple[dict[str, Step], dict[str, list[Any]]]:
    """Return the steps of all sides that could be built and did their first steps, and the values of these steps.

    `missing` gets the reasons for the others: one side that is missing or fails does not hide the rest.
    """
    built, values = {}, {}
    for name, side in sides.items():
        try:
            step = await stack.enter_async_context(side)
            values[name] = [await call(step) for _ in range(first)]
            built[name] = step
        except Exception as error:
            missing[name] = excuse(error)
    return built, values


def excuse(error: Exception) -> str:
    """Return the reason why a side has no figure."""
    words = "not installed" if isinstance(error, ImportError) else "failed"
    return f"{words} ({type(error).__name__}: {error})"


def check(values: Mapping[str, Sequence[Any]], tolerance: float) -> None:
    """Raise ValueError unless every side's values equal the first side's, step by step."""
    for (name, ours), (other, theirs) in itertools.pairwise(values.items()):
        for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if not math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=tolerance):
                raise ValueError(f"step {step}: {name} computed {float(a):.7g}, {other} {float(b):.7g}")


async def call(step: Step) -> Any:
    """Run one step, and await it if necessary."""
    value = step()
    return await value if isinstance(value, Awaitable) else value


async def calibrate(step: Step, block: float) -> int:
    """Return the number of steps in a block, after a warm-up of at least the same duration."""
    count, spent = 0, 0.0
    begin = time.perf_counter()
    while spent < 2 * block or count < 3:
        await call(step)
        count += 1
        spent = time.perf_counter() - begin
    return max(5, round(count * block / spent))


def freeze() -> None:
    """Exempt all present objects from garbage collection, so that no side pays for another's heap."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def rotated(names: list[str], turn: int) -> list[str]:
    """Return the names in order, beginning with another one in each round."""
    first = turn % len(names) if names else 0
    return names[first:] + names[:first]


async def timed(step: Step, count: int) -> float:
    """Return the median seconds of a step over a block of `count`, after a warm-up of a third of it.

    The warm-up is long because thread pools fall asleep in the pause: TensorFlow's needs about 0.1 s to be at its best.
    """
    for _ in range(1 + count // 3):
        await call(step)
    samples = await timed_async(step, count) if inspect.iscoroutinefunction(step) else timed_sync(step, count)
    return statistics.median(samples)


def timed_sync(step: Step, count: int) -> list[float]:
    """Return the seconds of each of `count` plain calls."""
    clock, samples = time.perf_counter, []
    for _ in range(count):
        begin = clock()
        step()
        samples.append(clock() - begin)
    return samples


async def timed_async(step: Step, count: int) -> list[float]:
    """Return the seconds of each of `count` awaited calls."""
    clock, samples = time.perf_counter, []
    for _ in range(count):
        begin = clock()
        await step()
        samples.append(clock() - begin)
    return samples


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least `share` of all samples do not exceed."""
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]
