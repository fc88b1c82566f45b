"""Weighted means over many batches."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.testing import VirtualTimeLoop
from tests.support.metrics import over_batches


@st.composite
def weighted_batches(draw):
    """Two batches of values with weights of one shape that fits them."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=3))
    fitting = draw(st.just(()) | st.tuples(*[st.sampled_from([1, size]) for size in sizes]))
    random = np.random.default_rng(draw(st.integers(0, 9)))
    return [
        (random.standard_normal(sizes).astype(np.float32), random.choice([0.0, 0.5, 2.0], fitting).astype(np.float32))
        for _ in range(2)
    ]


def run(program):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(program)


@given(weighted_batches(), st.sampled_from(["sizes", "ranks", "nothing"]))
def test_the_mean_is_that_of_all_batches(batches, known):
    updates, values = run(over_batches(af.metrics.mean, *batches, known=known))
    total = count = 0.0
    for number, (batch, weights) in enumerate(batches):
        each = np.broadcast_to(weights, batch.shape)
        total, count = total + (batch * each).sum(), count + each.sum()
        np.testing.assert_allclose(updates[number], total / count if count else 0, rtol=1e-5, atol=1e-6)
        assert values[number + 1] == updates[number]
    assert values[0] == 0
    assert values[0].dtype == np.float32


@given(weighted_batches())
def test_the_mean_tensor_is_the_mean_of_each_element(batches):
    updates, values = run(over_batches(af.metrics.mean_tensor, *batches, known="sizes"))
    weights = np.stack([np.broadcast_to(weights, batch.shape) for batch, weights in batches])
    total, count = (np.stack([batch for batch, _ in batches]) * weights).sum(0), weights.sum(0)
    expected = np.divide(total, count, out=np.zeros_like(total), where=count > 0)
    np.testing.assert_allclose(updates[-1], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(values[-1], updates[-1])
    np.testing.assert_array_equal(values[0], np.zeros_like(expected))


async def test_without_weights_all_values_count_and_numbers_of_any_dtype_are_values():
    for dtype in (np.float64, np.int32, bool):
        updates, _ = await over_batches(af.metrics.mean, (np.array([1, 0, 1], dtype),), (np.array([0], dtype),))
        assert updates == [np.float32(2 / 3), 0.5]


async def test_a_mean_without_values_or_weight_is_0():
    updates, values = await over_batches(af.metrics.mean, (np.zeros((0, 3)),), (np.zeros((0, 3)),))
    assert updates == [0, 0]
    assert values == [0, 0, 0]
    updates, _ = await over_batches(lambda x: af.metrics.mean(x, weights=0.0), ([3.0],))
    assert updates == [0]


async def test_a_last_axis_of_weights_may_be_missing_or_of_size_1():
    batch = np.float32([[1.0, 2.0], [3.0, 4.0]])
    for values, weights, mean in [(batch, [1.0, 0.0], 1.5), (batch[:, 0], [[1.0], [3.0]], 2.5)]:
        for known in ("sizes", "nothing"):
            updates, _ = await over_batches(af.metrics.mean, (values, np.float32(weights)), known=known)
            assert updates == [mean]


async def test_the_share_below_a_threshold():
    updates, _ = await over_batches(lambda x: af.metrics.percentage_below(x, 2.0), ([1.0, 2.0, 3.0, 0.0],), ([0.0],))
    assert updates == [0.5, np.float32(0.6)]


@pytest.mark.parametrize("metric", [af.metrics.mean, af.metrics.mean_tensor])
def test_shapes_that_do_not_fit_are_refused(metric):
    with (
        af.Graph().as_default(),
        pytest.raises(ValueError, match=r"shape \[2, 2\] do not fit values of shape \[2, 3\]"),
    ):
        metric(np.zeros((2, 3)), weights=np.zeros((2, 2)))


def test_a_mean_tensor_needs_a_known_shape():
    with af.Graph().as_default(), pytest.raises(ValueError, match=r"must be known, it is \[\?, 3\]"):
        af.metrics.mean_tensor(af.placeholder("float32", [None, 3]))


async def test_weights_that_do_not_fit_fail_the_run_and_change_nothing():
    with af.Graph().as_default() as graph:
        x, w = af.placeholder("float32", [None]), af.placeholder("float32", [None])
        value, update = af.metrics.mean(x, w)
        init = af.local_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await session.run(update, {x: [1.0, 3.0], w: [1.0, 1.0]})
        with pytest.raises(af.errors.InvalidArgumentError, match=r"shape \[3\] do not fit values of shape \[2\]"):
            await session.run(update, {x: [1.0, 3.0], w: [1.0, 1.0, 1.0]})
        assert await session.run(value) == 2
