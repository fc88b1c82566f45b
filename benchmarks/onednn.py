"""The aioflow sides of benchmarks in which oneDNN matters: with oneDNN if it is found, and without."""

import contextlib
import importlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from benchmarks import peers
from benchmarks.harness import Side, Step, Timing
from benchmarks.report import Claim

ALONE = "aioflow, NumPy alone"
PEERS = (peers.TENSORFLOW, peers.TORCH, peers.JAX)


def sides(ours: Callable[[], Side]) -> dict[str, Side]:
    """Return aioflow with oneDNN, if it was found, and then aioflow without."""
    alone: dict[str, Side] = {ALONE: without(ours())} if found() else {}
    return {peers.AIOFLOW: ours()} | alone


def claims(timing: Timing, limit: float, alone: float | None = None) -> list[Claim]:
    """Return claims of the largest ratios to the fastest peer's time, with oneDNN and without."""
    names = {limit: peers.AIOFLOW, alone: ALONE} if found() else {alone: peers.AIOFLOW}
    words = "fastest of the three"
    return [Claim(f"{name} / {words}", timing.ratio_to_best(name, PEERS), most) for most, name in names.items() if most]


def found() -> bool:
    """Whether aioflow found oneDNN."""
    return bool(_onednn().available())


@contextlib.asynccontextmanager
async def without(side: Side) -> AsyncIterator[Step]:
    """Yield an aioflow side whose first step, which makes the plan and chooses the kernels, finds no oneDNN."""
    async with side as planned:
        first = True

        async def step() -> Any:
            nonlocal first
            if not first:
                return await planned()
            first = False
            with switched_off():
                return await planned()

        yield step


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """Hide oneDNN inside the block."""
    onednn = _onednn()
    before = os.environ.get(onednn.SWITCH)
    os.environ[onednn.SWITCH] = "off"
    onednn.library.cache_clear()
    try:
        yield
    finally:
        os.environ.pop(onednn.SWITCH)
        if before is not None:
            os.environ[onednn.SWITCH] = before
        onednn.library.cache_clear()


def _onednn() -> Any:
    return importlib.import_module("aioflow.devices.onednn")
