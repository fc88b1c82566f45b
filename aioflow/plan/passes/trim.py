"""Removes unused outputs of branches and loops, and the nodes inside that only these outputs need.

A gradient makes the forward loop record every value that it might need; once the gradient's loop is simplified, it
needs fewer. A loop variable stays if its last value is used, or if the condition or a remaining node reads it. A node
with an effect stays as a target of its block: the effect happens even if no result is used.
"""

from collections.abc import Mapping, Sequence

from aioflow.plan.passes.demand import Demand, is_loop
from aioflow.plan.passes.flow import Block, Flow, Node, Value, blocks_within


def trim(flow: Flow) -> Flow:
    """The Flow with no more in branches and loops than is used."""
    if not any(node.blocks for node in flow.nodes):
        return flow
    trimmer = _Trimmer(Demand(flow, [*flow.feeds, *flow.targets]))
    for node, block in reversed(blocks_within(flow.nodes)):  # inner ones first
        trimmer.block(node, block)
    return trimmer.flow(flow, flow.feeds, flow.fetches, flow.targets)


class _Trimmer:
    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._blocks: dict[Block, Block] = {}
        self._moved: dict[Node, dict[int, int]] = {}
        """For each branch or loop the new numbers of the outputs that stay, by their old numbers."""

    def block(self, node: Node, block: Block) -> None:
        """Trim a block after its inner blocks. Its arguments keep the numbers of the node's untrimmed inputs."""
        if node not in self._demand.nodes:
            return
        pairs = [pair for pair in zip(block.flow.feeds, block.takes, strict=True) if pair[0] in self._demand.nodes]
        fetches = [block.flow.fetches[index] for index in self._outputs(node, block)]
        feeds = [argument for argument, _ in pairs]
        flow = self.flow(block.flow, feeds, fetches, [each for each in block.effects if each in self._demand.nodes])
        self._blocks[block] = Block(flow, tuple([place for _, place in pairs]))

    def _outputs(self, node: Node, block: Block) -> list[int]:
        """The numbers of the block's fetches that stay."""
        kept = sorted(self._demand.outputs[node])
        if not is_loop(node):
            return kept
        if block is not node.blocks[-1]:
            return [0]
        count = node.attrs["variables"]
        return [index if index < count else index - 1 for index in kept if index != count]

    def flow(self, flow: Flow, feeds: Sequence[Node], fetches: Sequence[Value], targets: Sequence[Node]) -> Flow:
        """The flow with only the nodes that run, with their trimmed blocks."""
        done: dict[Node, Node] = {}

        def moved(value: Value) -> Value:
            numbers = self._moved.get(value.node)
            return Value(done[value.node], value.index if numbers is None else numbers[value.index])

        for node in flow.nodes:
            if node not in self._demand.nodes:
                continue
            trimmed = self._node(node) if node.blocks else node
            inputs, controls = tuple(map(moved, trimmed.inputs)), tuple([done[control] for control in node.controls])
            same = inputs == trimmed.inputs and controls == trimmed.controls
            done[node] = trimmed if same else trimmed.with_edges(inputs, controls)
        ends = tuple([done[node] for node in feeds]), tuple(map(moved, fetches)), tuple([done[n] for n in targets])
        return Flow(list(done.values()), *ends)

    def _node(self, node: Node) -> Node:
        """A branch or loop with the inputs and outputs that stay."""
        blocks = [self._blocks[block] for block in node.blocks]
        taken = {place for block in blocks for place in block.takes}
        places, outputs, attrs = (_of_loop if is_loop(node) else _of_branch)(node, self._demand.outputs[node], taken)
        self._moved[node] = {index: number for number, index in enumerate(outputs)}
        number = {place: index for index, place in enumerate(places)}
        return Node(
            node.operation, node.definition, node.name, tuple([node.inputs[place] for place in places]), node.controls,
            {**node.attrs, **attrs}, [node.output_specs[index] for index in outputs],
            tuple([Block(block.flow, tuple([number[place] for place in block.takes])) for block in blocks]),
        )  # fmt: skip


Kept = tuple[list[int], list[int], Mapping[str, int]]
"""The numbers of the inputs and of the outputs that stay, and the attributes that say so."""


def _of_branch(node: Node, used: set[int], taken: set[int]) -> Kept:
    return sorted({0, *taken}), sorted(used), {}


def _of_loop(node: Node, used: set[int], taken: set[int]) -> Kept:
    first, count, replays = (node.attrs[name] for name in ("limited", "variables", "replays"))
    live = sorted(index for index in used if index < count)
    others = sorted(place for place in taken if place >= first + count)
    attrs = {"variables": len(live), "replays": sum(place < first + count + replays for place in others)}
    places = [*range(first), *[first + index for index in live], *others]
    return places, sorted({*live, count, *used}), attrs
