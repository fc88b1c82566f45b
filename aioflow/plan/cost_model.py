"""Estimates the time of nodes on each kind of device, and of transfers between devices.

The first estimate is the operations and bytes, by the rule of each op, divided by the rates of the device. Times of
traced runs replace the estimate, for all nodes with the same op, dtypes and shapes.
"""

import contextlib
import dataclasses
import json
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from aioflow.graph.device_spec import DeviceSpec
from aioflow.plan import op_cost
from aioflow.plan.op_cost import Rates, Site
from aioflow.plan.passes.flow import Node
from aioflow.tensors.dtypes import DeviceKind, Spec
from aioflow.tensors.recursion import safe_repr
from aioflow.tracing import NodeStats, Transfer

K = TypeVar("K")
V = TypeVar("V")
Way = Literal["process", "bus", "peer", "network"]
"""How a value gets from one device to another: by reference, between host and GPU, between GPUs, between tasks."""


class Link(NamedTuple):
    """The time of a transfer: seconds before the first byte, and bytes per second after it.

    Examples:
        >>> af.Link(latency=1e-4, bytes_per_second=1e9)
        Link(latency=0.0001, bytes_per_second=1000000000.0)
    """

    latency: float
    bytes_per_second: float


RATES: Final[Mapping[DeviceKind, Rates]] = {
    DeviceKind.CPU: op_cost.CPU_RATES,
    DeviceKind.GPU: Rates(per_call=8e-6, bytes_per_second=1e12, operations_per_second=1e13),
}
LINKS: Final[Mapping[Way, Link]] = {
    "process": Link(20e-6, float("inf")),
    "bus": Link(20e-6, 1.2e10),
    "peer": Link(20e-6, 1e11),
    "network": Link(200e-6, 1e9),
}
"""Defaults for links that are not measured. Only their order of magnitude matters."""
_SMALL: Final = 1 << 16
"""Bytes. Smaller transfers measure the latency of a link, larger ones its rate."""
_ITERATIONS: Final = 16
"""How often a loop is assumed to run."""
_KEPT: Final = 15
"""So many measurements are kept, the latest: their median counts, so that one interrupted run does not."""


class CostModel:
    """Seconds by node and by transfer. `rates` and `links` replace some of the figures that estimates are made with.

    TypeError or ValueError for figures that cannot be. Traced runs teach that of their session. Several sessions may
    have the same, on any thread.

    Examples:
        >>> model = af.CostModel()
        >>> model.save("costs.json")
        >>> restored = af.CostModel.load("costs.json")
    """

    def __init__(
        self, rates: Mapping[DeviceKind, Rates] | None = None, links: Mapping[Way, Link] | None = None
    ) -> None:
        self._rates: dict[DeviceKind, Rates] = {**RATES, **_given("rates", rates, RATES)}
        self._links: dict[Way, Link] = {**LINKS, **_given("links", links, LINKS)}
        self._measured: dict[DeviceKind, dict[str, list[float]]] = {kind: {} for kind in DeviceKind}
        self._latencies: dict[Way, list[float]] = {name: [] for name in LINKS}
        self._bandwidths: dict[Way, list[float]] = {name: [] for name in LINKS}
        self._lock = threading.Lock()
        self._figures: Hashable = (tuple(self._rates.items()), tuple(self._links.items()))

    @property
    def figures(self) -> Hashable:
        """The key of its present figures. Models with equal keys estimate equally.

        Models that have measured nothing share the key of their rates and links. Each lesson gives a model a key of
        its own.
        """
        return self._figures

    # Costs

    def seconds(self, node: Node, kind: DeviceKind, inputs: Sequence[Spec] | None = None) -> float:
        """Return the seconds of a node on that kind of device, for inputs of its own Specs by default."""
        if node.blocks:
            return self._inside(node, kind)
        measured = self._measured[kind]
        found = measured.get(signature(node, node.input_specs if inputs is None else inputs)) if measured else None
        if found:
            return _median(found)
        specs, results = (node.planned_inputs, node.planned_specs) if inputs is None else (inputs, None)
        return op_cost.seconds(node, specs, results, kind=kind, rates=self._rates[kind])

    def _inside(self, node: Node, kind: DeviceKind) -> float:
        """Return the seconds inside a node: of the longer branch, or of the assumed number of iterations."""
        blocks = [
            sum(self.seconds(inner, kind) for inner in block.flow.nodes if inner not in block.flow.feeds)
            for block in node.blocks
        ]
        return max(blocks) if node.definition.name == "cond" else _ITERATIONS * sum(blocks)

    def transfer(self, nbytes: float, source: Site, target: Site) -> float:
        """Return the seconds until a value of `nbytes` at `source` can be read at `target`."""
        if source is target or source.name == target.name:
            return 0.0
        link = self.link(way(source.spec, target.spec))
        return link.latency + nbytes / link.bytes_per_second

    def to_host(self, nbytes: float) -> float:
        """Return the seconds of a copy from a GPU to host memory, or back."""
        link = self.link("bus")
        return link.latency + nbytes / link.bytes_per_second

    def link(self, name: Way) -> Link:
        """Return the measured times of a link, else its defaults."""
        latency, rate = self._links[name]
        latencies, rates = self._latencies[name], self._bandwidths[name]
        return Link(_median(latencies) if latencies else latency, _median(rates) if rates else rate)

    # Measurements

    def learn(self, nodes: Iterable[Node], step_stats: Iterable[NodeStats], transfers: Iterable[Transfer] = ()) -> None:
        """Replace estimates by the measured times of these nodes. Nodes that may have waited are ignored."""
        known = {(node.name, node.definition.name): node for node in nodes}
        with self._lock, self._changing():
            for stats in step_stats:
                node = known.get((stats.name, stats.op_type))
                if node is not None and not stats.waits:
                    kind = DeviceKind(DeviceSpec.from_string(stats.device).device_type or DeviceKind.CPU)
                    _keep(self._measured[kind].setdefault(signature(node, node.input_specs), []), stats.busy)
            for transfer in transfers:
                self._learn_transfer(transfer)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Give the figures another key: for what reads them inside the block, and for what reads them after it."""
        self._figures = object()
        try:
            yield
        finally:
            self._figures = object()

    def _learn_transfer(self, transfer: Transfer) -> None:
        name = way(DeviceSpec.from_string(transfer.source), DeviceSpec.from_string(transfer.target))
        took = transfer.arrived - transfer.start
        if transfer.bytes <= _SMALL:
            _keep(self._latencies[name], took)
        elif took > self.link(name).latency:
            _keep(self._bandwidths[name], transfer.bytes / (took - self.link(name).latency))

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, as JSON. Blocks while it writes."""
        with self._lock:
            text = json.dumps(self._plain(), indent=1)
        Path(path).write_text(text + "\n")

    def _plain(self) -> dict[str, Any]:
        return {
            "rates": {kind: dataclasses.asdict(rates) for kind, rates in self._rates.items()},
            "links": {name: _finite(link) for name, link in self._links.items()},
            "latencies": {name: samples for name, samples in self._latencies.items() if samples},
            "bandwidths": {name: samples for name, samples in self._bandwidths.items() if samples},
            "measured": {kind: samples for kind, samples in self._measured.items() if samples},
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "CostModel":
        """Read a file of `save`. Blocks while it reads. ValueError if the file holds other data."""
        try:
            return cls._of(json.loads(Path(path).read_text()))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)!r} holds no cost model: {type(error).__name__}: {error}") from error

    @classmethod
    def _of(cls, plain: dict[str, Any]) -> "CostModel":
        rates = {DeviceKind(kind): _rates(**each) for kind, each in plain["rates"].items()}
        links = {_named(name): _link(each) for name, each in plain["links"].items()}
        made = cls(rates, links)
        made._figures = object()
        for kind, table in plain["measured"].items():
            made._measured[DeviceKind(kind)] = {str(key): _samples(samples, _seconds) for key, samples in table.items()}
        for part, found, number in (("latencies", made._latencies, _seconds), ("bandwidths", made._bandwidths, _rate)):
            found.update({_named(name): _samples(samples, number) for name, samples in plain[part].items()})
        return made

    # For people

    def __str__(self) -> str:
        """Return a table of the rates, the links, and the measured times, the longest first."""
        lines = [f"{'device':<10} {'per call':>10} {'bytes/s':>10} {'ops/s':>10}"]
        lines += [
            f"{kind:<10} {duration(each.per_call):>10} {each.bytes_per_second:>10.2g} "
            f"{each.operations_per_second:>10.2g}"
            for kind, each in self._rates.items()
        ]
        lines += ["", f"{'link':<10} {'latency':>10} {'bytes/s':>10}"]
        lines += [
            f"{name:<10} {duration(self.link(name).latency):>10} {self.link(name).bytes_per_second:>10.2g}"
            for name in self._links
        ]
        with self._lock:
            return "\n".join([*lines, *self._table()])

    def _table(self) -> list[str]:
        rows = [
            (_median(samples), len(samples), kind, key)
            for kind, table in self._measured.items()
            for key, samples in table.items()
        ]
        if not rows:
            return ["", "no measurements: all times are estimates"]
        lines = [
            f"{duration(median):>10} {count:>5} {kind:<6} {key}"
            for median, count, kind, key in sorted(rows, key=lambda row: (-row[0], row[2:]))
        ]
        return ["", f"{'measured':>10} {'times':>5} {'device':<6} op", *lines]

    def __repr__(self) -> str:
        return f"<CostModel: {sum(map(len, self._measured.values()))} measured>"


def _given(name: str, given: Mapping[K, V] | None, known: Mapping[K, V]) -> Mapping[K, V]:
    """Return the known figures with the given ones in their places. TypeError or ValueError for a wrong one."""
    if not isinstance(given, Mapping | None):
        raise TypeError(f"{name} are by {', '.join(map(str, known))}, not {safe_repr(given)}")
    for key, value in (given or {}).items():
        if key not in known:
            raise ValueError(f"{name} are by {', '.join(map(str, known))}, not {key!r}")
        kind = type(known[key])
        if not isinstance(value, kind):
            raise TypeError(f"{name}[{str(key)!r}] must be {kind.__name__}, not {value!r}")
        figures = value._asdict() if isinstance(value, Link) else dataclasses.asdict(value)  # type: ignore[call-overload]
        for part, figure in figures.items():
            _check_figure(f"{name}[{str(key)!r}].{part}", figure, part.endswith("per_second"))
    return given or {}


def _check_figure(name: str, figure: object, rate: bool) -> None:
    if isinstance(figure, bool) or not isinstance(figure, int | float):
        raise TypeError(f"{name} is a number, not {figure!r}")
    if not (figure > 0 if rate else 0 <= figure < float("inf")):
        raise ValueError(f"{name} is {'above' if rate else 'at least'} 0, and cannot be {figure!r}")


def signature(node: Node, inputs: Sequence[Spec]) -> str:
    """Return the key of nodes with equal costs: op, dtypes and shapes, as far as they are known before a run."""
    made = ", ".join(map(str, node.output_specs))
    return f"{node.definition.name}({', '.join(map(str, inputs))}) -> ({made})"


def way(source: DeviceSpec, target: DeviceSpec) -> Way:
    """How values get from one device to the other."""
    if (source.job, source.replica, source.task) != (target.job, target.replica, target.task):
        return "network"
    gpus = [source.device_type, target.device_type].count(DeviceKind.GPU)
    return ("process", "bus", "peer")[gpus]


def size_of(spec: Spec) -> float:
    """How many bytes a value of that Spec is taken for; 0 for a handle."""
    return 0.0 if spec.dtype.family == "resource" else float(op_cost.elements(spec) * spec.dtype.size)


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"


def _keep(samples: list[float], value: float) -> None:
    """One more of them; only the latest are kept."""
    samples.append(value)
    del samples[:-_KEPT]


def _median(samples: Sequence[float]) -> float:
    return sorted(samples)[len(samples) // 2]


def _finite(link: Link) -> list[float | None]:
    """A link as JSON has it, which knows no infinity."""
    return [link.latency, None if link.bytes_per_second == float("inf") else link.bytes_per_second]


def _named(name: str) -> Way:
    for known in LINKS:
        if known == name:
            return known
    raise ValueError(f"{name!r} is not a link; the links are {', '.join(LINKS)}")


def _link(plain: Sequence[Any]) -> Link:
    latency, rate = plain
    return Link(_seconds(latency), float("inf") if rate is None else _rate(rate))


def _rates(per_call: Any, bytes_per_second: Any, operations_per_second: Any) -> Rates:
    return Rates(_seconds(per_call), _rate(bytes_per_second), _rate(operations_per_second))


def _samples(plain: Sequence[Any], number: Callable[[Any], float]) -> list[float]:
    if not plain:
        raise ValueError("measurements are missing")
    return [number(value) for value in plain][-_KEPT:]


def _seconds(value: Any) -> float:
    """0, too: clocks are coarse."""
    return 0.0 if value == 0 and value is not False else _rate(value)


def _rate(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError(f"{value!r} is not a number of seconds, bytes or operations")
    return float(value)
