"""Losses by the names that `compile` takes, and functions as losses."""

import difflib
from collections.abc import Callable
from typing import Any, Final

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.library.losses.circle import Circle
from aioflow.library.losses.focal import (
    BinaryFocalCrossentropy,
    CategoricalFocalCrossentropy,
    CategoricalGeneralizedCrossEntropy,
)
from aioflow.library.losses.objectives import (
    BinaryCrossentropy,
    CategoricalCrossentropy,
    CategoricalHinge,
    CosineSimilarity,
    Hinge,
    Huber,
    KLDivergence,
    LogCosh,
    Loss,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogarithmicError,
    Poisson,
    SparseCategoricalCrossentropy,
    SquaredHinge,
    aligned,
)
from aioflow.library.losses.overlaps import Dice, Tversky
from aioflow.tensors.class_names import known_name
from aioflow.tensors.recursion import safe_repr

NAMES: Final[dict[str, type[Loss]]] = {
    "bce": BinaryCrossentropy,
    "binary_crossentropy": BinaryCrossentropy, "binary_focal_crossentropy": BinaryFocalCrossentropy,
    "categorical_crossentropy": CategoricalCrossentropy,
    "categorical_focal_crossentropy": CategoricalFocalCrossentropy,
    "categorical_generalized_cross_entropy": CategoricalGeneralizedCrossEntropy,
    "categorical_hinge": CategoricalHinge, "circle": Circle, "cosine_similarity": CosineSimilarity, "dice": Dice,
    "hinge": Hinge, "huber": Huber, "kl_divergence": KLDivergence, "kld": KLDivergence, "log_cosh": LogCosh,
    "logcosh": LogCosh,
    "mae": MeanAbsoluteError, "mape": MeanAbsolutePercentageError, "mean_absolute_error": MeanAbsoluteError,
    "mean_absolute_percentage_error": MeanAbsolutePercentageError, "mean_squared_error": MeanSquaredError,
    "mean_squared_logarithmic_error": MeanSquaredLogarithmicError, "mse": MeanSquaredError,
    "msle": MeanSquaredLogarithmicError, "poisson": Poisson,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy, "squared_hinge": SquaredHinge, "tversky": Tversky,
}  # fmt: skip
"""The losses by the names that `compile` takes."""


class Function(Loss):
    """A function (labels, predictions) -> losses, as a loss."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function: Final = function

    def of(self, y_true: NumberLike, y_pred: NumberLike) -> Tensor:
        """What the function returns. Labels [batch] go with predictions [batch, 1]."""
        predictions = convert_to_tensor(y_pred)
        return convert_to_tensor(self.function(aligned(convert_to_tensor(y_true), predictions), predictions))


def loss_of(given: Any) -> Loss:
    """The loss of that name or class, the given one, or a function as a loss. ValueError for an unknown name."""
    if isinstance(given, str):
        name = known_name(given, NAMES)
        if name is None:
            close = difflib.get_close_matches(given, NAMES, 1)
            raise ValueError(f"no loss is named {given!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return NAMES[name]()
    if isinstance(given, Loss):
        return given
    if isinstance(given, type) and issubclass(given, Loss):
        return given()
    if not callable(given):
        raise TypeError(f"a loss is a name, a Loss or a function of labels and predictions, not {safe_repr(given)}")
    return Function(given)
