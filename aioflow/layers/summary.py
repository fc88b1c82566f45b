"""The table that `Model.summary` prints."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from aioflow.library.variables import Variable
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
    """The layers, as rows below `HEAD`, and the variables that belong to none of them."""
    of_layers = {weight for layer in model.layers for weight in layer.weights}
    others = [weight for weight in model.weights if weight not in of_layers]
    rows = [
        _row(f"{layer.name} ({type(layer).__name__})", layer.output_shapes, layer.weights) for layer in model.layers
    ]
    return [*rows, *([_row("outside of layers", [], others)] if others else [])]


def total(model: "Model") -> str:
    """The numbers of parameters."""
    trained = sum(weight.shape.num_elements() or 0 for weight in model.trainable_weights)
    return f"Parameters: {model.count_params():,}, of them trainable: {trained:,}"


def _row(name: str, outputs: Sequence[TensorShape], weights: Sequence[Variable]) -> tuple[str, ...]:
    shapes = [weight.shape for weight in weights]
    count = sum(shape.num_elements() or 0 for shape in shapes)
    return name, _listed(outputs), _listed(shapes), f"{count:,}"


def _listed(shapes: Sequence[TensorShape]) -> str:
    return ", ".join(map(str, shapes))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    *texts, number = [f"{text:<{width}}" for text, width in zip(row, widths, strict=True)]
    return "  ".join([*texts, f"{number.strip():>{widths[-1]}}"])
