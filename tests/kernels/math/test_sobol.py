"""Points of Sobol sequences: kernels/math/sobol.py."""

import numpy as np
import pytest
from scipy.stats import qmc

from aioflow import errors
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.math.sobol import sobol_sample
from aioflow.kernels.math.sobol_directions import DIMENSIONS
from aioflow.tensors.dtypes import float64
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def test_points_are_those_of_the_table_of_joe_and_kuo():
    for number in (0, 1, 1000, 21_845, 43_690):
        point = qmc.Sobol(DIMENSIONS, scramble=False).fast_forward(number + 1).random(1)
        np.testing.assert_array_equal(evaluate(sobol_sample(DIMENSIONS, 1, number, float64)), point)


def test_points_are_even_in_each_dimension():
    points = evaluate(sobol_sample(DIMENSIONS, 255))
    assert points.dtype == np.float32
    for column in points.T:
        assert sorted((column * 256).tolist()) == [*range(1, 256)]


def test_a_sequence_continues_after_the_points_left_out():
    whole = evaluate(sobol_sample(7, 100))
    np.testing.assert_array_equal(evaluate(sobol_sample(7, 40, 60)), whole[60:])


def test_shapes_are_as_known_as_they_can_be():
    size = placeholder("int32", [])
    assert sobol_sample(size, 3).shape.as_list() == [3, None]
    assert sobol_sample(2, size, dtype="float64").shape.as_list() == [None, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0, 3), "dim must lie between 1 and 1111, not be 0"),
        ((1112, 3), "dim must lie between 1 and 1111, not be 1112"),
        ((2, 0), "num_results must be at least 1, not 0"),
        ((2, 3, -1), "skip must be at least 0, not -1"),
        ((2, 3, 2**31 - 4), r"num_results \+ skip must be below 2147483647"),
    ],
)
def test_numbers_out_of_range_are_refused(given, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        sobol_sample(*given)


def test_other_dtypes_are_refused():
    with pytest.raises(TypeError, match="int32"):
        sobol_sample(2, 3, dtype="int32")
