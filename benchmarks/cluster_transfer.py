"""Large tensors from process to process: between two workers, and between a worker and the client.

The receiver uses the transferred value and gives 4 bytes of it to the client. Raw TCP is the loopback throughput of
this machine between two processes, in the same rounds. The null step is one on the other worker: a transfer takes at
least that time besides the bytes.

A variable that does not change is copied into shared memory once. The row of the changed one includes the time of the
change, so it is compared with TensorFlow only.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.cluster import MASTER, OTHER, null
from benchmarks.cluster_processes import Targets, clusters
from benchmarks.cluster_sides import Build, Built, both, with_aioflow
from benchmarks.cluster_tcp import with_tcp
from benchmarks.harness import Side, Step, Timing, alternate, call
from benchmarks.report import Claim, Row, span

MIB = 1 << 20
SIZES = (1, 16, 64, 256)
FLOATS = MIB // 4
"""Floats of a MiB."""
TCP, NULL = "raw TCP", "null step"
ROUNDS, BLOCK = 7, 0.15
FASTER = 4
OF_TCP = {True: (1, 2), False: (0.4, 0.6)}
"""With and without shared memory: the rate at 1 MiB and from 16 MiB on, relative to raw TCP."""


async def rows() -> AsyncIterator[Row]:
    """Measure each direction by size, with shared memory and without."""
    async with clusters({"worker": 2}) as targets:
        for title, way in WAYS.items():
            yield await by_size(targets, title, way, shared=True)
    async with clusters({"worker": 2}, options=["--no-shared-memory"]) as targets:
        for title, way in WAYS.items():
            yield await by_size(targets, f"{title}, shared memory off", way, shared=False)


async def by_size(targets: Targets, title: str, way: Callable[[int], Build], shared: bool) -> Row:
    """Measure the throughput of all sides for each size. TensorFlow is compared with shared memory only."""
    timings = {}
    for size in SIZES:
        ours = {peers.AIOFLOW: with_aioflow(targets, way(size))}
        sides = {side: in_turn(context) for side, context in (both(targets, way(size)) if shared else ours).items()}
        sides |= {TCP: in_turn(with_tcp(size * MIB)), NULL: in_turn(with_aioflow(targets, null(OTHER)))}
        timings[size] = await alternate(sides, rounds=ROUNDS, block=BLOCK)
    figures = {f"{size} MiB": throughputs(timing, size) for size, timing in timings.items()}
    for size, timing in timings.items():
        figures |= {f"{size} MiB, {side}": why for side, why in timing.missing.items()}
    of_tcp = None if way is changed else OF_TCP[shared]
    return Row(title, figures, [claim for size in SIZES for claim in claims(size, timings[size], of_tcp)])


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
    moving = [side for side in timing.rounds if side != NULL]
    sides = [f"{side} {speed(timing, side, size):.2f} GiB/s ({span(timing.seconds(side))})" for side in moving]
    return ", ".join([*sides, f"{NULL} {span(timing.seconds(NULL))}"])


def speed(timing: Timing, side: str, size: int) -> float:
    """GiB per second."""
    return size / 1024 / (timing.seconds(side) or float("inf"))


def claims(size: int, timing: Timing, of_tcp: tuple[float, float] | None) -> list[Claim]:
    """Compare with TCP if there are targets, and with TensorFlow from 16 MiB on if it took part."""
    found = []
    if of_tcp is not None:
        ratio = timing.ratio(TCP, peers.AIOFLOW)
        found.append(Claim(f"{size} MiB: aioflow / {TCP}", ratio, of_tcp[size > 1], at_least=True))
    if peers.TENSORFLOW in timing.rounds and size > 1:
        ratio = timing.ratio(peers.TENSORFLOW, peers.AIOFLOW)
        found.append(Claim(f"{size} MiB: aioflow / {peers.TENSORFLOW}", ratio, FASTER, at_least=True))
    return found


def pulled(size: int) -> Build:
    """The master's task uses a variable of another worker."""

    def build(m: Any) -> Built:
        value, init = variable(m, OTHER, size)
        with m.device(MASTER):
            return Built(m.identity(value)[0], init=init)

    return build


def changed(size: int) -> Build:
    """The master's task uses a variable of another worker, which changes in each step."""

    def build(m: Any) -> Built:
        value, init = variable(m, OTHER, size)
        change, filled = variable(m, OTHER, size, "change")
        with m.device(OTHER):
            after = m.assign_add(value, change)
        with m.device(MASTER):
            return Built(m.identity(after)[0], init=[init, filled])

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


def variable(m: Any, place: str, size: int, kind: str = "value") -> tuple[Any, Any]:
    """Return a variable of that many MiB, and its initialiser."""
    name = f"{kind}_of_{place[-1]}_{size}_mib"
    with m.device(place):
        value = m.get_variable(name, shape=[size * FLOATS], initializer=m.ones_initializer())
        return value, value.initializer


WAYS: Mapping[str, Callable[[int], Build]] = {
    "pulled by a worker from another": pulled,
    "changed, and pulled by a worker from another": changed,
    "pushed by a worker into a variable of another": pushed,
    "fetched by the client": fetched,
    "fed by the client": fed,
}
