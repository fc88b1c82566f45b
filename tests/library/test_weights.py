"""Weights, labels and predictions that are brought to shapes that fit."""

import numpy as np
import pytest

import aioflow as af
from aioflow.library import weights as library
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_broadcast_weights_have_the_shape_and_the_dtype_of_the_values():
    for weights, expected in [(2, [[2.0, 2.0], [2.0, 2.0]]), ([[1], [3]], [[1, 1], [3, 3]]), ([[1, 2]], [[1, 2]] * 2)]:
        repeated = af.weights_broadcast.broadcast_weights(weights, np.zeros((2, 2), np.float64))
        assert repeated.dtype is af.float64
        np.testing.assert_array_equal(evaluate(repeated), expected)


def test_weights_of_the_shape_of_the_values_are_themselves():
    weights = af.constant([1.0, 2.0])
    assert af.weights_broadcast.broadcast_weights(weights, [0.0, 0.0]) is weights


def test_a_check_that_is_certain_is_no_operation_of_the_run():
    open_values = af.placeholder("float32", [None, 3])
    for weights, values in [(1.0, open_values), ([[1.0]], open_values), ([[1.0, 2.0, 3.0]], open_values), ([1], [2])]:
        assert af.weights_broadcast.assert_broadcastable(weights, values).type == "no_op"


async def test_a_check_that_is_open_fails_the_run_and_names_both_shapes(graph):
    weights, values = af.placeholder("float32", [None]), af.placeholder("float32")
    check = af.weights_broadcast.assert_broadcastable(weights, values)
    async with af.Session(graph=graph) as session:
        await session.run(check, {weights: [1.0], values: [1.0, 2.0]})
        with pytest.raises(
            af.errors.InvalidArgumentError, match=r"weights of shape \[3\] do not fit values of shape \[2\]"
        ):
            await session.run(check, {weights: [1.0, 2.0, 3.0], values: [1.0, 2.0]})


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize(
    ("labels", "predictions", "more", "expected"),
    [
        ((2, 1), (2,), 0, ((2,), (2,))),
        ((2,), (2, 1), 0, ((2,), (2,))),
        ((2, 1), (2, 1), 0, ((2, 1), (2, 1))),
        ((2, 1), (2, 3), 1, ((2,), (2, 3))),
        ((), (1,), 0, ((), ())),
        ((2,), (2, 3, 1), 1, ((2,), (2, 3))),
    ],
)
def test_one_last_axis_of_size_1_is_dropped(labels, predictions, more, expected, opened):
    arrays = np.zeros(labels, np.float32), np.zeros(predictions, np.float32)
    inputs = [af.placeholder("float32", None if opened else array.shape) for array in arrays]
    aligned = library.align(*inputs, more)
    assert tuple(value.shape for value in evaluate(aligned, dict(zip(inputs, arrays, strict=True)))) == expected


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize(
    ("weights", "values", "expected"),
    [((), (3,), ()), ((2, 1), (2,), (2,)), ((2,), (2, 3), (2, 1)), ((2,), (2,), (2,)), ((2, 3), (2, 3), (2, 3))],
)
def test_weights_get_the_rank_of_the_values(weights, values, expected, opened):
    arrays = np.zeros(weights, np.float32), np.zeros(values, np.float32)
    inputs = [af.placeholder("float32", None if opened else array.shape) for array in arrays]
    aligned = library.align_weights(*inputs)
    assert evaluate(aligned, dict(zip(inputs, arrays, strict=True))).shape == expected
