"""The intermediate representation of a plan: the part of a graph that a call runs, as light nodes for passes.

A Flow never changes in place: a pass takes one and returns one. The order of its nodes respects every edge except back
edges of loops, and otherwise follows the order in which the user built them.

Checks the rules of a legal flow, which hold after every pass.
"""

import dataclasses
import itertools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from aioflow import errors
from aioflow.graph.op import REGISTRY, Op
from aioflow.graph.operation import Attrs, Operation
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.tensors.dtypes import Array, Spec

_NAME: Final = operator.attrgetter("name")
_HARMLESS: Final = frozenset({"argument", "absent", "cond", "pulse", "while_loop", "tensor_array"})
"""Ops that are stateful only to prevent merging; they have no effect of their own."""


class Value(NamedTuple):
    """One output of a node."""

    node: "Node"
    index: int  # type: ignore[assignment]  # an output's number, as everywhere; tuple.index is not missed

    @property
    def spec(self) -> Spec:
        """Its dtype and shape."""
        return self.node.output_specs[self.index]

    @property
    def planned_spec(self) -> Spec:
        """The Spec that it is planned with."""
        return self.node.planned_specs[self.index]


class Node:
    """A node of a plan. `operation` is the user's operation, for errors and reports.

    `blocks` are the bodies of structured control flow: both branches of a `cond`, the true one first; the condition
    (missing if there is only a limit) and the body of a loop. A node `at_home` uses host memory and a CPU kernel,
    though its device is a GPU. `sized` are the Specs of its outputs for the feeds of one run; None if the shapes of
    feeds are not known. Only estimates use them, because the next run may have other feeds.
    """

    __slots__ = (
        "at_home", "attrs", "blocks", "controls", "definition", "inputs", "name", "operation", "output_specs", "sized",
    )  # fmt: skip

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
        self.at_home: bool = False
        self.blocks: tuple[Block, ...] = blocks
        self.operation: Operation = operation
        self.definition: Op[Any] = definition
        self.name: str = name
        self.inputs: tuple[Value, ...] = inputs
        self.controls: tuple[Node, ...] = controls
        self.attrs: Attrs = attrs
        self.output_specs: Sequence[Spec] = output_specs
        self.sized: Sequence[Spec] | None = None

    @property
    def planned_specs(self) -> Sequence[Spec]:
        """The Specs of its outputs that estimates use: with the sizes of one run, if they are known."""
        return self.output_specs if self.sized is None else self.sized

    @property
    def planned_inputs(self) -> list[Spec]:
        """The Specs of its inputs that estimates use."""
        return [node.planned_specs[index] for node, index in self.inputs]

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
        made.at_home, made.sized = self.at_home, self.sized
        return made

    def with_blocks(self, blocks: "Iterable[Block]") -> "Node":
        """The same node with other blocks."""
        specs = self.output_specs
        made = Node(
            self.operation, self.definition, self.name, self.inputs, self.controls, self.attrs, specs, tuple(blocks)
        )
        made.sized = self.sized
        return made

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
        """Whether it, or a node in its blocks, may suspend or is a control-flow primitive."""
        return any(block.waits for block in self.blocks) if self.blocks else self.definition.waits

    @property
    def has_effect(self) -> bool:
        """Whether the node, or a node in its blocks, has an effect besides its outputs."""
        own = self.definition
        harmless = own.observes or own.counted or own.name in _HARMLESS
        return (own.stateful and not harmless) or any(block.effects for block in self.blocks)

    def everything(self) -> "Iterator[Node]":
        """Itself and the nodes of its blocks, of theirs too."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            for block in reversed(node.blocks):
                waiting.extend(reversed(block.flow.nodes))

    def __repr__(self) -> str:
        return f"<Node {self.name!r} ({self.definition.name})>"


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """The nodes of one call. `feeds` are values given by the caller, `fetches` those it gets, `targets` only run."""

    nodes: list[Node]
    feeds: tuple[Node, ...]
    fetches: tuple[Value, ...]
    targets: tuple[Node, ...]


class Block:
    """A block of a structured node. The feeds of its Flow are arguments; `takes` has the input number of each.

    A block derives its properties from its own nodes and their blocks, not from all nodes below. So a pass that visits
    every block of a nest takes no longer than one that visits every node.

    Attributes:
        flow: the nodes of the block.
        takes: for each feed of the flow, the input of the structured node.
        waits: whether a node may suspend, or is a primitive of control flow.
        handmade: whether the user's graph has primitives of control flow in it.
        effects: its own nodes that have an effect, or contain a node that has one.
        touches: the result of `order.touched`, kept for reuse; None until it is computed.
    """

    __slots__ = ("effects", "flow", "handmade", "takes", "touches", "waits")

    def __init__(self, flow: Flow, takes: tuple[int, ...]) -> None:
        self.flow: Final = flow
        self.takes: Final = takes
        self.waits: Final = any(node.waits or node.definition.name in PRIMITIVES for node in flow.nodes)
        self.handmade: Final = has_primitives(flow)
        self.effects: Final = [node for node in flow.nodes if node.has_effect]
        self.touches: dict[Hashable, bool] | None = None

    @property
    def arguments(self) -> dict[int, Node]:
        """The arguments by the input they are given."""
        return dict(zip(self.takes, self.flow.feeds, strict=True))


Replacement = Node | tuple[Value, ...]
"""A node, or values that stand in for its outputs and make it superfluous."""


def rewrite(flow: Flow, visit: Callable[[Node], Replacement]) -> Flow:
    """Replace every node by the result of `visit`, after its inputs are replaced, and drop unused nodes.

    The flow takes in new nodes whose values `visit` returns. A node with a control edge from a replaced node waits for
    the values that replace it.
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
    release(done)
    release(anchors)
    return sweep(feeds, fetches, targets)


def every_node(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes and those in their blocks: sources first, and a node after its blocks, so that `release` frees few."""
    levels: list[tuple[Iterator[Node], Node | None]] = [(iter(nodes), None)]
    while levels:
        inside, around = levels[-1]
        node = next(inside, None)
        if node is None:
            levels.pop()
            if around is not None:
                yield around
        elif node.blocks:
            levels.append((itertools.chain.from_iterable([block.flow.nodes for block in node.blocks]), node))
        else:
            yield node


def staged(flow: Flow, *passes: Callable[[Flow], Flow], deep: bool = False) -> Flow:
    """Apply the passes in turn, and free the nodes of each flow between them one by one.

    If `deep`, so are those in blocks. Passes on the flows of blocks need not do so: the nodes in their blocks are freed
    with those of the whole flow.
    """
    for apply in passes:
        nodes = list(every_node(flow.nodes) if deep else flow.nodes)
        flow = apply(flow)
        release(nodes)
    return flow


def release(found: list[Any] | dict[Any, Any]) -> None:
    """Empty it from the end. Freed all at once, many objects would hold the interpreter, and with it the loop."""
    take: Callable[[], object] = found.pop if isinstance(found, list) else found.popitem
    while found:
        take()


def in_blocks(flow: Flow, apply: Callable[[Flow], Flow]) -> Flow:
    """Apply a pass to the flow of every block of every node."""
    if not any(node.blocks for node in flow.nodes):
        return flow

    def changed(node: Node) -> Node:
        return node.with_blocks([Block(apply(block.flow), block.takes) for block in node.blocks])

    return rewrite(flow, lambda node: changed(node) if node.blocks else node)


def sweep(feeds: tuple[Node, ...], fetches: tuple[Value, ...], targets: tuple[Node, ...]) -> Flow:
    """Return the flow of the nodes that fetches and targets need, sources first, in the order the user built them."""
    roots = [*[value.node for value in fetches], *targets]
    return Flow(in_order([*feeds, *roots], _sources, sources_before), feeds, fetches, targets)


def _sources(node: Node) -> list[Node]:
    return [*[source for source, _ in node.inputs], *node.controls]


def is_back_edge(source: Node, node: Node) -> bool:
    """Whether the edge closes the cycle of a loop: the only kind of edge that may lead back in a Flow."""
    return node.definition.name == "merge" and source.definition.name == "next_iteration"


def sources_before(node: Node) -> list[Node]:
    """Return the sources of a node, except those of back edges."""
    if node.definition.name != "merge":
        return _sources(node)
    return [*[source for source, _ in node.inputs if not is_back_edge(source, node)], *node.controls]


def has_primitives(flow: Flow) -> bool:
    """Whether the user's graph has control flow made by hand in it, which is run as it is, in bodies too."""
    return any(node.operation.type in PRIMITIVES or any(b.handmade for b in node.blocks) for node in flow.nodes)


def blocks_within(nodes: Iterable[Node]) -> list[tuple[Node, Block]]:
    """The blocks of these nodes at any depth, outer blocks first, each with the node that runs it."""
    found: list[tuple[Node, Block]] = []
    waiting: list[Iterable[Node]] = [nodes]
    while waiting:
        for node in waiting.pop():
            for block in node.blocks:
                found.append((node, block))
                waiting.append(block.flow.nodes)
    return found


def in_order(
    roots: Iterable[Node], sources: Callable[[Node], Iterable[Node]], before: Callable[[Node], Iterable[Node]]
) -> list[Node]:
    """Return the nodes reachable from the roots by `sources`, each after its sources, and otherwise as built."""
    found: dict[Node, int] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = len(found)
            stack.extend(sources(node))
    by_age = _by_age(found)
    return by_age if _respects(by_age, before) else _topological(by_age, before)


def _by_age(nodes: Iterable[Node]) -> list[Node]:
    """The nodes in the order that the user built them; those of one operation by name."""
    ages: dict[int, list[Node]] = {}
    for node in nodes:
        ages.setdefault(node.operation.id, []).append(node)
    return [node for age in sorted(ages) for node in sorted(ages[age], key=_NAME)]


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


def verify(flow: Flow) -> Flow:
    """The Flow itself. InternalError naming the node that breaks a rule."""
    seen: set[Node] = set()
    back: list[tuple[Node, Node]] = []
    for node in flow.nodes:
        for source, index in node.inputs:
            if is_back_edge(source, node):
                back.append((node, source))
            else:
                _require(source in seen, node, f"input {source.name!r} comes later or is missing")
            _require(0 <= index < len(source.output_specs), node, f"{source.name!r} has no output {index}")
        for control in node.controls:
            _require(control in seen, node, f"control input {control.name!r} comes later or is missing")
        _require(node not in seen, node, "it occurs twice")
        seen.add(node)
    for node, source in back:
        _require(source in seen, node, f"input {source.name!r} is missing")
    ends = [*[value.node for value in flow.fetches], *flow.targets, *flow.feeds]
    for node in ends:
        _require(node in seen, node, "it is fetched, run or fed, and not in the flow")
    return flow


def _require(holds: bool, node: Node, broken: str) -> None:
    if not holds:
        raise errors.InternalError(f"the plan is not legal at {node!r}: {broken}")
