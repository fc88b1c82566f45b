"""Decides which values of a GPU's partition are in host memory, and inserts copies between the two memories.

Kernels of a GPU declare their inputs and outputs in host memory: sizes, axes, shapes. Predicates of branches and loops
are in host memory, too, since the host reads them. Small integers that start in host memory, such as loop counters,
are computed there by CPU kernels, without a launch, a copy or a wait. So are ops without a GPU kernel.

A value is copied at most once in each direction.

Copies of all feeds and fetches, so that one device can be where they come from and go to.
"""

import math
from collections.abc import Sequence
from typing import Final

from aioflow.graph.op import REGISTRY
from aioflow.kernels.control import transfer as transfer  # which registers the copies
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.passes.flow import Flow, Node, Value, is_back_edge, sweep
from aioflow.plan.passes.lower import lower
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DeviceKind, Spec

_SMALL: Final = 8
"""Elements: a shape has as many."""
_NUMBERS: Final = frozenset((dtypes.bool_, dtypes.int32, dtypes.int64))
_PREDICATE: Final = {"switch": 1, "loop_cond": 0}
"""The input of a primitive that the host must read."""


def memory_kinds(flow: Flow) -> Flow:
    """The flow of a GPU with its branches and loops lowered, and a copy for each value that another memory needs."""
    return _Kinds(lower(flow, lambda node: True)).flow()


def is_small(spec: Spec) -> bool:
    """Whether it is whole numbers or truths, few enough that the host has them sooner than a GPU would."""
    sizes = spec.sizes
    if spec.dtype not in _NUMBERS or sizes is None:
        return False
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and math.prod(known) <= _SMALL


class _Kinds:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._made: dict[Node, Node] = {}
        self._on_host: dict[Value, bool] = {Value(feed, 0): True for feed in flow.feeds}
        self._copied: dict[tuple[Value, bool], Value] = {}
        self._nodes: list[Node] = []
        self._readers: dict[Node, list[tuple[Node, int]]] = {}
        self._goes_to: dict[Node, Node] = {}
        for node in flow.nodes:
            for place, value in enumerate(node.inputs):
                self._readers.setdefault(value.node, []).append((node, place))
                if is_back_edge(value.node, node):
                    self._goes_to[value.node] = node

    def flow(self) -> Flow:
        """The flow with copies."""
        later = [node for node in self._flow.nodes if self._put(node)]
        for node in later:
            self._made[node].inputs = tuple([self._wanted(value, self._is_home(node)) for value in node.inputs])
        fetches = tuple([self._wanted(value, True, is_fetch=True) for value in self._flow.fetches])
        targets = tuple([self._made[node] for node in self._flow.targets])
        return Flow(self._nodes, tuple([self._made[feed] for feed in self._flow.feeds]), fetches, targets)

    def _put(self, node: Node) -> bool:
        """Decide where a node's values are. Whether one of its inputs is still to come."""
        cyclic = any(is_back_edge(source, node) for source, _ in node.inputs)
        before = [value for value in node.inputs if not is_back_edge(value.node, node)]
        if node.definition.name == "constant":
            self._made[node] = node
            return False
        home = self._runs_at_home(node, before)
        wants = self._wants(node, home)
        inputs = tuple([self._wanted(v, want) for v, want in zip(before, wants, strict=False)])
        controls = tuple(dict.fromkeys([self._anchor(control) for control in node.controls]))
        made = self._made[node] = node.with_edges(inputs, controls)
        made.at_home = home and node.definition.name not in PRIMITIVES
        if node.definition.name == "recv":
            made.attrs = {**made.attrs, "host": home}
        self._nodes.append(made)
        for index, there in enumerate(self._makes(node, home)):
            self._on_host[Value(node, index)] = there
        return cyclic

    # Where things are

    def _runs_at_home(self, node: Node, inputs: Sequence[Value]) -> bool:
        """Whether a node uses only host memory. A node that passes values on uses their memory."""
        name = node.definition.name
        if node in self._flow.feeds or name in ("placeholder", "pulse"):
            return True
        if name == "next_iteration":
            return self._on_host[Value(self._goes_to[node], 0)]
        if name == "recv":
            return is_small(node.output_specs[0]) or self._is_wanted_at_home(node)
        if name in PRIMITIVES:
            return name == "loop_cond" or (is_small(node.output_specs[0]) and self._starts_at_home(inputs[:1]))
        if name == "send":
            return self._starts_at_home(inputs)
        if node.definition.kernel_for(DeviceKind.GPU, node.input_specs, node.output_specs) is None:
            return True
        specs = [*node.input_specs, *node.output_specs]
        return node.pure and bool(specs) and all(map(is_small, specs)) and self._starts_at_home(inputs)

    def _starts_at_home(self, inputs: Sequence[Value]) -> bool:
        return any(self._is_there(value) for value in inputs)

    def _is_there(self, value: Value) -> bool:
        """Whether it is in host memory, as constants are that are small."""
        return is_small(value.spec) if value.node.definition.name == "constant" else self._on_host.get(value, False)

    def _is_home(self, node: Node) -> bool:
        return self._on_host[Value(node, 0)]

    def _is_wanted_at_home(self, node: Node) -> bool:
        """Whether all readers of a received value need it in host memory."""
        readers = self._readers.get(node, [])
        return bool(readers) and all(self._reads_at_home(reader, place) for reader, place in readers)

    def _reads_at_home(self, node: Node, place: int) -> bool:
        if node.definition.name in PRIMITIVES:
            return _PREDICATE.get(node.definition.name) == place
        return node.definition.host_inputs(len(node.inputs))[place]

    def _wants(self, node: Node, home: bool) -> Sequence[bool]:
        """Return for each input whether it must be in host memory."""
        if node.definition.name in PRIMITIVES:
            return [home or _PREDICATE.get(node.definition.name) == place for place in range(len(node.inputs))]
        return [True] * len(node.inputs) if home else node.definition.host_inputs(len(node.inputs))

    def _makes(self, node: Node, home: bool) -> Sequence[bool]:
        """For each output, whether it is in host memory."""
        count = len(node.output_specs)
        if node.definition.name == "merge":
            return [home, True]
        if home or node.definition.name in PRIMITIVES:
            return [home] * count
        return node.definition.host_outputs(count)

    # Copies

    def _anchor(self, node: Node) -> Node:
        if node.definition.name == "constant":
            return self._constant(node, True)
        return self._made[node]

    def _wanted(self, value: Value, home: bool, is_fetch: bool = False) -> Value:
        """The value in host memory, or in the GPU's. Of lists only those that are fed or fetched are copied."""
        if value.node.definition.name == "constant":
            return Value(self._constant(value.node, home), 0)
        made = Value(self._made[value.node], value.index)
        stays = value.spec.dtype is dtypes.resource and not (is_fetch or value.node in self._flow.feeds)
        if self._on_host[value] == home or stays:
            return made
        if (value, home) not in self._copied:
            op = REGISTRY["to_host" if home else "to_device"]
            name = f"{made.node.name}:{made.index} {'in host memory' if home else 'in its memory'}"
            copy = Node(made.node.operation, op, name, (made,), (), {}, [made.spec])
            self._nodes.append(copy)
            self._copied[value, home] = Value(copy, 0)
        return self._copied[value, home]

    def _constant(self, node: Node, home: bool) -> Node:
        """A constant is not copied but there twice."""
        value = Value(node, 0)
        if (value, home) not in self._copied:
            controls = tuple([self._anchor(control) for control in node.controls])
            made = node.with_edges((), controls)
            made.at_home = home
            self._nodes.append(made)
            self._copied[value, home] = Value(made, 0)
        return self._copied[value, home].node


def gathered(flow: Flow) -> tuple[Flow, frozenset[Node]]:
    """The flow whose feeds are read, and whose fetches are made, by copies alone; and these copies."""
    given = {feed: _copy(Value(feed, 0), "given") for feed in flow.feeds}
    twins = {node: node if node in given else node.with_edges((), ()) for node in flow.nodes}
    read_from = {**twins, **given}
    for node, twin in twins.items():
        if node not in given:
            twin.inputs = tuple([Value(read_from[source], index) for source, index in node.inputs])
            twin.controls = tuple([read_from[control] for control in node.controls])
    fetched = [
        _copy(Value(twins[source], index), f"fetched {place}") for place, (source, index) in enumerate(flow.fetches)
    ]
    targets = tuple([twins[node] for node in flow.targets])
    made = sweep(flow.feeds, tuple([Value(copy, 0) for copy in fetched]), targets)
    return made, frozenset([*given.values(), *fetched]).intersection(made.nodes)  # a feed may have no readers


def _copy(value: Value, what: str) -> Node:
    definition = REGISTRY["identity"]
    name = f"{value.node.name}:{value.index} {what}"
    return Node(value.node.operation, definition, name, (value,), (), {}, [value.spec])
