"""A loop whose body goes from one process to another and back in each iteration."""

from collections.abc import AsyncIterator
from typing import Any

from benchmarks import peers
from benchmarks.cluster import FASTER, MASTER, OTHER
from benchmarks.cluster_processes import clusters
from benchmarks.cluster_sides import Built, both
from benchmarks.harness import Timing, alternate
from benchmarks.report import Claim, Row, beside, span

ITERATIONS = 100


async def rows() -> AsyncIterator[Row]:
    """Measure the time of an iteration."""
    async with clusters({"worker": 2}) as targets:
        timing = await alternate(both(targets, split), agree=1e-5)
        ratio = timing.ratio(peers.TENSORFLOW, peers.AIOFLOW)
        claim = Claim("TensorFlow / aioflow", ratio, FASTER, at_least=True)
        title = f"loop of {ITERATIONS} iterations split over two processes, per iteration"
        yield Row(title, {side: iteration(timing, side) for side in timing.rounds} | timing.missing, [claim])


def iteration(timing: Timing, side: str) -> str:
    """Run one iteration."""
    return f"{span((timing.seconds(side) or 0.0) / ITERATIONS):>10}{beside(timing, side)}"


def split(m: Any) -> Built:
    """x = x * scale on the other task, + 1 on this one, which also decides the condition."""
    with m.device(MASTER):
        end = m.placeholder(m.int32, [])
        start = m.placeholder(m.float32, [])

    def body(i: Any, x: Any) -> tuple[Any, Any]:
        with m.device(OTHER):
            scaled = x * 0.5
        with m.device(MASTER):
            return i + 1, scaled + 1.0

    with m.device(MASTER):
        _, last = m.while_loop(lambda i, x: i < end, body, [m.constant(0), start])
        return Built(m.identity(last), [end, start], [ITERATIONS, 0.0])
