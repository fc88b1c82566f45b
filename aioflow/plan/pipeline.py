"""The planning pipeline on one page: from the signature of a call to a frozen plan. Pure and synchronous.

prune         keeps the nodes that fetches and targets need, with feeds instead of fed tensors
order         orders reads and updates of one variable as they were built
optimise      simplifies, merges duplicates, folds constants
verify        checks that the result is legal
split         places each node, and makes a partition for each device
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Final

from aioflow.graph.graph import Graph
from aioflow.graph.op import Op
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.kernels.array.constants import missing_feed
from aioflow.plan.partition import Part
from aioflow.plan.passes.flow import Flow, every_node, has_primitives, release, staged, verify
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.order import order
from aioflow.plan.passes.prune import keep_unread, prune, trim
from aioflow.plan.split import Split


class Signature:
    """The signature of a call: its feeds, fetches and targets. The hash is computed once, since each run needs it."""

    __slots__ = ("_hash", "feeds", "fetches", "targets")

    def __init__(self, feeds: tuple[Tensor, ...], fetches: tuple[Tensor, ...], targets: tuple[Operation, ...]) -> None:
        self.feeds: Final = feeds
        self.fetches: Final = fetches
        self.targets: Final = targets
        self._hash = hash((feeds, fetches, targets))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self._parts() == other._parts()

    def _parts(self) -> tuple[object, ...]:
        return self.feeds, self.fetches, self.targets

    @property
    def graph(self) -> Graph | None:
        """The graph of its elements; None if it has none."""
        element = next((e for part in (self.feeds, self.fetches, self.targets) for e in part), None)
        return None if element is None else element.graph

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The names of its feeds, fetches and target operations."""
        feeds, fetches = [tuple([tensor.name for tensor in part]) for part in (self.feeds, self.fetches)]
        return feeds, fetches, tuple([operation.name for operation in self.targets])

    def __repr__(self) -> str:
        names = [", ".join(element.name for element in part) for part in (self.feeds, self.fetches, self.targets)]
        return f"<Signature feeds: {names[0] or 'none'}; fetches: {names[1] or 'none'}; runs: {names[2] or 'none'}>"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The plan of a signature. Fetches and feeds are in the signature's order."""

    signature: Signature
    flow: Flow
    split: Split
    counted: Sequence[str]
    """Names of the operations that ask how often they ran."""

    @property
    def parts(self) -> Sequence[Part]:
        """Its partitions, one for each device."""
        return self.split.parts


def make_plan(signature: Signature, split: Callable[[Flow], Split], optimize: bool = True) -> Plan:
    """Plan a call, before anything runs. `split` gives the partitions.

    InvalidArgumentError if a placeholder that it needs is not fed, or something cannot be placed.
    """
    flow = make_flow(signature, optimize)
    return Plan(signature, flow, split(flow), _counted(flow))


def make_flow(signature: Signature, optimize: bool = True) -> Flow:
    """Return the flow of a call before placement. InvalidArgumentError if a needed placeholder is not fed.

    All sessions of a graph share its flows.
    """
    graph = signature.graph
    make = functools.partial(_made_flow, signature, optimize)
    return make() if graph is None else graph.memo.get((signature, optimize, Op.kernel_changes), make)


def _made_flow(signature: Signature, optimize: bool) -> Flow:
    flow = prune(signature.feeds, signature.fetches, signature.targets)
    if has_primitives(flow):  # handmade control flow runs unchanged
        _check_fed(flow)
        return verify(flow)
    nodes = list(every_node(flow.nodes))
    flow = staged(flow, order, trim, keep_unread, deep=True)
    release(nodes)
    _check_fed(flow)  # after trimming: a branch may capture a placeholder that none of its results needs
    if optimize:
        nodes = list(every_node(flow.nodes))
        flow = optimise(flow)
        release(nodes)
    return verify(flow)


def _check_fed(flow: Flow) -> None:
    for node in flow.nodes:
        if node.definition.name == "placeholder":
            line = describe_line(node.operation)
            raise missing_feed(node).at(node.name, "placeholder", line=line, device=None, shapes=())


def _counted(flow: Flow) -> list[str]:
    return [inner.name for node in flow.nodes for inner in node.everything() if inner.definition.counted]
