"""What a plan is made of: the part of a graph that one call runs, as light nodes that passes may replace.

A Flow is never changed in place: a pass takes one and returns one. Its nodes are in an order that respects every edge
but those that close the cycle of a loop, and otherwise follows the order in which the user built them.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from aioflow.dtypes import Array, Spec
from aioflow.kernels.control_flow import PRIMITIVES
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
    """An operation as a plan sees it; `operation` is the user's, for errors and for reports.

    Of structured control flow `blocks` are what it runs: of a `cond` both branches, the true one first; of a loop what
    it asks for (none if it has a limit alone) and the step. What runs `at_home` works on host memory, with a CPU's
    kernel, though its device is a GPU.
    """

    __slots__ = ("at_home", "attrs", "blocks", "controls", "definition", "inputs", "name", "operation", "output_specs")

    def __init__(
        self,
        operation: Operation,
        definition: Op[Any],
        name: str,
        inputs: tuple[Value, ...],
        controls: "tuple[Node, ...]",
        attrs: Attrs,
        output_specs: Sequence[Spec],
        blocks: "tuple[Block, ...]" = (),
    ) -> None:
        self.at_home = False
        self.blocks = blocks
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
        specs, blocks = self.output_specs, self.blocks
        made = Node(self.operation, self.definition, self.name, inputs, controls, self.attrs, specs, blocks)
        made.at_home = self.at_home
        return made

    def with_blocks(self, blocks: "Iterable[Block]") -> "Node":
        """The same node with other blocks."""
        specs = self.output_specs
        return Node(
            self.operation, self.definition, self.name, self.inputs, self.controls, self.attrs, specs, tuple(blocks)
        )

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

    @property
    def waits(self) -> bool:
        """Whether it, or what it runs, may suspend, or has control flow made by hand in it."""
        if self.blocks:
            return any(node.waits or node.definition.name in PRIMITIVES for b in self.blocks for node in b.flow.nodes)
        return self.definition.waits

    def everything(self) -> "Iterator[Node]":
        """Itself and the nodes of its blocks, of theirs too."""
        yield self
        for block in self.blocks:
            for node in block.flow.nodes:
                yield from node.everything()

    def __repr__(self) -> str:
        return f"<Node {self.name!r} ({self.definition.name})>"


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """The nodes of one call. `feeds` are values given by the caller, `fetches` those it gets, `targets` only run."""

    nodes: list[Node]
    feeds: tuple[Node, ...]
    fetches: tuple[Value, ...]
    targets: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What a structured node runs. The feeds of its Flow are arguments: `takes` says which input each of them is."""

    flow: Flow
    takes: tuple[int, ...]

    @property
    def arguments(self) -> dict[int, Node]:
        """The arguments by the input they are given."""
        return dict(zip(self.takes, self.flow.feeds, strict=True))


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


def rewrite_blocks(flow: Flow, change: Callable[[Node, Block], Block]) -> Flow:
    """Every block of every node replaced by what `change` makes of it."""
    if not any(node.blocks for node in flow.nodes):
        return flow
    return rewrite(flow, lambda node: node.with_blocks([change(node, b) for b in node.blocks]) if node.blocks else node)


def sweep(feeds: tuple[Node, ...], fetches: tuple[Value, ...], targets: tuple[Node, ...]) -> Flow:
    """The Flow of what the fetches and targets need, sources first, in the order the user built it."""
    roots = [*[value.node for value in fetches], *targets]
    return Flow(in_order([*feeds, *roots], _sources, sources_before), feeds, fetches, targets)


def _sources(node: Node) -> list[Node]:
    return [*[source for source, _ in node.inputs], *node.controls]


def is_back_edge(source: Node, node: Node) -> bool:
    """Whether the edge closes the cycle of a loop: the only kind of edge that may lead back in a Flow."""
    return node.definition.name == "merge" and source.definition.name == "next_iteration"


def sources_before(node: Node) -> list[Node]:
    """What comes before the node: its sources, but for those that its back edges come from."""
    if node.definition.name != "merge":
        return _sources(node)
    return [*[source for source, _ in node.inputs if not is_back_edge(source, node)], *node.controls]


def has_primitives(flow: Flow) -> bool:
    """Whether the user's graph has control flow made by hand in it, which is run as it is, in bodies too."""
    return any(inner.operation.type in PRIMITIVES for node in flow.nodes for inner in node.everything())


def in_order(
    roots: Iterable[Node], sources: Callable[[Node], Iterable[Node]], before: Callable[[Node], Iterable[Node]]
) -> list[Node]:
    """Everything reachable from the roots by `sources`, and after what is before it; else what was built first."""
    found: dict[Node, int] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = len(found)
            stack.extend(sources(node))
    by_age = sorted(found, key=lambda node: (node.operation.id, node.name))
    return by_age if _respects(by_age, before) else _topological(by_age, before)


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
