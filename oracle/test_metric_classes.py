"""The classes of `af.metrics` have Keras's names, arguments, and values over several batches."""

import asyncio
import inspect
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import aioflow as af

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
RANDOM = np.random.default_rng(6)
BATCHES = 3


def numbers() -> Any:
    return RANDOM.standard_normal((8, 4)).astype(np.float32)


def positive() -> Any:
    return np.abs(numbers()) + np.float32(0.1)


def shares() -> Any:
    return RANDOM.dirichlet(np.ones(4), 8).astype(np.float32)


def one_hot() -> Any:
    return np.eye(4, dtype=np.float32)[RANDOM.integers(0, 4, 8)]


def classes() -> Any:
    return RANDOM.integers(0, 4, 8)


def bits() -> Any:
    return RANDOM.integers(0, 2, (8, 1)).astype(np.float32)


def chances() -> Any:
    return RANDOM.uniform(0, 1, (8, 1)).astype(np.float32)


CASES: tuple[tuple[str, Any, Any, dict[str, Any]], ...] = (
    *[(name, numbers, numbers, {}) for name in (
        "MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "LogCoshError", "CategoricalHinge",
        "CosineSimilarity", "RootMeanSquaredError", "PearsonCorrelation", "ConcordanceCorrelation", "R2Score",
    )],
    *[(name, bits, chances, {}) for name in ("Hinge", "SquaredHinge")],
    *[(name, positive, positive, {}) for name in ("MeanSquaredLogarithmicError", "Poisson")],
    *[(name, shares, shares, {}) for name in ("KLDivergence", "CategoricalCrossentropy")],
    ("CategoricalCrossentropy", one_hot, numbers, {"from_logits": True, "label_smoothing": 0.1}),
    ("BinaryCrossentropy", bits, chances, {}),
    ("BinaryCrossentropy", bits, chances, {"from_logits": True, "label_smoothing": 0.2}),
    ("SparseCategoricalCrossentropy", classes, shares, {}),
    ("Accuracy", classes, classes, {}), ("BinaryAccuracy", bits, chances, {"threshold": 0.3}),
    ("CategoricalAccuracy", one_hot, shares, {}), ("SparseCategoricalAccuracy", classes, shares, {}),
    ("TopKCategoricalAccuracy", one_hot, shares, {"k": 2}),
    ("SparseTopKCategoricalAccuracy", classes, shares, {"k": 2}),
    *[(name, bits, chances, options) for options in ({}, {"thresholds": 0.7}, {"thresholds": [0.2, 0.9, 0.5]})
      for name in ("TruePositives", "FalsePositives", "TrueNegatives", "FalseNegatives", "Precision", "Recall")],
    *[(name, one_hot, shares, options) for name in ("Precision", "Recall")
      for options in ({"top_k": 2}, {"class_id": 1}, {"top_k": 2, "class_id": 1}, {"top_k": 2, "thresholds": 0.3})],
    *[("AUC", bits, chances, {"curve": curve, "summation_method": method})
      for curve in ("ROC", "PR") for method in ("interpolation", "minoring", "majoring")],
    ("AUC", bits, chances, {"thresholds": [0.2, 0.7]}), ("AUC", bits, chances, {"from_logits": True}),
    *[(name, bits, chances, {argument: 0.6, "num_thresholds": count}) for count in (1, 50) for name, argument in (
        ("SensitivityAtSpecificity", "specificity"), ("SpecificityAtSensitivity", "sensitivity"),
        ("PrecisionAtRecall", "recall"), ("RecallAtPrecision", "precision"),
    )],
    *[("F1Score", one_hot, shares, {"average": each}) for each in (None, "micro", "macro", "weighted")],
    ("F1Score", one_hot, shares, {"threshold": 0.3}),
    ("FBetaScore", one_hot, shares, {"beta": 2.0, "average": "weighted"}),
    ("IoU", classes, classes, {"num_classes": 4, "target_class_ids": [0, 2]}),
    ("MeanIoU", classes, classes, {"num_classes": 4}),
    ("MeanIoU", classes, classes, {"num_classes": 4, "ignore_class": 2}),
    ("BinaryIoU", bits, chances, {"threshold": 0.4}), ("BinaryIoU", bits, chances, {"target_class_ids": [1]}),
    ("OneHotIoU", one_hot, shares, {"num_classes": 4, "target_class_ids": [1, 3]}),
    ("OneHotMeanIoU", one_hot, shares, {"num_classes": 4}),
    ("R2Score", numbers, numbers, {"class_aggregation": None}),
    ("R2Score", numbers, numbers, {"class_aggregation": "variance_weighted_average", "num_regressors": 3}),
)  # fmt: skip
DRAWN = [[(labels(), predictions()) for _ in range(BATCHES)] for _, labels, predictions, _ in CASES]
WEIGHTS = RANDOM.integers(0, 4, (BATCHES, 8)).astype(np.float32)
"""Whole numbers: Keras's IoU cuts off the rest of weights."""


@pytest.fixture(scope="module")
def keras() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        yield process


def by_keras(number: int, data: Any, weights: Any) -> tuple[str, Any]:
    import keras

    name, _, _, options = CASES[number]
    metric = getattr(keras.metrics, name)(**options)
    for (labels, predictions), each in zip(data, weights, strict=True):
        metric.update_state(labels, predictions, each)
    return metric.name, np.array(keras.ops.convert_to_numpy(metric.result()))


def parameters_of_keras() -> dict[str, list[str]]:
    """The parameters of the classes."""
    import keras

    found = {name: getattr(keras.metrics, name) for name in dir(keras.metrics)}
    return {name: [*inspect.signature(each).parameters] for name, each in found.items() if inspect.isclass(each)}


async def ours(number: int, data: Any, weights: Any) -> tuple[str, Any]:
    name, _, _, options = CASES[number]
    metric = getattr(af.metrics, name)(**options)
    with af.Graph().as_default() as graph:
        (labels, predictions), weighted = data[0], weights[0] is not None
        fed = [af.placeholder(array.dtype, [None, *array.shape[1:]]) for array in (labels, predictions)]
        each = af.placeholder(af.float32, [None]) if weighted else None
        value, update = metric(*fed, each)
        begin = af.local_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(begin)
        for arrays, factors in zip(data, weights, strict=True):
            await session.run(update, dict(zip(fed, arrays, strict=True)) | ({each: factors} if weighted else {}))
        return metric.name, await session.run(value)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{each[0]} {each[3]}" for each in CASES])
@pytest.mark.parametrize("weights", [[None] * BATCHES, WEIGHTS], ids=["plain", "weighted"])
def test_values_over_batches_are_kerass(keras: ProcessPoolExecutor, number: int, weights: Any) -> None:
    name, theirs = keras.submit(by_keras, number, DRAWN[number], weights).result()
    own, mine = asyncio.run(ours(number, DRAWN[number], weights))
    assert name.rstrip("_0123456789") == own.rstrip("_0123456789")
    assert np.shape(mine) == theirs.shape
    np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)


LEFT_OUT = {"dtype", "multi_label", "num_labels", "label_weights", "from_sorted_ids", "axis", "ignore_class"}
"""Parameters that aioflow's classes may lack."""


def test_names_and_arguments_are_kerass(keras: ProcessPoolExecutor) -> None:
    for name, wanted in keras.submit(parameters_of_keras).result().items():
        mine = [*inspect.signature(getattr(af.metrics, name)).parameters]
        kept = [each for each in wanted if each not in LEFT_OUT or each in mine]
        assert sorted(mine) == sorted(kept), name
