"""Finds the devices that each node may run on, from the requests and kernels of all nodes that share its device.

Branches and loops that cannot be on one device in one piece: they are lowered before they are placed.
"""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence

from aioflow import errors
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.operation import Operation, describe_line
from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Flow, Node, sweep
from aioflow.plan.passes.lower import lower
from aioflow.plan.placement.colocation import (
    Together,
    is_everywhere,
    is_follower,
    is_state,
    operations_in,
    together,
)
from aioflow.plan.placement.rules import (
    ANYWHERE,
    PARTS,
    SOFT_PARTS,
    Rules,
    at,
    conflict,
    listed,
    requested,
    without_device,
)
from aioflow.tensors.dtypes import DeviceKind


@dataclasses.dataclass(slots=True, eq=False)
class Demand:
    """The devices that nodes may run on, and the nodes that share the device.

    Attributes:
        sites: the devices, by number, in order.
        why: the reason for the restriction; empty if all devices are allowed.
        members: the nodes that share one device; empty if each node may have its own.
    """

    sites: tuple[int, ...]
    why: str
    members: tuple[Node, ...] = ()


def demands(flow: Flow, sites: Sequence[Site], *, soft: bool, homes: Mapping[Hashable, str]) -> dict[Node, Demand]:
    """Return the demand of each node that needs a device. InvalidArgumentError if one cannot be met."""
    rules = Rules(sites, soft)
    for node in flow.nodes:
        if is_everywhere(node) and node.operation.device:
            rules.check(node.operation)
    found: dict[Node, Demand] = {}
    for each in together(flow):
        found.update(_shared(rules, each, homes))
    alike: dict[Hashable, Demand] = {}
    for node in flow.nodes:
        if node not in found and not is_everywhere(node):
            found[node] = _alone(node, rules, alike)
    return found


def _shared(rules: Rules, group: Together, homes: Mapping[Hashable, str]) -> dict[Node, Demand]:
    """The demand of each node of a set that shares a device, except those that leave it for a CPU beside a GPU."""
    on_host, others = _apart_from_gpus(rules, group)
    demand = _Group(rules, others).demand(homes)
    if on_host and all(rules.sites[number].kind is DeviceKind.CPU for number in demand.sites):
        return dict.fromkeys(group.members, _Group(rules, group).demand(homes))
    found = dict.fromkeys(others.members, demand)
    found.update({node: _on_host_of(demand, node, rules) for node in on_host})
    return found


def _apart_from_gpus(rules: Rules, group: Together) -> tuple[list[Node], Together]:
    """Take out the nodes that ask to be with state and have kernels for CPUs only, if all others can be on a GPU.

    An initial value of random numbers is one: it is asked to be with its variable, and a GPU draws none.
    """
    if DeviceKind.GPU not in rules.available or not group.states:
        return [], group
    on_host = [node for node in group.members if DeviceKind.GPU not in rules.kinds(node)]
    if not on_host or not all(map(_only_asks, on_host)):
        return [], group
    return on_host, group._replace(members=[node for node in group.members if node not in on_host])


def _only_asks(node: Node) -> bool:
    """Whether nothing but its request joins the node with others."""
    specs = [*node.output_specs, *[source.output_specs[index] for source, index in node.inputs]]
    return (
        bool(node.operation.colocation) and not node.blocks and not is_follower(node) and not any(map(is_state, specs))
    )


def _on_host_of(demand: Demand, node: Node, rules: Rules) -> Demand:
    """Return the CPUs of the tasks of these devices; of them those that the node requests, if there are any."""
    tasks = {without_device(rules.sites[number].spec) for number in demand.sites}
    cpus = [
        number
        for number, site in enumerate(rules.sites)
        if site.kind is DeviceKind.CPU and without_device(site.spec) in tasks
    ]
    wanted = requested(node.operation)
    asked = [number for number in cpus if conflict(rules.sites[number].spec, wanted) is None]
    return Demand(tuple(asked or cpus), "kernels for CPU alone")


def _alone(node: Node, rules: Rules, alike: dict[Hashable, Demand]) -> Demand:
    """Return the demand of a node that shares its device with no other; equal demands are one object."""
    asked = "" if is_follower(node) else node.operation.device
    key = node if node.blocks else (asked, rules.kinds(node))
    found = alike.get(key)
    if found is None:
        found = alike[key] = _Group(rules, Together([node], [], [])).demand({})
        found.members = ()
    return found


def check_all(flow: Flow, sites: Sequence[Site], soft: bool) -> None:
    """InvalidArgumentError if a node requests a device that does not exist: the only check for a single device."""
    rules = Rules(sites, soft)
    asking = (each.operation for node in flow.nodes for each in (node.everything() if node.blocks else (node,)))
    for operation in {operation.device: operation for operation in asking if operation.device}.values():
        rules.check(operation)


class _Group:
    """Nodes that must share a device, with their merged request and its origins."""

    def __init__(self, rules: Rules, together: Together) -> None:
        self._rules = rules
        self._members, self._states, self._absent = together
        self._wanted = ANYWHERE
        self._stated: dict[str, Operation] = {}
        self._kinds = rules.kinds(self._members[0])
        self._add_kinds()
        for operation in self._absent:
            self._add(operation)
        for node in self._members:
            for operation in operations_in(node):
                self._add(operation)

    def demand(self, homes: Mapping[Hashable, str]) -> Demand:
        """Where they may be put."""
        found = self._at_home(homes)
        if found is None:
            self._foresee()
            fitting = self._rules.fitting(self._wanted, self._kinds)
            if not fitting:
                raise self._homeless()
            found = Demand(fitting, self._why(fitting))
        found.members = tuple(self._members)
        return found

    # Merging

    def _add_kinds(self) -> None:
        for node in self._members:
            kinds = self._rules.kinds(node)
            if not kinds:
                raise self._without_kernel(node, self._rules.sites)
            if not self._kinds & kinds:
                raise self._kinds_apart(node, kinds)
            self._kinds &= kinds

    def _add(self, operation: Operation) -> None:
        wanted = requested(operation)
        part = conflict(self._wanted, wanted)
        if part in SOFT_PARTS and self._rules.soft:
            self._wanted = without_device(self._wanted.make_merged_spec(wanted))
            return
        if part is not None:
            raise self._torn(self._stated[part], operation)
        self._wanted = self._wanted.make_merged_spec(wanted)
        for each in PARTS:
            if getattr(wanted, each) is not None:
                self._stated.setdefault(each, operation)

    def _foresee(self) -> None:
        """Consider users of the same handles in other plans, where possible, since state cannot move later."""
        inside = {node.operation for node in self._members}
        for _, handle in self._states:
            for operation in dict.fromkeys(user for made in handle.operation.outputs for user in made.consumers()):
                if operation in inside or not operation.definition.kernels:
                    continue
                specs = [tensor.spec for tensor in operation.inputs]
                kinds = self._kinds & self._rules.kinds_of(operation.definition, specs)
                wanted = requested(operation)
                if conflict(self._wanted, wanted) is None:
                    wanted = self._wanted.make_merged_spec(wanted)
                    if self._rules.exactly(wanted, kinds):
                        self._wanted, self._kinds = wanted, kinds

    # Results

    def _at_home(self, homes: Mapping[Hashable, str]) -> Demand | None:
        """The device that their state is on, if it is on one."""
        numbers = self._rules.numbers
        living = [(numbers[homes[key]], handle) for key, handle in self._states if homes.get(key) in numbers]
        if not living:
            return None
        number, handle = living[0]
        for other, another in living[1:]:
            if other != number:
                raise self._apart(number, handle, other, another)
        site = self._rules.sites[number]
        part = conflict(site.spec, self._wanted)
        if part is not None and not (part in SOFT_PARTS and self._rules.soft):
            raise self._away(site, handle, self._stated[part])
        if site.kind not in self._kinds:
            lacking = next(node for node in self._members if site.kind not in self._rules.kinds(node))
            raise self._without_kernel(lacking, [site])
        return Demand((number,), f"the state of {handle.name!r} is there")

    def _why(self, fitting: tuple[int, ...]) -> str:
        asked = "" if self._wanted == ANYWHERE else f"asked for {self._wanted}"
        if asked and not self._rules.exactly(self._wanted, self._kinds):
            asked += ", which cannot be"
        if asked or len(fitting) == len(self._rules.sites):
            return asked
        return f"kernels for {', '.join(sorted(self._kinds))} alone"

    # Errors

    def _homeless(self) -> errors.InvalidArgumentError:
        """Return the error for a request without a device: its name does not exist, or has no kernel."""
        asking = next((self._stated[part] for part in reversed(PARTS) if part in self._stated), None)
        allowed = self._rules.exactly(self._wanted) or self._rules.fitting(self._wanted, self._rules.available)
        if not allowed and asking is not None:
            return self._rules.unknown(asking, self._wanted)
        sites = [self._rules.sites[number] for number in allowed]
        kinds = {site.kind for site in sites}
        lacking = next((node for node in self._members if not kinds & self._rules.kinds(node)), self._members[0])
        return self._without_kernel(lacking, sites)

    def _without_kernel(self, node: Node, allowed: Sequence[Site]) -> errors.InvalidArgumentError:
        inner = next(
            each for each in node.everything()
            if each.definition.kernels and not {site.kind for site in allowed} & self._rules.kinds(each)
        )  # fmt: skip
        types = ", ".join(map(str, inner.input_specs))
        kinds = [kind for kind in inner.definition.kernels if inner.definition.kernel_for(kind, inner.input_specs)]
        able = [site for site in self._rules.sites if site.kind in kinds]
        return at(
            inner.operation,
            f"{inner.definition.name} has no kernel for ({types}) on any device that it may run on, "
            f"{listed(allowed)}; it has them for {', '.join(kinds) or 'no device'}"
            + (f": {listed(able)}{self._mend()}" if able else ", and there is none"),
        )

    def _mend(self) -> str:
        return "" if self._rules.soft else "; with af.Config(allow_soft_placement=True) it would run there"

    def _kinds_apart(self, node: Node, kinds: frozenset[DeviceKind]) -> errors.InvalidArgumentError:
        other = next(each for each in self._members if not self._rules.kinds(each) & kinds)
        mine, theirs = ", ".join(sorted(kinds)), ", ".join(sorted(self._rules.kinds(other)))
        return at(
            node.operation,
            f"{self._must_share(other.operation, node.operation)}, and there are kernels of the first for {theirs} "
            f"alone, of the second for {mine}",
        )

    def _torn(self, one: Operation, other: Operation) -> errors.InvalidArgumentError:
        return at(
            other,
            f"{self._must_share(one, other)}, and {one.name!r} asks for {one.device}, {other.name!r} for {other.device}"
            + ("" if self._states else ". Leave one of the devices out, or the colocation"),
        )

    def _must_share(self, one: Operation, other: Operation) -> str:
        why = f", which both work on {self._states[0][1].name!r}" if self._states else ""
        return f"{one.name!r} (built at {describe_line(one)}) and {other.name!r} must be on one device{why}"

    def _apart(self, number: int, handle: Node, other: int, another: Node) -> errors.InvalidArgumentError:
        sites = self._rules.sites
        user = self._members[-1].operation
        return at(
            user,
            f"{handle.name!r} lives on {sites[number].name} and {another.name!r} on {sites[other].name}, where earlier "
            "steps have put them, and what works on both must be on one device: ask for the same device for both",
        )

    def _away(self, site: Site, handle: Node, asking: Operation) -> errors.InvalidArgumentError:
        return at(
            asking,
            f"it asks for {asking.device} and works on {handle.name!r} (built at {describe_line(handle.operation)}), "
            f"which lives on {site.name}, where an earlier step has put it: ask for that device, or for none",
        )


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
        wanted = wanted.make_merged_spec(each)
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
        wanted = wanted.make_merged_spec(asked)
    if rules.exactly(wanted) and not rules.exactly(wanted, rules.kinds(node)):
        return None
    return wanted
