"""The pipeline on one page: from a call's signature to a frozen plan. Pure and synchronous.

    prune         what the fetches and targets need, with feeds in the place of fed tensors
    order         reads and updates of one variable, in the order they were built
    optimise      simplify, dedupe, fold
    verify        the result is legal
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

from aioflow import passes
from aioflow.node import Operation, Tensor
from aioflow.passes.flow import Flow
from aioflow.passes.prune import prune


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What makes two calls the same call."""

    feeds: tuple[Tensor, ...]
    fetches: tuple[Tensor, ...]
    targets: tuple[Operation, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What will run for a signature. Fetches and feeds are in the signature's order."""

    signature: Signature
    flow: Flow
    counted: Sequence[str]
    """Names of the operations that ask how often they ran."""


def make_plan(signature: Signature, optimize: bool = True) -> Plan:
    """Plan a call. ValueError or TypeError if the graph is at fault."""
    flow = passes.order(prune(signature.feeds, signature.fetches, signature.targets))
    if optimize:
        flow = passes.optimise(flow)
    flow = passes.verify(flow)
    return Plan(signature, flow, [node.name for node in flow.nodes if node.definition.counted])


__all__: Final = ["Plan", "Signature", "make_plan"]
