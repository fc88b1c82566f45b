"""The operations of a program that wake waiters: they send a value, release a lock, put into a queue or take from it.

A program is searched once, for all steps that run it.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from aioflow.kernels.state.queue_handles import QueueSpec
from aioflow.kernels.state.staging import AreaSpec
from aioflow.plan.frame_levels import role_of
from aioflow.plan.passes.flow import Node, Value
from aioflow.program.program import Program, Unit

ACQUIRE, KEEP, RELEASE = "acquire_variable_lock", "keep_variable_lock", "release_variable_lock"
TAKES: Final = frozenset(["queue_dequeue", "queue_dequeue_many", "queue_dequeue_up_to", "unstage", "stage_peek"])
PUTS: Final = frozenset(["queue_enqueue", "queue_enqueue_many", "queue_give_back", "queue_close", "stage"])


class Use(NamedTuple):
    """An operation that uses a queue or a staging area.

    Attributes:
        operation: the operation.
        unit: the unit it runs in.
        handle: the node that makes the handle; None if the operation chooses among several when it runs.
        kinds: the effects it may have: `put`, `take`.
    """

    operation: Node
    unit: Unit
    handle: Node | None
    kinds: Sequence[str]


class EventSources:
    """The operations of a program that wake waiters.

    Attributes:
        sends: the operations that send values to other devices, with their units.
        releases: the operations that release locks, with their units.
        uses: the operations that use queues and staging areas.
    """

    def __init__(self, program: Program) -> None:
        nodes = [(inner, unit) for unit in program.units for node in unit.nodes for inner in node.everything()]
        self.sends: Final = [(node, unit) for node, unit in nodes if node.definition.name == "send"]
        self.releases: Final = [(node, unit) for node, unit in nodes if node.definition.name == RELEASE]
        self.uses: Final = [
            Use(node, unit, handle_of(value), kinds)
            for node, unit in nodes if role_of(node) is None and node.definition.name != "send"
            for value in node.inputs if isinstance(value.spec, QueueSpec | AreaSpec)
            if (kinds := kinds_of(node))
        ]  # fmt: skip
        self._program = program
        self._before: dict[tuple[int, ...], dict[Unit, list[int]]] = {}

    def before(self, begun: Sequence[Unit]) -> dict[Unit, list[int]]:
        """For each unit the places of the begun units before it: in its iteration, else in an earlier one."""
        key = tuple([unit.index for unit in begun])
        found = self._before.get(key)
        if found is None:
            near, far = self._after(begun, around=False), self._after(begun, around=True)
            found = self._before[key] = {unit: near.get(unit) or places for unit, places in far.items()}
        return found

    def _after(self, begun: Iterable[Unit], around: bool) -> dict[Unit, list[int]]:
        """For each unit the places of the begun units before it; with `around`, also in earlier iterations."""
        found: dict[Unit, list[int]] = {}
        for place, unit in enumerate(begun):
            seen, left = {unit}, [unit]
            while left:
                each = left.pop()
                found.setdefault(each, []).append(place)
                if around or each.role != "next_iteration":
                    following = set(self._following(each)) - seen
                    seen |= following
                    left += following
        return found

    def _following(self, unit: Unit) -> list[Unit]:
        units = self._program.levels[unit.route.target].units
        return [units[place] for place in (*unit.successors, *[arrival.place for arrival in unit.route.arrivals])]


def kinds_of(node: Node) -> list[str]:
    """The effects that an operation may have on a queue: both, unless it is known to have only one."""
    name = node.definition.name
    return [kind for kind, others in (("put", TAKES), ("take", PUTS)) if name not in others]


def handle_of(value: Value) -> Node | None:
    """The node that makes a handle, found through loops and branches; None if the run chooses the handle."""
    node, seen = value.node, set()
    while role_of(node) is not None and node not in seen:
        seen.add(node)
        node = node.inputs[0].node
    return node if node.definition.handle else None
