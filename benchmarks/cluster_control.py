"""A control round trip while 1 GiB goes from one worker to another: null steps at the sender, through the receiver.

Each must get from the client to the master's task, which is busy receiving, on to the task that is busy sending, and
back. The flow is most of a variable, which the receiver adds up.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

from benchmarks import peers
from benchmarks.cluster import MASTER, OTHER, null
from benchmarks.cluster_processes import Targets, clusters
from benchmarks.cluster_sides import Built, both
from benchmarks.cluster_transfer import FLOATS, variable
from benchmarks.harness import Step, call, enter, percentile
from benchmarks.report import Claim, Row, span

SIZE, FLOWS, PERIOD = 1024, 8, 0.001
"""MiB of a flow, number of flows, and seconds between two round trips."""
IDLE = 300


async def rows() -> AsyncIterator[Row]:
    """Measure the percentiles of both sides."""
    async with clusters({"worker": 2}) as targets:
        yield await beside_flows(targets)


async def beside_flows(targets: Targets) -> Row:
    """Measure one side after the other, since a side's flow would disturb the other's round trips."""
    figures: dict[str, str] = {}
    late: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        flows, _ = await enter(stack, both(targets, flow), figures, first=1)
        controls, _ = await enter(stack, both(targets, null(OTHER)), figures)
        for side, control in controls.items():
            idle = await round_trips(control, idle_for(IDLE))
            late[side], seconds = await during(control, flows[side])
            figures[side] = f"{percentiles(late[side])}, {FLOWS} flows of {seconds:.2f} s; idle {percentiles(idle)}"
    p99 = percentile(late[peers.AIOFLOW], 0.99) * 1e3 if peers.AIOFLOW in late else None
    claim = Claim("aioflow, p99", p99, 10, unit=" ms")
    return Row("control round trip while 1 GiB flows between the same tasks", figures, [claim])


def flow(m: Any) -> Built:
    """The master's task adds up a part of a variable of another worker."""
    value, init = variable(m, OTHER, SIZE + 1)
    with m.device(OTHER):
        part = value[FLOATS:]
    with m.device(MASTER):
        return Built(m.reduce_sum(part), init=init)


async def during(control: Step, flow: Step) -> tuple[list[float], float]:
    """Return the round trips during the flows, and the seconds of a flow."""
    found, begin = [], time.perf_counter()
    for _ in range(FLOWS):
        flowing = asyncio.create_task(aside(flow))
        found += await round_trips(control, flowing.done)
        await flowing
    return found, (time.perf_counter() - begin) / FLOWS


async def aside(step: Step) -> Any:
    """Run a step; a plain function runs on a thread."""
    return await (step() if asyncio.iscoroutinefunction(step) else asyncio.to_thread(step))


def idle_for(count: int) -> Callable[[], bool]:
    """A flag that turns True after it was asked that often."""
    left = iter(range(count))
    return lambda: next(left, None) is None


async def round_trips(control: Step, over: Callable[[], bool]) -> list[float]:
    """Return the seconds of each call, one after the other."""
    await asyncio.sleep(PERIOD)
    found = []
    while not over():
        begin = time.perf_counter()
        await call(control)
        found.append(time.perf_counter() - begin)
        await asyncio.sleep(PERIOD)
    return found


def percentiles(seconds: list[float]) -> str:
    """Return the median and the tail."""
    return f"p50 {span(percentile(seconds, 0.5))}, p99 {span(percentile(seconds, 0.99))} of {len(seconds)}"
