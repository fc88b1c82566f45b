"""The ops of a graph that aioflow cannot build, found before anything is built."""

from collections.abc import Iterable

from aioflow import errors
from aioflow.tensorflow_files.nodes import GraphFile, Node
from aioflow.tensorflow_files.registry import OPERATORS

_MOST_CALLS = 10**5
"""The most nodes that calls of functions may stand for: functions that call each other twice grow without bound."""
_DEEPEST = 30


def check_ops(graph: GraphFile) -> None:
    """UnimplementedError with all ops of the graph, and of functions that it calls, that aioflow does not build."""
    OPERATORS.complete()
    found: dict[str, str] = {}
    called, left = set[str](), [graph.nodes]
    while left:
        for node in left.pop().values():
            if node.op not in OPERATORS and node.op not in graph.functions:
                found.setdefault(node.op, node.name)
            for name in {*node.functions()} & graph.functions.keys() - called:
                called.add(name)
                left.append(graph.functions[name].nodes)
    if found:
        listed = ", ".join(f"{op} (node {name!r})" for op, name in sorted(found.items()))
        raise errors.UnimplementedError(
            f"{len(found)} ops of this graph of TensorFlow are not implemented: {listed}. Nothing was built"
        )
    _check_size(graph)


def _check_size(graph: GraphFile) -> None:
    """InvalidArgumentError if functions call themselves, or stand for more nodes than a graph can hold."""
    sizes: dict[str, int] = {}

    def size(nodes: Iterable[Node], depth: int) -> int:
        if depth > _DEEPEST:
            raise errors.InvalidArgumentError(f"functions of the graph call each other more than {_DEEPEST} deep")
        total = 0
        for node in nodes:
            total += 1
            for name in node.functions():
                if name in graph.functions:
                    if name not in sizes:
                        sizes[name] = size(graph.functions[name].nodes.values(), depth + 1)
                    total += sizes[name]
        return total

    count = size(graph.nodes.values(), 0)
    if count > max(_MOST_CALLS, 2 * len(graph.nodes)):
        raise errors.InvalidArgumentError(f"the functions of the graph stand for {count} nodes, too many for a graph")
