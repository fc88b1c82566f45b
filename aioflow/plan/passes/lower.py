"""Lowers structured control flow to primitives: Switch, Merge, Enter, Exit, NextIteration [P15 section 4.4].

A branch: each input passes a switch on the predicate, and each result a merge. A loop: each loop variable enters,
passes a merge with its value of the previous iteration, and a switch on the condition: out to the exit, or through the
body to the next iteration. Captures enter as loop invariants. The number of the iteration and the records are further
loop variables. If the body changes variables of the session, so is a turn: its users in one iteration wait until the
previous iteration has finished with it. A node with an effect that no used result needs becomes a source of all of
them, so that effects inside happen whichever result is used.

A node whose inputs are only constants or captures gets a control edge from the pivot of its branch or iteration.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.op import REGISTRY
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.passes.demand import is_loop, unneeded_effects
from aioflow.plan.passes.flow import Block, Flow, Node, Value, is_back_edge
from aioflow.plan.passes.order import Keys, inside, touched
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Spec

_INT: Final = Spec(dtypes.int32, SCALAR)
_BOOL: Final = Spec(dtypes.bool_, SCALAR)


def lower(flow: Flow, chosen: Callable[[Node], bool]) -> Flow:
    """The Flow with primitives for the branches and loops that are chosen, each with all those around it."""
    if not any(node.blocks and chosen(node) for node in flow.nodes):
        return flow
    return _Lowering(chosen).flow(flow)


@dataclasses.dataclass(slots=True)
class _Place:
    """Where nodes are put: in a branch or an iteration, or at the top, which has no pivot.

    Attributes:
        pivot: a node that is alive if the branch is taken, or the iteration runs.
        keys: the keys of the handles among the arguments.
        turn: the node that users of a handle in `changing` wait for.
        takers: these users.
    """

    pivot: Node | None = None
    keys: Keys = dataclasses.field(default_factory=dict)
    turn: Node | None = None
    changing: frozenset[Hashable] = frozenset()
    takers: list[Node] = dataclasses.field(default_factory=list)


class _Lowering:
    def __init__(self, chosen: Callable[[Node], bool]) -> None:
        self._chosen = chosen
        self._nodes: list[Node] = []
        self._moved: dict[Value, Value] = {}
        self._anchors: dict[Node, tuple[Node, ...]] = {}
        self._still: set[Node] = set()
        """The loop invariants: those of a structured loop, and of the loops around a lowered node."""
        self._framed = False
        """Whether some of the flow is in branches and loops already."""
        self._unneeded: dict[Block, set[Node]] = {}
        """For each block the nodes with an effect that no used value needs."""

    def flow(self, flow: Flow) -> Flow:
        """All of it."""
        self._framed = any(node.definition.name in PRIMITIVES for node in flow.nodes)
        self._unneeded = unneeded_effects(flow)
        self._put_all(flow.nodes, _Place())
        fetches = tuple([self._moved[value] for value in flow.fetches])
        targets = tuple(dict.fromkeys(anchor for node in flow.targets for anchor in self._anchors[node]))
        return Flow(self._nodes, flow.feeds, fetches, targets)

    def _effects(self, node: Node) -> list[set[Node]]:
        """Return for each branch, or the body, the nodes with effects that may have no reader."""
        return [self._unneeded[block] for block in (node.blocks[-1:] if is_loop(node) else node.blocks)]

    def _put_all(self, nodes: Iterable[Node], place: _Place) -> None:
        cyclic: list[Node] = []
        for node in nodes:
            controls = tuple(dict.fromkeys(anchor for control in node.controls for anchor in self._anchors[control]))
            taking = place.turn is not None and not place.changing.isdisjoint(touched(node, place.keys))
            if taking:
                assert place.turn is not None
                controls = (*controls, place.turn)
            if node.blocks and self._chosen(node):
                self._lowered(node, controls, place)
            else:
                self._kept(node, controls, place)
            if taking:
                place.takers += self._anchors[node]
            if any(is_back_edge(source, node) for source, _ in node.inputs):
                cyclic.append(node)
        for node in cyclic:
            self._anchors[node][0].inputs = tuple([self._moved[value] for value in node.inputs])

    def _kept(self, node: Node, controls: tuple[Node, ...], place: _Place) -> None:
        inputs = tuple([self._moved[value] for value in node.inputs if not is_back_edge(value.node, node)])
        same = inputs == node.inputs and controls == node.controls and place.pivot is None
        made = self._add(node if same else node.with_edges(inputs, controls), place)
        if place.pivot is None and node.definition.name == "enter" and node.attrs["is_constant"]:
            self._still.add(made)
        self._anchors[node] = (made,)
        self._moved.update({Value(node, index): Value(made, index) for index in range(len(node.output_specs))})

    def _add(self, node: Node, place: _Place) -> Node:
        """Put a node there; tied to the pivot if nothing else makes it wait for the branch or iteration."""
        constant = node.definition.name == "constant" and not node.controls
        loose = all(self._everywhere(source) for source in [*[source for source, _ in node.inputs], *node.controls])
        if place.pivot is not None and loose and not constant:
            node = node.with_edges(node.inputs, (*node.controls, place.pivot))
        self._nodes.append(node)
        return node

    def _everywhere(self, node: Node) -> bool:
        """Whether it is alive in every iteration and branch around, so in the last one, too, where all else is dead."""
        return node in self._still or (node.definition.name == "constant" and not node.controls)

    def _make(
        self, node: Node, op: str, part: str, inputs: Sequence[Value], place: _Place, *specs: Spec,
        controls: tuple[Node, ...] = (), **attrs: Any,
    ) -> Node:  # fmt: skip
        """A new node, in the name of a structured one."""
        name = f"{node.name}/{part}"
        made = Node(node.operation, REGISTRY[op], name, tuple(inputs), controls, attrs, list(specs))
        return self._add(made, place)

    def _constant(self, node: Node, part: str, value: Any) -> Value:
        return Value(self._make(node, "constant", part, (), _Place(), _INT, value=np.asarray(value)), 0)

    def _tied(self, node: Node, part: str, value: Value, place: _Place) -> Value:
        """`value` as one of that branch or iteration alone."""
        if not self._everywhere(value.node):
            return value
        return Value(self._make(node, "identity", part, [value], place, value.spec), 0)

    def _lowered(self, node: Node, controls: tuple[Node, ...], place: _Place) -> None:
        if self._framed and place.pivot is None:  # it may be in a branch or loop that was lowered before
            place = dataclasses.replace(place, pivot=self._pivot(node, controls))
        if node.definition.name == "cond":
            self._branch(node, controls, place)
        else:
            _Loop(self, node, controls, place).lower()

    def _pivot(self, node: Node, controls: Iterable[Node]) -> Node | None:
        """Return a node that is alive if the branch or iteration of `node` is; None if it waits for nothing."""
        inputs = [self._moved[value] for value in node.inputs]
        switched = next((value for value in inputs if value.node.definition.name == "switch"), None)
        sources = [*controls, *[source for source, _ in inputs if source.definition.name != "switch"]]
        sources = [source for source in sources if not self._everywhere(source)]
        if switched is None or sources:
            return next(iter(sources), None)
        # not the switch itself, which has run, whichever of its outputs is dead
        return self._make(node, "identity", "pivot", [switched], _Place(), switched.spec)

    # Branches

    def _branch(self, node: Node, controls: tuple[Node, ...], place: _Place) -> None:
        pred, *given = [self._moved[value] for value in node.inputs]
        choice = self._make(node, "switch", "choice", [pred, pred], place, _BOOL, _BOOL, controls=controls)
        switched = [self._switched(node, index, value, pred, controls, place) for index, value in enumerate(given)]
        made: list[list[Value]] = []
        effects = self._effects(node)
        for block, port, some in zip(node.blocks, (1, 0), effects, strict=True):
            pivot = self._make(node, "identity", f"pivot{port}", [Value(choice, port)], _Place(), _BOOL)
            there = _Place(pivot, inside(node, block, place.keys))
            for index, argument in block.arguments.items():
                source = switched[index - 1]
                self._moved[Value(argument, 0)] = source if isinstance(source, Value) else Value(source, port)
            self._put_all((each for each in block.flow.nodes if each not in block.flow.feeds), there)
            outputs = [self._moved[value] for value in block.flow.fetches]
            made.append([self._tied(node, f"out{port}_{i}", value, there) for i, value in enumerate(outputs)])
            if any(effects):
                done = tuple([a for each in block.flow.nodes if each in some for a in self._anchors[each]])
                after = self._make(node, "identity", f"done{port}", [Value(pivot, 0)], _Place(), _BOOL, controls=done)
                made[-1].append(Value(after, 0))
        specs = [*node.output_specs, *([_BOOL] if any(effects) else [])]
        merges = [
            self._make(node, "merge", f"merge{i}", [no, yes], _Place(), specs[i], _INT)
            for i, (yes, no) in enumerate(zip(*made, strict=True))
        ]
        self._anchors[node] = tuple(merges) or (choice,)
        count = len(node.output_specs)
        self._give(node, merges[:count], merges[count:], place)

    def _give(self, node: Node, results: Sequence[Node], done: Sequence[Node], place: _Place) -> None:
        """Replace the outputs of a structured node by `results`. Their readers also wait for the effects in `done`."""
        for index, result in enumerate(results):
            made, spec = result, node.output_specs[index]
            if done:
                inputs = [Value(result, 0)]
                made = self._make(node, "identity", f"result{index}", inputs, place, spec, controls=tuple(done))
            self._moved[Value(node, index)] = Value(made, 0)

    def _switched(
        self, node: Node, index: int, value: Value, pred: Value, controls: tuple[Node, ...], place: _Place
    ) -> Value | Node:
        """The switch that a value passes; the value itself if it is a constant."""
        if value.node.definition.name == "constant" and not value.node.controls:
            return value
        specs = value.spec, value.spec
        return self._make(node, "switch", f"switch{index}", [value, pred], place, *specs, controls=controls)


class _Loop:
    """The lowering of one loop. Its variables here are the number of the iteration, the user's, records, a turn."""

    def __init__(self, lowering: _Lowering, node: Node, controls: tuple[Node, ...], place: _Place) -> None:
        attrs = node.attrs
        self._lowering = lowering
        self._node = node
        self._controls = controls
        self._place = place
        self._first = int(attrs["limited"])
        self._count: int = attrs["variables"]
        self._replays: int = attrs["replays"]
        *conditions, self._body = node.blocks
        self._condition = conditions[0] if conditions else None
        self._entered: dict[int, Value] = {}
        self._inside = inside(node, self._body, place.keys)
        touches: dict[Hashable, bool] = touched(node, place.keys)
        self._changing = frozenset(key for key, changes in touches.items() if changes)
        (self._effects,) = lowering._effects(node)
        self._turns = bool(self._changing or self._effects)

    def lower(self) -> None:
        """Put its nodes."""
        lowering, node = self._lowering, self._node
        zero, self._one = lowering._constant(node, "zero", np.int32(0)), lowering._constant(node, "one", np.int32(1))
        starts = [zero, *[lowering._moved[node.inputs[self._first + index]] for index in range(self._count)]]
        specs = [_INT, *[self._spec_of(index) for index in range(self._count)]]
        for index, spec in enumerate(node.output_specs[self._count + 1 :]):
            part = f"record{index}"
            starts.append(Value(lowering._make(node, "no_records", part, (), self._place, spec), 0))
            specs.append(spec)
        if self._turns:
            starts.append(zero)
            specs.append(_INT)
        pairs = enumerate(zip(starts, specs, strict=True))
        self._merges = [self._enter_variable(index, *pair) for index, pair in pairs]
        test = self._lower_condition()
        self._switches = [
            lowering._make(node, "switch", f"switch{i}", [Value(merge, 0), test], _Place(), spec, spec)
            for i, (merge, spec) in enumerate(zip(self._merges, specs, strict=True))
        ]
        self._lower_body(specs)
        self._leave(specs)

    def _spec_of(self, index: int) -> Spec:
        argument = self._body.arguments.get(self._first + index)
        return self._node.output_specs[index] if argument is None else argument.output_specs[0]

    def _enter(self, part: str, value: Value, constant: bool) -> Value:
        attrs = {
            "frame_name": self._node.name,
            "is_constant": constant,
            "parallel_iterations": self._node.attrs["parallel_iterations"],
        }
        made = self._lowering._make(
            self._node, "enter", part, [value], self._place, value.spec, controls=self._controls, **attrs
        )
        return Value(made, 0)

    def _enter_variable(self, index: int, start: Value, spec: Spec) -> Node:
        entered = self._enter(f"enter{index}", start, constant=False)
        return self._lowering._make(self._node, "merge", f"merge{index}", [entered], _Place(), spec, _INT)

    def _captured(self, place: int) -> Value:
        """An input that is the same in every iteration, inside."""
        value = self._lowering._moved[self._node.inputs[place]]
        if value.node.definition.name == "constant" and not value.node.controls:
            return value
        if place not in self._entered:
            entered = self._entered[place] = self._enter(f"capture{place}", value, constant=True)
            self._lowering._still.add(entered.node)
        return self._entered[place]

    def _bind_arguments(self, block: Block, variables: Sequence[Value], place: _Place) -> None:
        last = self._first + self._count
        for number, argument in block.arguments.items():
            if number < last:
                value = variables[1 + number - self._first]
            elif number < last + self._replays:
                inputs = [self._captured(number), variables[0]]
                spec = argument.output_specs[0]
                value = Value(self._lowering._make(self._node, "replayed", f"replay{number}", inputs, place, spec), 0)
            else:
                value = self._captured(number)
            self._lowering._moved[Value(argument, 0)] = value

    def _lower_condition(self) -> Value:
        """The truth on which the loop goes on."""
        lowering, node = self._lowering, self._node
        counter = self._merges[0]
        place = _Place(counter, inside(node, self._condition, self._place.keys) if self._condition else {})
        place.turn, place.changing = self._merges[-1], self._changing
        asked: list[Value] = []
        if self._first:
            inputs = [Value(counter, 0), self._captured(0)]
            asked.append(Value(lowering._make(node, "less", "within", inputs, place, _BOOL), 0))
        if self._condition is not None:
            self._bind_arguments(self._condition, [Value(merge, 0) for merge in self._merges], place)
            feeds = self._condition.flow.feeds
            lowering._put_all((each for each in self._condition.flow.nodes if each not in feeds), place)
            asked.append(lowering._tied(node, "asked", lowering._moved[self._condition.flow.fetches[0]], place))
        if len(asked) > 1:
            asked = [Value(lowering._make(node, "logical_and", "both", asked, place, _BOOL), 0)]
        return Value(lowering._make(node, "loop_cond", "loop_cond", asked, place, _BOOL), 0)

    def _lower_body(self, specs: Sequence[Spec]) -> None:
        lowering, node, body = self._lowering, self._node, self._body
        pivot = lowering._make(node, "identity", "pivot", [Value(self._switches[0], 1)], _Place(), _INT)
        place = _Place(pivot, self._inside)
        if self._turns:
            place.turn = lowering._make(node, "identity", "turn", [Value(self._switches[-1], 1)], _Place(), _INT)
            place.changing = self._changing
        variables = [Value(switch, 1) for switch in self._switches]
        self._bind_arguments(body, variables, place)
        lowering._put_all((each for each in body.flow.nodes if each not in body.flow.feeds), place)
        outputs = [lowering._tied(node, f"out{i}", lowering._moved[v], place) for i, v in enumerate(body.flow.fetches)]
        following = [Value(lowering._make(node, "add", "count", [variables[0], self._one], place, _INT), 0)]
        following += outputs[: self._count]
        swap = {"swap_memory": node.attrs["swap_memory"]}
        for index, value in enumerate(outputs[self._count :]):
            inputs = [variables[1 + self._count + index], value]
            spec = specs[1 + self._count + index]
            following.append(
                Value(lowering._make(node, "recorded", f"recorded{index}", inputs, place, spec, **swap), 0)
            )
        if place.turn is not None:
            effects = [a for each in body.flow.nodes if each in self._effects for a in lowering._anchors[each]]
            done = tuple(dict.fromkeys([*place.takers, *effects]))
            made = lowering._make(node, "identity", "turned", [Value(place.turn, 0)], place, _INT, controls=done)
            following.append(Value(made, 0))
        for index, (merge, value, spec) in enumerate(zip(self._merges, following, specs, strict=True)):
            again = lowering._make(node, "next_iteration", f"next{index}", [value], place, spec)
            merge.inputs = (*merge.inputs, Value(again, 0))

    def _leave(self, specs: Sequence[Spec]) -> None:
        lowering, node = self._lowering, self._node
        ends = [_INT, *node.output_specs[: self._count], *specs[1 + self._count :]]
        exits = [
            lowering._make(node, "exit", f"exit{i}", [Value(switch, 0)], _Place(), spec)
            for i, (switch, spec) in enumerate(zip(self._switches, ends, strict=True))
        ]
        results = [*exits[1 : 1 + self._count], exits[0], *exits[1 + self._count :]]
        lowering._anchors[node] = tuple(exits)
        done = exits[-1:] if self._effects else []
        lowering._give(node, results[: len(node.output_specs)], done, self._place)
