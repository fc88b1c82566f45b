"""Moving averages: shadows that follow their variables."""

import numpy as np
import pytest

import aioflow as af

train = af.train


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_a_shadow_begins_at_its_variable_and_moves_a_share_of_the_way(graph):
    w = af.Variable([1.0, 2.0], name="w")
    averages = train.ExponentialMovingAverage(0.75)
    grow = w.assign_add([4.0, 8.0])
    with graph.control_dependencies([grow]):
        update = averages.apply([w])
    shadow = averages.average(w)
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        assert (await session.run(shadow)).tolist() == [1.0, 2.0]
        await session.run(update)
        assert (await session.run(shadow)).tolist() == [2.0, 4.0]
        await session.run(update)
        assert (await session.run(shadow)).tolist() == [3.75, 7.5]


async def test_few_updates_make_it_move_faster(graph):
    w, count = af.Variable(1.0, dtype=af.float64), af.Variable(0)
    update = train.ExponentialMovingAverage(0.9, num_updates=count).apply([w])
    (shadow,) = [v for v in af.global_variables() if v.op.name.endswith("Average")]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(w.assign(0.0))
        expected = 1.0
        for number in range(3):
            await session.run(count.assign(number))
            await session.run(update)
            expected *= min(0.9, (1 + number) / (10 + number))
            np.testing.assert_allclose(await session.run(shadow), expected)


def test_shadows_are_named_collected_and_made_once(graph):
    w, b = af.Variable(1.0, name="w"), af.Variable(1.0, name="b")
    averages = train.ExponentialMovingAverage(0.9)
    assert averages.average(w) is None
    assert averages.average_name(w) == "w/ExponentialMovingAverage"
    update = averages.apply()
    assert averages.average(w).op.name == averages.average_name(w) == "w/ExponentialMovingAverage"
    assert (update.name, averages.name) == ("ExponentialMovingAverage", "ExponentialMovingAverage")
    assert af.moving_average_variables() == [w, b]
    shadow = averages.average(w)
    averages.apply([w])
    assert averages.average(w) is shadow
    assert af.moving_average_variables() == [w, b]
    assert af.trainable_variables() == [w, b]


def test_a_checkpoint_can_be_read_with_the_averages_in_the_variables_place(graph):
    w, b = af.Variable(1.0, name="w"), af.Variable(1.0, trainable=False, name="b")
    averages = train.ExponentialMovingAverage(0.9, name="mean")
    averages.apply([w])
    assert averages.variables_to_restore() == {"w/mean": w, "b": b}
    assert averages.variables_to_restore([]) == {"w": w, "w/mean": averages.average(w), "b": b}


@pytest.mark.parametrize("value", [af.Graph, 1])
def test_only_variables_of_floats_have_averages(graph, value):
    given = value if value is af.Graph else af.Variable(value)
    with pytest.raises(TypeError, match="moving averages"):
        train.ExponentialMovingAverage(0.9).apply([af.Variable(1.0, name="good"), given])
    assert [v.op.name for v in af.global_variables() if "Average" in v.op.name] == []


async def test_tensors_have_averages_that_begin_at_zero_unless_these_are_taken_out(graph):
    x = af.placeholder(af.float32, [2], name="x")
    plain, debiased = (
        train.ExponentialMovingAverage(0.5),
        train.ExponentialMovingAverage(0.5, zero_debias=True, name="D"),
    )
    update = af.group(plain.apply([x]), debiased.apply([x]))
    shadows = plain.average(x), debiased.average(x)
    assert [shadow.op.name for shadow in shadows] == ["x/ExponentialMovingAverage", "x/D"] == [
        plain.average_name(x), debiased.average_name(x),
    ]  # fmt: skip
    assert af.moving_average_variables() == []
    assert [shadow.trainable for shadow in shadows] == [False, False]
    assert [v.op.name for v in af.global_variables()[2:]] == ["x/D/biased", "x/D/local_step"]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(update, {x: [4.0, 8.0]})
        assert [value.tolist() for value in await session.run(shadows)] == [[2.0, 4.0], [4.0, 8.0]]
        await session.run(update, {x: [1.0, 2.0]})
        assert [value.tolist() for value in await session.run(shadows)] == [[1.5, 3.0], [2.0, 4.0]]


async def test_a_variable_is_moved_towards_a_value(graph):
    average = af.Variable([0.0, 0.0], name="average")
    moved = train.assign_moving_average(average, [8.0, 4.0], 0.75, zero_debias=False)
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        assert (await session.run(moved)).tolist() == [2.0, 1.0]
        assert (await session.run(moved)).tolist() == [3.5, 1.75]


def test_averages_of_other_things_are_refused(graph):
    for bad, error in [(af.constant(1), TypeError), (7.0, TypeError), (af.placeholder(af.float32), ValueError)]:
        with pytest.raises(error, match="average"):
            train.ExponentialMovingAverage(0.5).apply([bad])
    with pytest.raises(TypeError, match="a variable of floating dtype"):
        train.assign_moving_average(af.constant(1.0), 1.0, 0.5)
    assert af.global_variables() == []
