"""The operands of metrics: labels, predictions and weights, brought to shapes that fit each other."""

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.library.weights import align, align_weights, of_same_shape
from aioflow.tensors.dtypes import DTypeLike, float32


def operands(
    labels: NumberLike, predictions: NumberLike, weights: NumberLike | None, dtype: DTypeLike | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return labels, predictions and weights as tensors, without one last axis of size 1 that is in the way.

    Labels and predictions are cast to `dtype`, if it is given. Labels that are Python numbers get the dtype of the
    predictions where they fit it.

    Raises:
        ValueError: labels and predictions certainly differ in shape, or one of them is None.
    """
    if labels is None or predictions is None:
        raise ValueError("labels and predictions are needed, neither may be None")
    guess = convert_to_tensor(predictions) if dtype is None else cast(predictions, dtype)
    truth = convert_to_tensor(labels, preferred_dtype=guess.dtype) if dtype is None else cast(labels, dtype)
    truth, guess = align(truth, guess)
    return of_same_shape(truth, guess), guess, weights_of(weights, guess)


def weights_of(weights: NumberLike | None, values: Tensor) -> Tensor | None:
    """Return the weights as float32, without a last axis of size 1 too many or with one that is missing."""
    return None if weights is None else align_weights(cast(weights, float32), values)
