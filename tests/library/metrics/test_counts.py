"""Counts of true and false, positive and negative predictions, and the rates made of them."""

import numpy as np
import pytest

import aioflow as af
from tests.support.metrics import over_batches

KINDS = {
    "true_positives": lambda truth, guess: truth & guess,
    "false_positives": lambda truth, guess: ~truth & guess,
    "true_negatives": lambda truth, guess: ~truth & ~guess,
    "false_negatives": lambda truth, guess: truth & ~guess,
}
RATES = {
    "accuracy": (("true_positives", "true_negatives"), ("false_positives", "false_negatives")),
    "precision": (("true_positives",), ("false_positives",)),
    "recall": (("true_positives",), ("false_negatives",)),
}
WEIGHTS = [(), (1, 1), (4, 1), (1, 3), (4, 3)]


def batches(weights):
    random = np.random.default_rng(3)
    return [
        (*random.integers(0, 2, (2, 4, 3)), random.choice([0.0, 0.5, 2.0], weights).astype(np.float32))
        for _ in range(2)
    ]


def counted(kind, truth, guess, weights):
    return (KINDS[kind](truth > 0, guess > 0) * weights).sum()


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_predictions_of_a_kind_are_counted_with_their_weights(kind, weights):
    given = batches(weights)
    updates, values = await over_batches(getattr(af.metrics, kind), *given)
    assert values == [0, *updates]
    assert updates == list(np.cumsum([counted(kind, *batch) for batch in given]))
    assert updates[0].dtype == np.float32


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("rate", RATES)
async def test_rates_are_shares_of_counts(rate, weights):
    given = batches(weights)
    updates, values = await over_batches(getattr(af.metrics, rate), *given)
    right, wrong = (sum(counted(k, *b) for k in kinds for b in given) for kinds in RATES[rate])
    np.testing.assert_allclose(updates[-1], right / (right + wrong) if right else 0, rtol=1e-6)
    assert values == [0, *updates]


async def test_all_that_is_not_0_is_true():
    updates, _ = await over_batches(af.metrics.true_positives, ([2.5, 0.0, -1.0], [1.0, 1.0, 0.5]))
    assert updates == [2]


@pytest.mark.parametrize("rate", RATES)
async def test_a_rate_of_nothing_is_0(rate):
    empty = np.zeros(0, bool)
    updates, values = await over_batches(getattr(af.metrics, rate), (empty, empty))
    assert updates + values == [0, 0, 0]


async def test_accuracy_compares_numbers_and_texts_in_the_dtype_of_the_labels():
    updates, _ = await over_batches(af.metrics.accuracy, (np.array([3, 1, 2]), np.float32([3.0, 1.7, 4.0])))
    assert updates == [np.float32(2 / 3)]
    texts = np.array(["a", "b"], object), np.array(["a", "c"], object)
    assert (await over_batches(af.metrics.accuracy, texts))[0] == [0.5]


@pytest.mark.parametrize("known", ["sizes", "ranks", "nothing"])
async def test_a_last_axis_of_size_1_is_dropped(known):
    labels, predictions = np.array([[1], [0], [1]]), np.array([1, 1, 1])
    for metric, value in [(af.metrics.accuracy, 2 / 3), (af.metrics.precision, 2 / 3), (af.metrics.recall, 1.0)]:
        assert (await over_batches(metric, (labels, predictions), known=known))[0] == [np.float32(value)]


@pytest.mark.parametrize("name", [*KINDS, *RATES])
def test_shapes_that_do_not_fit_are_refused(name):
    metric = getattr(af.metrics, name)
    with af.Graph().as_default() as graph:
        with pytest.raises(ValueError, match=r"labels have shape \[2\], predictions \[3\]; they must be equal"):
            metric([1, 0], [1, 0, 1])
        with pytest.raises(ValueError, match=r"weights of shape \[3\] do not fit values of shape \[2\]"):
            metric([1, 0], [1, 0], weights=[1, 2, 3])
        with pytest.raises(ValueError, match="labels and predictions are needed"):
            metric(None, [1, 0])
        assert graph.get_operations() == []
