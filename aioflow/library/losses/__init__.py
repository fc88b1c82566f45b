"""`af.losses`: losses with weights and a reduction, kept in collections, under TensorFlow's names.

Input: labels, predictions or logits, and weights. Output: a loss, which has joined the collection LOSSES, and the sums
of such collections. This folder uses `kernels` and the functions of `library` around it.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.losses.circle": "Circle",
    "aioflow.library.losses.classification": (
        "hinge_loss log_loss sigmoid_cross_entropy softmax_cross_entropy sparse_softmax_cross_entropy"
    ),
    "aioflow.library.losses.collected": (
        "add_loss get_losses get_regularization_loss get_regularization_losses get_total_loss"
    ),
    "aioflow.library.losses.focal": (
        "BinaryFocalCrossentropy CategoricalFocalCrossentropy CategoricalGeneralizedCrossEntropy"
    ),
    "aioflow.library.losses.objectives": (
        "BinaryCrossentropy CategoricalCrossentropy CategoricalHinge CosineSimilarity Hinge Huber KLDivergence LogCosh "
        "Loss MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredError MeanSquaredLogarithmicError Poisson "
        "SparseCategoricalCrossentropy SquaredHinge"
    ),
    "aioflow.library.losses.overlaps": "Dice Tversky",
    "aioflow.library.losses.pairwise": "mean_pairwise_squared_error",
    "aioflow.library.losses.reduction": "Reduction compute_weighted_loss",
    "aioflow.library.losses.regression": "absolute_difference cosine_distance huber_loss mean_squared_error",
    "aioflow.library.losses.temporal": "CTC",
})  # fmt: skip
