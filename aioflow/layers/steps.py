"""The operations that train, evaluate and use a model, built once for the shapes of a batch."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.math.arithmetic import add_n
from aioflow.layers import calls
from aioflow.layers.fed import labels_like
from aioflow.layers.named_metrics import metric_of
from aioflow.library.control import group
from aioflow.library.losses.objectives import Loss, loss_of
from aioflow.library.state import variables_initializer
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.dtypes import float32
from aioflow.tensors.recursion import safe_repr
from aioflow.train.optimizer import Optimizer
from aioflow.train.optimizers import (
    AdadeltaOptimizer,
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)
from aioflow.train.step_counter import get_global_step

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable

OPTIMIZERS: Final[Mapping[str, tuple[Callable[[Any], Optimizer], float]]] = {
    "adadelta": (AdadeltaOptimizer, 0.001), "adagrad": (AdagradOptimizer, 0.001), "adam": (AdamOptimizer, 0.001),
    "ftrl": (FtrlOptimizer, 0.001), "momentum": (lambda rate: MomentumOptimizer(rate, 0.9), 0.01),
    "rmsprop": (RMSPropOptimizer, 0.001), "sgd": (GradientDescentOptimizer, 0.01),
}  # fmt: skip
"""The optimizers by the names that `compile` takes, with the learning rates that they begin with."""


class Settings(NamedTuple):
    """What `compile` was given, for each output of the model.

    Attributes:
        optimizer: a name or an optimizer.
        losses: the losses.
        factors: the factor of each loss.
        metrics: the metrics, as names or functions.
    """

    optimizer: Any
    losses: Sequence[Loss]
    factors: Sequence[float]
    metrics: Sequence[Sequence[Any]]


def settings_of(outputs: Any, optimizer: Any, loss: Any, loss_weights: Any, metrics: Any) -> Settings:
    """The settings of a model with these outputs. ValueError for an unknown name, or another structure."""
    count = len(nest.flatten(outputs))
    losses = [loss_of(each) for each in _for_each("loss", loss, outputs)]
    factors = [1.0] * count if loss_weights is None else _for_each("loss_weights", loss_weights, outputs)
    if count == 1:
        named = [list(metrics or [])]
    else:
        given = [[] for _ in range(count)] if not metrics else _for_each("metrics", metrics, outputs)
        named = [list(each) if isinstance(each, (list, tuple)) else [each] for each in given]
    return Settings(optimizer, losses, factors, named)


class Batch(NamedTuple):
    """Tensors that are fed, or the arrays for them.

    Attributes:
        inputs: those of the model.
        labels: one for each output; none where there are only inputs.
        weights: a factor for each element of the batch; None if all count the same.
    """

    inputs: Sequence[Any]
    labels: Sequence[Any] = ()
    weights: Any = None

    @property
    def values(self) -> list[Any]:
        """All of them."""
        return [*self.inputs, *self.labels, *([] if self.weights is None else [self.weights])]

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.inputs[0])


class Phase(NamedTuple):
    """A step of training or of evaluation.

    Attributes:
        loss: the loss.
        update: updates the metrics; in training the weights and moving statistics, too.
        metrics: the values of the metrics by name.
        reset: sets the metrics back.
    """

    loss: Tensor
    update: Operation
    metrics: Mapping[str, Tensor]
    reset: Operation


class Steps:
    """The operations of a model for batches of some shapes and dtypes.

    Attributes:
        batch: the tensors to feed.
        training: a step of training.
        evaluation: a step of evaluation.
        variables: the variables that they use: those of the model, the optimizer and the metrics, and others of the
            graph.
    """

    def __init__(self, model: "Trainable", settings: Settings, batch: Batch, optimizing: "Optimizing") -> None:
        """Build them in the default graph, for batches like this one of arrays."""
        before = set(_variables(model.graph))
        self.batch: Final = _fed(model, batch)
        inputs = nest.pack_sequence_as(model.inputs, list(self.batch.inputs))
        with calls.gathered_effects() as effects:
            trained = nest.flatten(model(inputs, training=True))
        with calls.gathered_effects() as effects_in_use:
            used = nest.flatten(model(inputs))
        loss = self._loss(settings, trained, [*effects.losses, *model.losses])
        update = _update(optimizing.optimizer, loss, model)
        self.training: Final = self._phase(settings, loss, trained, [*update, *effects.updates])
        loss_in_use = self._loss(settings, used, [*effects_in_use.losses, *model.losses])
        self.evaluation: Final = self._phase(settings, loss_in_use, used, [])
        added = [each for each in _variables(model.graph) if each not in before]
        phases = self.training, self.evaluation
        read = _variables_of([end for phase in phases for end in (phase.loss.op, phase.update)])
        self.variables: Final = list(dict.fromkeys([*model.weights, *optimizing.variables(), *added, *read]))

    def feeds(self, batch: Batch) -> dict[Tensor, Any]:
        """The feeds of a batch of arrays."""
        return dict(zip(self.batch.values, batch.values, strict=True))

    def _loss(self, settings: Settings, outputs: Sequence[Tensor], more: Sequence[Tensor]) -> Tensor:
        parts = [
            loss(labels, output, self.batch.weights) * factor
            for loss, factor, labels, output in zip(
                settings.losses, settings.factors, self.batch.labels, outputs, strict=True
            )
        ]
        return add_n([*parts, *more])

    def _phase(
        self, settings: Settings, loss: Tensor, outputs: Sequence[Tensor], updates: Sequence[Operation]
    ) -> Phase:
        values: dict[str, Tensor] = {}
        before = set(loss.graph.get_collection(GraphKeys.LOCAL_VARIABLES))
        done = list(updates)
        for metrics, labels, output in zip(settings.metrics, self.batch.labels, outputs, strict=True):
            for metric in [metric_of(given, labels, output) for given in metrics]:
                name = _unused(metric.name, values)
                values[name], update = metric.function(labels, output, self.batch.weights)
                done.append(update.op)
        own = [each for each in loss.graph.get_collection(GraphKeys.LOCAL_VARIABLES) if each not in before]
        return Phase(loss, group(*done), values, variables_initializer(own, "reset_metrics"))


class Optimizing:
    """An optimizer, with its learning rate.

    Attributes:
        optimizer: the optimizer.
        rate: its learning rate, a variable, if it was given by its name; else None.
    """

    def __init__(self, given: Any) -> None:
        """Make the optimizer of that name, in the default graph, or take the given one."""
        self.rate: Variable | None = None
        self.optimizer: Optimizer = given
        if isinstance(given, str):
            make, first = OPTIMIZERS[given.lower()]
            self.rate = Variable(first, trainable=False, name="learning_rate")
            self.optimizer = make(self.rate)

    def variables(self) -> list[Variable]:
        """The learning rate and the optimizer's own variables."""
        return [*([] if self.rate is None else [self.rate]), *self.optimizer.variables()]


def check_optimizer(given: Any) -> None:
    """Raise ValueError for an unknown name, TypeError for something that is no optimizer."""
    if not isinstance(given, str):
        if not isinstance(given, Optimizer):
            raise TypeError(f"an optimizer is a name or an af.train.Optimizer, not {safe_repr(given)}")
    elif given.lower() not in OPTIMIZERS:
        close = difflib.get_close_matches(given.lower(), OPTIMIZERS, 1)
        raise ValueError(f"no optimizer is named {given!r}" + (f"; did you mean {close[0]!r}?" if close else ""))


def _fed(model: "Trainable", batch: Batch) -> Batch:
    """Placeholders for batches like this one."""
    inputs = [placeholder(tensor.dtype, tensor.shape, name="x") for tensor in nest.flatten(model.inputs)]
    labels = [
        labels_like(array, output) for array, output in zip(batch.labels, nest.flatten(model.outputs), strict=True)
    ]
    return Batch(inputs, labels, None if batch.weights is None else placeholder(float32, [None], name="sample_weight"))


def _variables(graph: Graph) -> list[Variable]:
    collections = GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES
    return [variable for key in collections for variable in graph.get_collection(key)]


def _update(optimizer: Optimizer, loss: Tensor, model: "Trainable") -> list[Operation]:
    """What changes the weights, and counts in the global step if the graph has one; nothing if all are frozen."""
    weights = model.trainable_weights
    counter = get_global_step(model.graph)
    return [optimizer.minimize(loss, counter if isinstance(counter, Variable) else None, weights)] if weights else []


def _variables_of(ends: Sequence[Operation]) -> list[Variable]:
    """The global variables that a run of these operations uses."""
    waiting, found = list(ends), set(ends)
    while waiting:
        operation = waiting.pop()
        sources = {*[tensor.op for tensor in operation.inputs], *operation.control_inputs} - found
        found |= sources
        waiting += sources
    return [each for each in ends[0].graph.get_collection(GraphKeys.GLOBAL_VARIABLES) if each.op in found]


def _for_each(what: str, given: Any, outputs: Any) -> list[Any]:
    """The values for the outputs, in order: one for all, or a structure like that of the outputs."""
    flat = nest.flatten(outputs)
    if not nest.is_nested(given):
        return [given] * len(flat)
    if nest.is_nested(outputs):
        return nest.flatten_up_to(outputs, given)
    (only,) = given if len(given) == 1 else (None,)
    if only is None:
        raise ValueError(f"{what} has {len(given)} values for one output")
    return [only]


def _unused(name: str, values: Mapping[str, Any]) -> str:
    found, count = name, 1
    while found in values:
        found, count = f"{name}_{count}", count + 1
    return found
