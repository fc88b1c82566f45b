"""From a plan to a program: kernels chosen and bound, nodes grouped into units, values given slots.

In a plain program every node is a unit. In a fused one, nodes that never wait are grouped by what they wait for: two
nodes are in one region only if exactly the same waiting nodes come before both, so that a wait never holds back work
that does not depend on it. Regions of more than LONGEST nodes are cut, because compiling has to stay linear.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from aioflow import costs, dtypes, errors
from aioflow.blame import Finder
from aioflow.context import Context
from aioflow.dtypes import Array, DeviceKind, ResourceSpec, Spec, spec_of
from aioflow.executor import Program, Unit
from aioflow.fusion import Bound, fuse
from aioflow.node import describe_line
from aioflow.passes.flow import Flow, Node, Value
from aioflow.regions import Region, compile_region

LONGEST: Final = 2000


class Group(NamedTuple):
    """Nodes that become one unit, the waiting node alone if `waits`."""

    nodes: list[Node]
    waits: bool


def assemble(flow: Flow, context: Context, *, fused: bool, stream: bool, blocks: bool = False) -> Program:
    """The program of a flow.

    Args:
        flow: what to run.
        context: names the device's array namespace, and the containers that handles are looked up in.
        fused: whether nodes that never wait are compiled into regions.
        stream: whether feeds arrive while the program runs, each awaited by a unit of its own, or with its start.
        blocks: whether element-wise kernels in heavy regions work block by block.
    """
    return _Assembly(flow, context, fused, stream, blocks).program()


class _Assembly:
    def __init__(self, flow: Flow, context: Context, fused: bool, stream: bool, blocks: bool) -> None:
        self._blocks = blocks
        self._flow = flow
        self._context = context
        self._fused = fused
        self._given = set() if stream else set(flow.feeds)
        self._literals = self._find_literals() if fused else {}
        self._bound = {node: self._bind(node) for node in flow.nodes if self._runs(node)}

    def _runs(self, node: Node) -> bool:
        return node not in self._given and Value(node, 0) not in self._literals

    def _find_literals(self) -> dict[Value, Array]:
        """Values known before any step: constants and handles."""
        literals: dict[Value, Array] = {}
        for node in self._flow.nodes:
            handle = not node.inputs and len(node.output_specs) == 1 and isinstance(node.output_specs[0], ResourceSpec)
            if (node.definition.name == "constant" or handle) and not node.controls:
                bound = self._bind(node)
                literals[Value(node, 0)] = bound.call(self._context) if bound.kernel.context else bound.call()
        return literals

    def _bind(self, node: Node) -> Bound:
        kernel = node.definition.kernel_for(DeviceKind.CPU, node.input_specs)
        if kernel is None:
            types = ", ".join(str(spec) for spec in node.input_specs)
            raise errors.UnimplementedError(
                f"{node.definition.name} has no kernel on the CPU for ({types}); it has them for "
                f"{', '.join(node.definition.kernels) or 'no device'}"
            ).at(node.name, node.definition.name, line=describe_line(node.operation), device=None, shapes=())
        return Bound(node, kernel, kernel.bind(node.definition, node, self._context.xp))

    def program(self) -> Program:
        """Group, give slots, link."""
        groups = self._groups() if self._fused else [Group([node], self._waits(node)) for node in self._bound]
        home = {node: index for index, group in enumerate(groups) for node in group.nodes}
        crossing = self._crossing(groups, home)
        slots = {Value(feed, 0): index for index, feed in enumerate(self._flow.feeds)}
        for outputs in crossing:
            for value in outputs:
                slots.setdefault(value, len(slots))
        units = [self._unit(index, group, crossing[index], slots) for index, group in enumerate(groups)]
        return Program(
            units,
            self._successors(groups, home),
            len(slots),
            tuple([slots[Value(feed, 0)] for feed in self._flow.feeds if feed in self._given]),
            tuple([slots[value] for value in self._flow.fetches]),
        )

    def _waits(self, node: Node) -> bool:
        return node.definition.waits or self._bound[node].kernel.asynchronous

    def _groups(self) -> list[Group]:
        """Nodes by the set of waiting nodes before them, each set a number; ordered by their first node."""
        before: dict[Node, int] = {}
        waiting = 0
        groups: list[Group] = []
        open_group: dict[int, Group] = {}
        for node in self._bound:
            mask = 0
            for source in [*[source for source, _ in node.inputs], *node.controls]:
                mask |= before.get(source, 0)
            if self._waits(node):
                groups.append(Group([node], True))
                before[node] = mask | 1 << waiting
                waiting += 1
                continue
            before[node] = mask
            group = open_group.get(mask)
            if group is None or len(group.nodes) >= LONGEST:
                group = open_group[mask] = Group([], False)
                groups.append(group)
            group.nodes.append(node)
        if 0 not in open_group and any(value in self._literals for value in self._flow.fetches):
            groups.insert(0, Group([], False))
        return groups

    def _crossing(self, groups: Sequence[Group], home: dict[Node, int]) -> list[list[Value]]:
        """For each group, the values it makes that are fetched or read elsewhere; fetched ones first, in order.

        Fetched literals come from the first group that never waits.
        """
        crossing: list[dict[Value, None]] = [{} for _ in groups]
        still = next((index for index, group in enumerate(groups) if not group.waits), -1)
        for value in self._flow.fetches:
            if value.node not in self._given:
                crossing[home.get(value.node, still)].setdefault(value)
        for node, index in home.items():
            for value in node.inputs:
                made = home.get(value.node)
                if made is not None and made != index:
                    crossing[made].setdefault(value)
        return [list(values) for values in crossing]

    def _successors(self, groups: Sequence[Group], home: dict[Node, int]) -> list[list[int]]:
        following: list[dict[int, None]] = [{} for _ in groups]
        for node, index in home.items():
            for source in [*[source for source, _ in node.inputs], *node.controls]:
                made = home.get(source)
                if made is not None and made != index:
                    following[made].setdefault(index)
        return [list(indices) for indices in following]

    def _unit(self, index: int, group: Group, outputs: list[Value], slots: dict[Value, int]) -> Unit:
        made = set(group.nodes)
        reads = [value for node in group.nodes for value in node.inputs if value.node not in made]
        fused = self._fused and not group.waits
        inputs = [v for v in (dict.fromkeys(reads) if fused else reads) if v not in self._literals]
        cost = costs.RegionCost(self._estimate(group.nodes, inputs), len(group.nodes))
        places = tuple([slots[value] for value in inputs]), tuple([slots[value] for value in outputs])
        bound = [self._bound[node] for node in group.nodes]
        if not fused:
            begin = _alone(bound[0], [self._literals.get(value) for value in reads], outputs)
            return Unit(index, group.nodes, *places, begin, group.waits, cost)
        literals = {value: self._literals[value] for value in [*reads, *outputs] if value in self._literals}
        region = compile_region(bound, inputs, outputs, literals)
        chained = _Chained(bound, inputs, outputs, literals, region.find) if self._blocks else None
        find = region.find if chained is None else chained.find
        return Unit(index, group.nodes, *places, region.begin, False, cost, find, chained)

    def _estimate(self, nodes: Sequence[Node], inputs: Sequence[Value]) -> costs.Estimate:
        """Estimated at once where all sizes are known, else from the shapes of the first inputs of each size."""
        known = all(spec.shape.is_fully_defined() for node in nodes for spec in node.output_specs)
        fixed = costs.total([costs.seconds(node, node.input_specs) for node in nodes]) if known else None

        def estimate(arrays: Sequence[Array]) -> tuple[float, bool]:
            if fixed is not None:
                return fixed
            specs = {value: _spec(array, value) for value, array in zip(inputs, arrays, strict=True)}
            return costs.total([_seconds(node, specs) for node in nodes])

        return estimate


class _Chained:
    """A region with its element-wise kernels in chains, compiled when it is first begun: for compute threads."""

    def __init__(
        self,
        bound: Sequence[Bound],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        literals: dict[Value, Array],
        otherwise: Finder,
    ) -> None:
        self._parts = bound, inputs, outputs, literals
        self._otherwise = otherwise
        self._region: Region | None = None

    def __call__(self, ctx: Context, *inputs: Array) -> Any:
        if self._region is None:
            bound, arguments, outputs, literals = self._parts
            self._region = compile_region(fuse(bound, outputs), arguments, outputs, literals)
        return self._region.begin(ctx, *inputs)

    def find(self, error: BaseException) -> tuple[Node, Sequence[Array]] | None:
        """Which node an error came from, in either form of the region."""
        found = self._otherwise(error)
        return self._region.find(error) if found is None and self._region is not None else found


def _spec(array: Array, value: Value) -> Spec:
    return value.spec if value.spec.dtype in (dtypes.resource, dtypes.string) else spec_of(array)


def _seconds(node: Node, specs: dict[Value, Spec]) -> float:
    """The estimate for a node whose inputs have these Specs; writes down those of its outputs."""
    inputs = [specs.get(value, value.spec) for value in node.inputs]
    try:
        outputs = node.definition.infer(inputs, node.attrs)
    except (TypeError, ValueError):  # the run will say so, at the node
        outputs = node.output_specs
    specs.update({Value(node, index): spec for index, spec in enumerate(outputs)})
    return costs.seconds(node, inputs, outputs)


def _alone(bound: Bound, literals: Sequence[Array | None], outputs: Sequence[Value]) -> Callable[..., Any]:
    """The coroutine function of a unit that is one node."""
    call, takes_context, asynchronous = bound.call, bound.kernel.context, bound.kernel.asynchronous
    single = len(bound.node.output_specs) == 1
    wanted = [value.index for value in outputs]
    whole = any(literal is not None for literal in literals)

    async def unit(ctx: Context, *inputs: Array) -> Sequence[Array]:
        arguments = _merged(literals, inputs) if whole else inputs
        result = call(ctx, *arguments) if takes_context else call(*arguments)
        if asynchronous:
            result = await result
        results = (result,) if single else result
        return [results[index] for index in wanted]

    return unit


def _merged(literals: Sequence[Array | None], inputs: Sequence[Array]) -> list[Array]:
    given = iter(inputs)
    return [next(given) if literal is None else literal for literal in literals]
