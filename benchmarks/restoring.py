"""1 GiB of variables restored, against the same bytes read plainly.

Plain reading fills memory that is there already or, as a restore has to, memory that the system has to give first.
Warm, the files are in the system's memory; cold, they come from the disk. A restart is a new session, whose variables
have no values yet: that is where the peak of memory is looked at. Where variables have values, these stay until all is
read, so that a restore which fails changes nothing; what that takes is told.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.apart import apart, tell
from benchmarks.plain_files import drop_from_memory, read_new_seconds, read_seconds
from benchmarks.report import Claim, Row, span

COUNT, SIDE = 64, 2048
BYTES = COUNT * SIDE * SIDE * 4
ROUNDS = 7
RATE, PEAK = 0.7, 1.1
PLAIN = ("plain", "plain, new memory")


async def rows() -> AsyncIterator[Row]:
    """Times, and memory by the size of the state."""
    with tempfile.TemporaryDirectory() as folder:
        await apart("benchmarks.restoring", "save", folder)
        once, again = await apart("benchmarks.restoring", "peaks", folder)
        rounds = await apart("benchmarks.restoring", "rounds", folder)

    def median(name: str) -> float:
        return statistics.median(each[name] for each in rounds)

    def rate(plain: str, kind: str) -> float:
        return statistics.median(each[f"{plain}, {kind}"] / each[f"restore, {kind}"] for each in rounds)

    times = [f"{what}, {kind}" for kind in KINDS for what in (*PLAIN, "restore")]
    figures = {name: f"{span(median(name))}, {BYTES / median(name) / 1e9:.2f} GB/s" for name in times}
    figures["peak, variables full"] = f"{again:.3f}x the state"
    compared = [(plain, kind) for kind in KINDS for plain in PLAIN]
    claims = [Claim(f"rate / {plain}, {kind}", rate(plain, kind), RATE, at_least=True) for plain, kind in compared]
    yield Row(f"{BYTES / 2**30:g} GiB restored", figures, [*claims, Claim("peak memory / state", once, PEAK)])


@asynccontextmanager
async def restarted() -> AsyncIterator[tuple[Any, Any]]:
    """A session whose variables have no values, and what restores them."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        for number in range(COUNT):
            af.get_variable(f"part{number}", [SIDE, SIDE], af.float32)
        saver = af.train.Saver()
    async with af.Session(graph=graph) as session:
        yield session, saver


async def save(folder: str) -> None:
    """The state is in the folder."""
    async with restarted() as (session, saver):
        with session.graph.as_default():
            await session.run(peers.aioflow().global_variables_initializer())
        await saver.save(session, f"{folder}/state")


async def peaks(folder: str) -> list[float]:
    """The most memory that a restore takes, and one after it, by the size of the state; what they give included."""
    async with restarted() as (session, saver):
        before, found = resident("VmRSS"), []
        for _ in range(2):
            await saver.restore(session, f"{folder}/state")
            found.append((resident("VmHWM") - before) / BYTES)
        return found


def resident(what: str) -> int:
    """Bytes, as the system says of this process."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith(f"{what}:"))


async def rounds(folder: str) -> list[dict[str, float]]:
    """Seconds of plain reading and of restores."""
    files = shards(folder)
    buffer = np.ones(sum(file.stat().st_size for file in files), np.uint8)
    return [await one_round(folder, files, buffer.data) for _ in range(ROUNDS)]


def shards(folder: str) -> list[Path]:
    return sorted(Path(folder, "state").glob("*.safetensors"))


async def one_round(folder: str, files: list[Path], buffer: memoryview) -> dict[str, float]:
    found = {}
    for kind, prepare in KINDS.items():
        prepare(files)
        found[f"plain, {kind}"] = read_seconds(files, buffer)
        prepare(files)
        found[f"plain, new memory, {kind}"] = read_new_seconds(files)
        async with restarted() as (session, saver):
            prepare(files)
            begin = time.perf_counter()
            await saver.restore(session, f"{folder}/state")
            found[f"restore, {kind}"] = time.perf_counter() - begin
    return found


def leave_in_memory(files: list[Path]) -> None:
    """What these files hold is in the system's memory, as it was read before."""


KINDS: Mapping[str, Callable[[list[Path]], None]] = {"warm": leave_in_memory, "cold": drop_from_memory}
MEASURED = {"save": save, "peaks": peaks, "rounds": rounds}

if __name__ == "__main__":
    tell(MEASURED[sys.argv[1]](sys.argv[2]))
