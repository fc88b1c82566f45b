"""Finds the conditions under which the nodes of a flow with primitives are alive.

A guard is a set of conditions that all hold where a value is alive: truths of switches, and the lives of values that
come from elsewhere. The two results of a switch have opposite conditions, and a merge of opposites has neither. The end
of a loop is no condition: all nodes of its body are dead in the last iteration.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from aioflow.plan.frame_levels import role_of
from aioflow.plan.passes.flow import Node, Value, is_back_edge


class Condition(NamedTuple):
    """A condition of a guard.

    Attributes:
        value: the truth of a switch, or a value that may be dead.
        holds: the truth that is needed; None if `value` must be alive.
    """

    value: Value
    holds: bool | None = None


Guard = frozenset[Condition]
ALWAYS: Final[Guard] = frozenset()
"""The guard of values that are always alive."""
TRANSFERS: Final = frozenset({"send", "recv"})
"""The ops that run although their value is dead."""


def is_branch(node: Node) -> bool:
    """Whether it is a switch or merge of a branch, and not of a loop."""
    match role_of(node):
        case "switch":
            return role_of(node.inputs[1].node) != "loop_cond"
        case "merge":
            return not any(is_back_edge(source, node) for source, _ in node.inputs)
    return False


def is_guarded(node: Node) -> bool:
    """Whether it receives a value that is dead in a branch."""
    return node.definition.name == "recv" and bool(node.attrs["guarded"])


class Guards:
    """The guards of nodes.

    Attributes:
        running: for each node, the guard under which it runs; a node that is missing always runs.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Find the guards of nodes, sources first."""
        self.running: Final[dict[Node, Guard]] = {}
        self._made: dict[Node, Guard] = {}
        """For each node the guard of its values; of a switch without the truth that it looks at."""
        for node in nodes:
            running = ALWAYS if node.definition.name in TRANSFERS else self._needed(node)
            made = _alone(node) if is_guarded(node) or self.is_open(node) else running
            if running or made or is_branch(node):
                self.running[node], self._made[node] = running, made

    def __bool__(self) -> bool:
        """Whether there are branches, or values that may be dead."""
        return bool(self._made)

    def of(self, value: Value) -> Guard:
        """The guard of a value."""
        node = value.node
        made = self._made.get(node)
        if made is None:
            return ALWAYS
        is_chosen = role_of(node) == "switch" and is_branch(node)
        return made | {Condition(node.inputs[1], bool(value.index))} if is_chosen else made

    def after(self, node: Node) -> Guard:
        """The guard of a signal that the node has run."""
        return self._made.get(node, ALWAYS)

    def is_open(self, node: Node) -> bool:
        """Whether it is a merge of a branch of which no guard says that one of its inputs is alive."""
        return role_of(node) == "merge" and is_branch(node) and self._common(node) is None

    def _needed(self, node: Node) -> Guard:
        if role_of(node) == "merge" and is_branch(node):
            return self._common(node) or ALWAYS
        found = [self.of(value) for value in node.inputs if not is_back_edge(value.node, node)]
        return ALWAYS.union(*found, *map(self.after, node.controls))

    def _common(self, merge: Node) -> Guard | None:
        """The guard under which one of two inputs is alive, which have opposite conditions; None for others."""
        one, *others = [self.of(value) for value in merge.inputs]
        if len(others) != 1:
            return None
        different = one ^ others[0]
        truths = {each.holds for each in different}
        is_opposite = len({each.value for each in different}) == 1 and truths == {True, False}
        return one & others[0] if is_opposite else None


def _alone(node: Node) -> Guard:
    return frozenset((Condition(Value(node, 0)),))
