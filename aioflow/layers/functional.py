"""Repeats calls of layers for other inputs: that is how a composed model is called, and built for training.

The calls are found by walking back from the outputs. Operations between layers, such as `x * 2.0`, are copied, if they
depend on the inputs; all others keep their results.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aioflow.graph.building import get_default_graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body, bodies_of
from aioflow.layers.calls import Call, made_by
from aioflow.layers.layer import Layer
from aioflow.library.branches import cond
from aioflow.library.loops import while_loop
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.dtypes import TensorShape

_Step = Call | Operation


class Composition:
    """The calls and operations that lead from some tensors to others, in an order in which they can be repeated."""

    def __init__(self, inputs: Iterable[Tensor], outputs: Iterable[Tensor], whole: bool = False) -> None:
        """Find them; with `whole` all that leads to the outputs, whether it depends on the inputs or not.

        ValueError if an output depends on another placeholder.
        """
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._steps = _steps_between(self._inputs, self._outputs, whole)

    @property
    def layers(self) -> list[Layer]:
        """The layers that are called, each once, sources first; also those inside branches and loops."""
        return list(dict.fromkeys([layer for step in self._steps for layer in _layers_of(step)]))

    def variables(self) -> list[Variable]:
        """The variables that a run of the outputs uses for given inputs, in the order in which they were made."""
        ends = {_key(tensor) for tensor in self._inputs}
        waiting = [output for output in self._outputs if _key(output) not in ends]
        found = {tensor.op for tensor in waiting}
        while waiting:
            new = [each for each in waiting.pop().op.inputs if _key(each) not in ends and each.op not in found]
            found.update(each.op for each in new)
            waiting += new
        graph = self._outputs[0].graph.root
        return [each for each in graph.get_collection(GraphKeys.GLOBAL_VARIABLES) if each.op in found]

    def with_variables(self, others: Mapping[Variable, Variable], inputs: Iterable[Tensor]) -> list[Tensor]:
        """The outputs for other inputs, with other variables in place of those that operations between layers read."""
        ends, new = [each.op.output for each in others], [each.op.output for each in others.values()]
        return Composition([*self._inputs, *ends], self._outputs).repeated([*inputs, *new])

    def repeated(self, inputs: Iterable[Tensor]) -> list[Tensor]:
        """The outputs for other inputs."""
        found = {_key(old): new for old, new in zip(self._inputs, inputs, strict=True)}
        for step in self._steps:
            old, new = _repeated(step, found)
            found.update({_key(each): made for each, made in zip(old, new, strict=True)})
        return [found.get(_key(output), output) for output in self._outputs]


def _key(tensor: Tensor) -> tuple[Operation, int]:
    return tensor.op, tensor.index


_Found = Mapping[tuple[Operation, int], Tensor]


def _repeated(step: _Step, found: _Found) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs of a step, and those of the same for the new inputs."""
    if isinstance(step, Call):
        return _repeat_call(step, found)
    again = _REPEATED.get(step.type) if _layers_of(step) else None
    return _copy(step, found) if again is None or step.attrs.get("replays") else again(step, found)


def _layers_of(step: _Step) -> list[Layer]:
    """The layers that a step calls: its own, or those in the branches or the body of a loop."""
    if isinstance(step, Call):
        return [step.layer]
    inside = [operation for body in bodies_of(step) for operation in body.graph.get_operations()]
    made = [made_by(output) or operation for operation in inside for output in operation.outputs]
    return [layer for each in dict.fromkeys(made) for layer in _layers_of(each)]


def _repeat_branches(operation: Operation, found: _Found) -> tuple[list[Tensor], list[Tensor]]:
    """A branch whose sides call layers: they are called again, so that each phase has the operations of its own."""
    given = [found.get(_key(tensor), tensor) for tensor in operation.inputs]

    def side(which: str) -> Callable[[], list[Tensor]]:
        body: Body = operation.attrs[which]
        inputs = [given[place] for place in body.takes]
        inside = Composition([*body.arguments, *_captured(operation, body, body.takes)], body.outputs, whole=True)
        return lambda: inside.repeated([*inputs, *inputs])

    return list(operation.outputs), cond(given[0], side("then"), side("otherwise"), strict=True)


def _repeat_loop(operation: Operation, found: _Found) -> tuple[list[Tensor], list[Tensor]]:
    """A loop whose body calls layers: it is built again from calls of them."""
    given = [found.get(_key(tensor), tensor) for tensor in operation.inputs]
    attrs = operation.attrs
    start, end = int(attrs["limited"]), int(attrs["limited"]) + attrs["variables"]

    def again(body: Body | None) -> Callable[..., Any]:
        if body is None:
            return lambda *variables: True
        places, count = body.takes, attrs["variables"] if body is attrs["body"] else 1
        outside = [place for place in places if place >= end]
        inside = Composition([*body.arguments, *_captured(operation, body, outside)], body.outputs[:count], whole=True)

        def repeated(*variables: Tensor) -> list[Tensor]:
            values = [*given[:start], *variables, *given[end:]]
            return inside.repeated([values[place] for place in [*places, *outside]])

        return repeated

    made = while_loop(
        again(attrs["condition"]), again(attrs["body"]), given[start:end],
        shape_invariants=_invariants(operation.inputs[start:end], attrs["body"].arguments, given[start:end]),
        parallel_iterations=attrs["parallel_iterations"], back_prop=attrs["back_prop"],
        swap_memory=attrs["swap_memory"], maximum_iterations=given[0] if start else None, return_same_structure=True,
    )  # fmt: skip
    return list(operation.outputs[: end - start]), made


def _invariants(first: Iterable[Tensor], arguments: Iterable[Tensor], given: Iterable[Tensor]) -> list[TensorShape]:
    """The shapes of loop variables in all iterations: those that the loop had where it gave others than at first."""
    variables = zip(first, arguments, given, strict=False)  # captures come after the variables
    return [now.shape if old.shape.sizes == each.shape.sizes else each.shape for old, each, now in variables]


def _captured(operation: Operation, body: Body, places: Iterable[int]) -> list[Tensor]:
    """The tensors at these inputs as the body has captured them, and layers in it were called with.

    In a nested body they may be those of a graph further out, of which the input is a capture itself.
    """
    captured = {made: source for source, made in body.graph.captures.items()}
    arguments = dict(zip(body.takes, body.arguments, strict=True))
    return [captured.get(arguments[place], operation.inputs[place]) for place in places]


_REPEATED: Final = {"cond": _repeat_branches, "while_loop": _repeat_loop}
"""What repeats an operation whose bodies call layers."""


def _repeat_call(call: Call, found: _Found) -> tuple[list[Tensor], list[Tensor]]:
    def now(value: Any) -> Any:
        return found.get(_key(value), value) if isinstance(value, Tensor) else value

    inputs = nest.map_structure(now, call.inputs)
    arguments = {name: nest.map_structure(now, value) for name, value in call.arguments.items()}
    outputs = call.layer(inputs, **arguments)
    return nest.flatten(call.outputs), nest.flatten(outputs)


def _copy(operation: Operation, found: _Found) -> tuple[list[Tensor], list[Tensor]]:
    graph, definition = get_default_graph(), operation.definition
    inputs = [graph.adopt(found.get(_key(tensor), tensor)) for tensor in operation.inputs]
    specs = definition.infer([tensor.spec for tensor in inputs], operation.attrs)
    copied = graph.add(definition, tuple(inputs), operation.attrs, specs, operation.name.rsplit("/", 1)[-1])
    copied.line = operation.line
    return list(operation.outputs), list(copied.outputs)


def _sources(step: _Step) -> list[Tensor]:
    if isinstance(step, Operation):
        return list(step.inputs)
    leaves = [*nest.flatten(step.inputs), *nest.flatten(dict(step.arguments))]
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _steps_between(inputs: list[Tensor], outputs: list[Tensor], whole: bool) -> list[_Step]:
    """The steps on the way, sources first. A walk without recursion, for models are deep."""
    ends = {_key(tensor) for tensor in inputs}
    on_the_way: dict[_Step, bool] = {}
    waiting = [(tensor, False) for tensor in reversed(outputs)]
    while waiting:
        tensor, sources_known = waiting.pop()
        step = made_by(tensor) or tensor.op
        if _key(tensor) in ends or step in on_the_way:
            continue
        sources = _sources(step)
        if not sources_known:
            waiting += [(tensor, True), *[(source, False) for source in sources]]
            continue
        _check_fed(step)
        on_the_way[step] = whole or any(
            _key(source) in ends or on_the_way.get(made_by(source) or source.op, False) for source in sources
        )
    return [step for step, needed in on_the_way.items() if needed]


def _check_fed(step: _Step) -> None:
    if isinstance(step, Operation) and step.definition.name == "placeholder":
        raise ValueError(f"the outputs depend on the placeholder {step.name!r}, which is not among the inputs")
