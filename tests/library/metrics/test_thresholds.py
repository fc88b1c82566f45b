"""Counts and rates at thresholds, and the metrics that choose one of them."""

import numpy as np
import pytest

import aioflow as af
from tests.support.metrics import over_batches

RANDOM = np.random.default_rng(5)
KINDS = ("true_positives", "false_positives", "true_negatives", "false_negatives")
TIES = np.float32([0.0, 0.25, 0.5, 0.75, 1.0])
"""Predictions that equal thresholds."""


def counts(thresholds, batches):
    """The sum of weights of each kind, at each threshold."""
    found = dict.fromkeys(KINDS, 0.0)
    for labels, predictions, weights in batches:
        above = predictions > np.float32(thresholds).reshape(-1, *[1] * labels.ndim)
        weights = np.broadcast_to(weights, labels.shape)
        axes = tuple(range(1, labels.ndim + 1))
        for kind, which in zip(
            KINDS, [above & labels, above & ~labels, ~above & ~labels, ~above & labels], strict=True
        ):
            found[kind] = found[kind] + (which * weights).sum(axes)
    return found


def batches(weights, ties=False):
    draw = (lambda: RANDOM.choice(TIES, (4, 3))) if ties else lambda: RANDOM.uniform(0, 1, (4, 3)).astype(np.float32)
    return [
        (RANDOM.integers(0, 2, (4, 3)) > 0, draw(), RANDOM.choice([0.0, 0.3, 2.0], weights).astype(np.float32))
        for _ in range(2)
    ]


@pytest.mark.parametrize("weights", [(), (4, 1), (1, 3), (4, 3)])
@pytest.mark.parametrize("thresholds", [[0.5], [0.75, -0.1, 0.25, 0.25, 1.0, 0.5]], ids=len)
async def test_predictions_above_each_threshold_are_positive(thresholds, weights):
    given = batches(weights, ties=True)
    expected = counts(thresholds, given)
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
    given = [batch[:2] for batch in batches(())]
    updates, _ = await over_batches(lambda *b: af.metrics.true_positives_at_thresholds(*b, [0.5]), *given)
    assert updates[-1].tolist() == counts([0.5], [(*b, 1.0) for b in given])["true_positives"].tolist()


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


# Areas


def area(curve, method, thresholds, given):
    """The area by the formulas of TensorFlow, in float64."""
    tp, fp, tn, fn = counts(thresholds, given).values()
    if curve == "PR" and method == "careful_interpolation":
        total = 0.0
        for i in range(len(thresholds) - 1):
            positives = (tp + fp)[i], (tp + fp)[i + 1]
            slope = (tp[i] - tp[i + 1]) / (positives[0] - positives[1]) if positives[0] > positives[1] else 0.0
            log = np.log(positives[0] / positives[1]) if min(positives) > 0 else 0.0
            growth = slope * (tp[i] - tp[i + 1] + (tp[i + 1] - slope * positives[1]) * log)
            total += growth / (tp + fn)[i + 1] if (tp + fn)[i + 1] else 0.0
        return total
    recall = (tp + 1e-6) / (tp + fn + 1e-6)
    x, y = (fp / (fp + tn + 1e-6), recall) if curve == "ROC" else (recall, (tp + 1e-6) / (tp + fp + 1e-6))
    heights = {"minoring": np.minimum(y[:-1], y[1:]), "majoring": np.maximum(y[:-1], y[1:])}
    return ((x[:-1] - x[1:]) * heights.get(method, (y[:-1] + y[1:]) / 2)).sum()


@pytest.mark.parametrize("method", ["trapezoidal", "careful_interpolation", "minoring", "majoring"])
@pytest.mark.parametrize("curve", ["ROC", "PR"])
async def test_the_area_under_a_curve(curve, method):
    for weights in ((), (4, 1), (4, 3)):
        given = batches(weights)
        updates, values = await over_batches(
            lambda *b: af.metrics.auc(*b, num_thresholds=7, curve=curve, summation_method=method), *given
        )
        thresholds = [-1e-7, *[i / 6 for i in range(1, 6)], 1 + 1e-7]
        np.testing.assert_allclose(updates[-1], area(curve, method, thresholds, given), rtol=1e-4, atol=1e-5)
        assert values[1:] == updates


async def test_a_perfect_order_has_the_area_1_and_the_reverse_0():
    labels, predictions = np.array([False, False, True, True]), np.float32([0.1, 0.4, 0.6, 0.9])
    for truth, expected in ((labels, 1), (~labels, 0)):
        updates, values = await over_batches(af.metrics.auc, (truth, predictions))
        np.testing.assert_allclose(updates, [expected], atol=1e-5)
        assert values[0] == 0


async def test_the_thresholds_of_an_area_may_be_given_in_any_order():
    given = batches(())
    updates, _ = await over_batches(lambda *b: af.metrics.auc(*b, thresholds=[0.8, 0.3]), *given)
    expected = area("ROC", "trapezoidal", [-1e-7, 0.3, 0.8, 1 + 1e-7], given)
    np.testing.assert_allclose(updates[-1], expected, rtol=1e-5)


# Operating points


@pytest.mark.parametrize("wanted", [0.0, 0.3, 0.8, 1.0])
async def test_a_rate_at_the_threshold_where_the_other_is_nearest_to_the_wanted_one(wanted):
    given = [(*batch[:2], np.float32(1)) for batch in batches(())]
    inner = [i / 9 for i in range(1, 9)]
    for metric, last in (
        (af.metrics.sensitivity_at_specificity, 1 + 1e-7),
        (af.metrics.specificity_at_sensitivity, 1 - 1e-7),
    ):
        updates, values = await over_batches(lambda a, b, w, m=metric: m(a, b, wanted, w, num_thresholds=10), *given)
        tp, fp, tn, fn = counts([-1e-7, *inner, last], given).values()
        sensitivity, specificity = tp / (tp + fn + 1e-7), tn / (tn + fp + 1e-7)
        if metric is af.metrics.sensitivity_at_specificity:
            expected = sensitivity[np.abs(specificity - wanted).argmin()]
        else:
            expected = specificity[::-1][np.abs(sensitivity - wanted)[::-1].argmin()]
        np.testing.assert_allclose(updates[-1], expected, rtol=1e-5)
        assert values == [0, *updates]


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda a, b: af.metrics.auc(a, b, curve="DET"), "curve is 'ROC' or 'PR', not 'DET'"),
        (lambda a, b: af.metrics.auc(a, b, summation_method="sum"), "one of trapezoidal, .*, not 'sum'"),
        (lambda a, b: af.metrics.auc(a, b, num_thresholds=1), "num_thresholds is 1, at least 2 are needed"),
        (lambda a, b: af.metrics.auc(a, b[:1]), r"labels have shape \[2\], predictions \[1\]; they must be equal"),
        (
            lambda a, b: af.metrics.auc(a, b, [1.0, 2.0, 3.0]),
            r"weights of shape \[3\] do not fit values of shape \[2\]",
        ),
        (lambda a, b: af.metrics.sensitivity_at_specificity(a, b, 1.5), "specificity must be in the range from 0 to 1"),
        (lambda a, b: af.metrics.specificity_at_sensitivity(a, b, -1), "sensitivity must be in the range from 0 to 1"),
    ],
)
def test_bad_arguments_are_refused(build, text):
    with af.Graph().as_default() as graph:
        with pytest.raises(ValueError, match=text):
            build(np.array([True, False]), np.float32([0.5, 0.5]))
        assert graph.get_operations() == []
