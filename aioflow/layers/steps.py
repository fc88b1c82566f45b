"""The operations that train and evaluate a model, built once for batches of some form."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.math.arithmetic import add_n
from aioflow.layers import calls
from aioflow.layers.computation import Computation, Place, at
from aioflow.layers.fed import Batch, Form, fed
from aioflow.layers.masks import mask_of
from aioflow.layers.measuring import measured
from aioflow.layers.own_variables import making_only_weights
from aioflow.layers.settings import Optimizing, Settings
from aioflow.layers.summed_losses import check_terms
from aioflow.library.control import group
from aioflow.library.metrics.state import SharedVariables
from aioflow.library.state import variables_initializer
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.train.step_counter import get_global_step

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable


class Phase(NamedTuple):
    """Computations with metrics that add up their steps.

    Attributes:
        computations: one computation; in asynchronous training one for each worker.
        updates: for each computation, updates the metrics and does the updates of the computation.
        metrics: the values of the metrics by name.
        begin: sets the metrics back, and makes copies of weights equal; None if there are none.
        equalize: makes copies of weights equal; None if there are none.
        state: the variables of the metrics.
    """

    computations: Sequence[Computation]
    updates: Sequence[Operation]
    metrics: Mapping[str, Tensor]
    begin: Operation | None
    equalize: Operation | None
    state: Sequence[Variable]


class Phases:
    """Computations, with metrics for each of the calls that run at the same time.

    Attributes:
        computations: one computation; in asynchronous training one for each worker.
    """

    def __init__(self, settings: Settings, computations: Sequence[Computation]) -> None:
        """Build the metrics of one call in the default graph."""
        self._settings: Final = settings
        self.computations: Final = computations
        self._free: Final = [self._built()]

    @contextlib.contextmanager
    def taken(self) -> Iterator[Phase]:
        """A phase that no other block has."""
        graph = self.computations[0].loss.graph
        with graph.as_default(), graph.transaction():
            phase = self._free.pop() if self._free else self._built()
        try:
            yield phase
        finally:
            self._free.append(phase)

    def _built(self) -> Phase:
        graph = self.computations[0].loss.graph
        before, shared = set(_variables(graph)), SharedVariables()
        built = []
        for number, each in enumerate(self.computations):
            with at(each.place), shared.used():
                built.append(measured(each, self._settings))
            if number == 0:
                own = [each for each in _variables(graph) if each not in before]
            _check_shared(graph, before, own)
        local = set(graph.get_collection(GraphKeys.LOCAL_VARIABLES))
        reset, equalize = [each for each in own if each in local], self.computations[0].equalize
        begin = [
            *([variables_initializer(reset, "reset_metrics")] if reset else []),
            *([equalize] if equalize else []),
        ]
        (metrics, _), updates = built[0], [update for _, update in built]
        return Phase(self.computations, updates, metrics, group(*begin) if begin else None, equalize, reset)


def _check_shared(graph: Graph, before: set[Variable], own: Sequence[Variable]) -> None:
    """Raise ValueError if the metrics of a worker made variables that others do not have."""
    for variable in _variables(graph):
        if variable not in before and variable not in own:
            raise ValueError(
                f"a metric makes the variable {variable.op.name!r} itself, and asynchronous workers cannot share it: "
                "give a function that returns a tensor, or is composed of those of af.metrics"
            )


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
        self.training: Final = Phases(settings, _trained(model, settings, form, optimizing))
        self.evaluation: Final = Phases(settings, [_evaluated(model, settings, form, optimizing.first_device)])
        added = [each for each in _variables(model.graph) if each not in before]
        computations = [*self.training.computations, *self.evaluation.computations]
        read = _variables_of([end for each in computations for end in (each.loss.op, *each.updates)])
        self.variables: Final = list(dict.fromkeys([*model.weights, *optimizing.variables(), *added, *read]))


def _trained(model: "Trainable", settings: Settings, form: Form, optimizing: Optimizing) -> list[Computation]:
    """A step of training; in asynchronous training one for each worker."""
    replicas = optimizing.replicas
    if replicas is None:
        return [_trained_alone(model, settings, form, optimizing, None)]
    strategy = replicas.strategy
    if not strategy.asynchronous:
        return [replicas.trained(model, settings, form, _counter(model.graph))]
    strategy.check(model.trainable_weights)
    made = [_trained_alone(model, settings, form, optimizing, device) for device in strategy.devices]
    return [dataclasses.replace(made[0], place=strategy.placement()), *made[1:]]


def _trained_alone(
    model: "Trainable", settings: Settings, form: Form, optimizing: Optimizing, place: Place
) -> Computation:
    """A step of training of the whole model on one device."""
    with at(place), calls.gathered_effects() as effects, making_only_weights(model):
        batch = fed(model, form)
        outputs = _outputs(model, batch, training=True)
        losses = _losses(settings, batch, outputs)
        loss = _whole_loss(model, settings, losses, effects)
    weights, counter = model.trainable_weights, _counter(model.graph)
    minimize = functools.partial(optimizing.optimizer.minimize, colocate_gradients_with_ops=place is not None)
    updates = [minimize(loss, counter, weights)] if weights else []
    return Computation([batch], batch, outputs, loss, losses, [*updates, *effects.updates], place=place)


def _evaluated(model: "Trainable", settings: Settings, form: Form, place: Place) -> Computation:
    """A step of evaluation."""
    with at(place), calls.gathered_effects() as effects, making_only_weights(model):
        batch = fed(model, form)
        outputs = _outputs(model, batch, training=False)
        losses = _losses(settings, batch, outputs)
        loss = _whole_loss(model, settings, losses, effects)
    return Computation([batch], batch, outputs, loss, losses, place=place)


def _outputs(model: "Trainable", batch: Batch, training: bool) -> list[Tensor]:
    inputs = nest.pack_sequence_as(model.inputs, list(batch.inputs))
    return nest.flatten(model(inputs, training=training))


def _losses(settings: Settings, batch: Batch, outputs: Sequence[Tensor]) -> list[Tensor | None]:
    """The loss of each output; None for one that has none."""
    return [
        None if loss is None else loss(batch.labels[number], output, batch.weights_of(number), mask_of(output))
        for number, (loss, output) in enumerate(zip(settings.losses, outputs, strict=True))
    ]


def _whole_loss(
    model: "Trainable", settings: Settings, losses: Sequence[Tensor | None], effects: calls.Effects
) -> Tensor:
    """The sum of the losses of outputs, times their factors, and of all that layers add. ValueError for no term."""
    pairs = [(loss, factor) for loss, factor in zip(losses, settings.factors, strict=True) if loss is not None]
    parts = [loss if factor == 1 else loss * factor for loss, factor in pairs]
    terms = [*parts, *effects.losses, *model.losses]
    check_terms(terms, model.name)
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
