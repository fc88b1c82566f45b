"""Finds the values of a flow that are needed, also inside branches and loops.

An output of a branch or loop is needed if a running node reads it. Then the values in the blocks that give this output
are needed, too. If an argument of a block is needed, so is the input that it stands for. Every value is marked once, so
the time is linear in the nodes of all blocks, at any depth.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from aioflow.plan.passes.flow import Block, Flow, Node, Value, blocks_within


class Demand:
    """The nodes that run and the outputs that are needed.

    Attributes:
        nodes: the nodes that run.
        outputs: for each branch or loop that runs, the numbers of the needed outputs.
    """

    def __init__(self, flow: Flow, roots: Iterable[Node], effects: bool = True) -> None:
        """Mark the values that the fetches of a flow need.

        Args:
            flow: the flow.
            roots: nodes that run for any fetches.
            effects: whether all nodes with an effect in a block run whenever the block runs.
        """
        self.nodes: Final[set[Node]] = set()
        self.outputs: Final[dict[Node, set[int]]] = {}
        self._effects = effects
        self._given: dict[Node, Value] = {}
        """For each argument of a block, the value that the block is given for it."""
        for node, block in blocks_within(flow.nodes):
            self._given.update({argument: _given(node, place) for place, argument in block.arguments.items()})
        self._values = list(flow.fetches)
        self.run(roots)

    def run(self, nodes: Iterable[Node]) -> None:
        """Mark these nodes as running, with everything that they need."""
        running = list(nodes)
        while running or self._values:
            if self._values:
                node, index = self._values.pop()
                running.append(node)
                if node.blocks and index not in self.outputs.setdefault(node, set()):
                    self.outputs[node].add(index)
                    self._values += _made_of(node, index)
                continue
            node = running.pop()
            if node not in self.nodes:
                self.nodes.add(node)
                running += node.controls
                self._values += self._reads(node)
                if self._effects:
                    running += [effect for block in node.blocks for effect in block.effects]

    def _reads(self, node: Node) -> Sequence[Value]:
        """The values that a node reads whenever it runs."""
        if node.blocks:
            self.outputs.setdefault(node, set())
            return _always_read(node)
        return (self._given[node],) if node in self._given else node.inputs


def unneeded_effects(flow: Flow) -> dict[Block, set[Node]]:
    """Return for each block its nodes with effects that no needed value needs. Blocks with primitives have none."""
    demand = Demand(flow, flow.nodes, effects=False)
    found: dict[Block, set[Node]] = {}
    for _, block in blocks_within(flow.nodes):
        found[block] = set() if block.handmade else {node for node in block.effects if node not in demand.nodes}
        demand.run(found[block])
    return found


def is_loop(node: Node) -> bool:
    """Whether a node with blocks is a loop; else it is a branch."""
    return node.definition.name == "while_loop"


def _given(node: Node, place: int) -> Value:
    """The value given to the blocks of a node: an input, or for a loop variable, its output."""
    if is_loop(node):
        first: int = node.attrs["limited"]
        if first <= place < first + node.attrs["variables"]:
            return Value(node, place - first)
    return node.inputs[place]


def _made_of(node: Node, index: int) -> list[Value]:
    """The values that give an output of a branch or loop."""
    if not is_loop(node):
        return [block.flow.fetches[index] for block in node.blocks]
    body, count = node.blocks[-1].flow, node.attrs["variables"]
    if index < count:
        return [body.fetches[index], node.inputs[node.attrs["limited"] + index]]
    return [body.fetches[index - 1]] if index > count else []


def _always_read(node: Node) -> list[Value]:
    """The values that choose the branch, or decide whether the loop continues."""
    if not is_loop(node):
        return [node.inputs[0]]
    return [*node.inputs[: node.attrs["limited"]], *[block.flow.fetches[0] for block in node.blocks[:-1]]]
