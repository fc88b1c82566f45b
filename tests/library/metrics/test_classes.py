"""Means over classes."""

import numpy as np
import pytest

import aioflow as af
from tests.support.metrics import over_batches


def batches(weights):
    random = np.random.default_rng(3)
    return [
        (*random.integers(0, 4, (2, 5, 3)), random.choice([0.0, 0.5, 2.0], weights).astype(np.float32))
        for _ in range(2)
    ]


def confusion(given, classes):
    matrix = np.zeros((classes, classes))
    for labels, predictions, weights in given:
        np.add.at(matrix, (labels, predictions), np.broadcast_to(weights, labels.shape))
    return matrix


@pytest.mark.parametrize("weights", [(), (5, 1), (1, 3), (5, 3)])
@pytest.mark.parametrize("known", ["sizes", "ranks", "nothing"])
async def test_the_mean_intersection_over_union_and_accuracy(weights, known):
    given = batches(weights)
    matrix = confusion(given, 6)
    right, labels, predictions = matrix.diagonal(), matrix.sum(1), matrix.sum(0)
    union = labels + predictions - right
    updates, values = await over_batches(lambda *b: af.metrics.mean_iou(*b[:2], 6, b[2]), *given, known=known)
    np.testing.assert_allclose(updates[-1], matrix)
    np.testing.assert_allclose(values[-1], (right[union > 0] / union[union > 0]).mean(), rtol=1e-6)
    accuracy = np.divide(right, labels, out=np.zeros(6), where=labels > 0)
    metric = af.metrics.mean_per_class_accuracy
    updates, values = await over_batches(lambda *b: metric(*b[:2], 6, b[2]), *given, known=known)
    np.testing.assert_allclose(updates[-1], accuracy, rtol=1e-6)
    np.testing.assert_allclose(values[-1], accuracy.mean(), rtol=1e-6)


async def test_without_weights_each_prediction_counts_once_and_without_predictions_both_are_0():
    given = np.array([0, 1, 1]), np.array([0, 1, 2])
    for metric, value in ((af.metrics.mean_iou, 0.5), (af.metrics.mean_per_class_accuracy, 0.5)):
        _, values = await over_batches(lambda a, b, metric=metric: metric(a, b, 3), given)
        assert values == [0, value]


@pytest.mark.parametrize("metric", [af.metrics.mean_iou, af.metrics.mean_per_class_accuracy])
async def test_a_label_that_is_no_class_fails_the_run_and_changes_nothing(metric):
    with af.Graph().as_default() as graph:
        labels = af.placeholder("int32", [None])
        value, update = metric(labels, [0, 1], 2)
        init = af.local_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await session.run(update, {labels: [0, 0]})
        before = await session.run(value)
        for bad in (2, -1):
            with pytest.raises(af.errors.InvalidArgumentError, match=str(bad)):
                await session.run(update, {labels: [0, bad]})
        assert await session.run(value) == before


@pytest.mark.parametrize("metric", [af.metrics.mean_iou, af.metrics.mean_per_class_accuracy])
def test_shapes_that_do_not_fit_are_refused(metric):
    with af.Graph().as_default():
        with pytest.raises(ValueError, match=r"labels have shape \[2\], predictions \[3\]; they must be equal"):
            metric([1, 0], [1, 0, 1], 2)
        with pytest.raises(ValueError, match=r"weights of shape \[3\] do not fit values of shape \[2\]"):
            metric([1, 0], [1, 0], 2, [1, 2, 3])
