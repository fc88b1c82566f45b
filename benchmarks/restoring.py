"""1 GiB of variables restored, against plain reading of the same bytes.

Plain reading fills existing memory or, like a restore, memory that the system must provide first. Warm, the files are
in the page cache; cold, they come from the disk. A restart is a new session without values of variables: there the peak
of memory is measured. Existing values stay until all is read, so that a failed restore changes nothing; the memory for
that is shown.
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
    """Measure times, and memory by the size of the state."""
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
    """Yield a session without values of variables, and the operation that restores them."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        for number in range(COUNT):
            af.get_variable(f"part{number}", [SIDE, SIDE], af.float32)
        saver = af.train.Saver()
    async with af.Session(graph=graph) as session:
        yield session, saver


async def save(folder: str) -> None:
    """Write the state to the folder."""
    async with restarted() as (session, saver):
        with session.graph.as_default():
            await session.run(peers.aioflow().global_variables_initializer())
        await saver.save(session, f"{folder}/state")


async def peaks(folder: str) -> list[float]:
    """Return the peak memory of a restore, and of one after it, by the size of the state, including the results."""
    async with restarted() as (session, saver):
        before, found = resident("VmRSS"), []
        for _ in range(2):
            await saver.restore(session, f"{folder}/state")
            found.append((resident("VmHWM") - before) / BYTES)
        return found


def resident(what: str) -> int:
    """Return bytes of this process, as the system tells."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith(f"{what}:"))


async def rounds(folder: str) -> list[dict[str, float]]:
    """Return the seconds of plain reading and of restores."""
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
    """Read these files, so that they are in the page cache."""


KINDS: Mapping[str, Callable[[list[Path]], None]] = {"warm": leave_in_memory, "cold": drop_from_memory}
MEASURED = {"save": save, "peaks": peaks, "rounds": rounds}

if __name__ == "__main__":
    tell(MEASURED[sys.argv[1]](sys.argv[2]))
