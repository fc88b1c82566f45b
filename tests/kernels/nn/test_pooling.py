"""Pooling: what the samples of the registry test do not show."""

import ml_dtypes
import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.nn import pooling
from aioflow.kernels.nn.pooling import avg_pool, max_pool
from tests.support.evaluate import evaluate

EVERY = [np.int8, np.int32, np.uint8, np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def image(*rows, dtype=np.float32):
    """One image of one channel."""
    return np.array(rows, dtype)[None, ..., None]


def rows(value):
    return value[0, ..., 0].tolist()


def test_the_window_is_one_two_or_four_numbers():
    x = placeholder("float32", [None, 9, 9, 2])
    for ksize in (2, [2], [2, 2], [1, 2, 2, 1]):
        assert max_pool(x, ksize, 2, "SAME").shape.as_list() == [None, 5, 5, 2]
        assert avg_pool(x, ksize, 2, "VALID").shape.as_list() == [None, 4, 4, 2]
    y = placeholder("float32", [None, 2, 9, 7])
    assert max_pool(y, [3, 2], [3, 1], "VALID", "NCHW", name="pool").shape.as_list() == [None, 2, 3, 6]


@pytest.mark.parametrize("pool", [max_pool, avg_pool])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ksize": [1, 2, 2, 2]}, r"ksize \[1, 2, 2, 2\] must be positive, and 1 for batch and channels"),
        ({"ksize": 0}, "must be positive"),
        ({"strides": [2, 1, 1, 1]}, "strides .* must be positive, and 1 for batch and channels"),
        ({"padding": "same"}, "padding is 'SAME', 'VALID' or 4 pairs"),
        ({"data_format": "NCHW_VECT_C"}, "data_format is 'NHWC' or 'NCHW'"),
        ({"ksize": 6, "padding": "VALID"}, "reaches over 6 does not fit into size 4"),
        ({"value": np.ones((4, 4), np.float32)}, "images: rank 4 is needed"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_built(pool, changed, message):
    given = {"value": np.ones((1, 4, 4, 1), np.float32), "ksize": 2, "strides": 1, "padding": "SAME"}
    with pytest.raises(ValueError, match=message):
        pool(**{**given, **changed})


def test_what_cannot_work_is_refused_in_a_run_if_shapes_were_open():
    x, y = placeholder("float32", None), placeholder("float32", None)
    attrs = {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": "SAME"}
    with pytest.raises(ValueError, match="images have 4 axes"):
        evaluate(max_pool(x, 2, 2, "SAME"), {x: np.ones((4, 4), np.float32)})
    feeds = {x: np.ones((1, 4, 4, 1), np.float32), y: np.ones((1, 2, 3, 1), np.float32)}
    with pytest.raises(ValueError, match=r"pooling \[1, 4, 4, 1\] gives \[1, 2, 2, 1\], and this is \[1, 2, 3, 1\]"):
        evaluate(pooling.max_pool_grad(x, y, y, **attrs), feeds)


@pytest.mark.parametrize("dtype", EVERY)
def test_padding_is_lower_than_all(dtype):
    low = ml_dtypes.finfo(dtype).min if np.dtype(dtype).kind not in "iu" else np.iinfo(dtype).min
    x = np.full((1, 3, 3, 1), low, dtype)
    y = evaluate(max_pool(x, 3, 1, "SAME"))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x)


def test_means_do_not_count_padding():
    x = image([1, 2, 3], [4, 5, 6], [7, 8, 9])
    assert rows(evaluate(avg_pool(x, 2, 2, "SAME"))) == [[3, 4.5], [7.5, 9]]
    assert rows(evaluate(avg_pool(x, 3, 1, "SAME")))[0] == [3, 3.5, 4]
    with pytest.raises(TypeError, match="avg_pool: dtype int32 is not supported"):
        avg_pool(x.astype(np.int32), 2, 2, "SAME")


def test_of_equal_elements_the_first_takes_the_gradient():
    x = constant(image([0, 0, 0], [0, 5, 5], [0, 5, 1]))
    (dx,) = gradients(max_pool(x, 2, 1, "VALID"), x)
    assert rows(evaluate(dx)) == [[0, 0, 0], [0, 4, 0], [0, 0, 0]]
    zeros = constant(image([0, 0, 0], [0, 0, 0], [0, 0, 0]))
    (dx,) = gradients(max_pool(zeros, 2, 2, "SAME"), zeros)
    assert rows(evaluate(dx)) == [[1, 0, 1], [0, 0, 0], [1, 0, 1]]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_means_are_computed_as_float32(dtype):
    x = np.linspace(-3, 3, 75).reshape(1, 5, 5, 3).astype(dtype)
    exact = evaluate(avg_pool(x.astype(np.float32), 3, 2, "SAME"))
    np.testing.assert_array_equal(evaluate(avg_pool(x, 3, 2, "SAME")), exact.astype(dtype))


@pytest.mark.parametrize("pool", [max_pool, avg_pool])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_the_size_of_blocks_does_not_change_the_result(monkeypatch, pool, data_format):
    x = constant(np.random.default_rng(0).normal(size=(5, 6, 7, 4)))
    y = pool(x, 3, 2, "SAME", data_format)
    (dx,) = gradients(y * y, x)
    (second,) = gradients(dx * dx, x)
    expected = evaluate([y, dx, second])
    monkeypatch.setattr(pooling, "BLOCK", 3000)
    for ours, theirs in zip(evaluate([y, dx, second]), expected, strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("pool", [max_pool, avg_pool])
def test_empty_images_and_gradients_of_open_shape(pool):
    x = placeholder("float32", [None, None, None, 2])
    y = pool(x, 2, 2, "SAME")
    (dx,) = gradients(y, x)
    assert dx.shape is x.shape
    for shape, pooled in [((0, 4, 4, 2), (0, 2, 2, 2)), ((3, 5, 1, 2), (3, 3, 1, 2)), ((2, 0, 3, 2), (2, 0, 2, 2))]:
        assert [v.shape for v in evaluate([y, dx], {x: np.ones(shape, np.float32)})] == [pooled, shape]


def test_a_window_of_channels_takes_the_highest_of_each_group():
    x = constant(np.array([3.0, 1, 2, 5, 4, 6, 0, 7], np.float32).reshape(1, 2, 1, 4))
    highest = max_pool(x, [1, 1, 1, 2], [1, 1, 1, 2], "VALID")
    assert evaluate(highest).tolist() == [[[[3, 5]], [[6, 7]]]]
    slope = gradients(highest, x)[0]
    assert evaluate(slope).ravel().tolist() == [1, 0, 0, 1, 0, 1, 0, 1]
    for window, strides in ([1, 1, 1, 3], [1, 1, 1, 3]), ([1, 1, 1, 2], 1):
        with pytest.raises(ValueError, match=r"a window \[1, 1, 1, .\] of channels moves by as much, and . divides"):
            max_pool(x, window, strides, "VALID")
