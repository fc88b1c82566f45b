"""Precision and recall at k, and average precision, against sets in Python."""

import numpy as np
import pytest

import aioflow as af
from tests.support.metrics import over_batches

K, CLASSES, EXAMPLES = 3, 6, 5
LABELS = {
    "one per example": lambda random: random.integers(0, CLASSES, EXAMPLES),
    "a column": lambda random: random.integers(0, CLASSES, (EXAMPLES, 1)),
    "several, repeated and out of range": lambda random: random.integers(-1, CLASSES + 2, (EXAMPLES, 4)),
}


def batches(labels, weights):
    random = np.random.default_rng(3)
    return [
        (LABELS[labels](random), random.standard_normal((EXAMPLES, CLASSES)), random.choice([0.5, 2.0], weights))
        for _ in range(2)
    ]


def top(scores):
    return np.argsort(-scores, axis=-1, kind="stable")[..., :K]


def overlaps(given, class_id):
    """The weighted numbers of classes that are labels and predicted, predicted alone, labels alone."""
    found = np.zeros(3)
    for labels, scores, weights in given:
        for row, chosen, weight in zip(labels, top(scores), np.broadcast_to(weights, EXAMPLES), strict=True):
            wanted, guessed = set(np.atleast_1d(row).tolist()), set(chosen.tolist())
            if class_id is not None:
                wanted, guessed = wanted & {class_id}, guessed & {class_id}
            found += weight * np.array([len(wanted & guessed), len(guessed - wanted), len(wanted - guessed)])
    return found


@pytest.mark.parametrize("weights", [(), (1,), (EXAMPLES,)])
@pytest.mark.parametrize("class_id", [None, 2])
@pytest.mark.parametrize("labels", LABELS)
async def test_precision_and_recall_of_the_k_best(labels, class_id, weights):
    given = batches(labels, weights)
    both, wrong, missed = overlaps(given, class_id)
    options = {"k": K, "class_id": class_id}
    for metric, others in ((af.metrics.precision_at_k, wrong), (af.metrics.recall_at_k, missed)):
        updates, values = await over_batches(lambda a, b, w, m=metric: m(a, b, weights=w, **options), *given)
        np.testing.assert_allclose(updates[-1], both / (both + others) if both + others else np.nan)
        np.testing.assert_array_equal(values[1:], updates)
        assert updates[0].dtype == np.float64


def average_precision(row, chosen):
    hits = [guess in set(np.atleast_1d(row).tolist()) for guess in chosen.tolist()]
    relevant = min(sum(0 <= label < CLASSES for label in np.atleast_1d(row)), K)
    return sum(hit * sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits)) / relevant


@pytest.mark.parametrize("weights", [(), (1,), (EXAMPLES,)])
@pytest.mark.parametrize("labels", ["one per example", "a column"])
async def test_average_precision_of_the_k_best(labels, weights):
    given = batches(labels, weights)
    updates, values = await over_batches(lambda a, b, w: af.metrics.average_precision_at_k(a, b, K, weights=w), *given)
    total = count = 0.0
    for rows, scores, weight in given:
        each = np.broadcast_to(weight, EXAMPLES)
        total += sum(w * average_precision(*pair) for w, *pair in zip(each, rows, top(scores), strict=True))
        count += each.sum()
    np.testing.assert_allclose(updates[-1], total / count)
    assert values == [0, *updates]


async def test_average_precision_counts_labels_once_for_each_place():
    scores = np.array([[0.5, 0.9, 0.7, 0.1]])
    for labels, expected in [([[1, 0]], (1 + 2 / 3) / 2), ([[2, 3]], 0.5 / 2), ([[3, -1]], 0.0), ([[1, 9]], 1.0)]:
        updates, _ = await over_batches(lambda a, b: af.metrics.average_precision_at_k(a, b, 3), (labels, scores))
        np.testing.assert_allclose(updates, [expected])


async def test_an_example_without_labels_makes_the_average_precision_nan():
    updates, _ = await over_batches(
        lambda a, b: af.metrics.average_precision_at_k(a, b, 2), ([[-1]], np.eye(1, 3)), ([[0]], np.eye(1, 3))
    )
    assert np.isnan(updates).all()


async def test_sparse_labels_have_rows_of_different_lengths():
    scores = np.array([[0.9, 0.8, 0.1], [0.1, 0.2, 0.9]])
    given = np.array([[0, 0], [0, 1], [1, 0]]), np.array([0, 2, 1]), np.array([2, 2])
    dense = np.array([[0, 2], [1, 1]])
    for metric in (af.metrics.precision_at_k, af.metrics.recall_at_k, af.metrics.average_precision_at_k):
        updates, _ = await over_batches(
            lambda i, v, n, s, metric=metric: metric(af.SparseTensor(i, v, n), s, 2), (*given, scores), known="sizes"
        )
        same = dense if metric is not af.metrics.average_precision_at_k else np.array([[0, 2], [1, -1]])
        assert updates == (await over_batches(lambda a, s, metric=metric: metric(a, s, 2), (same, scores)))[0]


async def test_predicted_classes_may_be_given_and_count_once():
    labels, chosen = np.array([[1, 2, 2], [0, 0, 0]]), np.array([[1, 1, 3], [5, 4, 0]])
    precision, _ = await over_batches(af.metrics.precision_at_top_k, (labels, chosen))
    recall, _ = await over_batches(af.metrics.recall_at_top_k, (labels, chosen))
    assert precision == [2 / 5]
    assert recall == [2 / 3]


async def test_examples_may_lie_along_several_axes():
    labels, scores = np.array([[0, 1], [2, 2]]), np.eye(3)[[[0, 2], [2, 1]]]
    updates, _ = await over_batches(
        lambda a, b, w: af.metrics.recall_at_k(a, b, 1, weights=w), (labels, scores, np.array([[1.0], [3.0]]))
    )
    assert updates == [(1 + 3) / (1 + 1 + 3 + 3)]


async def test_names_tell_k_and_the_class():
    with af.Graph().as_default():
        scores = np.eye(2)
        af.metrics.precision_at_k([0, 1], scores, 2, class_id=1)
        af.metrics.recall_at_top_k([0, 1], [[0], [1]])
        af.metrics.average_precision_at_k([0, 1], scores, 1)
        assert [variable.op.name for variable in af.local_variables()] == [
            "precision_at_2_class1/true_positive_at_2_class1",
            "precision_at_2_class1/false_positive_at_2_class1",
            "recall_at_k/true_positive_at_k",
            "recall_at_k/false_negative_at_k",
            "average_precision_at_1/total",
            "average_precision_at_1/max",
        ]


EYE = np.eye(2)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: af.metrics.recall_at_k([[[0]]], EYE, 1), r"\[1, 1, 1\] do not fit predictions of shape \[2, 1\]"),
        (lambda: af.metrics.precision_at_k([0, 1, 1], EYE, 1), r"\[3\] do not fit predictions of shape \[2, 1\]"),
        (lambda: af.metrics.precision_at_k([0, 1], EYE, 1, weights=[[1.0]]), r"\[1, 1\] do not fit values of shape"),
        (lambda: af.metrics.average_precision_at_k([0, 1], EYE, 0), "k must be 1 or more, it is 0"),
        (lambda: af.metrics.recall_at_k(af.placeholder("int32"), EYE, 1), "the ranks must be known"),
    ],
)
def test_bad_arguments_are_refused(build, text):
    with af.Graph().as_default(), pytest.raises(ValueError, match=text):
        build()
