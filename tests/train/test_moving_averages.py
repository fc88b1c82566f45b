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
