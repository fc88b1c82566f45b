"""Gamma's, Poisson's and a coin's numbers: their distributions, their dependence on place alone, gamma's gradient."""

import numpy as np
import pytest
from scipy import special, stats

import aioflow as af
from aioflow.autodiff.gradients import gradients
from aioflow.tensors.dtypes import DeviceKind, as_dtype
from tests.support.evaluate import CONTEXT, bound, evaluate

COUNT = 100_000


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("alpha", [0.05, 0.7, 1.0, 3.3, 500.0, 1e6])
def test_gammas_follow_their_law(alpha):
    numbers = evaluate(af.random_gamma([COUNT], alpha, dtype=af.float64, seed=3))
    assert stats.kstest(numbers, stats.gamma(alpha).cdf).pvalue > 0.01
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02


@pytest.mark.parametrize("rate", [0.01, 1.0, 9.9, 10.0, 33.3, 1e4])
def test_poissons_numbers_follow_their_law(rate):
    numbers = evaluate(af.random_poisson(rate, [COUNT], af.float64, seed=3))
    law = stats.poisson(rate)
    low, high = int(law.ppf(1e-3)), int(law.ppf(1 - 1e-3))
    middle = np.arange(low, high + 1)
    found = [np.sum(numbers < low), *[np.sum(numbers == k) for k in middle], np.sum(numbers > high)]
    expected = np.array([law.cdf(low - 1), *law.pmf(middle), law.sf(high)])
    assert stats.chisquare(found, expected * COUNT + 1e-300).pvalue > 0.01


def test_a_coin_falls_by_its_probability():
    falls = evaluate(af.random_bernoulli([COUNT], [0.0, 0.25, 1.0], seed=1))
    assert (falls.dtype, falls.shape) == (np.int32, (COUNT, 3))
    assert (falls[:, 0].any(), falls[:, 2].all()) == (False, True)
    assert abs(falls[:, 1].mean() - 0.25) < 0.006
    assert evaluate(af.random_bernoulli([2], seed=1, dtype=af.bool)).dtype == bool


DRAWS = {
    "gamma": lambda shape, p, seed=1: af.random_gamma(shape, p, dtype=p.dtype, seed=seed),
    "poisson": lambda shape, p, seed=1: af.random_poisson(p, shape, p.dtype, seed=seed),
    "bernoulli": lambda shape, p, seed=1: af.random_bernoulli(shape, p / 1000, seed=seed),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_number_depends_on_its_place_alone(draw):
    parameters = np.array([0.3, 40.0, 2.0, 12.0])
    whole = evaluate(draw([50], af.constant(parameters)))
    np.testing.assert_array_equal(evaluate(draw([7], af.constant(parameters))), whole[:7])
    np.testing.assert_array_equal(evaluate(draw([10, 5], af.constant(parameters))), whole.reshape(10, 5, 4))
    mixed = parameters.copy()
    mixed[1:] = 0.9, 400.0, 20.0
    np.testing.assert_array_equal(evaluate(draw([50], af.constant(mixed)))[:, 0], whole[:, 0])
    assert (evaluate(draw([50], af.constant(parameters), 2)) != whole).any()


@pytest.mark.parametrize("draw", [DRAWS["gamma"], DRAWS["poisson"]])
def test_runs_and_rounds_differ_and_without_seeds_every_run_does(monkeypatch, draw):
    op = draw([50], af.constant(3.0)).op
    call = bound(op.definition.kernel_for(DeviceKind.CPU, []), op)
    values = evaluate(list(op.inputs))
    first = call(*values).tolist()
    assert first == call(*values).tolist()
    monkeypatch.setattr(CONTEXT.step, "times_run", lambda name: 1)
    assert first != call(*values).tolist()
    loose = draw([50], af.constant(3.0), None)
    assert evaluate(loose).tolist() != evaluate(loose).tolist()


def test_the_gradient_of_gammas_is_that_of_their_quantiles_to_second_order():
    alpha = np.array([0.05, 0.5, 1, 2.5, 30, 1000.0])
    a = af.constant(alpha)
    numbers = af.random_gamma([3], a, dtype=af.float64, seed=1)
    weights = np.arange(1.0, 19.0).reshape(3, 6)
    slope = gradients(numbers * weights, a)[0]
    x, first, second = evaluate([numbers, slope, gradients(slope, a)[0]])
    share = special.gammainc(alpha, x)

    def moved(step):
        return special.gammaincinv(alpha + step, share)

    fine, coarse = 1e-5 * alpha, 1e-3 * alpha
    np.testing.assert_allclose(first, ((moved(fine) - moved(-fine)) / (2 * fine) * weights).sum(0), rtol=1e-5)
    curve = (moved(coarse) - 2 * x + moved(-coarse)) / coarse**2
    np.testing.assert_allclose(second, (curve * weights).sum(0), rtol=1e-4)


def test_alpha_and_beta_broadcast_and_both_have_gradients():
    alpha, beta = af.constant([[1.0], [5.0]]), af.constant([1.0, 2.0, 4.0])
    numbers = af.random_gamma([1000], alpha, beta, seed=1, name="g")
    assert (numbers.name, numbers.shape) == ("g:0", [1000, 2, 3])
    mean = evaluate(numbers).mean(0)
    np.testing.assert_allclose(mean, [[1, 0.5, 0.25], [5, 2.5, 1.25]], rtol=0.1)
    by_alpha, by_beta = gradients(af.reduce_mean(numbers, 0), [alpha, beta])
    assert (by_alpha.shape, by_beta.shape) == ([2, 1], [3])
    np.testing.assert_allclose(evaluate(by_beta), -evaluate(numbers).mean(0).sum(0) / evaluate(beta), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_gammas_are_never_0_nor_not_numbers(dtype):
    numbers = evaluate(af.random_gamma([1000], [1e-3, 0.3], dtype=dtype, seed=1))
    assert numbers.dtype == as_dtype(dtype).np
    assert (numbers > 0).all()


def test_parameters_outside_the_law_give_no_number():
    assert np.isnan(evaluate(af.random_gamma([2], [-1.0, 0.0, np.nan, np.inf], seed=1))).all()
    assert np.isnan(evaluate(af.random_poisson([-1.0, np.nan, np.inf], [2], seed=1))).all()
    assert evaluate(af.random_poisson(0.0, [3], seed=1)).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match=r"rate -1\.0 is not a number from 0 on"):
        evaluate(af.random_poisson([2.0, -1.0], [2], "int32", seed=1))


def test_shapes_are_as_known_as_they_can_be():
    size, open_rates = af.placeholder(af.int32, []), af.placeholder(af.float32, [None, 2])
    for draw in DRAWS.values():
        assert draw([2, 0], open_rates).shape.as_list() == [2, 0, None, 2]
        assert draw([2, size], open_rates).shape.as_list() == [2, None, None, 2]
        assert draw(af.placeholder(af.int32, [None]), open_rates).shape.ndims is None
        with pytest.raises(ValueError, match=r"negative size: \[-1"):
            draw([-1], open_rates)
    with pytest.raises(TypeError, match="dtype int32 is not supported"):
        af.random_gamma([2], 1, dtype=af.int32)
