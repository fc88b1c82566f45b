"""Functions mapped over rows, with results of dtypes that the functions decide."""

import numpy as np
import pytest

import aioflow as af


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_results_have_their_own_structure_and_dtypes_and_gradients(graph):
    x, y = af.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), af.constant([1, 2, 3])
    mapped = af.vectorized_map(lambda row: {"sum": af.reduce_sum(row[0]), "square": row[1] * row[1]}, (x, y))
    assert (mapped["sum"].dtype, mapped["square"].dtype) == (af.float32, af.int32)
    (slope,) = af.gradients(mapped["sum"] ** 2, [x])
    async with af.Session(graph=graph) as session:
        found, dx = await session.run([mapped, slope])
    assert (found["sum"].tolist(), found["square"].tolist()) == ([3, 7, 11], [1, 4, 9])
    assert dx.tolist() == [[6, 6], [14, 14], [22, 22]]


def test_the_call_that_learns_the_dtypes_leaves_nothing(graph):
    calls = []

    def fn(row):
        calls.append(row)
        return af.Variable(1.0, name="made", collections=["made"]).value() if len(calls) == 1 else row

    af.vectorized_map(fn, af.constant([1.0, 2.0]))
    assert len(calls) == 2
    assert not af.get_collection("made")
    assert not [op for op in graph.get_operations() if "made" in op.name]


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="fn must be a function, not 3"):
        af.vectorized_map(3, af.constant([1.0]))


async def test_one_row_serves_all_and_no_rows_make_none(graph):
    sums = af.vectorized_map(lambda pair: pair[0] + pair[1], (np.arange(3.0), np.array([10.0])))
    none = af.vectorized_map(lambda row: row * 2, np.zeros([0, 2]))
    async with af.Session(graph=graph) as session:
        found, empty = await session.run([sums, none])
    assert (found.tolist(), empty.shape) == ([10, 11, 12], (0, 2))


def test_other_numbers_of_rows_are_refused():
    with pytest.raises(ValueError, match="as many rows each, and they have 3, 2"):
        af.vectorized_map(lambda pair: pair[0], (np.arange(3.0), np.arange(2.0)))
