"""Assembles the program of a flow: binds kernels, groups nodes into units, gives values slots.

It computes the edges of the program, too, by the numbers of units: successors, pending counts and inputs of merges.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.devices.gpu import Gpu
from aioflow.kernels.context import Context
from aioflow.plan import op_cost
from aioflow.plan.frame_levels import ROOT, Levels, deciders, decides, role_of
from aioflow.plan.guards import Guards
from aioflow.plan.passes.flow import Flow, Node, Value, has_primitives, is_back_edge, verify
from aioflow.plan.passes.lower import lower
from aioflow.plan.passes.recover_loops import loops_in_branches, recover_loops, spans_devices
from aioflow.plan.passes.streaming_loops import streaming_loops
from aioflow.program.binder import Binder
from aioflow.program.blocks import (
    Statement,
    count_of,
    estimate_for,
    has_branch,
    numbers_among,
    texts_among,
)
from aioflow.program.capture import launch_together
from aioflow.program.codegen import compile_for_threads, compile_region
from aioflow.program.fuse import Bound, fuse_on_gpu
from aioflow.program.groups import WIDE, Group, grouped, light_share, waits
from aioflow.program.handles import Handle, Objects, resolved
from aioflow.program.heavy_runs import with_heavy_runs
from aioflow.program.program import Begin, FrameSpec, MergeInput, Outputs, OutsideValue, Program, Route, Unit
from aioflow.program.region import Region
from aioflow.program.thread_form import ThreadForm
from aioflow.tensors.dtypes import Array, DeviceKind


def assemble(
    flow: Flow,
    context: Context,
    *,
    fused: bool,
    stream: bool,
    blocks: bool = False,
    fast: bool = False,
    graphs: bool = False,
) -> Program:
    """Return the program of a flow, to be linked with the objects of a session.

    Args:
        flow: the flow.
        context: the device and its array namespace.
        fused: whether to compile nodes that never suspend into regions.
        stream: whether feeds arrive while the program runs, each awaited by its own unit, or at its start.
        blocks: whether to fuse chains of element-wise kernels: block by block in heavy regions, one kernel on a GPU.
        fast: whether to choose kernels that approximate, for arrays.
        graphs: whether a GPU launches kernels of a region together, as a CUDA graph.
    """
    exchanges = fused and not stream and context.kind is DeviceKind.CPU and not has_primitives(flow)

    def assembly(flow: Flow) -> _Assembly:
        streaming = set(streaming_loops(flow)) if exchanges else set()

        def needs_executor(node: Node) -> bool:
            return not fused or (node.waits and not spans_devices(node) and node not in streaming)

        lowered = verify(lower(flow, needs_executor))
        return _Assembly(lowered, context, fused, stream, blocks, fast, exchanges, graphs)

    if not exchanges:
        return assembly(flow).program()
    made = assembly(recover_loops(flow))
    if made.skips_loops and not made.is_light:
        made = assembly(recover_loops(flow, dead=False))
    return made.program()


class _Assembly:
    def __init__(
        self,
        flow: Flow,
        context: Context,
        fused: bool,
        stream: bool,
        blocks: bool,
        fast: bool,
        exchanges: bool,
        graphs: bool,
    ) -> None:
        self._blocks = blocks
        self._graphs = graphs
        self._exchanges = exchanges
        self._flow = flow
        self._context = context
        self._fused = fused = fused and not has_primitives(flow)
        self._given = set() if stream else set(flow.feeds)
        self._feed_places = {feed: place for place, feed in enumerate(flow.feeds)}
        flows = any(decides(node) for node in flow.nodes)
        self._binder = binder = Binder(context, fast, blocks)
        if fused or flows or any(node.blocks for node in flow.nodes):
            binder.find_literals(flow.nodes)
        binder.find_lent(flow.nodes)
        self._literals = binder.literals
        self._bound = {node: binder.bind(node) for node in flow.nodes if self._runs(node)}
        self._levels = Levels(list(self._bound), self._literals)
        self._levels.check_fetches(flow.fetches)
        self._deciders = deciders(self._bound, self._levels) if flows else dict.fromkeys(self._bound, 0)

    def _runs(self, node: Node) -> bool:
        return node not in self._given and not (self._fused and Value(node, 0) in self._literals)

    @property
    def skips_loops(self) -> bool:
        """Whether a loop over devices is in a branch: only a coroutine that has the branch, too, can skip the loop."""
        return bool(loops_in_branches(self._bound))

    @property
    def is_light(self) -> bool:
        """Whether one coroutine runs all nodes."""
        return light_share(self._bound) is not None

    def program(self) -> Program:
        """Group, give slots, link."""
        groups = self._groups()
        home = {node: index for index, group in enumerate(groups) for node in group.nodes}
        crossing = self._crossing(groups, home)
        links = Links([group.nodes for group in groups], crossing, self._levels, self._flow.feeds, self._literals)
        slots, sizes = self._slots(crossing)
        units = [
            self._unit(index, group, crossing[index], slots, links.route(index)) for index, group in enumerate(groups)
        ]
        inside: list[list[Unit]] = [[] for _ in sizes]
        for unit in units:
            inside[unit.route.level].append(unit)
        levels = [
            FrameSpec(number, name, parallel, tuple(inside[number]), size)
            for number, (name, parallel, size) in enumerate(
                zip(self._levels.names, self._levels.parallel, sizes, strict=True)
            )
        ]
        return Program(
            units,
            levels,
            tuple([slots[Value(feed, 0)] for feed in self._flow.feeds if feed in self._given]),
            tuple([slots[value] for value in self._flow.fetches]),
            self._flow.fetches,
            links.given,
            self._binder.handles,
        )

    def _slots(self, crossing: Sequence[Sequence[Value]]) -> tuple[dict[Value, int], list[int]]:
        """A place for each value in the memory of its level, and how large these memories are."""
        slots = {Value(feed, 0): index for index, feed in enumerate(self._flow.feeds)}
        sizes = [len(slots), *[0] * (len(self._levels.names) - 1)]
        for value in (value for outputs in crossing for value in outputs):
            if value not in slots:
                level = self._levels.beyond.get(value.node, ROOT)
                slots[value] = sizes[level]
                sizes[level] += 1
        return slots, sizes

    def _groups(self) -> list[Group]:
        if not self._fused:
            return [Group([node], waits(node, self._bound[node])) for node in self._bound]
        groups = grouped(self._bound, self._deciders, self._exchanges)
        if not any(group.is_still for group in groups) and any(value in self._literals for value in self._flow.fetches):
            groups.insert(0, Group([], False, is_still=True))
        return groups

    def _crossing(self, groups: Sequence[Group], home: dict[Node, int]) -> list[list[Value]]:
        """For each group, the values it makes that are fetched or read elsewhere; fetched ones first, in order.

        Fetched literals come from the first group that never waits.
        """
        crossing: list[dict[Value, None]] = [{} for _ in groups]
        still = next((index for index, group in enumerate(groups) if group.is_still), -1)
        for value in self._flow.fetches:
            if value.node not in self._given:
                crossing[home.get(value.node, still)].setdefault(value)
        for node, index in home.items():
            for value in node.inputs:
                made = home.get(value.node)
                if made is not None and made != index:
                    crossing[made].setdefault(value)
        for node in self._bound:
            if decides(node) and role_of(node) is None and not groups[home[node]].exchanges:
                # the executor must see whether it is dead
                crossing[home[node]].setdefault(Value(node, 0))
        return [list(values) for values in crossing]

    def _unit(self, index: int, group: Group, outputs: list[Value], slots: dict[Value, int], route: Route) -> Unit:
        if route.role is not None:
            return self._primitive(index, group.nodes[0], outputs, slots, route)
        made, exchanges = set(group.nodes), group.exchanges or any(map(_waits_inside, group.nodes))
        reads = [value for node in group.nodes for value in node.inputs if value.node not in made]
        wide = any(len(node.inputs) > WIDE for node in group.nodes)
        fused = exchanges or (not group.waits and ((self._fused and not wide) or any(n.blocks for n in group.nodes)))
        if fused:  # those that are fed come in the order of the call's feeds: then a lone region takes them as they are
            reads = sorted(
                dict.fromkeys(reads), key=lambda value: self._feed_places.get(value.node, len(self._feed_places))
            )
        inputs = [value for value in reads if value not in self._literals]
        cost = self._cost(group.nodes, inputs)
        places = tuple([slots[value] for value in inputs]), tuple([slots[value] for value in outputs])
        bound: Sequence[Any] = [self._bound[node] for node in group.nodes]
        if not fused:
            assert isinstance(bound[0], Bound)
            alone = bound[0], [self._literals.get(value) for value in reads], outputs
            has_handle = any(isinstance(each, Handle) for each in (bound[0].call, *alone[1]))
            return Unit(
                index, group.nodes, *places, _alone(*alone), group.waits, cost, route, kernel=bound[0].kernel,
                link=functools.partial(_link_alone, *alone) if has_handle else None,
            )  # fmt: skip
        on_gpu = self._context.kind is DeviceKind.GPU
        if on_gpu and not Guards(group.nodes):
            bound = self._for_gpu(bound, outputs)
        bound = self._binder.together(bound, outputs)
        if group.exchanges:
            bound = with_heavy_runs(bound, outputs, self._blocks)
        region = compile_region(bound, inputs, outputs, self._literals)
        for_threads = functools.partial(compile_for_threads, bound, inputs, outputs, self._literals, self._blocks)
        heavy = None if on_gpu or exchanges else ThreadForm(for_threads, region)
        find, computes = (region.find, region.computes) if heavy is None else (heavy.find, heavy.computes)
        return Unit(
            index, group.nodes, *places, region.begin, group.waits, cost, route, find, heavy, computes, self._fused,
            link=None if region.is_linked else functools.partial(_link, region, heavy),
            exchanges=group.exchanges,
        )  # fmt: skip

    def _for_gpu(self, bound: Sequence[Statement], outputs: Sequence[Value]) -> Sequence[Any]:
        """The statements with chains as one kernel, and kernels that are launched together as one statement."""
        if self._blocks:
            bound = fuse_on_gpu(bound, outputs, self._context.xp)
        if isinstance(self._context.device, Gpu) and self._graphs:
            return launch_together(bound, outputs, self._literals, self._context.device)
        return bound

    def _cost(self, nodes: Sequence[Node], inputs: Sequence[Value]) -> op_cost.RegionCost:
        """Return the cost on the loop. Kernels of a GPU are enqueued there, and never need a thread."""
        if self._context.kind is DeviceKind.GPU:
            return op_cost.RegionCost(lambda arrays: (0.0, False), math.inf)
        estimate, numbers = estimate_for(nodes, inputs), numbers_among(nodes, inputs)
        return op_cost.RegionCost(estimate, count_of(nodes), numbers, texts_among(inputs), has_branch(nodes))

    def _primitive(self, index: int, node: Node, outputs: list[Value], slots: dict[Value, int], route: Route) -> Unit:
        """Return a unit that the executor runs itself. The inputs of a merge do not use slots."""
        reads = () if route.role == "merge" else node.inputs
        inputs = tuple([slots[value] for value in reads if value not in self._literals])
        cost = op_cost.RegionCost(estimate_for([], []), 1)
        return Unit(index, [node], inputs, tuple([slots[value] for value in outputs]), _never, False, cost, route)


def _waits_inside(node: Node) -> bool:
    """Whether it is a loop that waits, sends or receives in its coroutine: others of these are lowered."""
    return spans_devices(node) or (bool(node.blocks) and node.waits)


async def _never(ctx: Context, *inputs: Array) -> Outputs:
    """Stands for the coroutine of a unit without one."""
    raise errors.InternalError("a primitive of control flow has no coroutine")


def _link(region: Region, heavy: ThreadForm | None, objects: Objects) -> tuple[Begin, Begin | None]:
    return region.linked(objects).begin, None if heavy is None else heavy.linked(objects)


def _link_alone(
    bound: Bound, literals: Sequence[Array | None], outputs: Sequence[Value], objects: Objects
) -> tuple[Begin, None]:
    whole = dataclasses.replace(bound, call=resolved(bound.call, objects))
    return _alone(whole, [resolved(literal, objects) for literal in literals], outputs), None


def _alone(bound: Bound, literals: Sequence[Array | None], outputs: Sequence[Value]) -> Begin:
    """The coroutine function of a unit that is one node."""
    call, takes_context, asynchronous = bound.call, bound.kernel.context, bound.kernel.asynchronous
    single = len(bound.node.output_specs) == 1
    wanted = [value.index for value in outputs]
    whole = any(literal is not None for literal in literals)

    def begun(ctx: Context, inputs: Sequence[Array]) -> Any:
        arguments = _merged(literals, inputs) if whole else inputs
        return call(ctx, *arguments) if takes_context else call(*arguments)

    async def unit(ctx: Context, *inputs: Array) -> Sequence[Array]:
        result = begun(ctx, inputs)
        if asynchronous:
            result = await result
        return _picked((result,) if single else result, wanted)

    return unit


def _picked(results: Sequence[Array], wanted: Sequence[int]) -> list[Array]:
    return [results[index] for index in wanted]


def _merged(literals: Sequence[Array | None], inputs: Sequence[Array]) -> list[Array]:
    given = iter(inputs)
    return [next(given) if literal is None else literal for literal in literals]


class Links:
    """The edges between groups of nodes, each of which becomes one unit.

    Attributes:
        levels: where each group belongs.
        places: for each group, its place in its level.
        given: values that come to merges from outside of the program.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[Node]],
        crossing: Sequence[Sequence[Value]],
        levels: Levels,
        feeds: Sequence[Node],
        literals: Mapping[Value, Array],
    ) -> None:
        self._groups = groups
        self._crossing = crossing
        self._feeds = feeds
        self._literals = literals
        self._home = {node: index for index, group in enumerate(groups) for node in group}
        self.levels: Final = [levels.inside[group[0]] if group else ROOT for group in groups]
        self._targets = [levels.beyond[group[0]] if group else ROOT for group in groups]
        self.places: Final = self._number()
        self.given: Final[list[OutsideValue]] = []
        self._following: list[dict[int, None]] = [{} for _ in groups]
        self._readers: list[tuple[dict[int, None], dict[int, None]]] = [({}, {}) for _ in groups]
        self._arrivals: list[list[MergeInput]] = [[] for _ in groups]
        for node, index in self._home.items():
            self._link(node, index)

    def route(self, index: int) -> Route:
        """Return the place of the unit of a group, and its successors."""
        group = self._groups[index]
        role = role_of(group[0]) if len(group) == 1 else None
        no, yes = self._readers[index]
        return Route(
            self.places[index],
            tuple(self._following[index]),
            self.levels[index],
            self._targets[index],
            role,
            tuple([value.index for value in self._crossing[index]]) if role is not None else (),
            (tuple(no), tuple(yes)),
            tuple(self._arrivals[index]),
            self._fixed(group[0]) if role is not None else (),
        )

    def _fixed(self, node: Node) -> tuple[Array | None, ...]:
        """The inputs of a primitive that are known before any step, None for each that is not."""
        found = tuple([self._literals.get(value) for value in node.inputs])
        return found if any(value is not None for value in found) and role_of(node) != "merge" else ()

    def _number(self) -> list[int]:
        counts: dict[int, int] = {}
        places = []
        for level in self.levels:
            places.append(counts.get(level, 0))
            counts[level] = counts.get(level, 0) + 1
        return places

    def _link(self, node: Node, index: int) -> None:
        merges, place = role_of(node) == "merge", self.places[index]
        for number, value in enumerate(node.inputs):
            if merges and len(self._groups[index]) == 1:
                self._into_merge(node, place, number, value)
            elif value not in self._literals:
                self._follow(value.node, index)
                if role_of(value.node) == "switch":
                    self._readers[self._home[value.node]][value.index].setdefault(place)
        for control in node.controls:
            if Value(control, 0) not in self._literals:
                self._follow(control, index)

    def _follow(self, source: Node, index: int) -> None:
        made = self._home.get(source)
        if made is not None and made != index:
            self._following[made].setdefault(self.places[index])

    def _into_merge(self, node: Node, place: int, number: int, value: Value) -> None:
        loops = any(is_back_edge(source, node) for source, _ in node.inputs)
        final = loops and role_of(value.node) == "enter"
        made = self._home.get(value.node)
        if value in self._literals:
            self.given.append(OutsideValue(MergeInput(0, place, number, final), -1, self._literals[value]))
        elif made is None:
            self.given.append(OutsideValue(MergeInput(0, place, number, final), self._feeds.index(value.node), None))
        else:
            self._arrivals[made].append(MergeInput(self._crossing[made].index(value), place, number, final))
