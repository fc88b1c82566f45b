"""A trace as a timeline in SVG: a lane for each thread of each device, bars for operations, arrows for transfers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aioflow.notebook.card import COLOURS, OTHER, card, legend, more, table
from aioflow.notebook.markup import Markup, clip, element
from aioflow.notebook.quantities import counted, seconds, size

if TYPE_CHECKING:
    from aioflow.tracing import NodeStats, RunMetadata, Transfer

_WIDTH: Final = 940
_NAMES: Final = 170
"""Pixels for the names of lanes."""
_ROW: Final = 18
_HEAD: Final = 20
_GAP: Final = 6
_BARS: Final = 1000
_ARROWS: Final = 200
_LANES: Final = 40
_STACKED: Final = 12
"""Rows of a lane, at most: waits overlap."""
_LETTER: Final = 6.4
"""Pixels of a letter, about."""
_TICKS: Final = 7
Lane = tuple[str, int]
"""A device and a thread."""


def trace_html(metadata: "RunMetadata") -> str:
    """A trace as a timeline, the work of its types of operations, and the work of its devices."""
    if not metadata.step_stats:
        return card("Trace", note="nothing was traced: pass options=af.RunOptions(trace=True) to the run")
    picture = _Timeline(metadata)
    step = f" of step {metadata.step_id}" if metadata.step_id else ""
    note = f"{counted(len(metadata.step_stats), 'execution')}, {counted(len(metadata.transfers), 'transfer')}, "
    types = [(colour, f"{name} {seconds(picture.work[name])}") for name, colour in picture.colours.items()]
    rest = [(OTHER, "others")] if len(picture.work) > len(types) else []
    body = [
        picture.svg(),
        legend([*types, *rest]),
        more(picture.left_out, "executions, the shortest"),
        _devices(metadata),
    ]
    return card(f"Trace{step}", *body, note=note + seconds(picture.end - picture.start))


def _devices(metadata: "RunMetadata") -> Markup:
    rows = [
        (name, *map(seconds, (sums.busy, sums.waiting)), *map(size, (sums.sent, sums.received, sums.peak)))
        for name, sums in list(metadata.by_device().items())[:_LANES]
    ]
    return table(rows, ("device", "works", "waits", "sends", "receives", "peak of memory"))


class _Timeline:
    """The picture of a trace.

    Attributes:
        start: when its first event began, on the clock of the trace.
        end: when its last event ended.
        work: the seconds of each type of operation.
        colours: the colours of the types with the most work.
        left_out: the executions that are not drawn.
    """

    def __init__(self, metadata: "RunMetadata") -> None:
        self._metadata: Final = metadata
        stats, transfers = metadata.step_stats, metadata.transfers
        starts = [*[each.start for each in stats], *[each.start for each in transfers]]
        self.start: Final = min(starts)
        self.end: Final = max([*[each.end for each in stats], *[each.arrived for each in transfers], self.start + 1e-9])
        self.work: Final[dict[str, float]] = {}
        for each in stats:
            self.work[each.op_type] = self.work.get(each.op_type, 0.0) + each.busy
        most = sorted(self.work, key=lambda name: -self.work[name])
        self.colours: Final = dict(zip(most, COLOURS, strict=False))
        lanes = sorted(
            {(each.device, each.thread) for each in stats}, key=lambda lane: (lane[0], self._thread(lane), lane[1])
        )
        self._lanes: Final = lanes[:_LANES]
        longest = sorted(stats, key=lambda each: each.start - each.end)[:_BARS]
        drawn = [each for each in longest if (each.device, each.thread) in self._lanes]
        self._rows: Final = _rows(sorted(drawn, key=lambda each: each.start), self._lanes)
        self.left_out: Final = len(stats) - sum(map(len, [row for rows in self._rows.values() for row in rows]))

    def _thread(self, lane: Lane) -> str:
        return self._metadata.thread_names.get(lane[1], "")

    def svg(self) -> Markup:
        """The picture."""
        tops, height = {}, _HEAD
        for lane, rows in self._rows.items():
            tops[lane] = height
            height += max(2, len(rows)) * _ROW + _GAP
        lanes = [each for lane in self._rows for each in self._lane(lane, tops[lane])]
        arrows = [each for transfer in self._metadata.transfers[:_ARROWS] for each in self._arrow(transfer, tops)]
        return element(
            "svg", *self._axis(height), *lanes, *arrows,
            viewBox=f"0 0 {_WIDTH} {height}", width=_WIDTH, height=height, role="img", aria_label="timeline of a step",
        )  # fmt: skip

    def _x(self, time: float) -> float:
        return round(_NAMES + (time - self.start) / (self.end - self.start) * (_WIDTH - _NAMES - 1), 2)

    def _axis(self, height: float) -> Iterable[Markup]:
        """Lines at round times."""
        unit = _unit((self.end - self.start) / _TICKS)
        for number in range(int((self.end - self.start) / unit) + 1):
            x, label = self._x(self.start + number * unit), seconds(number * unit) if number else "0"
            yield element("line", x1=x, x2=x, y1=14, y2=height, stroke="currentColor", stroke_opacity=0.15)
            if x + _LETTER * len(label) < _WIDTH:
                yield element("text", label, x=x + 3, y=11, opacity=0.7)

    def _lane(self, lane: Lane, top: float) -> Iterable[Markup]:
        """The names of a lane, and its bars."""
        for place, name in enumerate((_short_device(lane[0]), self._thread(lane))):
            yield element("text", clip(name, 26), x=0, y=top + 12 + 15 * place, opacity=0.6 if place else None)
        for place, row in enumerate(self._rows[lane]):
            for stats in row:
                yield self._bar(stats, top + place * _ROW)

    def _bar(self, stats: "NodeStats", y: float) -> Markup:
        left, right = self._x(stats.start), self._x(stats.end)
        letters = int((right - left - 6) / _LETTER) - 1
        about = [
            f"{stats.name} ({stats.op_type})",
            f"{'may wait' if stats.waits else 'works'} for {seconds(stats.end - stats.start)}",
            f"{size(stats.output_bytes)} of results",
        ]
        fill = self.colours.get(stats.op_type, OTHER)
        return element(
            "g", element("title", "\n".join(about)),
            element("rect", x=left, y=y, width=max(1.0, round(right - left, 2)), height=_ROW - 4, rx=2, fill=fill,
                    fill_opacity=0.3 if stats.waits else 0.9),
            element("text", clip(stats.name, letters), x=left + 3, y=y + 11) if letters > 4 else None,
        )  # fmt: skip

    def _arrow(self, transfer: "Transfer", tops: Mapping[Lane, float]) -> Iterable[Markup]:
        """The way of a value from lane to lane."""
        source, target = (transfer.source, transfer.threads[0]), (transfer.target, transfer.threads[1])
        if source not in tops or target not in tops:
            return
        left, right = self._x(transfer.start), self._x(transfer.arrived)
        above, below, middle = tops[source] + _ROW / 2, tops[target] + _ROW / 2, (left + right) / 2
        path = f"M{left} {above}C{middle} {above} {middle} {below} {right} {below}"
        about = f"{transfer.key}\n{size(transfer.bytes)} in {seconds(transfer.arrived - transfer.start)}"
        yield element("path", element("title", about), d=path, fill="none", stroke=COLOURS[0], stroke_width=1.2)
        yield element("path", d=f"M{right} {below}l-6 -3v6z", fill=COLOURS[0])


def _rows(drawn: "Iterable[NodeStats]", lanes: Sequence[Lane]) -> dict[Lane, list[list["NodeStats"]]]:
    """The bars of each lane, by their begin: bars that overlap are in rows below each other."""
    found: dict[Lane, list[list[NodeStats]]] = {lane: [] for lane in lanes}
    for stats in drawn:
        rows = found[stats.device, stats.thread]
        free = next((row for row in rows if row[-1].end <= stats.start), None)
        if free is not None:
            free.append(stats)
        elif len(rows) < _STACKED:
            rows.append([stats])
    return found


def _unit(least: float) -> float:
    """The round number that is not below `least`: 1, 2 or 5 times a power of 10."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least)


def _short_device(name: str) -> str:
    """The name of a device without the parts that say little: `worker 1 CPU:0`."""
    job, _, device = name.rpartition("/device:")
    task = job.replace("/job:", "").replace("/replica:0", "").replace("/task:", " ")
    return device if task in ("", "localhost 0", "localhost") else f"{task} {device}"
