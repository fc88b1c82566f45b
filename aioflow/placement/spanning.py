"""Which branches and loops cannot be on one device in one piece, and have to be lowered before they are placed."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from aioflow.costs import Site
from aioflow.device_spec import DeviceSpec
from aioflow.passes.flow import Flow, Node
from aioflow.placement.colocation import Together, is_everywhere, is_state, operations_in, together
from aioflow.placement.constraints import ANYWHERE, Rules, conflict, requested


def spanning(flow: Flow, sites: Sequence[Site], homes: Mapping[Hashable, str]) -> set[Node]:
    """The structured nodes, inner ones too, that ask for several devices, or for another one than that of their state.

    Of several that work on one state and ask for different devices, the first may stay whole.
    """
    if not any(node.blocks for node in flow.nodes):
        return set()
    return _Spanning(flow, sites, homes).found


class _Spanning:
    def __init__(self, flow: Flow, sites: Sequence[Site], homes: Mapping[Hashable, str]) -> None:
        self._rules: Final = Rules(sites, soft=False)
        self._homes: Final = homes
        self.found: Final[set[Node]] = set()
        shared: set[Node] = set()
        for group in together(flow):
            shared.update(group.members)
            if any(node.blocks for node in group.members):
                self._look_at(group)
        for node in flow.nodes:
            if node.blocks and node not in shared:
                self._take(node, ANYWHERE)

    def _look_at(self, group: Together) -> None:
        """Plain nodes cannot be taken apart: what they ask for comes first."""
        wanted = self._home(group)
        for node in group.members:
            if not node.blocks:
                for operation in operations_in(node):
                    wanted = wanted.merge(requested(operation))
        for operation in group.absent:
            wanted = wanted.merge(requested(operation))
        for node in group.members:
            if node.blocks:
                wanted = self._take(node, wanted)

    def _home(self, group: Together) -> DeviceSpec:
        names = [self._homes[key] for key, _ in group.states if key in self._homes]
        return DeviceSpec.from_string(names[0]) if names else ANYWHERE

    def _take(self, node: Node, wanted: DeviceSpec) -> DeviceSpec:
        """What is asked for with the node in one piece; unchanged, and the node is found, if it cannot be."""
        merged = wanted
        for operation in operations_in(node):
            asked = requested(operation)
            if conflict(merged, asked) is not None:
                return self._find(node, wanted)
            merged = merged.merge(asked)
        if self._rules.exactly(merged) and not self._rules.exactly(merged, self._rules.kinds(node)):
            return self._find(node, wanted)
        return merged

    def _find(self, node: Node, wanted: DeviceSpec) -> DeviceSpec:
        self.found.add(node)
        for block in node.blocks:
            for inner in block.flow.nodes:
                if inner.blocks and self._is_bound(inner):
                    self.found.add(inner)
        return wanted
