"""The time of an import in a fresh interpreter, and the resident memory of the interpreter afterwards."""

import asyncio
import os
import statistics
import sys
from collections.abc import AsyncIterator

from benchmarks.report import Claim, Row, size, span

MODULES = ("aioflow", "numpy", "torch", "tensorflow")
ROUNDS = 7
PROBE = """
import time
begin = time.perf_counter()
import {module}
spent = time.perf_counter() - begin
try:
    pages = int(open("/proc/self/statm").read().split()[1])
    resident = pages * __import__("os").sysconf("SC_PAGE_SIZE")
except OSError:
    import resource, sys
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(spent, resident)
"""


async def rows() -> AsyncIterator[Row]:
    """Measure all imports in alternation; the first round only writes and warms the byte code."""
    taken: dict[str, list[tuple[float, int]]] = {module: [] for module in MODULES}
    for _ in range(ROUNDS + 1):
        for module in MODULES:
            taken[module] += await probe(module)
    medians = {module: middle(samples[1:]) for module, samples in taken.items() if len(samples) > 1}
    figures = {module: f"{span(spent):>10}   {size(resident)}" for module, (spent, resident) in medians.items()}
    spent, resident = medians.get("aioflow", (None, None))
    claims = [
        Claim("import aioflow", spent, 0.25, unit=" s"),
        Claim("resident after it", resident and resident / 1e6, 60, unit=" MB"),
    ]
    yield Row("import", dict.fromkeys(MODULES, "not installed") | figures, claims)


async def probe(module: str) -> list[tuple[float, int]]:
    """Return seconds and resident bytes of one import in a new process; nothing if it cannot be imported."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROBE.format(module=module),
        env=environment | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    if process.returncode:
        return []
    spent, resident = output.split()
    return [(float(spent), int(resident))]


def middle(samples: list[tuple[float, int]]) -> tuple[float, float]:
    """Return the medians of both columns."""
    spent, resident = zip(*samples, strict=True)
    return statistics.median(spent), statistics.median(resident)
