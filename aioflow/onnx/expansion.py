"""How much a model builds, with functions and bodies counted where they are used, and the limits of that.

A few functions that call each other several times stand for more nodes than any memory holds. So the nodes are counted
before one is built, each function once. `Builder` counts again while it builds, since ONNX defines further operators by
nodes, and loops may build their bodies more than once.
"""

from collections.abc import Sequence
from typing import Final

from aioflow import errors
from aioflow.onnx.model import GraphBody, Model, Node

DEEPEST: Final = 32
"""The most functions inside each other."""
MOST_NODES: Final = 1 << 18
"""The most nodes, inputs and initial values that are built, those of functions counted at each call."""

Key = tuple[str, str, str]
"""The domain, name and overload of a function."""


def check_size(model: Model) -> None:
    """InvalidArgumentError if the model has functions that call each other without end, or builds too many nodes."""
    _Counter(model).check()


def check_limits(depth: int, count: int) -> None:
    """InvalidArgumentError if that many functions lie inside each other, or that many nodes are too many."""
    if depth > DEEPEST or count > MOST_NODES:
        raise errors.InvalidArgumentError(
            f"the functions of the model call each other {depth} deep and build {count} nodes: at most {DEEPEST} and "
            f"{MOST_NODES} are possible"
        )


class _Counter:
    """Counts the nodes of each function once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._sizes: dict[Key, tuple[int, int]] = {}
        self._calls = 0

    def check(self) -> None:
        depth, count = self._of_body(self._model.graph)
        check_limits(depth, count)

    def _of_body(self, body: GraphBody) -> tuple[int, int]:
        """How deep functions call each other in a graph, and the number of its nodes and values."""
        depth, count = self._of_nodes(body.nodes)
        return depth, count + len(body.inputs) + len(body.initializers)

    def _of_nodes(self, nodes: Sequence[Node]) -> tuple[int, int]:
        deepest, count = 0, len(nodes)
        for node in nodes:
            parts = [self._of_body(body) for body in node.bodies()]
            key = (node.domain, node.type, node.overload)
            if key in self._model.functions:
                parts.append(self._of_call(key))
            deepest = max([deepest, *[depth for depth, _ in parts]])
            count += sum([size for _, size in parts])
        return deepest, count

    def _of_call(self, key: Key) -> tuple[int, int]:
        if key not in self._sizes:
            self._calls += 1
            check_limits(self._calls, 0)
            depth, count = self._of_nodes(self._model.functions[key].nodes)
            self._sizes[key] = depth + 1, count
            self._calls -= 1
        return self._sizes[key]
