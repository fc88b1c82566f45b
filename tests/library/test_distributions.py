"""Probability distributions, compared with scipy. `oracle/test_distributions.py` compares them with TensorFlow."""

import numpy as np
import pytest
import scipy.stats

import aioflow as af

X = np.array([0.05, 0.3, 0.6, 0.95])


async def test_probabilities_and_statistics_are_those_of_scipy():
    made = af.distributions
    with af.Graph().as_default() as graph:
        one = af.constant(1.0, af.float64)
        both = (
            (made.Normal(one, 0.5), scipy.stats.norm(1, 0.5)),
            (made.Uniform(one - 1, 2.0), scipy.stats.uniform(0, 2)),
            (made.Laplace(one, 0.5), scipy.stats.laplace(1, 0.5)),
            (made.StudentT(one * 3, 1.0, 2.0), scipy.stats.t(3, 1, 2)),
            (made.Gamma(one * 2.5, 0.5), scipy.stats.gamma(2.5, scale=2)),
            (made.Exponential(one / 4), scipy.stats.expon(scale=4)),
            (made.Beta(one * 2, 3.0), scipy.stats.beta(2, 3)),
        )
        found = [(d.prob(X), d.log_prob(X), d.cdf(X), d.log_cdf(X), d.log_survival_function(X), d.mean(), d.variance(),
                  d.entropy()) for d, _ in both]  # fmt: skip
        tails = made.Normal(one * 0, 1.0).log_cdf([-40.0, -20.5, 9.0])
    async with af.Session(graph=graph) as session:
        results, tail = await session.run((found, tails))
    for values, (_, s) in zip(results, both, strict=True):
        probabilities = s.pdf(X), s.logpdf(X), s.cdf(X), s.logcdf(X), s.logsf(X)
        for mine, expected in zip(values, (*probabilities, s.mean(), s.var(), s.entropy()), strict=True):
            np.testing.assert_allclose(mine, expected, 1e-9, 1e-12)
    np.testing.assert_allclose(tail, scipy.stats.norm.logcdf([-40.0, -20.5, 9.0]), 1e-9)


async def test_samples_have_shapes_means_seeds_and_gradients():
    with af.Graph().as_default() as graph:
        shape = af.constant([3.0, 1.5])
        beta, counts = af.distributions.Beta(shape, 2.0), af.distributions.Multinomial([4.0, 9.0], probs=[0.25, 0.75])
        first, again = (beta.sample([2, 2000], seed=5) for _ in range(2))
        (slope,) = af.gradients(af.reduce_mean(first), shape)
        drawn = counts.sample(2000, seed=1)
    async with af.Session(graph=graph) as session:
        found, same, slopes, often = await session.run((first, again, slope, drawn))
    assert (found.shape, often.shape) == ((2, 2000, 2), (2000, 2, 2))
    np.testing.assert_array_equal(found, same)
    np.testing.assert_allclose(found.mean((0, 1)), [0.6, 1.5 / 3.5], atol=0.02)
    np.testing.assert_allclose(slopes, [2 / 25 / 2, 2 / 3.5**2 / 2], atol=0.01)
    np.testing.assert_array_equal(often.sum(-1), np.broadcast_to([4.0, 9.0], (2000, 2)))
    np.testing.assert_allclose(often.mean(0), [[1, 3], [2.25, 6.75]], atol=0.15)


async def test_divergences_follow_the_classes_and_checks_fail_steps():
    made = af.distributions
    with af.Graph().as_default() as graph:
        speed = made.Exponential(2.0)
        divergence = made.kl_divergence(speed, made.Gamma(1.0, 1.0))
        wrong = made.Normal(0.0, af.constant(-1.0), validate_args=True).stddev()
        undefined = made.StudentT(0.5, 0.0, 1.0, allow_nan_stats=False).mean()
        assert speed.copy(rate=3.0).parameters["rate"] == 3.0
        with pytest.raises(NotImplementedError, match="Normal and Uniform"):
            made.Normal(0.0, 1.0).kl_divergence(made.Uniform())
        with pytest.raises(ValueError, match="either probs or logits"):
            made.Bernoulli()
        with pytest.raises(NotImplementedError, match="Uniform has no mode"):
            made.Uniform().mode()
    async with af.Session(graph=graph) as session:
        np.testing.assert_allclose(await session.run(divergence), np.log(2) - 0.5, 1e-6)
        for tensor, text in ((wrong, "scale must be positive"), (undefined, "the mean needs df above 1")):
            with pytest.raises(af.errors.InvalidArgumentError, match=text):
                await session.run(tensor)
