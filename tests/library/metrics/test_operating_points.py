"""One rate at the threshold where another rate is nearest to a wanted one."""

import numpy as np
import pytest

import aioflow as af
from tests.support.metrics import counts_at, over_batches, scored_batches


@pytest.mark.parametrize("wanted", [0.0, 0.3, 0.8, 1.0])
async def test_a_rate_at_the_threshold_where_the_other_is_nearest_to_the_wanted_one(wanted):
    given = [(*batch[:2], np.float32(1)) for batch in scored_batches(())]
    inner = [i / 9 for i in range(1, 9)]
    for metric, last in (
        (af.metrics.sensitivity_at_specificity, 1 + 1e-7),
        (af.metrics.specificity_at_sensitivity, 1 - 1e-7),
    ):
        updates, values = await over_batches(lambda a, b, w, m=metric: m(a, b, wanted, w, num_thresholds=10), *given)
        tp, fp, tn, fn = counts_at([-1e-7, *inner, last], given).values()
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
        (lambda a, b: af.metrics.sensitivity_at_specificity(a, b, 1.5), "specificity must be in the range from 0 to 1"),
        (lambda a, b: af.metrics.specificity_at_sensitivity(a, b, -1), "sensitivity must be in the range from 0 to 1"),
    ],
)
def test_bad_arguments_are_refused(build, text):
    with af.Graph().as_default() as graph:
        with pytest.raises(ValueError, match=text):
            build(np.array([True, False]), np.float32([0.5, 0.5]))
        assert graph.get_operations() == []
