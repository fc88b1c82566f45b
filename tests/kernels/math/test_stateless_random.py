"""Random numbers of a seed: they follow their laws, from the seed and the place alone."""

import numpy as np
import pytest
from scipy import stats

import aioflow as af
from aioflow.kernels.math import random_numbers
from tests.support.evaluate import evaluate

COUNT = 40_000
LAWS = {
    "uniform": (lambda s: af.random.stateless_uniform([COUNT], s, -1.0, 3.0, af.float64), stats.uniform(-1, 4)),
    "normal": (lambda s: af.random.stateless_normal([COUNT], s, 2.0, 3.0, af.float64), stats.norm(2, 3)),
    "truncated": (lambda s: af.random.stateless_truncated_normal([COUNT], s), stats.truncnorm(-2, 2)),
    "gamma": (lambda s: af.random.stateless_gamma([COUNT], s, 0.5, 2.0, af.float64), stats.gamma(0.5, scale=0.5)),
    "one tail": (
        lambda s: af.random.stateless_parameterized_truncated_normal([COUNT], s, 1.0, 2.0, 13.0, 15.0),
        stats.truncnorm(6, 7, 1, 2),
    ),
    "both tails": (
        lambda s: af.random.stateless_parameterized_truncated_normal([COUNT], s, 1.0, 2.0, -3.0, 2.0),
        stats.truncnorm(-2, 0.5, 1, 2),
    ),
}
COUNTS = {
    "poisson": (lambda s: af.random.stateless_poisson([COUNT], s, 3.5), stats.poisson(3.5)),
    "poisson many": (lambda s: af.random.stateless_poisson([COUNT], s, 90.0), stats.poisson(90)),
    "binomial few": (lambda s: af.random.stateless_binomial([COUNT], s, 12, 0.25), stats.binom(12, 0.25)),
    "binomial likely": (lambda s: af.random.stateless_binomial([COUNT], s, 50, 0.95), stats.binom(50, 0.95)),
    "binomial many": (lambda s: af.random.stateless_binomial([COUNT], s, 300, 0.4), stats.binom(300, 0.4)),
    "binomial most": (lambda s: af.random.stateless_binomial([COUNT], s, 1000, 0.7), stats.binom(1000, 0.7)),
    "integers": (lambda s: af.random.stateless_uniform([COUNT], s, -3, 4, af.int32), stats.randint(-3, 4)),
}


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.whole
@pytest.mark.parametrize("name", LAWS)
def test_numbers_follow_their_law(name):
    made, law = LAWS[name]
    numbers = evaluate(made([3, 4])).astype(float)
    assert stats.kstest(numbers, law.cdf).pvalue > 0.005
    assert abs(numbers.mean() - law.mean()) < 4 * law.std() / COUNT**0.5


@pytest.mark.whole
@pytest.mark.parametrize("name", COUNTS)
def test_counts_follow_their_law(name):
    made, law = COUNTS[name]
    numbers = evaluate(made([3, 4]))
    values, found = np.unique(numbers, return_counts=True)
    likely = law.pmf(values) * COUNT > 10
    expected = law.pmf(values[likely]) * COUNT
    excess = ((found[likely] - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(excess, likely.sum() - 1) > 0.005
    assert abs(numbers.mean() - law.mean()) < 4 * law.std() / COUNT**0.5


def test_rows_are_classes_by_their_probabilities():
    share = evaluate(af.random.stateless_categorical(np.log([[0.2, 0.8], [0.5, 0.5]]), COUNT, [1, 2])).mean(1)
    np.testing.assert_allclose(share, [0.8, 0.5], atol=0.01)


async def test_equal_seeds_give_equal_numbers_in_each_run_and_session_and_others_none():
    def made(seed):
        return [af.random.stateless_uniform([4], seed), af.random.stateless_normal([4], seed)]

    fetches = [made([1, 2]), made(np.array([1, 2], np.uint64)), made([2, 1])]
    seed = af.placeholder(af.int64, [2])
    fed = made(seed)
    async with af.Session() as session:
        values = await session.run(fetches)
        again = await session.run(fed, {seed: [1, 2]})
    async with af.Session() as other:
        elsewhere = await other.run(fetches[0])
    for one, same, differs, later, there in zip(*values, again, elsewhere, strict=True):
        for equal in (same, later, there):
            np.testing.assert_array_equal(one, equal)
        assert not np.isin(one, differs).any()


def test_numbers_are_none_of_an_operation_with_state():
    with_state = evaluate(af.random_uniform([100], seed=5))
    assert not np.isin(with_state, evaluate(af.random.stateless_uniform([100], [87654321, 5]))).any()


def test_a_number_depends_on_its_place_alone():
    whole = evaluate(af.random.stateless_gamma([100], [1, 2], 0.3))
    np.testing.assert_array_equal(evaluate(af.random.stateless_gamma([7, 3], [1, 2], 0.3)), whole[:21].reshape(7, 3))


def test_words_are_pinned():
    assert evaluate(af.random.stateless_uniform([2], [1, 2], None, None, af.uint64)).tolist() == PINNED
    seeds = evaluate(af.random.split([1, 2], 8))
    folds = np.array([evaluate(af.random.fold_in([1, 2], data)) for data in range(4)])
    assert len({tuple(row) for row in [*seeds.tolist(), *folds.tolist()]}) == 12
    assert seeds.dtype == folds.dtype == np.int32


PINNED = random_numbers.stream(1 | 2 << 64, ((1 << 64) - 1) << 64, 2).tolist()


@pytest.mark.parametrize("largest", [0, 1, 5, 64, 1000])
def test_an_index_shuffle_moves_each_number_to_a_place_of_its_own(largest):
    index = np.arange(largest + 1)
    moved = evaluate(af.random.experimental.index_shuffle(index, [1, 2], largest))
    assert sorted(moved) == index.tolist()
    other = evaluate(af.random_index_shuffle(index, [[[1, 2]], [[1, 3]]], largest))
    np.testing.assert_array_equal(other[0, 0] if other.ndim == 3 else other[0], moved)
    assert largest < 5 or (other[1] != moved).any()


def test_index_shuffles_have_each_order_as_often():
    seeds = np.stack([np.arange(6000), np.zeros(6000, int)], 1)[:, None]
    orders = evaluate(af.random_index_shuffle(np.arange(3), seeds, 2))
    _, found = np.unique(orders, axis=0, return_counts=True)
    assert len(found) == 6
    assert stats.chisquare(found).pvalue > 0.005


def test_shuffles_keep_each_part_once():
    shuffled = evaluate(af.random.experimental.stateless_shuffle(np.arange(100), [1, 2]))
    assert sorted(shuffled) == list(range(100))
    assert (shuffled != np.arange(100)).any()


async def test_gradients_flow_to_scales_shifts_and_shapes():
    alpha, mean, low = (af.constant(value) for value in (2.0, 1.0, 0.5))
    numbers = [
        af.random.stateless_gamma([5], [1, 2], alpha),
        af.random.stateless_normal([5], [1, 2], mean),
        af.random.stateless_parameterized_truncated_normal([5], [1, 2], minvals=low, maxvals=0.5 + 2 * low),
    ]
    async with af.Session() as session:
        slopes = await session.run([af.gradients(*pair)[0] for pair in zip(numbers, (alpha, mean, low), strict=True)])
    assert slopes[0] > 0
    assert slopes[1] == 5
    assert 5 < slopes[2] < 10


def test_stateless_dropout_drops_the_share_of_its_seed():
    x = np.ones([100, 50], np.float32)
    values = evaluate(af.nn.experimental.stateless_dropout(x, 0.25, [1, 2]))
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((values == 0).mean() - 0.25) < 0.03
    rows = evaluate(af.nn.experimental.stateless_dropout(x, 0.25, [1, 2], noise_shape=[None, 1]))
    assert (rows == rows[:, :1]).all()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: af.random.stateless_normal([2], [1, 2, 3]), "two integers, not 3"),
        (lambda: af.random.stateless_normal([2], [0.5, 1.0]), "seed"),
        (lambda: af.random.stateless_uniform([2], [1, 2], dtype=af.int32), "maxval"),
        (lambda: af.random.stateless_uniform([2], [1, 2], 3, 3, af.int32), "must be below"),
        (lambda: af.random.stateless_normal([2], [1, 2], alg="threefry"), "threefry"),
        (lambda: af.random.stateless_gamma([2, 3], [1, 2], [1.0, 2.0]), r"\[2\]|2"),
        (lambda: evaluate(af.random.stateless_binomial([1], [1, 2], 3, 1.5)), "1.5"),
        (lambda: evaluate(af.random_index_shuffle([7], [1, 2], 3)), "max_index"),
        (lambda: af.random_index_shuffle([1], [1, 2, 3], 3), "two integers"),
        (lambda: af.nn.experimental.stateless_dropout([1.0], 1.0, [1, 2]), "rate"),
    ],
)
def test_bad_arguments_are_refused(call, text):
    with pytest.raises((ValueError, TypeError, af.errors.OpError), match=text):
        call()
