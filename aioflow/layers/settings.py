"""What `compile` chooses: the optimizer, and a loss and metrics for each output."""

import difflib
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, NamedTuple

from aioflow.layers.distribute import Strategy
from aioflow.layers.fed import Batch
from aioflow.layers.named_metrics import check_metric
from aioflow.layers.numbers import number
from aioflow.layers.part_names import Names, by_names, output_names
from aioflow.layers.replicated import Replicas
from aioflow.library.losses.by_name import loss_of
from aioflow.library.losses.objectives import Loss
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.recursion import safe_repr
from aioflow.train.composed_optimizers import (
    AdafactorOptimizer,
    AdamaxOptimizer,
    LambOptimizer,
    LionOptimizer,
    NadamOptimizer,
)
from aioflow.train.decoupled_decay import AdamWOptimizer
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

OPTIMIZERS: Final[Mapping[str, tuple[Callable[[Any], Optimizer], float]]] = {
    "adafactor": (AdafactorOptimizer, 0.001), "adamax": (AdamaxOptimizer, 0.001),
    "adadelta": (AdadeltaOptimizer, 0.001), "adagrad": (AdagradOptimizer, 0.001), "adam": (AdamOptimizer, 0.001),
    "adamw": (lambda rate: AdamWOptimizer(0.004, rate), 0.001),
    "ftrl": (FtrlOptimizer, 0.001), "lamb": (LambOptimizer, 0.001), "lion": (LionOptimizer, 0.001),
    "nadam": (NadamOptimizer, 0.001), "momentum": (lambda rate: MomentumOptimizer(rate, 0.9), 0.01),
    "rmsprop": (RMSPropOptimizer, 0.001), "sgd": (GradientDescentOptimizer, 0.01),
}  # fmt: skip
"""The optimizers by the names that `compile` takes, with the learning rates that they begin with."""


class Settings(NamedTuple):
    """What `compile` was given, for each output of the model.

    Attributes:
        names: the names of outputs; None for an output by itself.
        losses: the losses; None for an output without one.
        factors: the factor of each loss.
        metrics: the metrics, as names or functions.
        weighted_metrics: the metrics to which weights of elements apply.
    """

    names: Names
    losses: Sequence[Loss | None]
    factors: Sequence[float]
    metrics: Sequence[Sequence[Any]]
    weighted_metrics: Sequence[Sequence[Any]]

    def before(self, number: int) -> str:
        """What the names of metrics of an output begin with, so that they differ from those of other outputs."""
        return "" if self.names is None or len(self.names) == 1 else f"{self.names[number]}_"

    def reads_labels(self, number: int) -> bool:
        """Whether the loss or a metric of an output compares it with labels."""
        return bool(self.losses[number] or self.metrics[number] or self.weighted_metrics[number])


def check_labels(batch: Batch, settings: Settings, model: str) -> None:
    """Raise ValueError unless there are labels and weights for the outputs of the model that need them."""
    wanted = len(settings.losses)
    if len(batch.labels) != wanted and (batch.labels or any(map(settings.reads_labels, range(wanted)))):
        raise ValueError(f"{model!r} has {wanted} outputs, and {len(batch.labels)} arrays of labels were given")
    if len(batch.weights) not in (0, 1, wanted):
        raise ValueError(f"{model!r} has {wanted} outputs, and {len(batch.weights)} arrays of weights were given")
    for output, labels in enumerate(batch.labels):
        if labels is None and settings.reads_labels(output):
            name = settings.names[output] if settings.names else "output"
            raise ValueError(
                f"no labels were given for the output {name!r} of {model!r}, which has a loss or metrics: give them, "
                "or compile the model with None for its loss and without metrics for it"
            )


def settings_of(outputs: Any, loss: Any, loss_weights: Any, metrics: Any, weighted_metrics: Any) -> Settings:
    """The settings of a model with these outputs. ValueError for an unknown name, or another structure."""
    losses = [None if each is None else loss_of(each) for each in _losses(loss, outputs)]
    factors = [
        1.0 if each is None else number("a factor of loss_weights", each)
        for each in _for_each("loss_weights", loss_weights, outputs)
    ]
    named = [
        _lists(what, given, outputs) for what, given in (("metrics", metrics), ("weighted_metrics", weighted_metrics))
    ]
    return Settings(output_names(outputs), losses, factors, *named)


def _losses(given: Any, outputs: Any) -> list[Any]:
    """A loss for each output; None for one that has None. ValueError if a key is missing."""
    if isinstance(given, Mapping) and _is_flat(outputs):
        missing = [name for name in output_names(outputs) or () if name not in given]
        if missing:
            raise ValueError(f"loss has no key for {', '.join(missing)}: give each output a loss, or None")
    return _for_each("loss", given, outputs)


def _lists(what: str, given: Any, outputs: Any) -> list[list[Any]]:
    """A list of metrics for each output. ValueError for an unknown name, TypeError for something else."""
    count = len(nest.flatten(outputs))
    if not isinstance(given, (list, tuple, Mapping, NoneType)) and count == 1:
        raise TypeError(f"{what} is a list of names and functions, not {safe_repr(given)}")
    each = [given or []] if count == 1 and not isinstance(given, Mapping) else _for_each(what, given or None, outputs)
    found = [list(item) if isinstance(item, (list, tuple)) else [] if item is None else [item] for item in each]
    for metric in itertools.chain.from_iterable(found):
        check_metric(metric)
    return found


class Optimizing:
    """An optimizer, with its learning rate, and the replicas that train with it.

    Attributes:
        optimizer: the optimizer.
        rate: its learning rate, a variable, if it was given by its name; else None.
        replicas: the replicas, if there is a strategy; else None.
    """

    def __init__(self, given: Any, strategy: Strategy | None) -> None:
        """Make the optimizer of that name, in the default graph, or take the given one."""
        self.rate: Variable | None = None
        self.optimizer: Optimizer = given
        if isinstance(given, str):
            make, first = OPTIMIZERS[given.lower()]
            self.rate = Variable(first, trainable=False, name="learning_rate")
            self.optimizer = make(self.rate)
        self.replicas: Final = None if strategy is None else Replicas(strategy, self.optimizer)

    @property
    def first_device(self) -> str | None:
        """The first device of the strategy, if there is one."""
        return None if self.replicas is None else self.replicas.strategy.devices[0]

    def variables(self) -> list[Variable]:
        """The learning rate and the optimizer's own variables."""
        return [*([] if self.rate is None else [self.rate]), *self.optimizer.variables()]


def check_optimizer(given: Any) -> None:
    """Raise ValueError for an unknown name, TypeError for something that is no optimizer."""
    if not isinstance(given, str):
        if not isinstance(given, Optimizer):
            raise TypeError(f"an optimizer is a name or an af.train.Optimizer, not {safe_repr(given)}")
    elif given.lower() not in OPTIMIZERS:
        close = " or ".join(map(repr, difflib.get_close_matches(given.lower(), OPTIMIZERS, 3)))
        raise ValueError(f"no optimizer is named {given!r}" + (f"; did you mean {close}?" if close else ""))


def _is_flat(outputs: Any) -> bool:
    """Whether it is an output, or a list or a dict of outputs that are not nested any further."""
    items = outputs.values() if isinstance(outputs, Mapping) else outputs
    return not nest.is_nested(outputs) or not any(nest.is_nested(item) for item in items)


def _for_each(what: str, given: Any, outputs: Any) -> list[Any]:
    """The values for the outputs, in order: one for all, or a structure like that of the outputs, or a dict by name."""
    flat = nest.flatten(outputs)
    if not nest.is_nested(given):
        return [given] * len(flat)
    if isinstance(given, Mapping) and _is_flat(outputs):
        return by_names(what, given, output_names(outputs))
    if nest.is_nested(outputs):
        return _alike(what, given, outputs)
    values = nest.flatten(given)
    if len(values) != 1:
        raise ValueError(f"{what} has {len(values)} values for one output")
    return values


def _alike(what: str, given: Any, outputs: Any) -> list[Any]:
    """The values of a structure like that of the outputs. ValueError, with the names of these, for another one."""
    try:
        return nest.flatten_up_to(outputs, given)
    except ValueError as error:
        names = ", ".join(output_names(outputs) or ())
        raise ValueError(f"{what} has no value for each of the outputs {names}: {error}") from error
