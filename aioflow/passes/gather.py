"""Copies of all feeds and fetches, so that one device can be where they come from and go to."""

from aioflow.op import REGISTRY
from aioflow.passes.flow import Flow, Node, Value, rewrite


def gathered(flow: Flow) -> tuple[Flow, frozenset[Node]]:
    """The flow whose feeds are read, and whose fetches are made, by copies alone; and these copies."""
    copies = {feed: _copy(Value(feed, 0), "given") for feed in flow.feeds}

    def visit(node: Node) -> Node:
        inputs = tuple([Value(copies[value.node], 0) if value.node in copies else value for value in node.inputs])
        controls = tuple([copies.get(control, control) for control in node.controls])
        return node if (inputs, controls) == (node.inputs, node.controls) else node.with_edges(inputs, controls)

    read = rewrite(flow, visit)
    fetched = [_copy(value, f"fetched {place}") for place, value in enumerate(read.fetches)]
    nodes = [*read.nodes, *fetched]
    made = frozenset([*copies.values(), *fetched]).intersection(nodes)  # nobody may read a feed
    return Flow(nodes, read.feeds, tuple([Value(copy, 0) for copy in fetched]), read.targets), made


def _copy(value: Value, what: str) -> Node:
    definition = REGISTRY["identity"]
    name = f"{value.node.name}:{value.index} {what}"
    return Node(value.node.operation, definition, name, (value,), (), {}, [value.spec])


__all__ = ["gathered"]
