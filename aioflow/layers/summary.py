"""The table that `Model.summary` prints."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from aioflow.layers.layer import Layer
from aioflow.tensors.dtypes import TensorShape

if TYPE_CHECKING:
    from aioflow.layers.model import Model

HEAD: Final = ("Layer (class)", "Outputs", "Weights", "Parameters")


def describe(model: "Model") -> Iterator[str]:
    """The lines of the table. ValueError if the model has no weights yet."""
    if not model.built:
        raise ValueError(f"{model.name!r} is not built yet: call it, or give its first layer an input_shape")
    rows = layer_rows(model)
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    yield f"Model: {model.name}"
    yield _line(HEAD, widths)
    yield "-" * (sum(widths) + 2 * len(widths) - 2)
    for row in rows:
        yield _line(row, widths)
    yield "-" * (sum(widths) + 2 * len(widths) - 2)
    yield total(model)


def layer_rows(model: "Model") -> list[tuple[str, ...]]:
    """The layers, as rows below `HEAD`."""
    return [_row(layer) for layer in model.layers]


def total(model: "Model") -> str:
    """The numbers of parameters."""
    trained = sum(weight.shape.num_elements() or 0 for weight in model.trainable_weights)
    return f"Parameters: {model.count_params():,}, of them trainable: {trained:,}"


def _row(layer: Layer) -> tuple[str, ...]:
    outputs, weights = layer.output_shapes, [weight.shape for weight in layer.weights]
    count = sum(weight.num_elements() or 0 for weight in weights)
    return f"{layer.name} ({type(layer).__name__})", _listed(outputs), _listed(weights), f"{count:,}"


def _listed(shapes: Sequence[TensorShape]) -> str:
    return ", ".join(map(str, shapes))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    *texts, number = [f"{text:<{width}}" for text, width in zip(row, widths, strict=True)]
    return "  ".join([*texts, f"{number.strip():>{widths[-1]}}"])
