"""`af.metrics`: values gathered over many steps in local variables, under TensorFlow's names.

Input: labels, predictions and weights of one batch. Output: a pair of tensors, the value of the metric over all batches
so far, and an operation that adds the batch and returns the new value. Classes with the names of Keras are such
functions, too. This folder uses `kernels` and the functions of `library` around it.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.metrics.accuracies": (
        "Accuracy BinaryAccuracy CategoricalAccuracy SparseCategoricalAccuracy SparseTopKCategoricalAccuracy "
        "TopKCategoricalAccuracy"
    ),
    "aioflow.library.metrics.areas": "auc",
    "aioflow.library.metrics.at_k": (
        "precision_at_k precision_at_top_k recall_at_k recall_at_top_k sparse_precision_at_k=precision_at_k"
    ),
    "aioflow.library.metrics.average_precision": (
        "average_precision_at_k sparse_average_precision_at_k=average_precision_at_k"
    ),
    "aioflow.library.metrics.classes": "mean_iou mean_per_class_accuracy",
    "aioflow.library.metrics.counts": "false_negatives false_positives true_negatives true_positives",
    "aioflow.library.metrics.curves": (
        "AUC PrecisionAtRecall RecallAtPrecision SensitivityAtSpecificity SpecificityAtSensitivity"
    ),
    "aioflow.library.metrics.decisions": (
        "FalseNegatives FalsePositives Precision Recall TrueNegatives TruePositives"
    ),
    "aioflow.library.metrics.f_scores": "F1Score FBetaScore",
    "aioflow.library.metrics.fits": "ConcordanceCorrelation PearsonCorrelation R2Score RootMeanSquaredError",
    "aioflow.library.metrics.loss_means": (
        "BinaryCrossentropy CategoricalCrossentropy CategoricalHinge CosineSimilarity Hinge KLDivergence LogCoshError "
        "MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredError MeanSquaredLogarithmicError Poisson "
        "SparseCategoricalCrossentropy SquaredHinge"
    ),
    "aioflow.library.metrics.means": "mean mean_tensor percentage_below",
    "aioflow.library.metrics.metric": "Mean MeanMetricWrapper Metric Sum",
    "aioflow.library.metrics.operating_points": "sensitivity_at_specificity specificity_at_sensitivity",
    "aioflow.library.metrics.overlaps": "BinaryIoU IoU MeanIoU OneHotIoU OneHotMeanIoU",
    "aioflow.library.metrics.rates": "accuracy precision recall",
    "aioflow.library.metrics.regression": (
        "mean_absolute_error mean_cosine_distance mean_relative_error mean_squared_error root_mean_squared_error"
    ),
    "aioflow.library.metrics.thresholds": (
        "false_negatives_at_thresholds false_positives_at_thresholds precision_at_thresholds recall_at_thresholds "
        "true_negatives_at_thresholds true_positives_at_thresholds"
    ),
})  # fmt: skip
