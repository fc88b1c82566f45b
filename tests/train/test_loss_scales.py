"""Loss scales and the optimizer around another: train/loss_scales.py, train/loss_scale_optimizer.py."""

import numpy as np
import pytest

import aioflow as af

scales = af.train.experimental
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


@pytest.mark.parametrize(
    ("given", "expected"),  # of TensorFlow
    [
        ((8, 2, 2.0), [8, 16, 16, 8, 4, 2, 1, 1, 2, 2, 4]),
        ((3.0, 1, 2.0), [6, 12, 24, 12, 6, 3, 1.5, 3, 6, 12, 24]),
        ((2.0**127, 1, 4.0), [2.0**exponent for exponent in (127, 127, 127, 125, 123, 121, 119, 121, 123, 125, 127)]),
    ],
)
async def test_a_dynamic_scale_follows_the_gradients_as_tensorflows_does(session, given, expected):
    scale, gradient = scales.DynamicLossScale(*given), af.placeholder(af.float32, [None])
    update, finite = scale.update([gradient, None, {"rows": af.IndexedSlices(af.ones([1]), [0])}])
    now = scale()
    assert [variable.name for variable in scale.variables()] == ["current_loss_scale:0", "good_steps:0"]
    await session.run(af.global_variables_initializer())
    found = []
    for number in (1, 1, 1, INF, NAN, INF, -INF, 1, 1, 1, 1):
        feeds = {gradient: [number, 1.0]}
        good, _ = await session.run([finite, update], feeds)
        assert good == np.isfinite(number)
        found.append(float(await session.run(now)))
    assert found == expected


async def test_the_count_begins_anew_when_the_scale_changes(session):
    scale, gradient = scales.DynamicLossScale(8, 3), af.placeholder(af.float32, [])
    update, _ = scale.update([gradient])
    await session.run(af.global_variables_initializer())
    counts = []
    for number in (1.0, 1.0, 1.0, 1.0, INF, 1.0):
        await session.run(update, {gradient: number})
        counts.append(int(await session.run(scale.variables()[1])))
    assert counts == [1, 2, 0, 1, 0, 1]


def test_a_fixed_scale_stays():
    scale = scales.FixedLossScale(8)
    assert scale.update([af.constant(INF)])[1] is True
    assert (repr(scale), scale.variables()) == ("FixedLossScale(loss_scale_value=8.0)", [])
    for made in (scale, scales.DynamicLossScale(4, 5, 3)):
        assert type(made).from_config(made.get_config()).get_config() == made.get_config()


@pytest.mark.parametrize("loss_scale", [16, "dynamic"])
@pytest.mark.parametrize("make", [lambda: af.train.AdamOptimizer(0.1), lambda: af.train.GradientDescentOptimizer(0.1)])
async def test_steps_with_finite_gradients_are_those_of_the_optimizer_itself(session, loss_scale, make):
    x = af.placeholder(af.float32, [2])
    found = []
    for wrap in (lambda inner: inner, lambda inner: scales.MixedPrecisionLossScaleOptimizer(inner, loss_scale)):
        rows, weight = af.Variable(np.ones([3, 2], np.float32)), af.Variable([1.0, 2.0])
        loss = af.reduce_sum(af.gather(rows, [0, 2, 0]) * weight * x)
        step = af.Variable(0, trainable=False)
        train = wrap(make()).minimize(loss, step, [rows, weight])
        assert train in af.get_collection(af.GraphKeys.TRAIN_OP)
        found.append((train, [rows, weight, step]))
    await session.run(af.global_variables_initializer())
    results = []
    for train, variables in found:
        for number in (1.0, -2.0):
            await session.run(train, {x: [number, 0.5]})
        results.append(await session.run(variables))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


async def test_a_step_with_an_infinite_gradient_changes_only_the_scale(session):
    x, weight, step = af.placeholder(af.float32, []), af.Variable(2.0), af.Variable(0, trainable=False)
    optimizer = scales.MixedPrecisionLossScaleOptimizer(af.train.AdamOptimizer(0.5), "dynamic")
    train = optimizer.minimize(weight * x, step)
    await session.run(af.global_variables_initializer())
    kept = [variable for variable in af.global_variables() if variable not in optimizer.variables()[-2:]]
    before = await session.run(kept)
    await session.run(train, {x: INF})
    assert await session.run(kept) == before
    assert await session.run(optimizer.variables()[-2:]) == [2**14, 0]
    await session.run(train, {x: 1.0})
    assert await session.run([weight, step]) == [pytest.approx(1.5), 1]


async def test_small_gradients_of_float16_are_kept(session):
    weight = af.Variable(1.0)
    loss = af.cast(af.cast(weight, af.float16), af.float32) * 1e-9
    inner = af.train.GradientDescentOptimizer(1.0)
    outer = scales.MixedPrecisionLossScaleOptimizer(inner, 2.0**20)
    plain, scaled = [each.compute_gradients(loss, [weight])[0][0] for each in (inner, outer)]
    await session.run(weight.initializer)
    assert await session.run([plain, scaled]) == [0, pytest.approx(1e-9, rel=1e-3)]


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: scales.FixedLossScale(0.5), ValueError, "at least 1, not 0.5"),
        (lambda: scales.FixedLossScale("a"), ValueError, "a number of Python's, not 'a'"),
        (lambda: scales.LossScale(), TypeError, "abstract"),
        (lambda: scales.MixedPrecisionLossScaleOptimizer(5, 8), ValueError, "not 5"),
        (
            lambda: scales.MixedPrecisionLossScaleOptimizer(af.train.GradientDescentOptimizer(1.0), None),
            ValueError,
            "a number, 'dynamic' or a LossScale, not None",
        ),
        (
            lambda: scales.MixedPrecisionLossScaleOptimizer(af.train.GradientDescentOptimizer(1.0), 8).minimize(3),
            TypeError,
            "the loss must be a tensor, not 3",
        ),
    ],
)
def test_bad_input_is_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()
