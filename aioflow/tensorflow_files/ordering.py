"""The order in which nodes are built: each after those that it needs, without the edges that close loops."""

from collections.abc import Collection

from aioflow import errors
from aioflow.tensorflow_files.nodes import Node, Nodes, Source

_FORWARD = ("Merge", "RefMerge")
_BACK = ("NextIteration", "RefNextIteration")


def is_back_edge(nodes: Nodes, source: str, node: Node) -> bool:
    """Whether an edge leads from an iteration of a loop to the next one."""
    return node.op in _FORWARD and source in nodes and nodes[source].op in _BACK


def sorted_nodes(nodes: Nodes, known: Collection[str] = ()) -> list[Node]:
    """Return the nodes in order. `known` are there from the start. InvalidArgumentError for a cycle."""
    waits: dict[str, int] = {}
    followers: dict[str, list[str]] = {name: [] for name in nodes}
    for name, node in nodes.items():
        before = [each for each in node.before if each not in known and not is_back_edge(nodes, each, node)]
        waits[name] = len(before)
        for each in before:
            followers[each].append(name)
    ready = [name for name, count in waits.items() if not count]
    for name in ready:  # it grows
        for follower in followers[name]:
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    if len(ready) < len(nodes):
        left = next(name for name in nodes if waits[name])
        raise errors.InvalidArgumentError(f"node {left!r} needs its own result: the graph has a cycle outside of loops")
    return [nodes[name] for name in ready]


def origin(nodes: Nodes, source: Source) -> Source:
    """Return the output that an output is the same as, by way of identities."""
    for _ in nodes:  # a damaged graph may have a cycle of them
        node = nodes.get(source.node)
        if node is None or node.op != "Identity" or not node.inputs:
            break
        source = node.inputs[0]
    return source


def needed(nodes: Nodes, wanted: Collection[str]) -> Nodes:
    """Return the nodes that these need, with them."""
    found, left = dict[str, None](), [*wanted]
    while left:
        name = left.pop()
        if name in nodes and name not in found:
            found[name] = None
            left += nodes[name].before
    return {name: node for name, node in nodes.items() if name in found}
