"""The global step: one per graph, found however it was made."""

import numpy as np
import pytest

import aioflow as af

train = af.train


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_it_is_made_once_and_begins_at_zero(graph):
    assert train.get_global_step() is None
    with graph.name_scope("inner"):
        step = train.get_or_create_global_step()
    assert (step.name, step.dtype, step.shape, step.trainable) == ("global_step:0", af.int64, [], False)
    assert train.get_or_create_global_step() is train.get_global_step(graph) is step
    assert graph.get_collection(af.GraphKeys.GLOBAL_VARIABLES) == [step]
    with pytest.raises(ValueError, match="already"):
        train.create_global_step()
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        assert await train.global_step(session, step) == 0
        await session.run(step.assign_add(5))
        count = await train.global_step(session, step)
        assert (count, type(count)) == (5, int)


def test_it_is_found_by_its_name(graph):
    step = af.Variable(np.int32(3), name="global_step")
    assert train.get_global_step() is step


def test_of_several_there_is_none(graph):
    for _ in range(2):
        graph.add_to_collection(af.GraphKeys.GLOBAL_STEP, af.Variable(0))
    assert train.get_global_step() is None


def test_another_graph_has_another(graph):
    other = af.Graph()
    step = train.create_global_step(other)
    assert step.graph is other
    assert train.get_global_step() is None


@pytest.mark.parametrize(
    ("value", "error", "text"), [(0.5, TypeError, "float32"), ([1, 2], ValueError, r"\[2\]"), (None, TypeError, "None")]
)
def test_what_cannot_count_is_refused(graph, value, error, text):
    with pytest.raises(error, match=text):
        train.assert_global_step(None if value is None else af.Variable(value, name="global_step"))
    if value is not None:
        with pytest.raises(error, match=text):
            train.get_global_step()
