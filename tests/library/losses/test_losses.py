"""The loss of each element, against formulas in NumPy; the shapes that labels and predictions may have."""

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate

NONE = af.losses.Reduction.NONE
RANDOM = np.random.default_rng(1)
LABELS = RANDOM.integers(0, 2, (4, 3)).astype(np.float32)
NUMBERS = RANDOM.standard_normal((4, 3)).astype(np.float32)
OTHERS = RANDOM.standard_normal((4, 3)).astype(np.float32)
SHARES = RANDOM.uniform(0, 1, (4, 3)).astype(np.float32)
CLASSES = np.array([2, 0, 1, 1])
ONE_HOT = np.eye(3, dtype=np.float32)[CLASSES]
UNIT = NUMBERS / np.linalg.norm(NUMBERS, axis=1, keepdims=True)
UNIT_OTHERS = OTHERS / np.linalg.norm(OTHERS, axis=1, keepdims=True)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def huber(labels, predictions, delta):
    error = np.abs(predictions - labels)
    return np.where(error <= delta, error**2 / 2, delta * (error - delta / 2))


def sigmoid_loss(labels, logits):
    return np.logaddexp(0, -logits) * labels + np.logaddexp(0, logits) * (1 - labels)


CASES = {
    "absolute_difference": ((NUMBERS, OTHERS), {}, lambda a, b: np.abs(a - b)),
    "mean_squared_error": ((NUMBERS, OTHERS), {}, lambda a, b: (a - b) ** 2),
    "huber_loss": ((NUMBERS, OTHERS), {"delta": 0.7}, lambda a, b: huber(a, b, 0.7)),
    "cosine_distance": ((UNIT, UNIT_OTHERS), {"axis": 1}, lambda a, b: 1 - (a * b).sum(1, keepdims=True)),
    "cosine_distance by its old argument": (
        (UNIT, UNIT_OTHERS), {"dim": 0}, lambda a, b: 1 - (a * b).sum(0, keepdims=True)),
    "log_loss": ((LABELS, SHARES), {}, lambda a, b: -a * np.log(b + 1e-7) - (1 - a) * np.log(1 - b + 1e-7)),
    "log_loss of certainty": (
        (LABELS, 1 - LABELS), {"epsilon": 1e-3},
        lambda a, b: -a * np.log(b + 1e-3) - (1 - a) * np.log(1 - b + 1e-3)),
    "hinge_loss": ((LABELS, NUMBERS), {}, lambda a, b: np.maximum(0, 1 - (2 * a - 1) * b)),
    "sigmoid_cross_entropy": ((LABELS, NUMBERS), {}, sigmoid_loss),
    "sigmoid_cross_entropy smoothed": (
        (LABELS, NUMBERS), {"label_smoothing": 0.2}, lambda a, b: sigmoid_loss(a * 0.8 + 0.1, b)),
    "softmax_cross_entropy": ((ONE_HOT, NUMBERS), {}, lambda a, b: -(a * log_softmax(b)).sum(-1)),
    "softmax_cross_entropy smoothed": (
        (ONE_HOT, NUMBERS), {"label_smoothing": 0.3},
        lambda a, b: -((a * 0.7 + 0.1) * log_softmax(b)).sum(-1)),
    "sparse_softmax_cross_entropy": (
        (CLASSES, NUMBERS), {}, lambda a, b: -np.take_along_axis(log_softmax(b), a[:, None], 1)[:, 0]),
    "sparse_softmax_cross_entropy of a column": (
        (CLASSES[:, None], NUMBERS), {}, lambda a, b: -np.take_along_axis(log_softmax(b), a, 1)[:, 0]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("name", CASES)
def test_each_element_has_its_loss_and_the_default_is_their_mean(name):
    operands, options, formula = CASES[name]
    function, each = getattr(af.losses, name.split()[0]), formula(*operands)
    for known in (True, False):
        inputs = [af.placeholder(value.dtype, value.shape if known else [None] * value.ndim) for value in operands]
        feeds = dict(zip(inputs, operands, strict=True))
        losses, mean = function(*inputs, **options, reduction=NONE), function(*inputs, **options)
        np.testing.assert_allclose(evaluate(losses, feeds), each, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(evaluate(mean, feeds), each.mean(), rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_each_loss_takes_weights_a_scope_a_collection_and_has_a_gradient(graph, name):
    operands, options, formula = CASES[name]
    each = formula(*operands)
    weights = np.float32([1, 0, 2, 3])[: len(each)].reshape(-1, *[1] * (each.ndim - 1))
    predictions = af.constant(operands[1])
    loss = getattr(af.losses, name.split()[0])(
        operands[0], predictions, weights=weights, scope="mine", loss_collection="ours", **options
    )
    total = (each * weights).sum() / (np.broadcast_to(weights, each.shape) > 0).sum()
    np.testing.assert_allclose(evaluate(loss), total, rtol=1e-5, atol=1e-6)
    assert loss.op.name.startswith("mine/")
    assert graph.get_collection("ours") == [loss]
    assert graph.get_collection(af.GraphKeys.LOSSES) == []
    assert np.isfinite(evaluate(af.gradients(loss, predictions)[0])).all()


@pytest.mark.parametrize("name", [name for name in CASES if "sparse" not in name])
def test_shapes_that_differ_are_named_and_nothing_is_added(graph, name):
    operands, options, _ = CASES[name]
    with pytest.raises(
        ValueError, match=r"labels have shape \[4, 3\], (predictions|logits) \[4, 2\]; they must be equal"
    ):
        getattr(af.losses, name.split()[0])(operands[0], operands[1][:, :2], **options)
    with pytest.raises(ValueError, match=r"labels and \w+ are needed"):
        getattr(af.losses, name.split()[0])(operands[0], None, **options)
    assert graph.get_operations() == []


def test_labels_of_a_column_and_weights_of_a_column_fit_the_rows():
    labels, logits = CLASSES[:, None], NUMBERS
    rows = af.losses.sparse_softmax_cross_entropy(CLASSES, logits, weights=[1.0, 0.0, 2.0, 0.0])
    columns = af.losses.sparse_softmax_cross_entropy(labels, logits, weights=[[1.0], [0.0], [2.0], [0.0]])
    assert evaluate(rows) == evaluate(columns)


def test_no_gradient_flows_to_labels_that_are_distributions():
    labels = af.constant(ONE_HOT)
    assert af.gradients(af.losses.softmax_cross_entropy(labels, NUMBERS), labels) == [None]


def test_the_axis_of_the_cosine_distance_is_given_once():
    for axes in ({}, {"axis": 0, "dim": 0}):
        with pytest.raises(ValueError, match="give either axis or dim"):
            af.losses.cosine_distance(UNIT, UNIT, **axes)


async def test_a_label_that_is_no_class_fails_the_run(graph):
    labels = af.placeholder("int32", [None])
    loss = af.losses.sparse_softmax_cross_entropy(labels, NUMBERS)
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="label 3"):
            await session.run(loss, {labels: [0, 1, 3, 2]})


async def test_a_net_is_trained_by_its_total_loss(graph):
    x = af.constant(NUMBERS)
    weights = af.get_variable("weights", [3, 1], initializer=af.zeros_initializer())
    af.losses.mean_squared_error(NUMBERS @ np.float32([[1], [-2], [0.5]]), af.matmul(x, weights))
    train = af.train.GradientDescentOptimizer(0.3).minimize(af.losses.get_total_loss())
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        for _ in range(300):
            await session.run(train)
        np.testing.assert_allclose(await session.run(weights), [[1], [-2], [0.5]], atol=1e-2)
