"""Learning rates that fall: against their formulas, at the ends and in between."""

import math

import numpy as np
import pytest

import aioflow as af
from aioflow.train import decay

train = af.train
STEPS = [0, 1, 5, 10, 15, 20, 33]


def polynomial(step, power=1.0, cycle=False):
    steps = 10 * max(1, math.ceil(step / 10)) if cycle else 10
    return (0.5 - 0.1) * (1 - min(step, steps) / steps) ** power + 0.1


def restarts(step, growth=2.0):
    start, length, height = 0, 4, 1.0
    while step >= start + length:
        start, length, height = start + length, length * growth, height * 0.9
    return 0.5 * (0.8 * height * 0.5 * (1 + math.cos(math.pi * (step - start) / length)) + 0.2)


def linear_cosine(step):
    done = min(step, 10) / 10
    return 0.5 * ((0.1 + 1 - done) * 0.5 * (1 + math.cos(2 * math.pi * 1.5 * done)) + 0.01)


SCHEDULES = {
    "exponential": (lambda s: train.exponential_decay(0.5, s, 10, 0.9), lambda s: 0.5 * 0.9 ** (s / 10)),
    "exponential staircase": (
        lambda s: train.exponential_decay(0.5, s, 10, 0.9, staircase=True), lambda s: 0.5 * 0.9 ** (s // 10),
    ),
    "natural": (lambda s: train.natural_exp_decay(0.5, s, 10, 0.9), lambda s: 0.5 * math.exp(-0.09 * s)),
    "natural staircase": (
        lambda s: train.natural_exp_decay(0.5, s, 10, 0.9, True), lambda s: 0.5 * math.exp(-0.9 * (s // 10)),
    ),
    "inverse": (lambda s: train.inverse_time_decay(0.5, s, 10, 0.9), lambda s: 0.5 / (1 + 0.09 * s)),
    "inverse staircase": (
        lambda s: train.inverse_time_decay(0.5, s, 10, 0.9, True), lambda s: 0.5 / (1 + 0.9 * (s // 10)),
    ),
    "piecewise": (
        lambda s: train.piecewise_constant(s, [5, 15], [1.0, 0.5, 0.1]),
        lambda s: 1.0 if s <= 5 else 0.5 if s <= 15 else 0.1,
    ),
    "piecewise of one": (lambda s: train.piecewise_constant_decay(s, [], [0.3]), lambda s: 0.3),
    "polynomial": (lambda s: train.polynomial_decay(0.5, s, 10, 0.1), polynomial),
    "polynomial squared": (lambda s: train.polynomial_decay(0.5, s, 10, 0.1, 2.0), lambda s: polynomial(s, 2.0)),
    "polynomial cycle": (
        lambda s: train.polynomial_decay(0.5, s, 10, 0.1, cycle=True), lambda s: polynomial(s, cycle=True),
    ),
    "cosine": (
        lambda s: train.cosine_decay(0.5, s, 10, 0.2),
        lambda s: 0.5 * (0.8 * 0.5 * (1 + math.cos(math.pi * min(s, 10) / 10)) + 0.2),
    ),
    "restarts": (lambda s: decay.cosine_decay_restarts(0.5, s, 4, 2.0, 0.9, 0.2), restarts),
    "restarts of one length": (
        lambda s: decay.cosine_decay_restarts(0.5, s, 4, 1.0, 0.9, 0.2), lambda s: restarts(s, 1.0),
    ),
    "restarts of a length to be found": (
        lambda s: decay.cosine_decay_restarts(0.5, s, 4, af.identity(2.0), 0.9, 0.2), restarts,
    ),
    "restarts of one length to be found": (
        lambda s: decay.cosine_decay_restarts(0.5, s, 4, af.identity(1.0), 0.9, 0.2), lambda s: restarts(s, 1.0),
    ),
    "linear cosine": (lambda s: decay.linear_cosine_decay(0.5, s, 10, 1.5, 0.1, 0.01), linear_cosine),
    "linear cosine without noise": (
        lambda s: decay.noisy_linear_cosine_decay(0.5, s, 10, 0.0, 0.5, 1.5, 0.1, 0.01), linear_cosine,
    ),
}  # fmt: skip


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("name", SCHEDULES)
async def test_a_schedule_is_its_formula(graph, name):
    build, formula = SCHEDULES[name]
    step = af.placeholder(af.int64, [])
    rate = build(step)
    assert (rate.dtype, rate.shape) == (af.float32, [])
    async with af.Session(graph=graph) as session:
        rates = [await session.run(rate, {step: number}) for number in STEPS]
    np.testing.assert_allclose(rates, [formula(number) for number in STEPS], rtol=1e-6)


async def test_a_schedule_follows_the_global_step_as_it_counts(graph):
    step = train.create_global_step()
    rate = train.exponential_decay(1.0, step, 1, 0.5)
    w = af.Variable(0.0)
    fall = train.GradientDescentOptimizer(rate).apply_gradients([(-1.0, w)], global_step=step)
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        for _ in range(3):
            await session.run(fall)
        assert await session.run([w, step, rate]) == [1.75, 3, 0.125]


async def test_noise_falls_as_the_global_step_grows(graph):
    step = af.placeholder(af.int64, [])
    rate = decay.noisy_linear_cosine_decay(1.0, step, 10**6, 4.0, 0.5)
    async with af.Session(graph=graph) as session:
        for number in (0, 15):
            rates = [await session.run(rate, {step: number}) for _ in range(400)]
            assert abs(np.mean(rates) - 1.001) < 0.4
            assert abs(np.std(rates) / (2 / (1 + number) ** 0.25) - 1) < 0.15


async def test_the_rate_has_the_dtype_it_was_given_in(graph):
    rate = train.polynomial_decay(af.constant(0.1, af.float64), af.constant(5), 10, 0.0, name="fall")
    assert rate.op.name.startswith("fall/")
    async with af.Session(graph=graph) as session:
        assert await session.run(rate) == 0.05


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: train.exponential_decay(0.1, None, 10, 0.9), ValueError, "needs the global_step"),
        (lambda: train.piecewise_constant(1, [1, 2], [0.1, 0.2]), ValueError, "2 boundaries need 3 values, not 2"),
        (lambda: train.piecewise_constant(1, [1.5], [0.1, 0.2]), ValueError, "int32"),
        (lambda: train.piecewise_constant(1, [1], [0.1, 2]), ValueError, "float32"),
        (lambda: train.piecewise_constant([1, 2], [1], [0.1, 0.2]), ValueError, r"scalar, not of shape \[2\]"),
    ],
)
def test_what_is_no_schedule_is_refused_and_leaves_nothing(graph, build, error, text):
    with pytest.raises(error, match=text):
        build()
    assert graph.get_operations() == []


def test_schedules_have_names():
    assert (train.exponential_decay.__name__, train.inverse_time_decay.__name__) == (
        "exponential_decay",
        "inverse_time_decay",
    )
