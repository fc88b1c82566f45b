"""Finds the sets of nodes that must share a device, by union-find.

A set holds: a handle and all its users; all handles to one state; an operation and its `colocate_with` partners, in the
flow or not; and each control-flow primitive with its data: `switch`, `merge` and `exit` with the source of their first
input, `enter` and `next_iteration` with their first reader.
"""

import contextlib
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation
from aioflow.graph.subgraph import BodyGraph
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.passes.flow import Flow, Node
from aioflow.tensors.dtypes import ListSpec, ResourceSpec, Spec

_UPSTREAM: Final = frozenset({"switch", "merge", "exit"})
_DOWNSTREAM: Final = frozenset({"enter", "next_iteration"})


def is_everywhere(node: Node) -> bool:
    """Whether it needs no place, for it is the same on every device: a feed, a constant."""
    return node.definition.name in ("feed", "constant", "argument") and not node.controls


def is_state(spec: Spec) -> bool:
    """Whether a value of that Spec cannot leave its device: a handle, but not a list, which is a value."""
    return isinstance(spec, ResourceSpec) and not isinstance(spec, ListSpec)


def state_key(node: Node) -> Hashable:
    """Return the key of a handle's state, equal in all plans; None if the node is not a handle."""
    if not node.definition.handle:
        return None
    return node.definition.name, node.attrs["container"], node.attrs["shared_name"] or node.name


def is_follower(node: Node) -> bool:
    """Whether it follows its data, since no device was requested for it: a primitive or a pivot.

    A primitive of a lowered branch or loop has the request of that operation, which is not meant for it.
    """
    name, kind = node.definition.name, node.operation.type
    if name == "identity":
        return kind in ("cond", "while_loop")
    return name in PRIMITIVES and (name != kind or not node.operation.device)


def operations_in(node: Node) -> list[Operation]:
    """The operations whose requests count for the node: its own, and those of all that it runs."""
    if not node.blocks:
        return [node.operation] if node.operation.device and not is_follower(node) else []
    inner = [each.operation for each in node.everything() if each.operation.device and not is_everywhere(each)]
    return list(dict.fromkeys(inner))


class UnionFind:
    """Sets of things, joined one by one."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        self._sizes: dict[Hashable, int] = {}

    def __contains__(self, thing: Hashable) -> bool:
        return thing in self._parents

    def find(self, thing: Hashable) -> Hashable:
        """The thing that stands for the whole set."""
        parents = self._parents
        root = thing
        while (parent := parents.setdefault(root, root)) is not root:
            root = parent
        while (parent := parents[thing]) is not root:
            parents[thing] = root
            thing = parent
        return root

    def join(self, one: Hashable, other: Hashable) -> None:
        """They are in one set from here on."""
        larger, smaller = self.find(one), self.find(other)
        if larger is not smaller:
            sizes = self._sizes
            if sizes.get(larger, 1) < sizes.get(smaller, 1):
                larger, smaller = smaller, larger
            self._parents[smaller] = larger
            sizes[larger] = sizes.get(larger, 1) + sizes.get(smaller, 1)


class Together(NamedTuple):
    """Nodes that must share a device.

    Attributes:
        members: the nodes, in the order of the flow.
        states: the state that they use, each with a handle to it.
        absent: operations that share the device and are not in the flow.
    """

    members: list[Node]
    states: list[tuple[Hashable, Node]]
    absent: list[Operation]


def together(flow: Flow) -> list[Together]:
    """Return the sets of nodes that must share a device with another node, in the flow or not."""
    nodes = [node for node in flow.nodes if not is_everywhere(node)]
    joined = _Joined(nodes)
    found: dict[Hashable, Together] = {}
    for node in nodes:
        if node in joined.sets:
            found.setdefault(joined.sets.find(node), Together([], [], [])).members.append(node)
    for key, handle in joined.states.items():
        found[joined.sets.find(key)].states.append((key, handle))
    for name, operation in joined.absent.items():
        found[joined.sets.find(name)].absent.append(operation)
    return list(found.values())


class _Joined:
    """The sets, in the making."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.sets: Final = UnionFind()
        self.states: Final[dict[Hashable, Node]] = {}
        self.absent: Final[dict[str, Operation]] = {}
        for node in nodes:
            self._join_states(node)
        self._join_names(nodes)
        followers = [node for node in nodes if is_follower(node)]
        if followers:
            self._join_followers(nodes, followers)

    def _join_states(self, node: Node) -> None:
        for source, index in node.inputs:
            if is_state(source.output_specs[index]):
                self.sets.join(node, source)
        for inner in node.everything() if node.blocks else (node,):
            key = state_key(inner)
            if key is not None:
                self.states.setdefault(key, inner)
                self.sets.join(node, key)

    def _join_names(self, nodes: Sequence[Node]) -> None:
        asking = [(node, inner) for node in nodes for inner in _operations(node) if inner.colocation]
        if not asking:
            return
        wanted = {name: inner for _, inner in asking for name in inner.colocation}
        for node, inner in asking:
            for name in inner.colocation:
                self.sets.join(node, name)
        present = {inner.name: node for node in reversed(nodes) for inner in _operations(node) if inner.name in wanted}
        for name, by in wanted.items():
            if name in present:
                self.sets.join(present[name], name)
            elif (operation := _found(by.graph, name)) is not None:
                self.absent[name] = operation

    def _join_followers(self, nodes: Sequence[Node], followers: Sequence[Node]) -> None:
        """Join each follower with the source or reader of its data, and a loop variable with its next value."""
        readers: dict[Node, Node] = {}
        for node in nodes:
            for source, _ in node.inputs:
                readers.setdefault(source, node)
        for node in followers:
            if node.definition.name in _UPSTREAM:
                data = [source for source, _ in node.inputs if not is_everywhere(source)]
                others = data[:1]
            else:
                others = [readers[node]] if node.definition.name in _DOWNSTREAM and node in readers else []
            if node.definition.name == "next_iteration" and not is_everywhere(node.inputs[0].node):
                others = [*others, node.inputs[0].node]
            for other in others:
                self.sets.join(node, other)


def _operations(node: Node) -> list[Operation]:
    """The operations of a node and of all that it runs."""
    return [inner.operation for inner in node.everything()] if node.blocks else [node.operation]


def _found(graph: Graph, name: str) -> Operation | None:
    """The operation of that name in the graph, or in one around it."""
    while True:
        with contextlib.suppress(KeyError):
            return graph.get_operation_by_name(name)
        if not isinstance(graph, BodyGraph):
            return None
        graph = graph.outer
