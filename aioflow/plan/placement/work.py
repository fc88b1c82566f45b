"""Describes a flow by numbers: the times of its nodes, and the bytes of its edges."""

from collections.abc import Mapping, Sequence
from typing import Final

from aioflow.plan.cost_model import CostModel, size_of
from aioflow.plan.passes.flow import Flow, Node, Value, is_back_edge
from aioflow.plan.placement.colocation import is_everywhere
from aioflow.plan.placement.constraints import Demand
from aioflow.tensors.dtypes import DeviceKind, ResourceSpec

CLIENT: Final = -1
"""Stands for the source of a fed value."""


Read = tuple[int, float]
"""An input of a node: the number of the source, and the bytes."""


class Work:
    """The nodes of a flow that need a device, by number, sources first.

    Attributes:
        nodes: the nodes.
        index: their numbers.
        demands: the demand of each.
        seconds: the time of each, by the number of the kind of device.
        reads: the inputs of each, without back edges of loops.
        missing: the number of nodes that each waits for.
        users: the nodes that wait for each.
        after: the time from the end of each until all that waits for it has ended, on the fastest devices at least.
        made: the bytes that each makes.
        fetched: the values that must come back to the client.
    """

    def __init__(
        self, flow: Flow, demands: Mapping[Node, Demand], kinds: Sequence[DeviceKind], model: CostModel
    ) -> None:
        self._feeds = set(flow.feeds)
        self._sizes: dict[Value, float] = {}
        self.nodes: Final = [node for node in flow.nodes if not is_everywhere(node)]
        self.index: Final = {node: number for number, node in enumerate(self.nodes)}
        self.demands: Final = [demands[node] for node in self.nodes]
        self.seconds: Final = [tuple([model.seconds(node, kind) for kind in kinds]) for node in self.nodes]
        self.reads: Final = [self._reads_of(node) for node in self.nodes]
        self.missing: Final = [0] * len(self.nodes)
        self.users: Final = self._all_users()
        self.after: Final = self._least_after()
        self.made: Final = [self._made_by(node) for node in self.nodes]
        fetches = [value for value in dict.fromkeys(flow.fetches) if value.node in self.index]
        self.fetched: Final = [(self.index[value.node], self._size(value)) for value in fetches]

    def members(self, node: int) -> list[int]:
        """The nodes that share its device, itself among them."""
        return [self.index[member] for member in self.demands[node].members] or [node]

    def sources(self, node: int) -> set[int]:
        """The nodes that it waits for."""
        return {source for source, _ in self.reads[node] if source != CLIENT}

    def _size(self, value: Value) -> float:
        found = self._sizes.get(value)
        if found is None:
            found = self._sizes[value] = size_of(value.planned_spec)
        return found

    def _reads_of(self, node: Node) -> tuple[Read, ...]:
        index = self.index
        found: dict[Read, None] = {}
        for value in node.inputs:
            source = value.node
            if source in index:
                if not is_back_edge(source, node):
                    found[index[source], self._size(value)] = None
            elif source in self._feeds:
                found[CLIENT, self._size(value)] = None
        for control in node.controls:
            if control in index:
                found[index[control], 0.0] = None
        return tuple(found)

    def _all_users(self) -> list[list[int]]:
        users: list[list[int]] = [[] for _ in self.nodes]
        for number in range(len(self.nodes)):
            sources = self.sources(number)
            self.missing[number] = len(sources)
            for source in sources:
                users[source].append(number)
        return users

    def _least_after(self) -> list[float]:
        after = [0.0] * len(self.nodes)
        for number in reversed(range(len(after))):
            after[number] = max([min(self.seconds[user]) + after[user] for user in self.users[number]], default=0.0)
        return after

    def _made_by(self, node: Node) -> float:
        """Return the bytes of its outputs; 0 if its kernel returns views of its inputs."""
        kernel = next((k for kernels in node.definition.kernels.values() for k in kernels), None)
        if kernel is not None and not kernel.fresh and node.inputs:
            return 0.0
        return sum([self._size(Value(node, index)) for index in range(len(node.output_specs))])


def state_bytes(node: Node) -> float:
    """How many bytes the state takes that a handle stands for: of a variable, its value."""
    spec = node.output_specs[0] if node.definition.name == "variable" else None
    return size_of(spec.items[0]) if isinstance(spec, ResourceSpec) else 0.0
