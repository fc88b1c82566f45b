"""Large tensors from process to process: between two workers, and between a worker and the client.

The receiver uses the transferred value and gives 4 bytes of it to the client. Raw TCP is the loopback throughput of
this machine between two processes, in the same rounds.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.cluster import MASTER, OTHER
from benchmarks.cluster_processes import Targets, clusters
from benchmarks.cluster_sides import Build, Built, both
from benchmarks.cluster_tcp import with_tcp
from benchmarks.harness import Side, Step, Timing, alternate, call
from benchmarks.report import Claim, Row, span

MIB = 1 << 20
SIZES = (1, 16, 64, 256)
FLOATS = MIB // 4
"""Floats of a MiB."""
TCP = "raw TCP"
ROUNDS, BLOCK = 7, 0.15
FASTER, OF_TCP, FLAT = 1.5, 0.5, 0.67


async def rows() -> AsyncIterator[Row]:
    """Measure each direction by size."""
    async with clusters({"worker": 2}) as targets:
        for title, way in WAYS.items():
            yield await by_size(targets, title, way)


async def by_size(targets: Targets, title: str, way: Callable[[int], Build]) -> Row:
    """Measure the throughput of all sides for each size."""
    timings = {}
    for size in SIZES:
        sides = {side: in_turn(context) for side, context in both(targets, way(size)).items()}
        sides[TCP] = in_turn(with_tcp(size * MIB))
        timings[size] = await alternate(sides, rounds=ROUNDS, block=BLOCK)
    figures = {f"{size} MiB": throughputs(timing, size) for size, timing in timings.items()}
    for size, timing in timings.items():
        figures |= {f"{size} MiB, {side}": why for side, why in timing.missing.items()}
    return Row(title, figures, [*[claim for size in SIZES for claim in claims(size, timings[size])], flat(timings)])


@asynccontextmanager
async def in_turn(side: Side) -> AsyncIterator[Step]:
    """That side, with a turn of the loop after each step, since a client that is silent for long counts as lost."""
    async with side as step:

        async def stepped() -> Any:
            value = await call(step)
            await asyncio.sleep(0)
            return value

        yield stepped


def throughputs(timing: Timing, size: int) -> str:
    """Return the figure and the time of each side."""
    sides = [f"{side} {speed(timing, side, size):.2f} GiB/s ({span(timing.seconds(side))})" for side in timing.rounds]
    return ", ".join(sides)


def speed(timing: Timing, side: str, size: int) -> float:
    """GiB per second."""
    return size / 1024 / (timing.seconds(side) or float("inf"))


def claims(size: int, timing: Timing) -> list[Claim]:
    """Compare with TensorFlow and with TCP."""
    faster = timing.ratio(peers.TENSORFLOW, peers.AIOFLOW)
    of_tcp = timing.ratio(TCP, peers.AIOFLOW)
    return [
        Claim(f"{size} MiB: aioflow / TensorFlow", faster, FASTER, at_least=True),
        Claim(f"{size} MiB: aioflow / {TCP}", of_tcp, OF_TCP, at_least=True),
    ]


def flat(timings: Mapping[int, Timing]) -> Claim:
    """Return the slowest size's throughput relative to the fastest's."""
    speeds = [speed(timing, peers.AIOFLOW, size) for size, timing in timings.items() if peers.AIOFLOW in timing.rounds]
    value = min(speeds) / max(speeds) if len(speeds) == len(timings) else None
    return Claim("the slowest size / the fastest", value, FLAT, at_least=True)


def pulled(size: int) -> Build:
    """The master's task uses a variable of another worker."""

    def build(m: Any) -> Built:
        value, init = variable(m, OTHER, size)
        with m.device(MASTER):
            return Built(m.identity(value)[0], init=init)

    return build


def pushed(size: int) -> Build:
    """A variable of another worker gets the value of a variable of the master's task."""

    def build(m: Any) -> Built:
        value, filled = variable(m, MASTER, size)
        target, emptied = variable(m, OTHER, size)
        with m.device(OTHER):
            return Built(m.assign(target, value).op, init=[filled, emptied])

    return build


def fetched(size: int) -> Build:
    """The client gets a variable."""

    def build(m: Any) -> Built:
        value, init = variable(m, MASTER, size)
        with m.device(MASTER):
            return Built(m.identity(value), init=init)

    return build


def fed(size: int) -> Build:
    """The client feeds a value."""

    def build(m: Any) -> Built:
        with m.device(MASTER):
            value = m.placeholder(m.float32, [size * FLOATS])
            return Built(value[0] + 1.0, [value], [np.ones(size * FLOATS, np.float32)])

    return build


def variable(m: Any, place: str, size: int) -> tuple[Any, Any]:
    """Return a variable of that many MiB, and its initialiser."""
    with m.device(place):
        value = m.get_variable(f"of_{place[-1]}_{size}_mib", shape=[size * FLOATS], initializer=m.ones_initializer())
        return value, value.initializer


WAYS: Mapping[str, Callable[[int], Build]] = {
    "pulled by a worker from another": pulled,
    "pushed by a worker into a variable of another": pushed,
    "fetched by the client": fetched,
    "fed by the client": fed,
}
