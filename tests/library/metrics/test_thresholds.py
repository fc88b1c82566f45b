"""Counts and rates of predicted probabilities at thresholds."""

import numpy as np
import pytest

import aioflow as af
from tests.support.metrics import KINDS, counts_at, over_batches, scored_batches


@pytest.mark.parametrize("weights", [(), (4, 1), (1, 3), (4, 3)])
@pytest.mark.parametrize("thresholds", [[0.5], [0.75, -0.1, 0.25, 0.25, 1.0, 0.5]], ids=len)
async def test_predictions_above_each_threshold_are_positive(thresholds, weights):
    given = scored_batches(weights, ties=True)
    expected = counts_at(thresholds, given)
    for kind in KINDS:
        metric = getattr(af.metrics, f"{kind}_at_thresholds")
        updates, values = await over_batches(lambda *b, metric=metric: metric(*b[:2], thresholds, b[2]), *given)
        np.testing.assert_allclose(updates[-1], expected[kind], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(values[-1], updates[-1])
        np.testing.assert_array_equal(values[0], np.zeros(len(thresholds), np.float32))
    tp, fp, _, fn = expected.values()
    for metric, others in ((af.metrics.precision_at_thresholds, fp), (af.metrics.recall_at_thresholds, fn)):
        updates, _ = await over_batches(lambda *b, metric=metric: metric(*b[:2], thresholds, b[2]), *given)
        np.testing.assert_allclose(updates[-1], tp / (tp + others + 1e-7), rtol=1e-5)


async def test_without_weights_each_prediction_counts_once():
    given = [batch[:2] for batch in scored_batches(())]
    updates, _ = await over_batches(lambda *b: af.metrics.true_positives_at_thresholds(*b, [0.5]), *given)
    assert updates[-1].tolist() == counts_at([0.5], [(*b, 1.0) for b in given])["true_positives"].tolist()


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
async def test_predictions_outside_0_to_1_fail_the_run_and_change_nothing(bad):
    with af.Graph().as_default() as graph:
        predictions = af.placeholder("float32", [2])
        value, update = af.metrics.auc([True, False], predictions)
        count, add = af.metrics.true_positives_at_thresholds([True, False], predictions, [0.5])
        init = af.local_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        before = await session.run([value, *af_locals(graph)])
        with pytest.raises(af.errors.InvalidArgumentError, match="predictions must be in the range from 0 to 1"):
            await session.run([update, add], {predictions: [0.5, bad]})
        for old, new in zip(before, await session.run([value, *af_locals(graph)]), strict=True):
            np.testing.assert_array_equal(old, new)
        assert await session.run(count) == [0]


def af_locals(graph):
    return graph.get_collection(af.GraphKeys.LOCAL_VARIABLES)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda a, b: af.metrics.recall_at_thresholds(a, b[:1], [0.5]), r"labels have shape \[2\], predictions \[1\]"),
        (
            lambda a, b: af.metrics.recall_at_thresholds(a, b, [0.5], [1.0, 2.0, 3.0]),
            r"of shape \[3\] do not fit",
        ),
    ],
)
def test_bad_arguments_are_refused(build, text):
    with af.Graph().as_default() as graph:
        with pytest.raises(ValueError, match=text):
            build(np.array([True, False]), np.float32([0.5, 0.5]))
        assert graph.get_operations() == []
