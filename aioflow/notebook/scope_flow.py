"""The flow of values between the outer scopes of a graph, as a picture in SVG: inputs on the left.

Each box lies right of the boxes that it takes values from. Where scopes take values from each other, the one whose
operations were built first is on the left. A line to a box that is several columns away passes each column between in a
lane of its own, so it crosses no box. Boxes and lanes of a column lie near those they come from.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aioflow.notebook.card import COLOURS, OTHER
from aioflow.notebook.markup import Markup, clip, element

_MOST: Final = 24
"""Boxes of a picture, at most: with more of them nobody could follow the lines."""
_WIDTH: Final = 112
_HEIGHT: Final = 26
_LANE: Final = 6
_RIGHT: Final = 36
"""Pixels between two columns."""
_BELOW: Final = 10
_LETTERS: Final = 15


class _Slot(NamedTuple):
    """A place in a column: of a box, or of the lane of the lines from a box."""

    box: str
    is_lane: bool


Ways = Sequence[tuple[str, str]]
Point = tuple[float, float]


def flow(counts: Mapping[str, int], edges: Iterable[tuple[str, str]]) -> Markup | None:
    """The picture. None if nothing flows, or if there are too many boxes.

    Args:
        counts: the boxes in the order they were built, with the number of operations of each; 0 for one that is an
            operation itself.
        edges: pairs of boxes of which the second takes a value from the first.
    """
    found = {each for each in edges if each[0] != each[1]}
    joined = {name for way in found for name in way}
    boxes = [name for name in counts if name in joined]
    if not 1 < len(boxes) <= _MOST:
        return None
    order = {name: place for place, name in enumerate(boxes)}
    ways = sorted(found, key=lambda way: (order[way[0]], order[way[1]]))
    return _Picture(boxes, ways, [way for way in ways if order[way[0]] < order[way[1]]]).svg(counts)


class _Picture:
    """The boxes, in columns, and the lines between them.

    Args:
        boxes: the boxes.
        ways: the lines.
        forward: those from the left to the right.
    """

    def __init__(self, boxes: Sequence[str], ways: Ways, forward: Ways) -> None:
        self._boxes: Final = boxes
        self._ways: Final = ways
        self._sources: Final = {name: [source for source, target in forward if target == name] for name in boxes}
        self._depth: Final[dict[str, int]] = {}
        for name in boxes:  # sources are before those that take from them
            self._depth[name] = max([self._depth[source] + 1 for source in self._sources[name]], default=0)
        self._ends: Final = {name: self._depth[name] for name in boxes}
        for source, target in forward:
            self._ends[source] = max(self._ends[source], self._depth[target] - 1)
        self._tops: Final[dict[tuple[int, _Slot], float]] = {}
        self._height = 0.0
        for number in range(max(self._depth.values()) + 1):
            self._place(number)

    def _place(self, number: int) -> None:
        """Give the slots of a column their places, below each other."""
        slots = [_Slot(name, False) for name in self._boxes if self._depth[name] == number]
        slots += [_Slot(name, True) for name in self._boxes if self._depth[name] < number <= self._ends[name]]
        top = 0.0
        for slot in sorted(slots, key=lambda slot: self._wish(number, slot)):
            self._tops[number, slot] = top
            top += (_LANE if slot.is_lane else _HEIGHT) + _BELOW
        self._height = max(self._height, top - _BELOW)

    def _wish(self, number: int, slot: _Slot) -> float:
        """How far down a slot would lie: the mean of the places in the column before that its lines come from."""
        sources = [slot.box] if slot.is_lane else self._sources[slot.box]
        found = [self._out(number - 1, source)[1] for source in sources]
        return sum(found) / len(found) if found else 0.0

    def _out(self, number: int, box: str) -> Point:
        """Where the lines from a box leave a column."""
        slot = _Slot(box, self._depth[box] != number)
        height = _LANE if slot.is_lane else _HEIGHT
        return number * (_WIDTH + _RIGHT) + _WIDTH, self._tops[number, slot] + height / 2

    def svg(self, counts: Mapping[str, int]) -> Markup:
        """The picture."""
        width, height = (max(self._depth.values()) + 1) * (_WIDTH + _RIGHT) - _RIGHT + 2, self._height + 2
        lines = [each for way in self._ways for each in self._line(*way)]
        boxes = [self._box(name, counts[name]) for name in self._boxes]
        return element(
            "svg", *lines, *boxes, viewBox=f"-1 -1 {width} {height}", width=width, height=height,
            style=f"min-width:{0.7 * width:.0f}px", role="img", aria_label="flow of values",
        )  # fmt: skip

    def _line(self, source: str, target: str) -> Iterator[Markup]:
        """A line from the right of a box, through its lanes, to the left of another box."""
        first, last = self._depth[source], self._depth[target]
        at = self._out(first, source)
        path = f"M{at[0]} {at[1]}"
        for number in range(first + 1, last):
            lane = self._out(number, source)
            path += f"{_curve(at, (lane[0] - _WIDTH, lane[1]))}H{lane[0]}"
            at = lane
        tip = last * (_WIDTH + _RIGHT), self._tops[last, _Slot(target, False)] + _HEIGHT / 2
        path += _curve(at, (tip[0] - 5, tip[1]))
        yield element("path", d=path, fill="none", stroke="currentColor", stroke_opacity=0.35)
        yield element("path", d=f"M{tip[0]} {tip[1]}l-6 -3v6z", fill="currentColor", fill_opacity=0.6)

    def _box(self, name: str, count: int) -> Markup:
        right, middle = self._out(self._depth[name], name)
        x, y = right - _WIDTH, middle - _HEIGHT / 2
        fill, radius = (COLOURS[0], 5) if count else (OTHER, 13)
        return element(
            "g", element("title", f"{name}: {count:,} operations" if count else name),
            element("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=radius, fill=fill),
            element("text", clip(name, _LETTERS), x=x + _WIDTH / 2, y=y + 17, text_anchor="middle"),
        )  # fmt: skip


def _curve(start: Point, end: Point) -> str:
    """A curve that begins and ends level."""
    bend = max(_RIGHT / 2, abs(end[0] - start[0]) / 2)
    return f"C{start[0] + bend} {start[1]} {end[0] - bend} {end[1]} {end[0]} {end[1]}"
