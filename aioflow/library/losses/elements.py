"""The operands of losses as floats: labels and predictions of one shape, and weights."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.library.weights import of_same_shape
from aioflow.tensors.dtypes import float32


def required(labels: NumberLike | None, predictions: NumberLike | None, kind: str = "predictions") -> None:
    """ValueError if one of them is None."""
    if labels is None or predictions is None:
        raise ValueError(f"labels and {kind} are needed, neither may be None")


def float_weights(weights: NumberLike | None) -> Tensor:
    """Return the weights as float32. ValueError if they are None."""
    if weights is None:
        raise ValueError("weights must not be None; 1.0 weighs all losses equally")
    return cast(weights, float32)


def float_operands(labels: NumberLike, predictions: NumberLike, kind: str = "predictions") -> tuple[Tensor, Tensor]:
    """Return labels and predictions as float32. ValueError if one is None, or if they certainly differ in shape."""
    required(labels, predictions, kind)
    truth, guess = cast(labels, float32), cast(predictions, float32)
    return of_same_shape(truth, guess, kind), guess
