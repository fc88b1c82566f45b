"""What `fit` and `evaluate` measure beside the loss: the loss of each of several outputs, and the metrics."""

from collections.abc import Iterator, Mapping
from typing import Any

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.casting import cast
from aioflow.layers.computation import Computation
from aioflow.layers.masks import mask_of
from aioflow.layers.named_metrics import Measured, metric_of, weights_and_mask
from aioflow.layers.part_names import unused
from aioflow.layers.settings import Settings
from aioflow.library.control import group
from aioflow.library.metrics.means import mean
from aioflow.tensors.dtypes import float32


def measured(of: Computation, settings: Settings) -> tuple[Mapping[str, Tensor], Operation]:
    """The values by name, and an operation that updates them and does the updates of the computation."""
    values: dict[str, Tensor] = {}
    done = list(of.updates)
    for number in range(len(of.outputs)):
        for name, (value, update) in _loss_of(of, settings, number):
            values[name] = value
            done.append(update.op)
    for number in range(len(of.outputs)):
        for name, (value, update) in _metrics_of(of, settings, number):
            values[unused(name, ["loss", *values])] = value
            done.append(update.op)
    return values, group(*done)


def _loss_of(of: Computation, settings: Settings, number: int) -> Iterator[tuple[str, Measured]]:
    """The mean loss of one of several outputs, by the sizes of batches, if it has a loss."""
    part = of.parts[number]
    if part is not None and len(of.outputs) > 1:
        yield f"{settings.before(number)}loss", mean(part, cast(shape(of.batch.labels[number])[0], float32))


def _metrics_of(of: Computation, settings: Settings, number: int) -> Iterator[tuple[str, Measured]]:
    """The metrics of an output, then those to which weights apply."""
    before, found = settings.before(number), set[str]()
    for given in settings.metrics[number]:
        name, value = _metric(of, given, number, None)
        found.add(name)
        yield before + name, value
    for given in settings.weighted_metrics[number]:
        name, value = _metric(of, given, number, of.batch.weights_of(number))
        yield before + (f"weighted_{name}" if name in found else name), value


def _metric(of: Computation, given: Any, number: int, weights: Tensor | None) -> tuple[str, Measured]:
    labels, output = of.batch.labels[number], of.outputs[number]
    metric = metric_of(given, labels, output)
    return metric.name, metric.function(labels, output, weights_and_mask(weights, mask_of(output)))
