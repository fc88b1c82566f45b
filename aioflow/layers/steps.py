"""The operations that train and evaluate a model, built once for batches of some form."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.math.arithmetic import add_n
from aioflow.layers import calls
from aioflow.layers.computation import Computation
from aioflow.layers.fed import Batch, Form, fed
from aioflow.layers.masks import mask_of
from aioflow.layers.named_metrics import metric_of, weights_and_mask
from aioflow.layers.settings import Optimizing, Settings
from aioflow.library.control import group
from aioflow.library.state import variables_initializer
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.train.step_counter import get_global_step

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable


class Phase(NamedTuple):
    """A computation with metrics that add up its steps.

    Attributes:
        computation: the computation.
        update: updates the metrics and does the updates of the computation.
        metrics: the values of the metrics by name.
        begin: sets the metrics back, and makes copies of weights equal; None if there are none.
    """

    computation: Computation
    update: Operation
    metrics: Mapping[str, Tensor]
    begin: Operation | None


class Phases:
    """A computation, with metrics for each of the calls that run at the same time.

    Attributes:
        computation: the computation.
    """

    def __init__(self, settings: Settings, computation: Computation) -> None:
        """Build the metrics of one call in the default graph."""
        self._settings: Final = settings
        self.computation: Final = computation
        self._free: Final = [self._built()]

    @contextlib.contextmanager
    def taken(self) -> Iterator[Phase]:
        """A phase that no other block has."""
        graph = self.computation.loss.graph
        with graph.as_default(), graph.transaction():
            phase = self._free.pop() if self._free else self._built()
        try:
            yield phase
        finally:
            self._free.append(phase)

    def _built(self) -> Phase:
        of, settings = self.computation, self._settings
        values: dict[str, Tensor] = {}
        before = set(of.loss.graph.get_collection(GraphKeys.LOCAL_VARIABLES))
        done = list(of.updates)
        chosen = zip(settings.metrics, settings.weighted_metrics, of.batch.labels, of.outputs, strict=True)
        for metrics, weighted, labels, output in chosen:
            pairs = [*[(each, None) for each in metrics], *[(each, of.batch.weights) for each in weighted]]
            for given, weights in pairs:
                metric = metric_of(given, labels, output)
                name = _unused(metric.name, values)
                values[name], update = metric.function(labels, output, weights_and_mask(weights, mask_of(output)))
                done.append(update.op)
        own = [each for each in of.loss.graph.get_collection(GraphKeys.LOCAL_VARIABLES) if each not in before]
        begin = [
            *([variables_initializer(own, "reset_metrics")] if own else []),
            *([of.equalize] if of.equalize else []),
        ]
        return Phase(of, group(*done), values, group(*begin) if begin else None)


class Steps:
    """The operations of a model for batches of one form.

    Attributes:
        training: steps of training.
        evaluation: steps of evaluation.
        variables: the variables that they use: those of the model, the optimizer and the metrics, and others of the
            graph.
    """

    def __init__(self, model: "Trainable", settings: Settings, form: Form, optimizing: Optimizing) -> None:
        """Build them in the default graph."""
        before = set(_variables(model.graph))
        if optimizing.replicas is None:
            trained = _trained(model, settings, form, optimizing)
        else:
            trained = optimizing.replicas.trained(model, settings, form, _counter(model.graph))
        with optimizing.first_device():
            self.training: Final = Phases(settings, trained)
            self.evaluation: Final = Phases(settings, _evaluated(model, settings, fed(model, form)))
        added = [each for each in _variables(model.graph) if each not in before]
        computations = self.training.computation, self.evaluation.computation
        read = _variables_of([end for each in computations for end in (each.loss.op, *each.updates)])
        self.variables: Final = list(dict.fromkeys([*model.weights, *optimizing.variables(), *added, *read]))


def _trained(model: "Trainable", settings: Settings, form: Form, optimizing: Optimizing) -> Computation:
    """A step of training on one device."""
    batch = fed(model, form)
    with calls.gathered_effects() as effects:
        outputs = _outputs(model, batch, training=True)
    loss = _loss(model, settings, batch, outputs, effects)
    weights = model.trainable_weights
    updates = [optimizing.optimizer.minimize(loss, _counter(model.graph), weights)] if weights else []
    return Computation([batch], batch, outputs, loss, [*updates, *effects.updates])


def _evaluated(model: "Trainable", settings: Settings, batch: Batch) -> Computation:
    """A step of evaluation."""
    with calls.gathered_effects() as effects:
        outputs = _outputs(model, batch, training=False)
    return Computation([batch], batch, outputs, _loss(model, settings, batch, outputs, effects))


def _outputs(model: "Trainable", batch: Batch, training: bool) -> list[Tensor]:
    inputs = nest.pack_sequence_as(model.inputs, list(batch.inputs))
    return nest.flatten(model(inputs, training=training))


def _loss(
    model: "Trainable", settings: Settings, batch: Batch, outputs: Sequence[Tensor], effects: calls.Effects
) -> Tensor:
    parts = []
    for loss, factor, labels, output in zip(settings.losses, settings.factors, batch.labels, outputs, strict=True):
        part = loss(labels, output, batch.weights, mask_of(output))
        parts.append(part if factor == 1 else part * factor)
    terms = [*parts, *effects.losses, *model.losses]
    return terms[0] if len(terms) == 1 else add_n(terms)


def _counter(graph: Graph) -> Variable | None:
    """The global step of the graph, if it has one."""
    found = get_global_step(graph)
    return found if isinstance(found, Variable) else None


def _variables(graph: Graph) -> list[Variable]:
    collections = GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES
    return [variable for key in collections for variable in graph.get_collection(key)]


def _variables_of(ends: Sequence[Operation]) -> list[Variable]:
    """The global variables that a run of these operations uses."""
    used = calls.sources(ends)
    return [each for each in ends[0].graph.get_collection(GraphKeys.GLOBAL_VARIABLES) if each.op in used]


def _unused(name: str, values: Mapping[str, Any]) -> str:
    found, count = name, 1
    while found in values:
        found, count = f"{name}_{count}", count + 1
    return found
