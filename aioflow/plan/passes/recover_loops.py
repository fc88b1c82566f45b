"""Turns the share of a device in a loop that spans devices back into a structured loop that sends and receives.

A loop over several devices is lowered to primitives, so that its nodes can be placed one by one. On each device there
is then a frame of its own. Where the nodes of the frame only compute, send and receive, one coroutine runs it far
faster than the executor, which begins every node of every iteration by itself. The values that the frame exchanges with
other devices are the same, so each device may run its frame in either way.

A device whose kernels are heavy does so where it waits no longer than in the executor: see `loop_waits`.

All devices send and receive in one order, which the partition gives: see `loop_sections`. Inner loops become statements
of the body. The primitives of branches stay as they are: `guarded_codegen` writes the code of what may be dead.

A loop in a branch may be dead. Only a coroutine that has the branch, too, can skip it, so a device that needs the
executor for its other nodes leaves such a loop to it.

In the last iteration the condition does not hold, and what the body would have sent is dead. It is sent as dead, since
a device that runs its frame node by node receives it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from aioflow.graph.op import REGISTRY
from aioflow.plan import op_cost
from aioflow.plan.frame_levels import Levels, is_known, role_of
from aioflow.plan.guards import TRANSFERS, Guards, is_branch
from aioflow.plan.passes import loop_waits
from aioflow.plan.passes.flow import Block, Flow, Node, Value, is_back_edge, sources_before
from aioflow.plan.passes.loop_sections import BODY, is_loop_switch, is_part
from aioflow.plan.passes.relink import in_place, relinked
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Spec

SPANNING: Final = "spanning"
"""The attribute of a loop whose body sends and receives."""
LIGHT: Final = 100e-6
"""Seconds. The kernels of an iteration that takes longer may run on threads, several iterations at a time."""


def spans_devices(node: Node) -> bool:
    """Whether it is a structured loop that sends and receives."""
    return bool(node.blocks) and SPANNING in node.attrs


def recover_loops(flow: Flow, dead: bool = True) -> Flow:
    """The flow of one device with a structured loop for each frame that can be one; with `dead` also if it may be dead.

    A frame with inner frames becomes one with all of them, or none does.
    """
    if not any(node.definition.name in TRANSFERS and node.attrs["section"] for node in flow.nodes):
        return flow
    failed: set[str] = set()
    while True:
        made, found = _recovered(flow, failed)
        if not (found or dead):
            found = {loop.name for loop in loops_in_branches(made.nodes)}
        if not found:
            return made
        failed |= found


def loops_in_branches(nodes: Iterable[Node]) -> list[Node]:
    """The structured loops that send and receive, and are dead if a branch is not taken."""
    given = list(nodes)
    if not any(map(spans_devices, given)):
        return []
    guards = Guards(given)
    return [node for node in given if spans_devices(node) and guards.running.get(node)]


def _recovered(flow: Flow, excepted: set[str]) -> tuple[Flow, set[str]]:
    """The flow without frames, inner frames replaced first; the names of outermost frames that cannot be loops.

    Outermost frames that are `excepted` stay, with all in them.
    """
    while True:
        known = {Value(node, 0) for node in flow.nodes if is_known(node)}
        levels = Levels(flow.nodes, known)
        roots = {level: levels.names[levels.outermost(level)] for level in range(1, len(levels.names))}
        leaves = [level for level, root in roots.items() if level not in levels.parents and root not in excepted]
        frames = {level: _Frame(flow.nodes, levels, level, known) for level in leaves}
        failed = {roots[level] for level, frame in frames.items() if not frame.can_be_loop}
        if failed or not frames:
            return flow, failed
        flow = _replaced(flow, list(frames.values()))


class _Frame:
    """The nodes of a frame on one device.

    Attributes:
        inside: the nodes in it.
        entered: the nodes through which values enter.
    """

    def __init__(self, nodes: Sequence[Node], levels: Levels, level: int, known: set[Value]) -> None:
        self._known = known
        self._read: Final = {value for node in nodes for value in node.inputs}
        self.inside: Final = [node for node in nodes if levels.inside[node] == level]
        self.entered: Final = [n for n in nodes if levels.beyond[n] == level and levels.inside[n] != level]
        self._variables = [node for node in self.inside if role_of(node) == "merge" and not is_branch(node)]
        self._captures = [node for node in self.entered if node.attrs.get("is_constant")]
        self._conditions = [node for node in self.inside if role_of(node) == "loop_cond"]
        self._computing = [node for node in self.inside if role_of(node) is None or is_branch(node)]
        self._later = self._of_body()

    def _of_body(self) -> set[Node]:
        """The nodes that have no values in the last iteration."""
        found: set[Node] = set()
        for node in self.inside:
            is_exchange = bool(_section(node)) and _section(node).endswith(BODY)
            sources = [source for source in sources_before(node) if source not in self._variables]
            is_end = is_loop_switch(node) or role_of(node) == "exit"
            if is_exchange or is_end or any(source in found for source in sources):
                found.add(node)
        return found

    @property
    def can_be_loop(self) -> bool:
        """Whether it consists of the primitives of one loop, branches, transfers, and light nodes that compute."""
        return (
            len(self._conditions) == 1
            and self._conditions[0] not in self._later
            and all(role_of(node) == "enter" for node in self.entered)
            and all(is_part(node, self._conditions[0], self._read) for node in self.inside)
            and all(self._is_plain(node) for node in self._computing)
            and not self._shares_values()
            and (self._is_light() or self._loses_nothing())
        )

    def _is_plain(self, node: Node) -> bool:
        if node.definition.name in TRANSFERS:
            return bool(node.attrs["section"])
        return spans_devices(node) or not (node.waits or node.has_effect) or is_branch(node)

    def _is_light(self) -> bool:
        nodes = [each for node in self._computing if not _section(node) for each in node.everything()]
        is_known = all(spec.shape.is_fully_defined() for node in nodes for spec in node.output_specs)
        return is_known and sum(op_cost.seconds(node, node.input_specs) for node in nodes) < LIGHT

    def _loses_nothing(self) -> bool:
        """Whether one coroutine with heavy kernels waits no longer than the executor, which overlaps iterations."""
        condition, body = [
            _in_turn([n for n in self._computing if (n in self._later) is later]) for later in (False, True)
        ]
        if any(is_branch(node) or spans_devices(node) for node in self._computing):
            return False
        return loop_waits.loses_nothing(condition, body, self._again())

    def _again(self) -> dict[Node, Node]:
        """For each variable the node that makes its value for the next iteration."""
        found = {}
        for merge in self._variables:
            source = next(source for source, _ in merge.inputs if is_back_edge(source, merge))
            while is_loop_switch(source) or role_of(source) == "next_iteration":
                source = source.inputs[0].node
            found[merge] = source
        return found

    def _shares_values(self) -> bool:
        """Whether the body reads what the condition has computed."""
        own = set(self._computing) - self._later
        return any(source in own for node in self._computing if node in self._later for source, _ in node.inputs)

    def loop(self) -> Node:
        """The structured loop."""
        condition, merges = self._conditions[0], self._variables
        starts = [next(source for source, _ in merge.inputs if not is_back_edge(source, merge)) for merge in merges]
        again = [next(source for source, _ in merge.inputs if is_back_edge(source, merge)) for merge in merges]
        attrs = {
            "limited": False, "variables": len(merges), "replays": 0, "swap_memory": False, "parallel_iterations": 1,
            "back_prop": False, **self._exchanged(),
        }  # fmt: skip
        inputs = tuple([node.inputs[0] for node in (*starts, *self._captures)])
        controls = tuple(dict.fromkeys(control for node in self.entered for control in node.controls))
        specs = [*[merge.output_specs[0] for merge in merges], Spec(dtypes.int32, SCALAR)]
        name = self.entered[0].attrs["frame_name"]
        blocks = self._block(False, [condition.inputs[0]]), self._block(True, [node.inputs[0] for node in again])
        return Node(condition.operation, REGISTRY["while_loop"], name, inputs, controls, attrs, specs, blocks)

    def _exchanged(self) -> dict[str, object]:
        """What the loop says of its exchanges with other devices: nothing if there are none."""
        exchanges = [node for node in self._computing if _section(node)]
        if not exchanges:
            return {}
        section = _section(exchanges[0]).rpartition("/")[0]
        return {SPANNING: True, "section": section, "position": min(map(_position, exchanges))}

    def results(self, loop: Node) -> dict[Value, Value]:
        """The values that leave the frame, as outputs of the structured loop."""
        exits = [node for node in self.inside if role_of(node) == "exit"]
        return {Value(n, 0): Value(loop, self._variables.index(n.inputs[0].node.inputs[0].node)) for n in exits}

    def _block(self, later: bool, outputs: Sequence[Value]) -> Block:
        """The condition, or the body, which is `later`."""
        given = (*self._variables, *self._captures)
        made = {
            node: Node(node.operation, REGISTRY["argument"], f"{node.name}/argument", (), (), {}, node.output_specs[:1])
            for node in given
        }
        arguments, constants = tuple(made.values()), dict[Node, None]()

        def moved(value: Value) -> Value:
            if is_loop_switch(value.node) or role_of(value.node) == "loop_cond":
                return moved(value.node.inputs[0])
            if value in self._known:
                constants.setdefault(value.node)
                return value
            return Value(made[value.node], value.index)

        for node in _in_turn([node for node in self._computing if (node in self._later) is later]):
            controls = tuple([made[control] for control in node.controls if control in made and control not in given])
            made[node] = node.with_edges(tuple([moved(value) for value in node.inputs]), controls)
        fetches = tuple([moved(value) for value in outputs])
        sends = tuple([node for node in made.values() if node.definition.name == "send" or spans_devices(node)])
        return Block(Flow([*constants, *made.values()], arguments, fetches, sends), tuple(range(len(given))))


def _section(node: Node) -> str:
    """The section in which a node exchanges values with other devices; empty if it does not."""
    return str(node.attrs["section"]) if node.definition.name in TRANSFERS or spans_devices(node) else ""


def _position(node: Node) -> float:
    return float(node.attrs["position"])


def _in_turn(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with their transfers in the order of the whole graph, each after the nodes that it needs.

    Nodes that need no more receives come before the next one, so that the device computes while it waits.
    """
    own = set(nodes)
    transfers = sorted((node for node in nodes if _section(node)), key=_position)
    ready = _by_last_wait(nodes, [node for node in transfers if node.definition.name != "send"])
    placed: dict[Node, None] = {}

    def place(node: Node) -> None:
        stack = [node]
        while stack:
            missing = [source for source in _sources(stack[-1]) if source in own and source not in placed]
            if missing:
                stack += missing
            else:
                placed.setdefault(stack.pop())

    waits = iter(ready)
    for node in transfers:
        for each in next(waits) if node.definition.name != "send" else ():
            place(each)
        place(node)
    for node in nodes:
        place(node)
    return list(placed)


def _by_last_wait(nodes: Sequence[Node], waits: Sequence[Node]) -> list[list[Node]]:
    """For each wait the nodes that need the one before it, and none after that; without transfers."""
    last: dict[Node, int] = {}
    numbers = {node: number for number, node in enumerate(waits, 1)}
    found: list[list[Node]] = [[] for _ in range(len(waits) + 1)]
    for node in nodes:
        last[node] = max([numbers.get(node, 0), *[last[source] for source in _sources(node) if source in last]])
        if not _section(node):
            found[last[node]].append(node)
    return found


def _sources(node: Node) -> list[Node]:
    """The sources of a node, and for the test of the loop what makes it."""
    found = sources_before(node)
    return [s.inputs[0].node if role_of(s) == "loop_cond" else s for s in found]


def _replaced(flow: Flow, frames: Sequence[_Frame]) -> Flow:
    """The flow with a structured loop for each of these frames."""
    if not frames:
        return flow
    loops = {frame.loop(): frame for frame in frames}
    stands = {node: loop for loop, frame in loops.items() for node in (*frame.inside, *frame.entered)}
    moved = {value: made for loop, frame in loops.items() for value, made in frame.results(loop).items()}

    def before(node: Node) -> list[Node]:
        return [stands.get(source, source) for source in sources_before(node)]

    nodes = in_place([*[node for node in flow.nodes if node not in stands], *loops], before)
    inputs = {node: tuple([moved.get(value, value) for value in node.inputs]) for node in nodes}
    controls = {node: _once(stands.get(control, control) for control in node.controls) for node in nodes}
    fetches = tuple([moved.get(value, value) for value in flow.fetches])
    targets = _once(stands.get(node, node) for node in flow.targets)
    return relinked(Flow(nodes, flow.feeds, fetches, targets), nodes, controls, inputs)


def _once(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(nodes))
