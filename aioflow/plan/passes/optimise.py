"""Rewrites a flow into one that computes the same with less: the passes in order, until nothing changes."""

from collections.abc import Callable
from typing import Final

from aioflow.plan.passes.contract import contract
from aioflow.plan.passes.dedupe import dedupe
from aioflow.plan.passes.flow import Block, Flow, rewrite_blocks
from aioflow.plan.passes.fold import fold
from aioflow.plan.passes.simplify import simplify
from aioflow.plan.passes.trim import trim

PASSES: Final[tuple[Callable[[Flow], Flow], ...]] = (simplify, dedupe, fold)
"""Applied in this order, again until nothing changes."""
ROUNDS: Final = 4


def optimise(flow: Flow) -> Flow:
    """The Flow that computes the same with less: PASSES, until nothing changes, at most ROUNDS times.

    The blocks of branches and loops are optimised first. Then their unused outputs are removed, and the rest is
    optimised again. Finally neighbouring nodes that one kernel computes together become one node.
    """
    flow = _simpler(flow)
    if any(node.blocks for node in flow.nodes):
        flow = _simpler(trim(flow))
    return _contracted(flow)


def _simpler(flow: Flow) -> Flow:
    flow = rewrite_blocks(flow, lambda node, block: Block(_simpler(block.flow), block.takes))
    for _ in range(ROUNDS):
        before = flow
        for apply in PASSES:
            flow = apply(flow)
        if len(flow.nodes) == len(before.nodes):
            break
    return flow


def _contracted(flow: Flow) -> Flow:
    return contract(rewrite_blocks(flow, lambda node, block: Block(_contracted(block.flow), block.takes)))
