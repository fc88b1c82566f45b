"""Flows with more edges or another order: the nodes made anew where their edges change, cycles of loops kept."""

from collections.abc import Callable, Container, Iterable, Mapping
from heapq import heapify, heappop, heappush

from aioflow.plan.passes.flow import Flow, Node, Value, is_back_edge, sources_before

NO_INPUTS: Mapping[Node, tuple[Value, ...]] = {}


def relinked(
    flow: Flow,
    nodes: Iterable[Node],
    controls: Mapping[Node, tuple[Node, ...]],
    inputs: Mapping[Node, tuple[Value, ...]] = NO_INPUTS,
) -> Flow:
    """The Flow of these nodes, sources first, some with other control inputs or other inputs.

    Edges are given between the nodes as they are; those of the Flow that follow from it are made anew.
    """
    done: dict[Node, Node] = {}
    cyclic: list[tuple[Node, tuple[Value, ...]]] = []

    def moved(value: Value) -> Value:
        return Value(done[value.node], value.index)

    for node in nodes:
        reads, after = inputs.get(node, node.inputs), controls.get(node, node.controls)
        before = [value for value in reads if not is_back_edge(value.node, node)]
        if len(before) < len(reads):
            done[node] = node.with_edges((), tuple([done[control] for control in after]))
            cyclic.append((node, reads))
            continue
        made, waited = tuple([moved(value) for value in before]), tuple([done[control] for control in after])
        done[node] = node if made == node.inputs and waited == node.controls else node.with_edges(made, waited)
    for node, reads in cyclic:
        done[node].inputs = tuple([moved(value) for value in reads])
    feeds, fetches = tuple([done[node] for node in flow.feeds]), tuple([moved(value) for value in flow.fetches])
    return Flow(list(done.values()), feeds, fetches, tuple([done[node] for node in flow.targets]))


def in_place(
    nodes: Iterable[Node],
    before: Callable[[Node], Iterable[Node]] = sources_before,
    first: Container[Node] = (),
) -> list[Node]:
    """Return the nodes, each after its sources and otherwise in their order; those of `first` as early as possible."""
    given = list(nodes)
    number = {node: index for index, node in enumerate(given)}
    rank = [-1 if node in first else index for index, node in enumerate(given)]
    missing = [0] * len(given)
    after: list[list[int]] = [[] for _ in given]
    for index, node in enumerate(given):
        for source in set(before(node)):
            missing[index] += 1
            after[number[source]].append(index)
    ready = [(rank[index], index) for index, count in enumerate(missing) if not count]
    heapify(ready)
    ordered: list[Node] = []
    while ready:
        _, index = heappop(ready)
        ordered.append(given[index])
        for following in after[index]:
            missing[following] -= 1
            if not missing[following]:
                heappush(ready, (rank[following], following))
    return ordered
