"""1 GiB of variables saved: the throughput, and the slowdown of the training that goes on meanwhile.

The whole state changes in each step, so each variable has to be copied in the first step after the snapshot. Steps
compute on one core, in their own process: the question is the cost for the training, not how two share one core. The
other cores write. The slowdown by a plain write on a thread is shown for comparison.
"""

import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.apart import apart, tell
from benchmarks.plain_files import clear, write_seconds
from benchmarks.report import Claim, Row, span

LAYERS, WIDTH, BATCH = 32, 2048, 64
"""Each layer has its weights and their momentum."""
BYTES = 2 * LAYERS * WIDTH * WIDTH * 4
ROUNDS = 5
SLOWED, WRITTEN = 1.1, 0.7


async def rows() -> AsyncIterator[Row]:
    """Measure both in each round, and their ratios."""
    rounds = await apart("benchmarks.saving")

    def ratio(above: str, below: str) -> float:
        return statistics.median(each[above] / each[below] for each in rounds)

    def median(name: str) -> float:
        return statistics.median(each[name] for each in rounds)

    def during(when: str) -> str:
        time, work = ratio(f"step {when}", "step"), ratio(f"work {when}", "work")
        return f"{span(median(f'step {when}'))}, {time:.3f}x, of the processor {work:.3f}x"

    figures = {
        "step": f"{span(median('step'))}, processor {span(median('work'))}",
        **{f"step {when}": during(when) for when in ("while saving", "while writing")},
        **{name: rate(median(name)) for name in ("save", "plain write", "save while training", "write while training")},
        "values taken after": span(median("cut")),
    }
    claims = [
        Claim("step during a save / without", ratio("step while saving", "step"), SLOWED),
        Claim("rate / plain writing's", ratio("plain write", "save"), WRITTEN, at_least=True),
        Claim("while training", ratio("write while training", "save while training"), WRITTEN, at_least=True),
    ]
    yield Row(f"{BYTES / 2**30:g} GiB saved while each step changes all of it", figures, claims)


def rate(seconds: float) -> str:
    """Return the throughput of writing the state."""
    return f"{span(seconds)}, {BYTES / seconds / 1e9:.2f} GB/s"


async def measure() -> list[dict[str, float]]:
    """Return the seconds of all measurements, by rounds."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        train, init, saver = model(af)
    with tempfile.TemporaryDirectory() as name:
        async with af.Session(graph=graph, config=af.Config(compute_threads=1)) as session, saver:
            await session.run(init)
            state = list(await session.run(graph.get_collection(af.GraphKeys.GLOBAL_VARIABLES)))
            side = Side(Path(name), session, session.make_callable(train), saver, state)
            await side.round()
            return [await side.round() for _ in range(ROUNDS)]


def model(af: Any) -> tuple[Any, Any, Any]:
    """Return the training step of a deep net, its initialiser, and its saver."""
    x = af.constant(np.random.default_rng(1).standard_normal([BATCH, WIDTH]).astype(np.float32))
    loss = af.zeros([])
    for layer in range(LAYERS):
        weights = af.get_variable(f"layer{layer}", [WIDTH, WIDTH], initializer=af.glorot_uniform_initializer(seed=1))
        x = af.nn.relu(af.matmul(x, weights))
    loss = af.reduce_mean(af.square(x))
    train = af.train.MomentumOptimizer(1e-3, 0.9).minimize(loss)
    return train, af.global_variables_initializer(), af.train.Saver(max_to_keep=None)


@dataclass(frozen=True)
class Side:
    """The measurements and their subjects."""

    folder: Path
    session: Any
    step: Callable[[], Awaitable[Any]]
    saver: Any
    state: list[Any]

    async def round(self) -> dict[str, float]:
        """Return the seconds of everything once, in turn."""
        found: dict[str, float] = {}
        for _ in range(2):  # the first allocates blocks of the disk, which the second reuses
            await self.settled()
            found["plain write"] = await self.plain()
        await self.settled()
        steps = asyncio.create_task(asyncio.sleep(found["plain write"]))
        found["step"], found["work"] = await steps_until(steps, self.step)
        for _ in range(2):
            await self.settled()
            await self.save(found, "save")
        await self.settled()
        saving = asyncio.create_task(self.save(found, "save while training"))
        found["step while saving"], found["work while saving"] = await steps_until(saving, self.step)
        await self.settled()
        await self.plain()
        await self.settled()
        writing = asyncio.create_task(self.plain())
        found["step while writing"], found["work while writing"] = await steps_until(writing, self.step)
        found["write while training"] = await writing
        return found

    async def settled(self) -> None:
        """Remove the files of earlier measurements, and make free memory available.

        A virtual machine gives free memory back to its host after a second or two, and getting it again takes ten times
        as long as using it: that would distort the comparison.
        """
        await asyncio.to_thread(clear, self.folder)
        await self.step()
        np.ones(2 * BYTES, np.uint8)

    async def plain(self) -> float:
        return await asyncio.to_thread(write_seconds, self.folder / "plain", self.state)

    async def save(self, found: dict[str, float], name: str) -> None:
        begin = time.perf_counter()
        writing = await self.saver.save_async(self.session, self.folder / "state")
        found["cut"] = time.perf_counter() - begin  # mostly the rest of the running step
        begin = time.perf_counter()
        await writing
        found[name] = time.perf_counter() - begin


async def steps_until(done: "asyncio.Task[Any]", step: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Return the mean time of steps until that task is done, and their processor time."""
    begin, work, count = time.perf_counter(), processor_seconds(), 0
    while not done.done():
        await step()
        count += 1
    await done
    return (time.perf_counter() - begin) / count, (processor_seconds() - work) / count


def processor_seconds() -> float:
    """Return the processor time of the training threads: all but those that read and write files."""
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith(("aioflow-files", "asyncio"))]
    times = [Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0] for thread in threads]
    return sum(map(int, times)) * 1e-9


if __name__ == "__main__":
    tell(measure())
