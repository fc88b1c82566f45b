"""`af.losses`: losses with weights and a reduction, kept in collections, under TensorFlow's names.

Input: labels, predictions or logits, and weights. Output: a loss, which has joined the collection LOSSES, and the sums
of such collections. This folder uses `kernels` and the functions of `library` around it.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.losses.circle import Circle as Circle
from aioflow.library.losses.classification import hinge_loss as hinge_loss
from aioflow.library.losses.classification import log_loss as log_loss
from aioflow.library.losses.classification import sigmoid_cross_entropy as sigmoid_cross_entropy
from aioflow.library.losses.classification import softmax_cross_entropy as softmax_cross_entropy
from aioflow.library.losses.classification import sparse_softmax_cross_entropy as sparse_softmax_cross_entropy
from aioflow.library.losses.collected import add_loss as add_loss
from aioflow.library.losses.collected import get_losses as get_losses
from aioflow.library.losses.collected import get_regularization_loss as get_regularization_loss
from aioflow.library.losses.collected import get_regularization_losses as get_regularization_losses
from aioflow.library.losses.collected import get_total_loss as get_total_loss
from aioflow.library.losses.focal import BinaryFocalCrossentropy as BinaryFocalCrossentropy
from aioflow.library.losses.focal import CategoricalFocalCrossentropy as CategoricalFocalCrossentropy
from aioflow.library.losses.focal import CategoricalGeneralizedCrossEntropy as CategoricalGeneralizedCrossEntropy
from aioflow.library.losses.objectives import BinaryCrossentropy as BinaryCrossentropy
from aioflow.library.losses.objectives import CategoricalCrossentropy as CategoricalCrossentropy
from aioflow.library.losses.objectives import CategoricalHinge as CategoricalHinge
from aioflow.library.losses.objectives import CosineSimilarity as CosineSimilarity
from aioflow.library.losses.objectives import Hinge as Hinge
from aioflow.library.losses.objectives import Huber as Huber
from aioflow.library.losses.objectives import KLDivergence as KLDivergence
from aioflow.library.losses.objectives import LogCosh as LogCosh
from aioflow.library.losses.objectives import Loss as Loss
from aioflow.library.losses.objectives import MeanAbsoluteError as MeanAbsoluteError
from aioflow.library.losses.objectives import MeanAbsolutePercentageError as MeanAbsolutePercentageError
from aioflow.library.losses.objectives import MeanSquaredError as MeanSquaredError
from aioflow.library.losses.objectives import MeanSquaredLogarithmicError as MeanSquaredLogarithmicError
from aioflow.library.losses.objectives import Poisson as Poisson
from aioflow.library.losses.objectives import SparseCategoricalCrossentropy as SparseCategoricalCrossentropy
from aioflow.library.losses.objectives import SquaredHinge as SquaredHinge
from aioflow.library.losses.overlaps import Dice as Dice
from aioflow.library.losses.overlaps import Tversky as Tversky
from aioflow.library.losses.pairwise import mean_pairwise_squared_error as mean_pairwise_squared_error
from aioflow.library.losses.reduction import Reduction as Reduction
from aioflow.library.losses.reduction import compute_weighted_loss as compute_weighted_loss
from aioflow.library.losses.regression import absolute_difference as absolute_difference
from aioflow.library.losses.regression import cosine_distance as cosine_distance
from aioflow.library.losses.regression import huber_loss as huber_loss
from aioflow.library.losses.regression import mean_squared_error as mean_squared_error
from aioflow.library.losses.temporal import CTC as CTC

__all__ = ["BinaryCrossentropy", "BinaryFocalCrossentropy", "CTC", "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy", "CategoricalGeneralizedCrossEntropy", "CategoricalHinge", "Circle",
    "CosineSimilarity", "Dice", "Hinge", "Huber", "KLDivergence", "LogCosh", "Loss", "MeanAbsoluteError",
    "MeanAbsolutePercentageError", "MeanSquaredError", "MeanSquaredLogarithmicError", "Poisson", "Reduction",
    "SparseCategoricalCrossentropy", "SquaredHinge", "Tversky", "absolute_difference", "add_loss",
    "compute_weighted_loss", "cosine_distance", "get_losses", "get_regularization_loss", "get_regularization_losses",
    "get_total_loss", "hinge_loss", "huber_loss", "log_loss", "mean_pairwise_squared_error", "mean_squared_error",
    "sigmoid_cross_entropy", "softmax_cross_entropy", "sparse_softmax_cross_entropy"]
