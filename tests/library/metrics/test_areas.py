"""The area under a curve of rates at thresholds."""

import numpy as np
import pytest

import aioflow as af
from tests.support.metrics import counts_at, over_batches, scored_batches


def area(curve, method, thresholds, given):
    """The area by the formulas of TensorFlow, in float64."""
    tp, fp, tn, fn = counts_at(thresholds, given).values()
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
        given = scored_batches(weights)
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
    given = scored_batches(())
    updates, _ = await over_batches(lambda *b: af.metrics.auc(*b, thresholds=[0.8, 0.3]), *given)
    expected = area("ROC", "trapezoidal", [-1e-7, 0.3, 0.8, 1 + 1e-7], given)
    np.testing.assert_allclose(updates[-1], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda a, b: af.metrics.auc(a, b, curve="DET"), "curve is 'ROC' or 'PR', not 'DET'"),
        (lambda a, b: af.metrics.auc(a, b, summation_method="sum"), "one of trapezoidal, .*, not 'sum'"),
        (lambda a, b: af.metrics.auc(a, b, num_thresholds=1), "num_thresholds is 1, at least 2 are needed"),
        (lambda a, b: af.metrics.auc(a, b[:1]), r"labels have shape \[2\], predictions \[1\]; they must be equal"),
    ],
)
def test_bad_arguments_are_refused(build, text):
    with af.Graph().as_default() as graph:
        with pytest.raises(ValueError, match=text):
            build(np.array([True, False]), np.float32([0.5, 0.5]))
        assert graph.get_operations() == []
