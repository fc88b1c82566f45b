"""What a plan is made of: the part of a graph that one call runs, as light nodes that passes may replace.

A Flow is never changed in place: a pass takes one and returns one. Its nodes are in an order that respects every edge
and otherwise follows the order in which the user built them.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from aioflow.dtypes import Array, Spec
from aioflow.node import Attrs, Operation
from aioflow.op import REGISTRY, Op


class Value(NamedTuple):
    """One output of a node."""

    node: "Node"
    index: int  # type: ignore[assignment]  # an output's number, as everywhere; tuple.index is not missed

    @property
    def spec(self) -> Spec:
        """Its dtype and shape."""
        return self.node.output_specs[self.index]


class Node:
    """An operation as a plan sees it; `operation` is the user's, for errors and for reports."""

    __slots__ = ("attrs", "controls", "definition", "inputs", "name", "operation", "output_specs")

    def __init__(
        self,
        operation: Operation,
        definition: Op[Any],
        name: str,
        inputs: tuple[Value, ...],
        controls: "tuple[Node, ...]",
        attrs: Attrs,
        output_specs: Sequence[Spec],
    ) -> None:
        self.operation = operation
        self.definition = definition
        self.name = name
        self.inputs = inputs
        self.controls = controls
        self.attrs = attrs
        self.output_specs = output_specs

    @property
    def input_specs(self) -> list[Spec]:
        """The Specs of its inputs."""
        return [node.output_specs[index] for node, index in self.inputs]

    def constant(self, index: int) -> Array | None:
        """The value of an input, if it is a constant."""
        made_by = self.inputs[index].node
        return made_by.attrs["value"] if made_by.definition is REGISTRY["constant"] else None

    def with_edges(self, inputs: tuple[Value, ...], controls: "tuple[Node, ...]") -> "Node":
        """The same node with other inputs."""
        return Node(self.operation, self.definition, self.name, inputs, controls, self.attrs, self.output_specs)

    def as_constant(self, index: int, value: Array, controls: "tuple[Node, ...]") -> "Node":
        """A constant in the place of one of its outputs."""
        attrs = {"value": value}
        specs = REGISTRY["constant"].infer((), attrs)
        name = self.name if len(self.output_specs) == 1 else f"{self.name}.{index}"
        return Node(self.operation, REGISTRY["constant"], name, (), controls, attrs, specs)

    @property
    def pure(self) -> bool:
        """Whether it may be merged, folded or left out: it has no state and no effect but its outputs."""
        return not self.definition.stateful and self.definition.name not in ("feed", "placeholder", "no_op")

    def __repr__(self) -> str:
        return f"<Node {self.name!r} ({self.definition.name})>"


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """The nodes of one call. `feeds` are values given by the caller, `fetches` those it gets, `targets` only run."""

    nodes: list[Node]
    feeds: tuple[Node, ...]
    fetches: tuple[Value, ...]
    targets: tuple[Node, ...]


Replacement = Node | tuple[Value, ...]
"""A node, or values that stand in for its outputs and make it superfluous."""


def rewrite(flow: Flow, visit: Callable[[Node], Replacement]) -> Flow:
    """Every node replaced by what `visit` makes of it, once its own inputs are replaced, and dead nodes dropped.

    Nodes that `visit` makes and returns as values are taken in. What had a control edge from a node that is gone waits
    for the values that stand in for it.
    """
    done: dict[Node, tuple[Value, ...]] = {}
    anchors: dict[Node, tuple[Node, ...]] = {}
    for node in flow.nodes:
        inputs = tuple([done[source][index] for source, index in node.inputs])
        controls = tuple(dict.fromkeys(anchor for control in node.controls for anchor in anchors[control]))
        same = inputs == node.inputs and controls == node.controls
        result = visit(node if same else node.with_edges(inputs, controls))
        if isinstance(result, Node):
            done[node] = tuple([Value(result, index) for index in range(len(result.output_specs))])
            anchors[node] = (result,)
        else:
            done[node] = result
            anchors[node] = tuple(dict.fromkeys(value.node for value in result))
    fetches = tuple([done[node][index] for node, index in flow.fetches])
    targets = tuple(dict.fromkeys(anchor for node in flow.targets for anchor in anchors[node]))
    feeds = tuple([done[node][0].node for node in flow.feeds])
    return sweep(feeds, fetches, targets)


def sweep(feeds: tuple[Node, ...], fetches: tuple[Value, ...], targets: tuple[Node, ...]) -> Flow:
    """The Flow of what the fetches and targets need, sources first, in the order the user built it."""
    roots = [*[value.node for value in fetches], *targets]
    return Flow(in_order([*feeds, *roots], _sources), feeds, fetches, targets)


def _sources(node: Node) -> list[Node]:
    return [*[source for source, _ in node.inputs], *node.controls]


def in_order(roots: Iterable[Node], sources: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """Everything reachable from the roots, sources first; among what is possible, what was built first."""
    found: dict[Node, int] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = len(found)
            stack.extend(sources(node))
    by_age = sorted(found, key=lambda node: (node.operation.id, node.name))
    return by_age if _respects(by_age, sources) else _topological(by_age, sources)


def _respects(nodes: Sequence[Node], sources: Callable[[Node], Iterable[Node]]) -> bool:
    seen: set[Node] = set()
    for node in nodes:
        if not seen.issuperset(sources(node)):
            return False
        seen.add(node)
    return True


def _topological(nodes: Sequence[Node], sources: Callable[[Node], Iterable[Node]]) -> list[Node]:
    placed: dict[Node, None] = {}
    for root in nodes:
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [source for source in sources(node) if source not in placed]
            if missing and node not in placed:
                stack.extend(reversed(missing))
            else:
                placed.setdefault(node)
                stack.pop()
    return list(placed)
