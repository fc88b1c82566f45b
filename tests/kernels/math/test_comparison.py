import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.array.select import masked, select, where
from aioflow.kernels.math import comparison
from aioflow.tensors.dtypes import as_dtype
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def value(tensor):
    return evaluate(tensor)


def test_tensors_are_compared_by_operators_but_for_identity():
    x = constant([1.0, 2.0, 3.0])
    assert value(x < 2).tolist() == [True, False, False]
    assert value(x <= 2).tolist() == [True, True, False]
    assert value(x > 2).tolist() == [False, False, True]
    assert value(x < 2).tolist() == [True, False, False]
    assert value(x >= 2).tolist() == [False, True, True]
    assert (x == x) is True
    assert (x == constant([1.0, 2.0, 3.0])) is False


def test_text_is_equal_by_its_bytes():
    assert value(comparison.equal(constant(["a", "ä"]), ["a", "b"])).tolist() == [True, False]
    assert value(comparison.not_equal(constant("a"), "a")) == np.False_


def test_operators_of_bits_are_logical_for_truth_values():
    p, q = constant([True, True, False]), constant([True, False, False])
    assert value(p & q).tolist() == [True, False, False]
    assert value(p | q).tolist() == [True, True, False]
    assert value(p ^ True).tolist() == [False, False, True]
    assert value(~p).tolist() == [False, False, True]
    assert (p & q).op.type == "logical_and"


def test_operators_of_bits_are_bitwise_for_integers():
    x = constant([12, 10], "uint8")
    assert value(x & 6).tolist() == [4, 2]
    assert value(6 | x).tolist() == [14, 14]
    assert value(x ^ [5, 6]).tolist() == [9, 12]
    assert value(~x).tolist() == [243, 245]
    with pytest.raises(TypeError, match="bitwise_and: dtype float32 is not supported"):
        constant([1.0]) & constant([1.0])


@pytest.mark.parametrize("n", [10, 5000])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
)
def test_selecting_copies_bits_whatever_they_mean(n, dtype):
    random = np.random.default_rng(7)
    condition = random.random((3, n)) < 0.5
    kind = as_dtype(dtype).np
    x, y = (random.integers(0, 100, shape).astype(kind) for shape in ((3, n), (3, 1)))
    if kind.kind in "fc":
        x[:, 0], y[0] = np.nan, np.inf
    result = value(select(condition, x, y))
    np.testing.assert_array_equal(result, np.where(condition, x, y))
    assert result.dtype == kind
    np.testing.assert_array_equal(value(masked(x, condition)), np.where(condition, x, np.zeros((), kind)))


def test_a_condition_of_rank_1_chooses_rows_as_in_tensorflow():
    x, y = constant([[1, 2], [3, 4]]), constant([[5, 6], [7, 8]])
    assert value(where([True, False], x, y)).tolist() == [[1, 2], [7, 8]]
    assert value(where([True, False], x, 0)).tolist() == [[1, 0], [3, 0]]  # NumPy's rule: x and y have two ranks
    with pytest.raises(ValueError, match=r"cannot be broadcast together"):
        where([True, False, True], x, y)


@pytest.mark.parametrize("ranks", [(1, None, None), (None, 2, 2), (None, None, None), (1, 2, None)])
def test_rows_are_chosen_also_where_ranks_are_known_only_in_a_run(ranks):
    condition, x, y = (
        placeholder(dtype, None if rank is None else [None] * rank)
        for dtype, rank in zip(("bool", "float64", "float64"), ranks, strict=True)
    )
    feeds = {x: np.ones((2, 2)), y: np.zeros((2, 2))}
    chosen = where(condition, x, y)
    assert evaluate(chosen, {**feeds, condition: np.array([True, False])}).tolist() == [[1, 1], [0, 0]]
    assert evaluate(chosen, {**feeds, condition: np.eye(2, dtype=bool)}).tolist() == [[1, 0], [0, 1]]
    if ranks == (None, None, None):
        vectors = {x: np.ones(2), y: np.zeros(2), condition: np.array([True, False])}
        assert evaluate(chosen, vectors).tolist() == [1, 0]


def test_nan_in_what_is_not_chosen_stays_out_of_the_gradient():
    x = placeholder("float64", [2])
    y = where(x > 0, x, 0.0)
    (dx,) = gradients(y, x, constant([1.0, np.nan], "float64"))
    assert evaluate(dx, {x: np.array([1.0, -1.0])}).tolist() == [1, 0]


def test_where_alone_gives_indices_as_int64():
    y = where(constant([[0, 3], [4, 0]]))
    assert y.shape.as_list() == [None, 2]
    assert value(y).tolist() == [[0, 1], [1, 0]]
    assert value(where(constant([False]))).shape == (0, 1)
    assert value(where(True)).shape == (1, 0)
    assert value(where(False)).shape == (0, 0)
    assert value(y).dtype == np.int64


def test_where_takes_both_values_or_none():
    with pytest.raises(ValueError, match="give both x and y, or neither"):
        where([True], x=[1.0])
    with pytest.raises(TypeError, match="select: dtype int32 is not supported; use one of bool"):
        where([1, 0], [1.0, 2.0], [3.0, 4.0])


def test_a_literal_takes_the_dtype_of_the_other_choice():
    assert where([True], 1, constant([2.5], "float16")).dtype.name == "float16"
    assert where([True], constant([2.5], "float16"), 1).dtype.name == "float16"
    assert where([True], 1, 2).dtype.name == "int32"
