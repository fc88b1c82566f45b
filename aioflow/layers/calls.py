"""Records of the calls of layers: their phase, their additions to the loss, and the tensors that they made.

A layer in training does other work than in use: dropout drops, batch normalization takes the mean of the batch. So a
call belongs to one of two phases, and builds the operations of that phase only. A model that was composed by calls of
layers is built for the other phase by repeating the calls; `made_by` tells which they were.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor

if TYPE_CHECKING:
    from aioflow.layers.layer import Layer

_training: ContextVar[bool] = ContextVar("aioflow_layers_training", default=False)


def is_training() -> bool:
    """Whether layers are called for training, unless their argument `training` says otherwise."""
    return _training.get()


@contextlib.contextmanager
def phase(training: bool) -> Iterator[None]:
    """Inside the block layers are called for training, or not."""
    token = _training.set(training)
    try:
        yield
    finally:
        _training.reset(token)


@dataclasses.dataclass(slots=True)
class Effects:
    """What calls of layers do besides their results.

    Attributes:
        losses: scalars to add to the loss.
        updates: operations to run in each step of training, such as those of moving averages.
    """

    losses: list[Tensor] = dataclasses.field(default_factory=list)
    updates: list[Operation] = dataclasses.field(default_factory=list)


_effects: ContextVar[Effects | None] = ContextVar("aioflow_layers_effects", default=None)


def effects() -> Effects | None:
    """Where the surrounding block gathers effects; None if there is no such block."""
    return _effects.get()


@contextlib.contextmanager
def gathered_effects() -> Iterator[Effects]:
    """Inside the block the effects of calls are gathered."""
    gathered = Effects()
    token = _effects.set(gathered)
    try:
        yield gathered
    finally:
        _effects.reset(token)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a layer outside of all other layers.

    Attributes:
        layer: the layer.
        inputs: its first argument, a tensor or a structure of tensors.
        arguments: the other arguments.
        outputs: its result.
    """

    layer: "Layer"
    inputs: Any
    arguments: Mapping[str, Any]
    outputs: Any


_CALLS: Final = "__layer_calls"
"""The collection of a graph that holds its calls by result."""


def record(call: Call, outputs: Sequence[Tensor]) -> None:
    """Remember which call made these tensors, if no earlier one did."""
    for tensor in outputs:
        _calls(tensor.graph).setdefault((tensor.op, tensor.index), call)


def made_by(tensor: Tensor) -> Call | None:
    """The call of a layer that made a tensor; None if an operation outside of layers did."""
    return _calls(tensor.graph).get((tensor.op, tensor.index))


def calls_of(layer: object, graph: Graph) -> list[Call]:
    """The calls of a layer in a graph, outside of other layers, in their order."""
    return [call for call in dict.fromkeys(_calls(graph).values()) if call.layer is layer]


def _calls(graph: Graph) -> dict[tuple[Operation, int], Call]:
    kept = graph.get_collection_ref(_CALLS)
    if not kept:
        kept.append({})
    calls: dict[tuple[Operation, int], Call] = kept[0]
    return calls


def sources(ends: Iterable[Operation]) -> set[Operation]:
    """These operations and all that a run of them uses."""
    waiting = list(ends)
    found = set(waiting)
    while waiting:
        operation = waiting.pop()
        new = {*[tensor.op for tensor in operation.inputs], *operation.control_inputs} - found
        found |= new
        waiting += new
    return found
