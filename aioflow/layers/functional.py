"""Repeats calls of layers for other inputs: that is how a composed model is called, and built for training.

The calls are found by walking back from the outputs. Operations between layers, such as `x * 2.0`, are copied, if they
depend on the inputs; all others keep their results.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from aioflow.graph.operation import Operation, Tensor
from aioflow.layers.calls import Call, made_by
from aioflow.layers.layer import Layer
from aioflow.tensors import nest

_Step = Call | Operation


class Composition:
    """The calls and operations that lead from some tensors to others, in an order in which they can be repeated."""

    def __init__(self, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> None:
        """Find them. ValueError if an output does not depend on the inputs alone."""
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._steps = _steps_between(self._inputs, self._outputs)

    @property
    def layers(self) -> list[Layer]:
        """The layers that are called, each once, sources first."""
        return list(dict.fromkeys([step.layer for step in self._steps if isinstance(step, Call)]))

    def repeated(self, inputs: Iterable[Tensor]) -> list[Tensor]:
        """The outputs for other inputs."""
        found = {_key(old): new for old, new in zip(self._inputs, inputs, strict=True)}
        for step in self._steps:
            old, new = _repeat_call(step, found) if isinstance(step, Call) else _copy(step, found)
            found.update({_key(each): made for each, made in zip(old, new, strict=True)})
        return [found.get(_key(output), output) for output in self._outputs]


def _key(tensor: Tensor) -> tuple[Operation, int]:
    return tensor.op, tensor.index


_Found = Mapping[tuple[Operation, int], Tensor]


def _repeat_call(call: Call, found: _Found) -> tuple[list[Tensor], list[Tensor]]:
    def now(value: Any) -> Any:
        return found.get(_key(value), value) if isinstance(value, Tensor) else value

    inputs = nest.map_structure(now, call.inputs)
    arguments = {name: nest.map_structure(now, value) for name, value in call.arguments.items()}
    outputs = call.layer(inputs, **arguments)
    return nest.flatten(call.outputs), nest.flatten(outputs)


def _copy(operation: Operation, found: _Found) -> tuple[list[Tensor], list[Tensor]]:
    inputs = [found.get(_key(tensor), tensor) for tensor in operation.inputs]
    graph, definition = operation.graph, operation.definition
    specs = definition.infer([tensor.spec for tensor in inputs], operation.attrs)
    copied = graph.add(definition, tuple(inputs), operation.attrs, specs, operation.name.rsplit("/", 1)[-1])
    copied.line = operation.line
    return list(operation.outputs), list(copied.outputs)


def _sources(step: _Step) -> list[Tensor]:
    if isinstance(step, Operation):
        return list(step.inputs)
    leaves = [*nest.flatten(step.inputs), *nest.flatten(dict(step.arguments))]
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _steps_between(inputs: list[Tensor], outputs: list[Tensor]) -> list[_Step]:
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
        on_the_way[step] = any(
            _key(source) in ends or on_the_way.get(made_by(source) or source.op, False) for source in sources
        )
    return [step for step, needed in on_the_way.items() if needed]


def _check_fed(step: _Step) -> None:
    if isinstance(step, Operation) and step.definition.name == "placeholder":
        raise ValueError(f"the outputs depend on the placeholder {step.name!r}, which is not among the inputs")
