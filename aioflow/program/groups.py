"""Groups the nodes of a flow into units.

In a plain program every node is a unit. In a fused one, nodes that never suspend form regions: two nodes are in one
region only if exactly the same suspending nodes come before both, so that a wait never delays independent work, and if
the same control-flow primitives decide whether they are dead. Regions of more than LONGEST nodes are cut, so that
several threads may compute parts of a wide graph; nodes of scalar code count as halves, and nodes that only hand on a
value, such as reads of variables, as tenths.

A light share of a step that exchanges small values with other devices is one coroutine, which receives and sends: the
executor would take longer than its kernels. Since it waits for one value after the other, every value that it sends
must depend on all values that it has received before, and so must a loop over devices, which sends and receives. Then
no other device waits longer than it must. A share with heavy kernels is one coroutine if the planner has marked it: see
`plan/passes/share_order.py`.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aioflow.plan import op_cost
from aioflow.plan.frame_levels import role_of
from aioflow.plan.guards import TRANSFERS, is_branch
from aioflow.plan.passes.compress import same_task
from aioflow.plan.passes.flow import Node, Value, sources_before
from aioflow.plan.passes.recover_loops import LIGHT, spans_devices
from aioflow.plan.passes.share_order import is_marked, share_order
from aioflow.program.blocks import Statement
from aioflow.program.fuse import Bound
from aioflow.program.scalars import is_scalar_code
from aioflow.rendezvous import PUSHED

LONGEST: Final = 500
WIDE: Final = 250
"""A node of more inputs is run by itself, since to compile its call takes milliseconds."""


@dataclasses.dataclass(slots=True)
class Group:
    """Nodes that become one unit.

    Attributes:
        nodes: the nodes.
        waits: whether the unit may suspend for long.
        length: the number of nodes; some count as less than one.
        is_still: whether it is a region that never waits, nor for anything, and runs in every step.
        exchanges: whether it is a region that sends or receives.
    """

    nodes: list[Node]
    waits: bool
    length: float = 0.0
    is_still: bool = False
    exchanges: bool = False


def waits(node: Node, bound: Statement) -> bool:
    """Whether a node suspends, so that it is no part of a region that never does."""
    return node.waits or (isinstance(bound, Bound) and bound.kernel.asynchronous)


def grouped(bound: Mapping[Node, Statement], deciders: Mapping[Node, int], exchanges: bool) -> list[Group]:
    """The groups of a fused program, in the order of their first nodes.

    `exchanges` says whether a region may send and receive.
    """
    if exchanges and (light := light_share(bound)) is not None:
        receives = any(node.definition.name == "recv" or spans_devices(node) for node in light)
        return [Group(light, receives, is_still=not receives, exchanges=True)]
    if exchanges and _is_marked_share(bound):
        return [Group(share_order(bound), True, exchanges=True)]
    return _by_waits(bound, deciders)


def _by_waits(bound: Mapping[Node, Statement], deciders: Mapping[Node, int]) -> list[Group]:
    """Group nodes by the suspending nodes before them and by the nodes that decide whether they are dead.

    A send does not wait for other work: nodes of a group lead to the same first send.
    """
    before: dict[Node, int] = {}
    waiting = 0
    groups: list[Group] = []
    open_group: dict[tuple[int, int, float], Group] = {}
    first_send = _first_sends(bound)
    for node in bound:
        mask = 0
        for source in [*[source for source, _ in node.inputs], *node.controls]:
            mask |= before.get(source, 0)
        is_wide = len(node.inputs) > WIDE
        if is_wide or waits(node, bound[node]):
            groups.append(Group([node], waits(node, bound[node])))
            before[node] = mask | 1 << waiting
            waiting += 1
            continue
        before[node] = mask
        if role_of(node) is not None or node.definition.name == "send":
            groups.append(Group([node], False))
            continue
        key = mask, deciders[node], first_send.get(node, math.inf)
        group = open_group.get(key)
        if group is None or group.length >= LONGEST:
            group = open_group[key] = Group([], False, is_still=not (mask or deciders[node]))
            groups.append(group)
        group.nodes.append(node)
        group.length += _length(bound[node])
    return groups


def _length(statement: Statement) -> float:
    """How much it counts among the nodes of a region."""
    if isinstance(statement, Bound) and not statement.fresh:
        return 0.1
    return 0.5 if is_scalar_code(statement) else 1


def _first_sends(nodes: Iterable[Node]) -> dict[Node, float]:
    """For each node that something sent depends on, the first send that does."""
    found: dict[Node, float] = {}
    for number, node in enumerate(node for node in nodes if node.definition.name == "send"):
        stack = [node]
        while stack:
            each = stack.pop()
            if each not in found:
                found[each] = number
                stack.extend(sources_before(each))
    return found


# Shares as one coroutine


def light_share(bound: Mapping[Node, Statement]) -> list[Node] | None:
    """The nodes in the order in which one coroutine runs them; None if the executor must run them."""
    nodes = list(bound)
    length = sum([1 for node in nodes for _ in node.everything()])
    if not any(map(_exchanges, nodes)) or length > LONGEST:
        return None
    read = {value for node in nodes for value in node.inputs}
    if not (all(_may_join(node, bound[node], read) for node in nodes) and _is_light(nodes)):
        return None
    return _by_stage(nodes)


def _is_marked_share(bound: Mapping[Node, Statement]) -> bool:
    """Whether the planner says that one coroutine may run the nodes, and none of their kernels waits."""
    transfers = [node for node in bound if node.definition.name in TRANSFERS]
    waiting = [node for node in bound if waits(node, bound[node]) and node.definition.name != "recv"]
    wide = [node for node in bound if len(node.inputs) > WIDE]
    return bool(transfers) and all(map(is_marked, transfers)) and not (waiting or wide)


def _exchanges(node: Node) -> bool:
    """Whether it sends or receives."""
    return node.definition.name in TRANSFERS or spans_devices(node)


def _may_join(node: Node, bound: Statement, read: set[Value]) -> bool:
    """Whether a coroutine may run a node: the number of a merge's input is not `read`."""
    if spans_devices(node):
        return True
    if node.blocks or len(node.inputs) > WIDE:
        return False
    if role_of(node) is not None:
        return is_branch(node) and (role_of(node) == "switch" or Value(node, 1) not in read)
    if node.definition.name != "recv":
        return not waits(node, bound)
    return node.attrs["edge"].startswith(PUSHED) or same_task(node.attrs["source"], node.attrs["target"])


def _is_light(nodes: Sequence[Node]) -> bool:
    computing = [node for node in nodes if not _exchanges(node)]
    is_known = all(spec.shape.is_fully_defined() for node in nodes for spec in node.output_specs)
    return is_known and sum(op_cost.seconds(node, node.input_specs) for node in computing) < LIGHT


def _by_stage(nodes: Sequence[Node]) -> list[Node] | None:
    """The nodes with each receive as late as its consumers allow; None if a send would wait for one without need.

    A loop over devices both sends and receives. The stage of a node is the turn of the last receive that it needs.
    """
    own: dict[Node, int] = {}
    needs: dict[Node, int] = {}
    for node in nodes:
        if node.definition.name == "recv" or spans_devices(node):
            own[node] = 1 << len(own)
        needs[node] = own.get(node, 0)
        for source in sources_before(node):
            needs[node] |= needs.get(source, 0)
    turns = _turns([node for node in nodes if node.definition.name == "send" or spans_devices(node)], own, needs)
    if turns is None:
        return None
    stages: dict[Node, int] = {}
    for node in nodes:
        before = [stages[source] for source in sources_before(node) if source in stages]
        stages[node] = max([turns.get(node, 0), *before])
    return sorted(nodes, key=stages.__getitem__)


def _turns(sending: Sequence[Node], own: Mapping[Node, int], needs: Mapping[Node, int]) -> dict[Node, int] | None:
    """The turn of each receive: before the first send that needs it. None if a send does not need all receives before.

    Args:
        sending: the sends, and the loops that send.
        own: a bit for each receive, and for each loop that receives.
        needs: the bits of the receives that each node needs.
    """
    turns: dict[Node, int] = {}
    done = 0
    for node in sorted(sending, key=lambda each: (needs[each] & ~own.get(each, 0)).bit_count() * 2 + (each in own)):
        if done & ~needs[node]:
            return None
        for receive, bit in own.items():
            if bit & needs[node] & ~done:
                turns[receive] = len(turns) + 1
        done = needs[node]
    for receive in own:
        turns.setdefault(receive, len(turns) + 1)
    return turns
