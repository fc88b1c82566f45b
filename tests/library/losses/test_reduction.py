"""Weights and reductions of losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from tests.support.evaluate import evaluate

Reduction = af.losses.Reduction


def expected(losses, weights, reduction):
    """The weighted and reduced loss, in float64."""
    weights = np.broadcast_to(weights, losses.shape).astype(np.float64)
    weighted = losses * weights
    divisors = {
        Reduction.SUM: 1,
        Reduction.MEAN: weights.sum(),
        Reduction.SUM_OVER_BATCH_SIZE: losses.size,
        Reduction.SUM_BY_NONZERO_WEIGHTS: np.count_nonzero(weights),
    }
    if reduction == Reduction.NONE:
        return weighted
    return weighted.sum() / divisors[reduction] if divisors[reduction] else 0.0


@st.composite
def weighted_losses(draw):
    """Losses, weights of a shape that fits them, and how much of both shapes the graph knows."""
    sizes = draw(st.lists(st.integers(0, 3), max_size=3))
    fitting = draw(st.just(()) | st.tuples(*[st.sampled_from([1, size]) for size in sizes]))
    random = np.random.default_rng(draw(st.integers(0, 9)))
    weights = random.choice([0.0, 0.5, 1.0, 3.0], fitting)
    return random.standard_normal(sizes), weights, draw(st.sampled_from(["constants", "sizes", "ranks", "nothing"]))


@given(weighted_losses(), st.sampled_from(Reduction.all()))
def test_losses_are_weighted_and_reduced(case, reduction):
    losses, weights, known = case
    arrays = losses.astype(np.float32), weights.astype(np.float32)
    with af.Graph().as_default():
        if known == "constants":
            inputs, feeds = arrays, None
        else:
            shapes = [{"sizes": a.shape, "ranks": [None] * a.ndim, "nothing": None}[known] for a in arrays]
            inputs = [af.placeholder("float32", shape) for shape in shapes]
            feeds = dict(zip(inputs, arrays, strict=True))
        loss = af.losses.compute_weighted_loss(*inputs, reduction=reduction)
        value = evaluate(loss, feeds)
    assert value.dtype == np.float32
    assert value.shape == (losses.shape if reduction == Reduction.NONE else ())
    np.testing.assert_allclose(value, expected(losses, weights, reduction), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("reduction", "loss"),
    [
        (Reduction.NONE, [[0, 0], [9, 12]]),
        (Reduction.SUM, 21),
        (Reduction.MEAN, 3.5),
        (Reduction.SUM_OVER_BATCH_SIZE, 5.25),
        (Reduction.SUM_BY_NONZERO_WEIGHTS, 10.5),
        (Reduction.SUM_OVER_NONZERO_WEIGHTS, 10.5),
    ],
)
def test_each_reduction_has_its_divisor(reduction, loss):
    losses = np.float32([[1, 2], [3, 4]])
    with af.Graph().as_default():
        for weights in (np.float32([[0], [3]]), np.float32([[0, 0], [3, 3]])):
            made = af.losses.compute_weighted_loss(losses, weights, reduction=reduction)
            np.testing.assert_array_equal(evaluate(made), loss)


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.usefixtures("graph")
def test_a_weight_that_is_a_number_needs_no_look_at_the_weights():
    for weight, loss in [(1, 1.5), (2.0, 3.0), (0.0, 0.0), (np.float64(2), 3.0)]:
        assert evaluate(af.losses.compute_weighted_loss([1.0, 2.0], weight)) == loss


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("dtype", [af.float16, af.bfloat16, af.float64, af.int32])
def test_the_loss_has_the_dtype_of_the_losses(dtype):
    loss = af.losses.compute_weighted_loss(af.constant([2, 4], dtype), 2)
    assert loss.dtype is dtype
    assert float(evaluate(loss)) == 6


@pytest.mark.usefixtures("graph")
def test_narrow_floats_are_summed_up_in_float32():
    losses = af.ones([4096], af.float16) * 100
    assert evaluate(af.losses.compute_weighted_loss(losses)) == 100
    weights = np.full(4096, 1e-3, np.float32)
    assert float(evaluate(af.losses.compute_weighted_loss(losses, weights))) == pytest.approx(0.1, rel=1e-3)


def test_the_loss_joins_the_collections_under_its_name(graph):
    loss = af.losses.compute_weighted_loss([1.0], scope="mine")
    other = af.losses.compute_weighted_loss([1.0], loss_collection=["a", "b"])
    af.losses.compute_weighted_loss([1.0], loss_collection=None)
    assert loss.op.name == "mine/value"
    assert graph.get_collection(af.GraphKeys.LOSSES) == [loss]
    assert graph.get_collection("a") == graph.get_collection("b") == [other]


@pytest.mark.usefixtures("graph")
def test_gradients_flow_to_losses_and_weights():
    losses, weights = af.constant([[1.0, -2.0], [0.5, 3.0]]), af.constant([[1.5], [0.5]])
    loss = af.losses.compute_weighted_loss(losses, weights)
    by_loss, by_weight = evaluate(af.gradients(loss, [losses, weights]))
    np.testing.assert_allclose(by_loss, np.array([[1.5, 1.5], [0.5, 0.5]]) / 4)
    np.testing.assert_allclose(by_weight, np.array([[-1.0], [3.5]]) / 4)
    mean = af.losses.compute_weighted_loss(losses, weights, reduction=Reduction.MEAN)
    np.testing.assert_allclose(evaluate(af.gradients(mean, weights)[0]), [[-0.28125], [0.84375]])


@pytest.mark.parametrize(
    ("weights", "reduction", "text"),
    [
        ([1.0, 2.0, 3.0], Reduction.MEAN, r"weights of shape \[3\] do not fit values of shape \[2\]"),
        ([[1.0]], Reduction.NONE, r"weights of shape \[1, 1\] do not fit values of shape \[2\]"),
        (None, Reduction.SUM, "weights must not be None"),
        (1.0, "mean", "'mean' is not a reduction; the reductions are none, weighted_sum"),
    ],
)
def test_bad_weights_and_reductions_are_refused_and_add_nothing(graph, weights, reduction, text):
    with pytest.raises(ValueError, match=text):
        af.losses.compute_weighted_loss([1.0, 2.0], weights, reduction=reduction)
    assert graph.get_operations() == []
    assert graph.get_collection(af.GraphKeys.LOSSES) == []


async def test_weights_that_would_enlarge_the_losses_fail_the_run(graph):
    losses, weights = af.placeholder("float32", [None, 1]), af.placeholder("float32", [None, None])
    loss = af.losses.compute_weighted_loss(losses, weights)
    async with af.Session(graph=graph) as session:
        assert await session.run(loss, {losses: [[1.0], [2.0]], weights: [[1.0], [2.0]]}) == 2.5
        with pytest.raises(af.errors.InvalidArgumentError, match=r"\[2, 3\] do not fit values of shape \[2, 1\]"):
            await session.run(loss, {losses: [[1.0], [2.0]], weights: np.ones((2, 3))})
