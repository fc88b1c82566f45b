"""All-reduce of float32 over four worker processes of this host, beside Gloo's in as many processes.

Each of Gloo's processes times its own calls, which begin after a barrier. The client times a step of aioflow, from the
call to the answer that the sums are on all workers. A rate is the bytes of the tensor of one worker by the time. The
null step is one on another worker than the master's: each step takes at least that time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

import aioflow as af
from benchmarks.all_reduce_gloo import Calls, gloo
from benchmarks.cluster import OTHER, null
from benchmarks.cluster_processes import Targets, clusters
from benchmarks.cluster_sides import Built, with_aioflow
from benchmarks.harness import SETTLE, Side, Step, Timing, calibrate, excuse, freeze, rotated, timed
from benchmarks.report import Claim, Row, span

WORKERS, MB = 4, 10**6
SIZES = (1, 4, 100)
"""Millions of bytes of each worker's tensor."""
GLOO, NULL = "Gloo", "null step"
RING, ONE_HOST = "aioflow, ring", "aioflow, one host"
ROUNDS, BLOCK = 7, 0.4
FASTER = 1.5
"""The target for the largest size."""

OPTIONS: Mapping[str, Mapping[str, Any]] = {RING: {}, ONE_HOST: {"groups": [range(WORKERS)]}}
"""The arguments of `all_reduce`, by side."""


async def rows() -> AsyncIterator[Row]:
    """Measure each size."""
    async with clusters({"worker": WORKERS}, tensorflow=False) as targets, AsyncExitStack() as stack:
        calls: Calls | Exception
        try:
            calls = await stack.enter_async_context(gloo(WORKERS))
        except (ImportError, RuntimeError) as error:
            calls = error
        for size in SIZES:
            yield await measured(targets, size, calls)


async def measured(targets: Targets, size: int, calls: Calls | Exception) -> Row:
    """Return the row of one size."""
    floats, timing = size * MB // 4, Timing()
    async with AsyncExitStack() as stack:
        blocks: dict[str, Callable[[], Any]] = {}
        for side, options in OPTIONS.items():
            blocks[side] = await block(await stack.enter_async_context(reducing(targets, floats, options)))
        blocks[NULL] = await block(await stack.enter_async_context(with_aioflow(targets, null(OTHER))))
        if isinstance(calls, Exception):
            timing.missing[GLOO] = excuse(calls)
        else:
            count = max(5, round(BLOCK / calls(floats, 3)))
            blocks[GLOO] = lambda: asyncio.to_thread(calls, floats, count)
        freeze()
        for turn in range(ROUNDS):
            for side in rotated(list(blocks), turn):
                await asyncio.sleep(SETTLE)
                timing.rounds.setdefault(side, []).append(await blocks[side]())
    return row(size, timing)


async def block(step: Step) -> Callable[[], Any]:
    """Return a function that times a block of steps."""
    count = await calibrate(step, BLOCK)
    return lambda: timed(step, count)


def reducing(targets: Targets, floats: int, options: Mapping[str, Any]) -> Side:
    """Yield a step that all-reduces variables of the workers, and leaves the sums there."""

    def build(_: Any) -> Built:
        tensors, inits = [], []
        for number in range(WORKERS):
            with af.device(f"/job:worker/task:{number}"):
                value = af.Variable(af.fill([floats], np.float32(number)), name=f"of_{floats}")
                tensors.append(value.read_value())
                inits.append(value.initializer)
        sums = af.collectives.all_reduce(tensors, **options)
        return Built(af.group(*[each.op for each in sums]), init=inits)

    return with_aioflow(targets, build)


def row(size: int, timing: Timing) -> Row:
    """Return the rates of all sides."""
    figures = {side: f"{rate(size, timing, side):.2f} GB/s ({span(timing.seconds(side))})" for side in timing.rounds}
    figures[NULL] = span(timing.seconds(NULL))
    ratios = {f"{size} MB: {side} / {GLOO}": timing.ratio(GLOO, side) for side in OPTIONS}
    claims = [Claim(what, ratio, FASTER, at_least=True) for what, ratio in ratios.items()] if size == SIZES[-1] else []
    notes = [] if claims else [f"{what} {ratio:.2f}x" for what, ratio in ratios.items() if ratio is not None]
    return Row(f"all-reduce of {size} MB over {WORKERS} workers", figures | timing.missing, claims, notes)


def rate(size: int, timing: Timing, side: str) -> float:
    """Return gigabytes per second."""
    return size * MB / 1e9 / (timing.seconds(side) or float("inf"))
