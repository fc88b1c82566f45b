"""`af.metrics`: values gathered over many steps in local variables, under TensorFlow's names.

Input: labels, predictions and weights of one batch. Output: a pair of tensors, the value of the metric over all batches
so far, and an operation that adds the batch and returns the new value. Classes with the names of Keras are such
functions, too. This folder uses `kernels` and the functions of `library` around it.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.metrics.accuracies import Accuracy as Accuracy
from aioflow.library.metrics.accuracies import BinaryAccuracy as BinaryAccuracy
from aioflow.library.metrics.accuracies import CategoricalAccuracy as CategoricalAccuracy
from aioflow.library.metrics.accuracies import SparseCategoricalAccuracy as SparseCategoricalAccuracy
from aioflow.library.metrics.accuracies import SparseTopKCategoricalAccuracy as SparseTopKCategoricalAccuracy
from aioflow.library.metrics.accuracies import TopKCategoricalAccuracy as TopKCategoricalAccuracy
from aioflow.library.metrics.areas import auc as auc
from aioflow.library.metrics.at_k import precision_at_k as precision_at_k
from aioflow.library.metrics.at_k import precision_at_k as sparse_precision_at_k
from aioflow.library.metrics.at_k import precision_at_top_k as precision_at_top_k
from aioflow.library.metrics.at_k import recall_at_k as recall_at_k
from aioflow.library.metrics.at_k import recall_at_top_k as recall_at_top_k
from aioflow.library.metrics.average_precision import average_precision_at_k as average_precision_at_k
from aioflow.library.metrics.average_precision import average_precision_at_k as sparse_average_precision_at_k
from aioflow.library.metrics.classes import mean_iou as mean_iou
from aioflow.library.metrics.classes import mean_per_class_accuracy as mean_per_class_accuracy
from aioflow.library.metrics.counts import false_negatives as false_negatives
from aioflow.library.metrics.counts import false_positives as false_positives
from aioflow.library.metrics.counts import true_negatives as true_negatives
from aioflow.library.metrics.counts import true_positives as true_positives
from aioflow.library.metrics.curves import AUC as AUC
from aioflow.library.metrics.curves import PrecisionAtRecall as PrecisionAtRecall
from aioflow.library.metrics.curves import RecallAtPrecision as RecallAtPrecision
from aioflow.library.metrics.curves import SensitivityAtSpecificity as SensitivityAtSpecificity
from aioflow.library.metrics.curves import SpecificityAtSensitivity as SpecificityAtSensitivity
from aioflow.library.metrics.decisions import FalseNegatives as FalseNegatives
from aioflow.library.metrics.decisions import FalsePositives as FalsePositives
from aioflow.library.metrics.decisions import Precision as Precision
from aioflow.library.metrics.decisions import Recall as Recall
from aioflow.library.metrics.decisions import TrueNegatives as TrueNegatives
from aioflow.library.metrics.decisions import TruePositives as TruePositives
from aioflow.library.metrics.f_scores import F1Score as F1Score
from aioflow.library.metrics.f_scores import FBetaScore as FBetaScore
from aioflow.library.metrics.fits import ConcordanceCorrelation as ConcordanceCorrelation
from aioflow.library.metrics.fits import PearsonCorrelation as PearsonCorrelation
from aioflow.library.metrics.fits import R2Score as R2Score
from aioflow.library.metrics.fits import RootMeanSquaredError as RootMeanSquaredError
from aioflow.library.metrics.loss_means import BinaryCrossentropy as BinaryCrossentropy
from aioflow.library.metrics.loss_means import CategoricalCrossentropy as CategoricalCrossentropy
from aioflow.library.metrics.loss_means import CategoricalHinge as CategoricalHinge
from aioflow.library.metrics.loss_means import CosineSimilarity as CosineSimilarity
from aioflow.library.metrics.loss_means import Hinge as Hinge
from aioflow.library.metrics.loss_means import KLDivergence as KLDivergence
from aioflow.library.metrics.loss_means import LogCoshError as LogCoshError
from aioflow.library.metrics.loss_means import MeanAbsoluteError as MeanAbsoluteError
from aioflow.library.metrics.loss_means import MeanAbsolutePercentageError as MeanAbsolutePercentageError
from aioflow.library.metrics.loss_means import MeanSquaredError as MeanSquaredError
from aioflow.library.metrics.loss_means import MeanSquaredLogarithmicError as MeanSquaredLogarithmicError
from aioflow.library.metrics.loss_means import Poisson as Poisson
from aioflow.library.metrics.loss_means import SparseCategoricalCrossentropy as SparseCategoricalCrossentropy
from aioflow.library.metrics.loss_means import SquaredHinge as SquaredHinge
from aioflow.library.metrics.means import mean as mean
from aioflow.library.metrics.means import mean_tensor as mean_tensor
from aioflow.library.metrics.means import percentage_below as percentage_below
from aioflow.library.metrics.metric import Mean as Mean
from aioflow.library.metrics.metric import MeanMetricWrapper as MeanMetricWrapper
from aioflow.library.metrics.metric import Metric as Metric
from aioflow.library.metrics.metric import Sum as Sum
from aioflow.library.metrics.operating_points import sensitivity_at_specificity as sensitivity_at_specificity
from aioflow.library.metrics.operating_points import specificity_at_sensitivity as specificity_at_sensitivity
from aioflow.library.metrics.overlaps import BinaryIoU as BinaryIoU
from aioflow.library.metrics.overlaps import IoU as IoU
from aioflow.library.metrics.overlaps import MeanIoU as MeanIoU
from aioflow.library.metrics.overlaps import OneHotIoU as OneHotIoU
from aioflow.library.metrics.overlaps import OneHotMeanIoU as OneHotMeanIoU
from aioflow.library.metrics.rates import accuracy as accuracy
from aioflow.library.metrics.rates import precision as precision
from aioflow.library.metrics.rates import recall as recall
from aioflow.library.metrics.regression import mean_absolute_error as mean_absolute_error
from aioflow.library.metrics.regression import mean_cosine_distance as mean_cosine_distance
from aioflow.library.metrics.regression import mean_relative_error as mean_relative_error
from aioflow.library.metrics.regression import mean_squared_error as mean_squared_error
from aioflow.library.metrics.regression import root_mean_squared_error as root_mean_squared_error
from aioflow.library.metrics.thresholds import false_negatives_at_thresholds as false_negatives_at_thresholds
from aioflow.library.metrics.thresholds import false_positives_at_thresholds as false_positives_at_thresholds
from aioflow.library.metrics.thresholds import precision_at_thresholds as precision_at_thresholds
from aioflow.library.metrics.thresholds import recall_at_thresholds as recall_at_thresholds
from aioflow.library.metrics.thresholds import true_negatives_at_thresholds as true_negatives_at_thresholds
from aioflow.library.metrics.thresholds import true_positives_at_thresholds as true_positives_at_thresholds

__all__ = ["AUC", "Accuracy", "BinaryAccuracy", "BinaryCrossentropy", "BinaryIoU", "CategoricalAccuracy",
    "CategoricalCrossentropy", "CategoricalHinge", "ConcordanceCorrelation", "CosineSimilarity", "F1Score",
    "FBetaScore", "FalseNegatives", "FalsePositives", "Hinge", "IoU", "KLDivergence", "LogCoshError", "Mean",
    "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanIoU", "MeanMetricWrapper", "MeanSquaredError",
    "MeanSquaredLogarithmicError", "Metric", "OneHotIoU", "OneHotMeanIoU", "PearsonCorrelation", "Poisson", "Precision",
    "PrecisionAtRecall", "R2Score", "Recall", "RecallAtPrecision", "RootMeanSquaredError", "SensitivityAtSpecificity",
    "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy", "SparseTopKCategoricalAccuracy",
    "SpecificityAtSensitivity", "SquaredHinge", "Sum", "TopKCategoricalAccuracy", "TrueNegatives", "TruePositives",
    "accuracy", "auc", "average_precision_at_k", "false_negatives", "false_negatives_at_thresholds", "false_positives",
    "false_positives_at_thresholds", "mean", "mean_absolute_error", "mean_cosine_distance", "mean_iou",
    "mean_per_class_accuracy", "mean_relative_error", "mean_squared_error", "mean_tensor", "percentage_below",
    "precision", "precision_at_k", "precision_at_thresholds", "precision_at_top_k", "recall", "recall_at_k",
    "recall_at_thresholds", "recall_at_top_k", "root_mean_squared_error", "sensitivity_at_specificity",
    "sparse_average_precision_at_k", "sparse_precision_at_k", "specificity_at_sensitivity", "true_negatives",
    "true_negatives_at_thresholds", "true_positives", "true_positives_at_thresholds"]
