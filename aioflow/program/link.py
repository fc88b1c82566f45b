"""Computes the edges of a program, by the numbers of units: successors, pending counts and inputs of merges."""

from collections.abc import Mapping, Sequence
from typing import Final

from aioflow.plan.frame_levels import ROOT, Levels, role_of
from aioflow.plan.passes.flow import Node, Value, is_back_edge
from aioflow.program.program import MergeInput, OutsideValue, Route
from aioflow.tensors.dtypes import Array


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
        role = role_of(group[0]) if group else None
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
            if merges:
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
