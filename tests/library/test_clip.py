"""Clipping by norms."""

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(("bound", "expected"), [(10.0, [3.0, 4.0]), (5.0, [3.0, 4.0]), (1.0, [0.6, 0.8])])
def test_a_tensor_is_scaled_down_only_if_its_norm_is_larger(bound, expected):
    np.testing.assert_allclose(evaluate(af.clip_by_norm([3.0, 4.0], bound)), expected, rtol=1e-6)


def test_with_axes_each_slice_is_clipped_by_its_own_norm():
    clipped = af.clip_by_norm([[3.0, 4.0], [0.3, 0.4]], 1.0, axes=[1])
    np.testing.assert_allclose(evaluate(clipped), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_zeros_stay_zeros_and_have_a_finite_gradient():
    x = af.constant([0.0, 0.0])
    y = af.clip_by_norm(x, 1.0)
    np.testing.assert_array_equal(evaluate(y), [0, 0])
    assert np.isfinite(evaluate(af.gradients(y, x)[0])).all()


async def test_clipping_differentiates_to_second_order():
    await check_gradients(lambda x: af.clip_by_norm(x, 1.0), [np.array([0.3, -2.0, 1.1])])


def test_the_global_norm_is_that_of_all_tensors_and_none_counts_nothing():
    slices = af.IndexedSlices(af.constant([[4.0]]), af.constant([0]), af.constant([2, 1]))
    assert evaluate(af.global_norm([af.constant([3.0]), None, slices])) == pytest.approx(5.0)
    assert evaluate(af.global_norm([None])) == 0.0
    assert af.clip_by_global_norm([], 1.0)[0] == []
    with pytest.raises(TypeError, match="list"):
        af.global_norm(af.constant([1.0]))


@pytest.mark.parametrize(("bound", "factor"), [(2.5, 0.5), (5.0, 1.0), (50.0, 1.0)])
def test_one_factor_scales_all_and_forms_are_kept(bound, factor):
    slices = af.IndexedSlices(af.constant([[4.0]]), af.constant([1]), af.constant([2, 1]))
    (dense, nothing, sparse), norm = af.clip_by_global_norm([af.constant([3.0]), None, slices], bound)
    assert nothing is None
    assert isinstance(sparse, af.IndexedSlices)
    assert evaluate(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(evaluate(dense), [3 * factor], rtol=1e-6)
    np.testing.assert_allclose(evaluate(sparse.values), [[4 * factor]], rtol=1e-6)


def test_a_norm_that_is_not_finite_makes_all_nan():
    (first, second), _ = af.clip_by_global_norm([af.constant([np.inf]), af.constant([1.0])], 1.0)
    assert np.isnan(evaluate([first, second])).all()


def test_a_given_norm_is_used():
    (clipped,), _ = af.clip_by_global_norm([af.constant([3.0])], 1.0, use_norm=af.constant(6.0))
    np.testing.assert_allclose(evaluate(clipped), [0.5], rtol=1e-6)


def test_the_average_norm_counts_elements():
    np.testing.assert_allclose(evaluate(af.clip_by_average_norm([3.0, 4.0], 1.0)), [1.2, 1.6], rtol=1e-6)


def test_slices_stay_slices_when_each_value_is_clipped():
    slices = af.IndexedSlices(af.constant([[3.0, -2.0]]), af.constant([4]))
    clipped = af.clip_by_value(slices, -1.0, 1.0)
    assert isinstance(clipped, af.IndexedSlices)
    assert clipped.indices is slices.indices
    assert evaluate(clipped.values).tolist() == [[1, -1]]
