"""Finds the loops over devices that each device may run as structured loops, and orders what they send and receive.

A loop that runs as one coroutine waits for its receives one after the other. So that devices never wait for each other
in a circle, all of them keep to one order. In an iteration the transfers that the condition may need come first, then
those of the body, and either in the order of the whole flow, in which the nodes of a frame follow one another. No node
needs a transfer that comes later.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from aioflow.plan.frame_levels import ROOT, Levels, role_of
from aioflow.plan.guards import is_branch
from aioflow.plan.passes.flow import Node, Value, sources_before
from aioflow.plan.passes.relink import in_place

CONDITION: Final = "condition"
BODY: Final = "body"
"""The sections of an iteration. Values of the body are dead in the last iteration."""


def by_frames(nodes: Sequence[Node], levels: Levels) -> list[Node] | None:
    """The nodes with those of each frame one after the other, and else as they were.

    None if that is not possible: a part of a frame needs another frame, which needs a part of the first.
    """
    found = list(nodes) if len(levels.names) == 1 else _arranged(nodes, ROOT, levels)
    return found if len(found) == len(nodes) else None


def _arranged(nodes: Sequence[Node], level: int, levels: Levels) -> list[Node]:
    """The nodes of a level and of the frames in it."""
    stands: dict[Node, Node] = {}
    members: dict[Node, list[Node]] = {}
    first: dict[int, Node] = {}
    for node in nodes:
        child = _child(node, level, levels)
        stands[node] = node if child == level else first.setdefault(child, node)
        members.setdefault(stands[node], []).append(node)

    def before(stand: Node) -> Iterable[Node]:
        sources = [stands[s] for node in members[stand] for s in sources_before(node) if s in stands]
        return [source for source in sources if source is not stand]

    entered = {node for node in nodes if levels.beyond.get(node) == level and levels.inside[node] != level}
    frames = {node: child for child, node in first.items()}
    return [
        node
        for stand in in_place(members, before, entered)
        for node in ([stand] if stand not in frames else _arranged(members[stand], frames[stand], levels))
    ]


def _child(node: Node, level: int, levels: Levels) -> int:
    """The frame in a level that a node is in, or enters; the level itself if there is none."""
    found = levels.beyond[node] if role_of(node) == "enter" else levels.inside[node]
    if role_of(node) == "enter" and found == level:
        return level
    while found != level and levels.parents[found] != level:
        found = levels.parents[found]
    return found


class LoopSections:
    """The sections of the iterations in which values are made."""

    def __init__(self, nodes: Sequence[Node], levels: Levels, apart: bool = True) -> None:
        """Find the sections of nodes, sources first. Without `apart` the frames are mixed, and none is structured."""
        self._levels: Final = levels
        self._later: Final[set[Node]] = set()
        """The nodes that are dead in the last iteration of the frame that they belong to."""
        self._later_frames: Final[set[int]] = set()
        """The frames that are entered from such nodes."""
        if len(levels.names) > 1:
            self._find_later(nodes)
        self._structured = self._nests(nodes) if apart else set()

    def of(self, node: Node) -> str:
        """The section in which the values of a node are made, after those of the loops around: `body/condition`.

        Empty outside of loops, and in those that devices must run node by node.
        """
        return self.at(self._levels.beyond[node], BODY if node in self._later else CONDITION)

    def at(self, level: int, section: str) -> str:
        """A section of a frame, after those of the loops around."""
        if level not in self._structured:
            return ""
        found = [section]
        while self._levels.parents[level] != ROOT:
            found.append(BODY if level in self._later_frames else CONDITION)
            level = self._levels.parents[level]
        return "/".join(reversed(found))

    def _find_later(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            role = role_of(node)
            if role == "exit":
                is_later = self._levels.inside[node] in self._later_frames
            else:
                sources = [source for source in sources_before(node) if role_of(source) != "enter"]
                is_later = is_loop_switch(node) or not self._later.isdisjoint(sources)
            if is_later:
                self._later.add(node)
            if is_later and role == "enter":
                self._later_frames.add(self._levels.beyond[node])

    def _nests(self, nodes: Sequence[Node]) -> set[int]:
        """The frames of nests in which all frames may be structured loops."""
        levels = self._levels
        if len(levels.names) == 1:
            return set()
        inside: list[list[Node]] = [[] for _ in levels.names]
        failed: set[int] = set()
        for node in nodes:
            inside[levels.inside[node]].append(node)
        every = range(1, len(levels.names))
        read = {value for node in nodes for value in node.inputs}
        failed |= {level for level in every if not _is_plain(inside[level], read)}
        roots = set(map(levels.outermost, failed))
        return {level for level in every if levels.outermost(level) not in roots}


def is_loop_switch(node: Node) -> bool:
    """Whether it is the switch of a loop variable."""
    return role_of(node) == "switch" and not is_branch(node)


def _is_plain(inside: Sequence[Node], read: set[Value]) -> bool:
    """Whether a frame has the primitives of one loop and of branches, and its nodes neither wait nor have an effect."""
    conditions = [node for node in inside if role_of(node) == "loop_cond"]
    return len(conditions) == 1 and all(
        is_part(node, conditions[0], read) and not (role_of(node) is None and (node.waits or node.has_effect))
        for node in inside
    )


def is_part(node: Node, condition: Node, read: set[Value]) -> bool:
    """Whether a node has its place in a structured loop.

    A primitive must be one of the loop, of a branch, or the entrance of an inner loop. Only exits read the result of a
    loop variable's switch that is alive in the last iteration. The number of a merge's input is not `read`.
    """
    sources = [source for source, _ in node.inputs]
    match role_of(node):
        case "merge":
            is_variable = sorted(map(str, map(role_of, sources))) == ["enter", "next_iteration"]
            return (is_variable or is_branch(node)) and Value(node, 1) not in read
        case "switch" if not is_branch(node):
            is_variable = role_of(sources[0]) == "merge" and not is_branch(sources[0])
            return sources[1] is condition and is_variable and node.inputs[0].index == 0
        case "exit":
            return is_loop_switch(sources[0]) and node.inputs[0].index == 0
        case "control_trigger":
            return False
    return all(index == 1 for source, index in node.inputs if is_loop_switch(source))
