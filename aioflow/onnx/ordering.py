"""The order of the nodes of a graph: each follows the nodes that it depends on."""

from collections import Counter
from collections.abc import Collection, Sequence

from aioflow import errors
from aioflow.onnx.model import Node


def sorted_nodes(nodes: Sequence[Node], known: Collection[str]) -> list[Node]:
    """The nodes in an order in which they can be built; their own, if it is one.

    Names that no node computes are `known`, or values of an outer graph. InvalidArgumentError names a cycle.
    """
    maker = {name: index for index, node in enumerate(nodes) for name in node.outputs if name and name not in known}
    needs = [{maker[name] for name in node.reads() if name in maker} for node in nodes]
    if all(max(each, default=-1) < index for index, each in enumerate(needs)):
        return [*nodes]
    return [nodes[index] for index in _sorted(nodes, needs)]


def _sorted(nodes: Sequence[Node], needs: Sequence[set[int]]) -> list[int]:
    users: list[list[int]] = [[] for _ in nodes]
    for index, each in enumerate(needs):
        for need in each:
            users[need].append(index)
    left = Counter({index: len(each) for index, each in enumerate(needs)})
    ready = [index for index in range(len(nodes)) if not left[index]]
    for index in ready:  # it grows while it is read
        for user in users[index]:
            left[user] -= 1
            if not left[user]:
                ready.append(user)
    if len(ready) < len(nodes):
        stuck = [nodes[index].title for index in range(len(nodes)) if left[index] > 0]
        raise errors.InvalidArgumentError(f"{len(stuck)} nodes wait for each other in a cycle, {stuck[0]!r} among them")
    return ready
