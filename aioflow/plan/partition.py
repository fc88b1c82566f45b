"""Splits a placed flow into one partition per device, joined only by the rendezvous [P15 sections 3.2.2, 4.4].

A value is sent once to each other device that reads it, however many nodes read it there. A control edge sends a signal
that the node has run. Feeds, constants and loop invariants are not sent but repeated on each device.

A loop may span devices, and its frame must run the same iterations on each. So on a device that has none of its loop
variables, or that receives a value inside, a small control loop runs as many iterations:

    enter(0) -> merge -> switch(loop_cond) -> next_iteration -> merge

Every `recv` inside a frame waits for that merge, and so runs once in each iteration, as its `send` does. It does not
wait for the merge of a loop variable, which may be late and hold up independent nodes.
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.graph.op import REGISTRY
from aioflow.kernels.control import transfer as transfer  # which registers them
from aioflow.plan.frame_levels import ROOT, Levels, is_known, role_of
from aioflow.plan.guards import Guards
from aioflow.plan.passes.compress import Compression, decoding, encoding, same_task
from aioflow.plan.passes.flow import Flow, Node, Value, has_primitives, is_back_edge
from aioflow.plan.passes.loop_sections import BODY, CONDITION, LoopSections, by_frames
from aioflow.plan.placement.colocation import is_everywhere
from aioflow.rendezvous import CREDIT, PUSHED, TOGETHER
from aioflow.tensors import dtypes
from aioflow.tensors.codecs import Codec
from aioflow.tensors.dtypes import SCALAR, ResourceSpec, Spec

_BEFORE: Final = 0.2
_AFTER: Final = 0.1
"""The place in the order of nodes of a node that is made for another one, relative to that one."""
_AT_BEGIN: Final = -0.5
_AT_END: Final = 0.5
"""The places of nodes that are made for a frame, relative to its first and its last node."""
_SMALL: Final = 1 << 10
"""Bytes. Smaller values are pushed to other tasks."""
_LARGE: Final = 1 << 20
"""Bytes. Smaller values are requested together, if they are not pushed."""
_PUSHED: Final = 8 << 20
"""Bytes that wait at a task in a step, at most, in pushed values that are not small: those that come before its share
begins, and in a loop those of the iterations by which the sender is ahead."""
_INT: Final = Spec(dtypes.int32, SCALAR)
_BOOL: Final = Spec(dtypes.bool_, SCALAR)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The partition of one device.

    Attributes:
        device: the name of the device.
        flow: its nodes, with a `send` or `recv` for each value between devices.
        feeds: the positions of its feeds among those of the call.
        fetches: the positions of its fetches among those of the call.
    """

    device: str
    flow: Flow
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]


def partition(
    flow: Flow, devices: Mapping[Node, str], incarnations: Mapping[str, int], compression: Compression
) -> list[Part]:
    """Return the partitions of a placed flow, in the order in which their first nodes were built.

    Args:
        flow: the flow, with primitives for control flow that spans devices.
        devices: the device of each node, except of repeated ones.
        incarnations: the number of each device that distinguishes it from an earlier one of its name.
        compression: the lossy codecs of values.
    """
    places = rehomed(flow, devices)
    names = list(dict.fromkeys(places[node] for node in flow.nodes if not is_everywhere(node)))
    if len(names) <= 1:
        (name,) = names or list(incarnations)[:1]
        return [Part(name, flow, tuple(range(len(flow.feeds))), tuple(range(len(flow.fetches))))]
    return _Partition(flow, places, incarnations, compression).parts(names)


def rehomed(flow: Flow, devices: Mapping[Node, str]) -> dict[Node, str]:
    """Return the devices of nodes, with all primitives of one loop variable on one device."""
    places = {node: place for node, place in devices.items() if not is_everywhere(node)}
    for node in flow.nodes:
        if role_of(node) == "merge" and any(is_back_edge(source, node) for source, _ in node.inputs):
            places.update({source: places[node] for source, _ in node.inputs if not is_everywhere(source)})
    for node in flow.nodes:
        if role_of(node) in ("switch", "exit") and role_of(node.inputs[0].node) in ("merge", "switch"):
            places[node] = places[node.inputs[0].node]
    return places


class _Copy(NamedTuple):
    """A node on a device; parts are in the order of `order`."""

    order: float
    node: Node


class _Route(NamedTuple):
    """The way of a value from device to device: in a frame, and in a section of its iterations."""

    home: str
    place: str
    level: int
    section: str


class _Partition:
    def __init__(
        self, flow: Flow, places: Mapping[Node, str], incarnations: Mapping[str, int], compression: Compression
    ) -> None:
        self._compression = compression
        self._flow = flow
        self._places = dict(places)
        self._incarnations = incarnations
        self._levels = Levels(flow.nodes, {Value(node, 0) for node in flow.nodes if is_known(node)})
        arranged = by_frames(flow.nodes, self._levels)
        self._nodes = flow.nodes if arranged is None else arranged
        self._order = {node: float(index) for index, node in enumerate(self._nodes)}
        self._begins, self._ends = self._places_of_frames()
        self._guards = Guards(self._nodes)
        self._sections = LoopSections(self._nodes, self._levels, apart=arranged is not None)
        self._copies: dict[str, list[_Copy]] = {}
        self._moved: dict[tuple[Node, str], Node] = {}
        self._received: dict[tuple[Value, str], Node] = {}
        self._lossy: dict[tuple[Value, Codec], Value] = {}
        self._numbers = itertools.count()
        self._pulses: dict[Node, Value] = {}
        self._joins: dict[frozenset[Node], Node] = {}
        self._sends: dict[str, list[Node]] = {}
        self._pushed: Counter[str] = Counter()
        """Bytes of values that are not small and are pushed, by the task that receives them."""
        self._inside: dict[tuple[int, str, str], list[tuple[Node, Node]]] = {}
        """By frame, source and target, the transfers in each iteration."""
        self._running: set[tuple[int, str]] = set()
        self._merges: dict[tuple[int, str], Node] = {}
        self._rounds: list[tuple[int, str, Node]] = []
        self._handmade = has_primitives(flow)

    def parts(self, names: Sequence[str]) -> list[Part]:
        """Split it."""
        cyclic = [node for node in self._nodes if not is_everywhere(node) and self._put(node)]
        for node in self._nodes:
            if not is_everywhere(node) and (self._levels.inside[node], self._places[node]) not in self._running:
                self._pivot(self._levels.inside[node], self._places[node])
        for node in cyclic:
            place = self._places[node]
            inputs = tuple([self._value(value, place, self._order[node]) for value in node.inputs])
            self._moved[node, place].inputs = inputs
        self._end_rounds()
        for (level, source, target), transfers in list(self._inside.items()):
            if (level, target, source) not in self._inside:
                self._limit(level, source, target, transfers)
        self._end_rounds()
        fetches = [(self._fetched_on(value, names[0]), value) for value in self._flow.fetches]
        return [self._part(name, fetches) for name in names]

    def _part(self, name: str, fetches: Sequence[tuple[str, Value]]) -> Part:
        chosen = [index for index, (place, _) in enumerate(fetches) if place == name]
        values = tuple([self._value(fetches[index][1], name, 0.0) for index in chosen])
        targets = [self._moved[node, name] for node in self._flow.targets if self._places.get(node) == name]
        nodes = [copy.node for copy in sorted(self._copies[name], key=lambda copy: copy.order)]
        feeds = [index for index, feed in enumerate(self._flow.feeds) if (feed, name) in self._moved]
        flow = Flow(
            nodes, tuple([self._flow.feeds[index] for index in feeds]), values, (*targets, *self._sends.get(name, ()))
        )
        return Part(name, flow, tuple(feeds), tuple(chosen))

    def _fetched_on(self, value: Value, first: str) -> str:
        return first if is_everywhere(value.node) else self._places[value.node]

    # Nodes

    def _put(self, node: Node) -> bool:
        """Put a node on its device. Whether its inputs are still to be given, for some come later."""
        place, order = self._places[node], self._order[node]
        cyclic = any(is_back_edge(source, node) for source, _ in node.inputs)
        before = [value for value in node.inputs if not is_back_edge(value.node, node)]
        inputs = tuple([self._value(value, place, order) for value in before])
        controls = [self._control(control, place, order) for control in self._joined(node)]
        made = node.with_edges(inputs, tuple(dict.fromkeys(each for each in controls if each is not None)))
        self._add(place, order, made)
        self._moved[node, place] = made
        if cyclic:
            self._running.add((self._levels.inside[node], place))
        return cyclic

    def _add(self, place: str, order: float, node: Node) -> Node:
        self._copies.setdefault(place, []).append(_Copy(order, node))
        return node

    def _make(
        self, of: Node, place: str, order: float, op: str, name: str, inputs: tuple[Value, ...],
        controls: Iterable[Node], specs: Sequence[Spec], **attrs: Any,
    ) -> Node:  # fmt: skip
        node = Node(of.operation, REGISTRY[op], name, inputs, tuple(controls), attrs, list(specs))
        return self._add(place, order, node)

    # Edges

    def _value(self, value: Value, place: str, order: float) -> Value:
        """Return the value that represents `value` on a device."""
        node = value.node
        if is_everywhere(node):
            if (node, place) not in self._moved:
                self._moved[node, place] = self._add(place, self._order[node], node)
            return Value(node, 0)
        if self._places[node] == place:
            return Value(self._moved[node, place], value.index)
        if role_of(node) == "enter" and node.attrs["is_constant"]:
            return Value(self._entered(node, place, order), 0)
        if role_of(node) == "loop_cond":
            return Value(self._governed(node, place, order), 0)
        return Value(self._receive(value, place, order), 0)

    def _governed(self, node: Node, place: str, order: float) -> Node:
        """Return the node that decides on this device whether the loop continues."""
        if (node, place) not in self._moved:
            received = Value(self._receive(Value(node, 0), place, order), 0)
            name = f"{node.name} on {place}"
            before = order - _BEFORE
            self._moved[node, place] = self._make(node, place, before, "loop_cond", name, (received,), (), [_BOOL])
        return self._moved[node, place]

    def _entered(self, node: Node, place: str, order: float) -> Node:
        """Repeat the `enter` of a loop invariant on this device."""
        if (node, place) not in self._moved:
            inputs = (self._value(node.inputs[0], place, order),)
            controls = [self._control(control, place, order) for control in node.controls]
            made = node.with_edges(inputs, tuple([each for each in controls if each is not None]))
            self._moved[node, place] = self._add(place, order - 0.1, made)
        return self._moved[node, place]

    def _joined(self, node: Node) -> list[Node]:
        """The nodes to wait for: one that waits for all on another device, where that saves messages."""
        place = self._places[node]
        if self._levels.inside[node] != ROOT or len(node.controls) < 2:
            return list(node.controls)
        found: dict[str, list[Node]] = {}
        for control in node.controls:
            found.setdefault(place if self._is_known_on(control, place) else self._places[control], []).append(control)
        near = found.pop(place, [])
        return near + [each[0] if len(each) == 1 else self._join(each, home) for home, each in found.items()]

    def _is_known_on(self, node: Node, place: str) -> bool:
        """Whether the device need not be told that a node has run."""
        if is_everywhere(node) or self._places[node] == place or self._levels.beyond[node] != ROOT:
            return True
        values = [Value(node, index) for index in range(len(node.output_specs))]
        return any((value, place) in self._received for value in (*values, self._pulses.get(node)))

    def _join(self, nodes: Sequence[Node], home: str) -> Node:
        """A node that has run when these nodes of a device have."""
        key = frozenset(nodes)
        if key not in self._joins:
            last = max(nodes, key=self._order.__getitem__)
            after = self._order[last] + _AFTER
            name = f"{last.name} and {len(nodes) - 1} before it"
            made = self._make(last, home, after, "no_op", name, (), [self._moved[node, home] for node in nodes], [])
            self._joins[key] = self._moved[made, home] = made
            self._places[made], self._order[made] = home, after
            self._levels.inside[made] = self._levels.beyond[made] = ROOT
        return self._joins[key]

    def _control(self, node: Node, place: str, order: float) -> Node | None:
        """Return the node to wait for on a device instead of `node`; None if there is none."""
        if is_everywhere(node):
            return None
        if self._places[node] == place:
            return self._moved[node, place]
        if role_of(node) != "switch":  # which has run, though one of its values is dead
            for index in range(len(node.output_specs)):
                if (Value(node, index), place) in self._received:
                    return self._received[Value(node, index), place]
        if node not in self._pulses:
            home, after = self._places[node], self._order[node] + _AFTER
            made = self._make(node, home, after, "pulse", f"{node.name} done", (), (self._moved[node, home],), [_BOOL])
            self._pulses[node] = Value(made, 0)
        return self._receive(self._pulses[node], place, order, node)

    def _receive(self, value: Value, place: str, order: float, pulses_for: Node | None = None) -> Node:
        """Send a value, and return the `recv` on another device, or the decoder behind it."""
        if (value, place) not in self._received:
            origin = pulses_for or value.node
            home = self._places[origin]
            there = value if pulses_for else Value(self._moved[origin, home], value.index)
            codec = self._compression.codec_for(value, home, place)
            sent = there if codec is None else self._encoded(there, codec, origin)
            guard = self._guards.after(origin) if pulses_for else self._guards.of(value)
            made = self._moved_to(sent, origin, place, order, bool(guard))
            if codec is not None:
                made = self._add(place, order - _BEFORE, decoding(Value(made, 0), there, codec, home, place))
            self._received[value, place] = made
        return self._received[value, place]

    def _encoded(self, value: Value, codec: Codec, origin: Node) -> Value:
        """A value in its lossy form, made once on its device."""
        if (value, codec) not in self._lossy:
            home = self._places[origin]
            for node in encoding(value, codec, home, self._compression.container):
                self._add(home, self._order[origin] + _AFTER, node)
            self._lossy[value, codec] = Value(node, 0)
        return self._lossy[value, codec]

    def _moved_to(self, value: Value, origin: Node, place: str, order: float, guarded: bool) -> Node:
        """The `recv` of a value, with its `send`. A guarded value is dead in some branch."""
        home, level = self._places[origin], self._levels.beyond[origin]
        route = _Route(home, place, level, self._sections.of(origin))
        sent, received = self._transfer(value, origin, route, self._order[origin] + _AFTER, order - _BEFORE, guarded)
        if level != ROOT:
            self._inside.setdefault((level, home, place), []).append((sent, received))
        return received

    def _transfer(
        self, value: Value, origin: Node, route: "_Route", after: float, before: float, guarded: bool, window: int = 0
    ) -> tuple[Node, Node]:
        """The `send` of a value, and its `recv`, at their places in the order of nodes."""
        home, place, level, section = route
        name = f"{value.node.name}:{value.index}"
        how = "" if same_task(home, place) else self._way(value.spec, home, place, self._levels.beyond[origin])
        key = {
            "edge": f"{how}{CREDIT if window else ''}{next(self._numbers)} {name}",
            "source": home,
            "incarnation": self._incarnations[home],
            "target": place,
            "window": window,
        }
        sent = self._make(
            origin, home, after, "send", f"{name} to {place}", (value,), (), (), section=section, position=after, **key
        )
        self._sends.setdefault(home, []).append(sent)
        pivot = self._pivot(level, place)
        spec, mortal = value.spec, self._handmade or guarded or pivot is not None
        more = {"shape": spec.shape, "mortal": mortal, "guarded": guarded, "host": False, **key}
        if window:
            more["section"] = self._sections.at(level, CONDITION)
        received = self._make(
            origin, place, before, "recv", f"{name} on {place}", (), () if pivot is None else (pivot,), [spec],
            **{"dtype": spec.dtype, "section": section, "position": before if section else after} | more,
        )  # fmt: skip
        received.sized = [value.planned_spec]
        return sent, received

    def _limit(self, level: int, source: str, target: str, transfers: Sequence[tuple[Node, Node]]) -> None:
        """Let the source of values be at most as many iterations ahead of a target as may run at the same time.

        Run node by node, a device may be twice as far ahead: further iterations begin while the oldest one waits.
        """
        like, (begin, end) = self._first("enter", level), (self._begins[level] + _AT_BEGIN, self._ends[level] + _AT_END)
        received = tuple([node for _, node in transfers])
        last = BODY if any(node.attrs["section"].endswith(BODY) for node in received) else CONDITION
        name = f"{self._levels.names[level]}/received on {target}"
        signal = self._make(like, target, end + _AFTER, "pulse", name, (), received, [_BOOL])
        route = _Route(target, source, level, self._sections.at(level, last))
        places = end + 2 * _AFTER, begin + _AFTER
        _, credit = self._transfer(Value(signal, 0), like, route, *places, False, self._levels.parallel[level])
        for sent, _ in transfers:
            sent.controls = (*sent.controls, credit)

    def _way(self, spec: Spec, home: str, place: str, level: int) -> str:
        """How a value goes to another task: pushed, requested together with others, or requested alone."""
        nbytes = _known_bytes(spec)
        if nbytes <= _SMALL:
            return PUSHED
        if nbytes > _LARGE:
            return ""
        task = place.partition("/device:")[0]
        kept = int(nbytes) * self._most_kept(level)
        if self._pushed[task] + kept > _PUSHED:
            return TOGETHER
        self._pushed[task] += kept
        return PUSHED

    def _most_kept(self, level: int) -> int:
        """The most values of an edge that wait for their receiver: a device is so far ahead in the loops around."""
        count = 1
        while level != ROOT:
            count *= 2 * self._levels.parallel[level]
            level = self._levels.parents[level]
        return count

    # Frames

    def _places_of_frames(self) -> tuple[dict[int, float], dict[int, float]]:
        """The places of the first node and of the last one of each frame, with the frames in it."""
        begins: dict[int, float] = {}
        ends: dict[int, float] = {}
        for node, order in self._order.items():
            level = self._levels.beyond[node] if role_of(node) == "enter" else self._levels.inside[node]
            while level != ROOT:
                begins.setdefault(level, order)
                ends[level], level = order, self._levels.parents[level]
        return begins, ends

    def _pivot(self, level: int, place: str) -> Node | None:
        """Return a node that runs once in each iteration of a frame on a device; None for the step itself."""
        if level == ROOT:
            return None
        if (level, place) not in self._merges:
            self._merges[level, place] = self._begin_round(level, place)
        return self._merges[level, place]

    def _begin_round(self, level: int, place: str) -> Node:
        """The beginning of a small loop that makes the frame have its iterations on a device."""
        like, order = self._first("enter", level), self._begins[level] + _AT_BEGIN
        outer = self._pivot(self._levels.inside[like], place)
        name = f"{self._levels.names[level]}/round on {place}"
        zero = self._make(like, place, order, "constant", f"{name}/zero", (), (), [_INT], value=np.zeros((), np.int32))
        attrs = {
            "frame_name": self._levels.names[level],
            "is_constant": False,
            "parallel_iterations": self._levels.parallel[level],
        }
        controls = () if outer is None else (outer,)
        enter = self._make(like, place, order, "enter", f"{name}/enter", (Value(zero, 0),), controls, [_INT], **attrs)
        merge = self._make(like, place, order, "merge", f"{name}/merge", (Value(enter, 0),), (), [_INT, _INT])
        self._rounds.append((level, place, merge))
        return merge

    def _end_rounds(self) -> None:
        while self._rounds:
            self._end_round(*self._rounds.pop())

    def _end_round(self, level: int, place: str, merge: Node) -> None:
        """The rest of it: it goes round as long as the loop does."""
        governor, end = self._first("loop_cond", level), self._ends[level] + _AT_END
        name = merge.name.removesuffix("/merge")
        inputs = (Value(merge, 0), self._value(Value(governor, 0), place, end))
        switch = self._make(governor, place, end, "switch", f"{name}/switch", inputs, (), [_INT, _INT])
        again = self._make(governor, place, end, "next_iteration", f"{name}/next", (Value(switch, 1),), (), [_INT])
        merge.inputs = (*merge.inputs, Value(again, 0))

    def _first(self, role: str, level: int) -> Node:
        """A primitive of that kind whose outputs are in a frame."""
        return next(node for node in self._nodes if role_of(node) == role and self._levels.beyond[node] == level)


def _known_bytes(spec: Spec) -> float:
    """The bytes of values of a Spec; infinite if they differ from value to value."""
    sizes = spec.sizes
    if isinstance(spec, ResourceSpec) or sizes is None or spec.dtype.np.hasobject:
        return math.inf
    known = [size for size in sizes if size is not None]
    return math.prod(known) * spec.dtype.np.itemsize if len(known) == len(sizes) else math.inf
