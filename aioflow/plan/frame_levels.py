"""Finds the frame of each node of a flow, and the nodes that decide whether it is dead.

A frame is entered from one frame, by `enter`, and left by `exit`. All inputs of a node are in its own frame. Constants
and handles are known before a step, and belong to every frame.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from aioflow import errors
from aioflow.graph.operation import describe_line
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.passes.flow import Node, Value, is_back_edge

ROOT: Final = 0
"""The number of the level that is the step itself."""
_WAYS_OUT: Final = {
    "exit": "af.exit has no frame to leave: what it reads is outside of every loop",
    "next_iteration": "af.next_iteration has no frame: what it reads is outside of every loop",
    "loop_cond": "af.loop_cond has no frame: what it reads is outside of every loop",
}


def role_of(node: Node) -> str | None:
    """Its type if it is a primitive of control flow."""
    name = node.definition.name
    return name if name in PRIMITIVES else None


def decides(node: Node) -> bool:
    """Whether its outputs may be dead although its inputs are not: a primitive, or a `recv` of a value that may be."""
    return role_of(node) is not None or bool(node.definition.name == "recv" and node.attrs["mortal"])


def is_known(node: Node) -> bool:
    """Whether its value is known before any step."""
    return (node.definition.name == "constant" or node.definition.handle) and not node.controls


class Levels:
    """The levels of a flow: the step itself, and each frame. InvalidArgumentError if a loop is malformed.

    Attributes:
        names: the name of each frame, empty for the step itself.
        parallel: for each frame, the most iterations that may run at the same time: the least number that one of its
            `enter` nodes, except constants, allows.
        parents: for each frame, the level from which it is entered.
        inside: for each node, its level.
        beyond: for each node, the level of its outputs.
    """

    def __init__(self, nodes: Sequence[Node], known: Collection[Value]) -> None:
        self.names: Final = [""]
        self.parallel: Final = [1]
        self.parents: Final = [ROOT]
        self.inside: Final[dict[Node, int]] = {}
        self.beyond: Final[dict[Node, int]] = {}
        self._numbers: dict[str, int] = {}
        self._known = known
        for node in nodes:
            level = self.inside[node] = self._level(node)
            self.beyond[node] = self._target(node, level)
        self.parallel[:] = [count or 1 for count in self.parallel]
        if len(self.names) > 1:
            self._check(nodes)

    def outermost(self, level: int) -> int:
        """The outermost frame around a frame, perhaps itself."""
        while self.parents[level] != ROOT:
            level = self.parents[level]
        return level

    def check_fetches(self, fetches: Iterable[Value]) -> None:
        """InvalidArgumentError if a value inside a frame is fetched."""
        for node, index in fetches:
            level = self.beyond.get(node, ROOT)
            if level != ROOT:
                raise _wrong(
                    node,
                    f"{node.name}:{index} is inside of the loop {self.names[level]!r}, where it has a value in every "
                    "iteration, and cannot be fetched: fetch what af.exit makes of it",
                )

    def sources(self, node: Node) -> list[Node]:
        """Return the nodes before a node in its frame, without those that are known before a step."""
        merges = role_of(node) == "merge"
        data = [v.node for v in node.inputs if (merges or v not in self._known) and not is_back_edge(v.node, node)]
        return [*data, *[control for control in node.controls if Value(control, 0) not in self._known]]

    def _level(self, node: Node) -> int:
        found = {self.beyond.get(source, ROOT): source for source in self.sources(node)}
        if len(found) > 1:
            where = " and ".join(f"{source.name!r} {self._describe(level)}" for level, source in found.items())
            raise _wrong(
                node,
                f"it depends on values in different frames: {where}. Values get into a loop by af.enter and "
                "out of it by af.exit; an operation without inputs from the loop needs a control input from inside",
            )
        return next(iter(found), ROOT)

    def _describe(self, level: int) -> str:
        return "outside of every loop" if level == ROOT else f"in the loop {self.names[level]!r}"

    def _target(self, node: Node, level: int) -> int:
        role = role_of(node)
        if role == "enter":
            return self._entered(node, level)
        if level == ROOT and role in _WAYS_OUT:
            raise _wrong(node, _WAYS_OUT[role])
        return self.parents[level] if role == "exit" else level

    def _entered(self, node: Node, parent: int) -> int:
        name = node.attrs["frame_name"]
        level = self._numbers.setdefault(name, len(self.names))
        if level == len(self.names):
            self.names.append(name)
            self.parallel.append(0)
            self.parents.append(parent)
        if self.parents[level] != parent:
            raise _wrong(
                node,
                f"the frame {name!r} is entered from different places: {self._describe(self.parents[level])}, and "
                f"{self._describe(parent)}; give each loop its own name",
            )
        if not node.attrs["is_constant"]:
            asked = node.attrs["parallel_iterations"]
            self.parallel[level] = min(self.parallel[level] or asked, asked)
        return level

    def _check(self, nodes: Sequence[Node]) -> None:
        governed = {self.inside[node] for node in nodes if role_of(node) == "loop_cond"}
        for node in nodes:
            level = self.inside[node]
            if role_of(node) == "next_iteration" and level not in governed:
                raise _wrong(node, f"the loop {self.names[level]!r} has no af.loop_cond, so it never ends")
            for source, _ in node.inputs:
                if is_back_edge(source, node) and self.beyond[source] != level:
                    raise _wrong(node, f"{source.name!r} comes back to it from another frame")


def deciders(nodes: Iterable[Node], levels: Levels) -> dict[Node, int]:
    """Return for each node a number. Nodes with equal numbers are dead together.

    The number has a bit for each deciding output that the node depends on directly, with no other one in between.
    Values that enter every iteration of a loop and are never dead count only for nodes that depend on nothing else.
    """
    bits: dict[tuple[Node, int], int] = {}
    found: dict[Node, int] = {}
    steady = 0
    for node in nodes:
        mask = 0
        for source, port in [*node.inputs, *[(control, -1) for control in node.controls]]:
            if is_back_edge(source, node) or source not in levels.inside:
                continue
            if not decides(source):
                mask |= found[source]
            else:
                way = source, port if role_of(source) == "switch" else -1
                bit = bits.setdefault(way, 1 << len(bits))
                mask |= bit
                if role_of(source) == "enter" and source.attrs["is_constant"] and not found[source]:
                    steady |= bit
        found[node] = mask
    return {node: mask & ~steady or mask for node, mask in found.items()}


def _wrong(node: Node, text: str) -> errors.InvalidArgumentError:
    made = errors.InvalidArgumentError(text)
    return made.at(node.name, node.definition.name, line=describe_line(node.operation), device=None, shapes=())
