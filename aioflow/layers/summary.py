"""The table that `Model.summary` prints."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from aioflow.layers.layer import Layer

if TYPE_CHECKING:
    from aioflow.layers.model import Model

_HEAD: Final = ("Layer (class)", "Weights", "Parameters")


def describe(model: "Model") -> Iterator[str]:
    """The lines of the table. ValueError if the model has no weights yet."""
    if not model.built:
        raise ValueError(f"{model.name!r} is not built yet: call it, or give its first layer an input_shape")
    rows = [_row(layer) for layer in model.layers]
    widths = [max(len(row[column]) for row in [_HEAD, *rows]) for column in range(3)]
    yield f"Model: {model.name}"
    yield _line(_HEAD, widths)
    yield "-" * (sum(widths) + 4)
    for row in rows:
        yield _line(row, widths)
    yield "-" * (sum(widths) + 4)
    trained = sum(weight.shape.num_elements() or 0 for weight in model.trainable_weights)
    yield f"Parameters: {model.count_params():,}, of them trainable: {trained:,}"


def _row(layer: Layer) -> tuple[str, str, str]:
    shapes = ", ".join(str(weight.shape) for weight in layer.weights)
    count = sum(weight.shape.num_elements() or 0 for weight in layer.weights)
    return f"{layer.name} ({type(layer).__name__})", shapes, f"{count:,}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, second, last = row
    return f"{first:<{widths[0]}}  {second:<{widths[1]}}  {last:>{widths[2]}}"
