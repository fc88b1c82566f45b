"""From the graph a user built to the flow a plan runs: an ordered tuple of pure functions, Flow to Flow."""

from collections.abc import Callable
from typing import Final

from aioflow.passes.dedupe import dedupe
from aioflow.passes.flow import Flow
from aioflow.passes.fold import fold
from aioflow.passes.order import order
from aioflow.passes.simplify import simplify
from aioflow.passes.verify import verify

PASSES: Final[tuple[Callable[[Flow], Flow], ...]] = (simplify, dedupe, fold)
"""Applied in this order, again until nothing changes."""
ROUNDS: Final = 4


def optimise(flow: Flow) -> Flow:
    """The Flow that computes the same with less: PASSES, until nothing changes, at most ROUNDS times."""
    for _ in range(ROUNDS):
        before = flow
        for apply in PASSES:
            flow = apply(flow)
        if len(flow.nodes) == len(before.nodes):
            break
    return flow


__all__ = ["PASSES", "Flow", "optimise", "order", "verify"]
