"""Branches and loops that cannot be on one device in one piece: they are lowered before they are placed."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from aioflow.graph.device_spec import DeviceSpec
from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Flow, Node, sweep
from aioflow.plan.passes.lower import lower
from aioflow.plan.placement.colocation import Together, operations_in, together
from aioflow.plan.placement.rules import ANYWHERE, Rules, conflict, requested


def lowered(flow: Flow, sites: Sequence[Site], homes: Mapping[Hashable, str]) -> Flow:
    """The flow with primitives for the branches and loops that span devices, inner ones too."""
    rules = Rules(sites, soft=False)
    while found := _spanning(flow, rules, homes):
        flow = lower(flow, found.__contains__)
        flow = sweep(flow.feeds, flow.fetches, flow.targets)  # a pivot that holds nothing back would be sent about
    return flow


def _spanning(flow: Flow, rules: Rules, homes: Mapping[Hashable, str]) -> set[Node]:
    """Those that ask for several devices, or for another one than that of their state."""
    alone = {node for node in flow.nodes if node.blocks}
    if not alone:
        return set()
    found: set[Node] = set()
    for group in together(flow):
        found.update(_torn(group.members, _fixed(group, homes), rules))
        alone.difference_update(group.members)
    return found.union(*[_torn([node], ANYWHERE, rules) for node in alone])


def _fixed(group: Together, homes: Mapping[Hashable, str]) -> DeviceSpec | None:
    """Return the merged request of the nodes that cannot be lowered, with their state; None if they conflict."""
    plain = [operation for node in group.members if not node.blocks for operation in operations_in(node)]
    asked = [DeviceSpec.from_string(homes[key]) for key, _ in group.states if key in homes]
    wanted = ANYWHERE
    for each in (*asked, *map(requested, (*group.absent, *plain))):
        if conflict(wanted, each) is not None:
            return None
        wanted = wanted.merge(each)
    return wanted


def _torn(members: Iterable[Node], wanted: DeviceSpec | None, rules: Rules) -> set[Node]:
    """Return the members to lower. Of several with different requests, the first may stay structured."""
    found = set()
    for node in members:
        if node.blocks:
            merged = None if wanted is None else _merged(node, wanted, rules)
            if merged is None:
                found.add(node)
            else:
                wanted = merged
    return found


def _merged(node: Node, wanted: DeviceSpec, rules: Rules) -> DeviceSpec | None:
    """Return the merged request with the structured node; None if they conflict."""
    for operation in operations_in(node):
        asked = requested(operation)
        if conflict(wanted, asked) is not None:
            return None
        wanted = wanted.merge(asked)
    if rules.exactly(wanted) and not rules.exactly(wanted, rules.kinds(node)):
        return None
    return wanted
