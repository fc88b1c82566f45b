"""The losses of a graph and their sums."""

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_the_total_loss_is_the_sum_of_losses_and_regularizers(graph):
    with af.variable_scope("net", regularizer=lambda weights: 0.5 * af.reduce_sum(af.square(weights))):
        af.get_variable("weights", initializer=np.float32([3.0, 4.0]))
    with af.name_scope("head"):
        af.losses.mean_squared_error([1.0, 2.0], [2.0, 2.0])
    af.losses.add_loss(af.constant(10.0, name="extra"))
    totals = [
        af.losses.get_total_loss(),
        af.losses.get_total_loss(add_regularization_losses=False, name="data_loss"),
        af.losses.get_total_loss(scope="head"),
        af.losses.get_regularization_loss(),
        af.losses.get_regularization_loss(scope="head"),
    ]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        assert await session.run(totals) == [23.0, 10.5, 0.5, 12.5, 0.0]
    assert [total.op.name for total in totals[:2]] == ["total_loss", "data_loss"]


def test_losses_are_found_by_collection_and_scope():
    first, second, third = [af.constant(1.0, name=name) for name in ("a/loss", "b/loss", "b/other")]
    af.losses.add_loss(first)
    af.losses.add_loss(second)
    af.losses.add_loss(third, "mine")
    af.losses.add_loss(third, None)
    assert af.losses.get_losses() == [first, second]
    assert af.losses.get_losses("b") == [second]
    assert af.losses.get_losses(loss_collection="mine") == [third]
    assert af.losses.get_regularization_losses() == []


def test_a_loss_of_a_branch_joins_the_collection_of_the_whole_graph(graph):
    y = af.cond(af.constant(True), lambda: af.losses.absolute_difference([1.0], [3.0]), lambda: af.constant(0.0))
    assert evaluate(y) == 2
    assert len(graph.get_collection(af.GraphKeys.LOSSES)) == 1


def test_there_is_no_total_of_no_losses():
    with pytest.raises(ValueError, match="the graph has no losses"):
        af.losses.get_total_loss()
    af.losses.add_loss(af.constant(1.0, name="a"))
    with pytest.raises(ValueError, match="no losses whose names begin with 'b'"):
        af.losses.get_total_loss(scope="b")
