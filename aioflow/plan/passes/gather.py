"""Copies of all feeds and fetches, so that one device can be where they come from and go to."""

from aioflow.graph.op import REGISTRY
from aioflow.plan.passes.flow import Flow, Node, Value, sweep


def gathered(flow: Flow) -> tuple[Flow, frozenset[Node]]:
    """The flow whose feeds are read, and whose fetches are made, by copies alone; and these copies."""
    given = {feed: _copy(Value(feed, 0), "given") for feed in flow.feeds}
    twins = {node: node if node in given else node.with_edges((), ()) for node in flow.nodes}
    read_from = {**twins, **given}
    for node, twin in twins.items():
        if node not in given:
            twin.inputs = tuple([Value(read_from[source], index) for source, index in node.inputs])
            twin.controls = tuple([read_from[control] for control in node.controls])
    fetched = [
        _copy(Value(twins[source], index), f"fetched {place}") for place, (source, index) in enumerate(flow.fetches)
    ]
    targets = tuple([twins[node] for node in flow.targets])
    made = sweep(flow.feeds, tuple([Value(copy, 0) for copy in fetched]), targets)
    return made, frozenset([*given.values(), *fetched]).intersection(made.nodes)  # a feed may have no readers


def _copy(value: Value, what: str) -> Node:
    definition = REGISTRY["identity"]
    name = f"{value.node.name}:{value.index} {what}"
    return Node(value.node.operation, definition, name, (value,), (), {}, [value.spec])
