"""Convolution and the geometry of windows: what the samples of the registry test do not show."""

import ml_dtypes
import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.nn import convolution, windows
from aioflow.kernels.nn.convolution import conv2d, conv2d_backprop_filter, conv2d_backprop_input, conv2d_transpose
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


# Geometry


@pytest.mark.parametrize(
    ("size", "window", "stride", "dilation", "padding", "output", "before"),
    [
        (5, 3, 1, 1, "SAME", 5, 1),
        (5, 3, 2, 1, "SAME", 3, 1),
        (6, 3, 2, 1, "SAME", 3, 0),
        (5, 2, 1, 1, "SAME", 5, 0),
        (5, 3, 1, 2, "SAME", 5, 2),
        (5, 1, 3, 1, "SAME", 2, 0),
        (5, 3, 1, 1, "VALID", 3, 0),
        (5, 3, 1, 2, "VALID", 1, 0),
        (0, 3, 1, 1, "SAME", 0, 1),
        (5, 3, 2, 1, (2, 1), 3, 2),
    ],
)
def test_windows_slide_as_tensorflow_says(size, window, stride, dilation, padding, output, before):
    made = windows.slide(size, window, stride, dilation, padding)
    assert (made.output, made.before) == (output, before)


@pytest.mark.parametrize(
    ("size", "window", "dilation", "padding", "message"),
    [
        (2, 3, 1, "VALID", "negative dimension size: a window that reaches over 3 does not fit into size 2"),
        (4, 3, 2, "VALID", "reaches over 5 does not fit into size 4"),
        (0, 1, 1, "VALID", "reaches over 1 does not fit into size 0"),
        (1, 5, 1, (2, 1), r"reaches over 5 does not fit into size 1 with padding \(2, 1\)"),
    ],
)
@pytest.mark.parametrize("stride", [1, 2, 9])
def test_a_window_larger_than_the_axis_is_refused(size, window, stride, dilation, padding, message):
    with pytest.raises(ValueError, match=message):
        windows.slide(size, window, stride, dilation, padding)


@pytest.mark.parametrize("padding", ["SAME", "VALID", (3, 2)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_a_tap_is_the_places_that_see_no_padding(padding, stride, dilation):
    for size in range(7):
        for window in range(1, 4):
            if padding == "VALID" and (window - 1) * dilation >= size:
                continue
            made = windows.slide(size, window, stride, dilation, padding)
            for index in range(window):
                seen = [place * stride + index * dilation - made.before for place in range(made.output)]
                to, source = made.tap(index)
                inside = [place for place, at in enumerate(seen) if 0 <= at < size]
                assert list(range(made.output))[to] == inside
                assert list(range(size))[source] == [seen[place] for place in inside]


# Attributes


def test_strides_are_one_two_or_four_numbers():
    x, w = placeholder("float32", [None, 9, 9, 2]), placeholder("float32", [3, 3, 2, 4])
    for strides in (2, [2], [2, 2], [1, 2, 2, 1]):
        assert conv2d(x, w, strides, "SAME").shape.as_list() == [None, 5, 5, 4]
    assert conv2d(x, filters=w, strides=1, padding="VALID", dilations=2, name="layer").shape.as_list() == [
        None,
        5,
        5,
        4,
    ]
    y = placeholder("float32", [None, 2, 9, 7])
    assert conv2d(y, w, [2, 1], "SAME", data_format="NCHW").shape.as_list() == [None, 4, 5, 7]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"strides": [2, 2, 2, 1]}, r"strides \[2, 2, 2, 1\] must be positive, and 1 for batch and channels"),
        ({"strides": 0}, r"strides \[1, 0, 0, 1\] must be positive"),
        ({"strides": [1, 1, 1]}, r"strides are 4 integers, one per axis, not \(1, 1, 1\)"),
        ({"strides": 1.5}, r"strides are 4 integers, one per axis, not 1.5"),
        ({"strides": None}, "a convolution needs strides and padding"),
        ({"dilations": [1, 1, 1, 2]}, "dilations .* must be positive, and 1 for batch and channels"),
        ({"padding": "FULL"}, "padding is 'SAME', 'VALID' or 4 pairs"),
        ({"padding": [[0, 0], [1, 1]]}, "padding is 'SAME', 'VALID' or 4 pairs"),
        ({"padding": [[0, 0], [1, -1], [0, 0], [0, 0]]}, "padding is 'SAME', 'VALID' or 4 pairs"),
        ({"padding": [[0, 0], [1, 1], [0, 0], [0, 1]]}, "of batch and channels must be 0"),
        ({"data_format": "HWCN"}, "data_format is 'NHWC' or 'NCHW', not 'HWCN'"),
        ({"filter": None}, "give one of filter, filters"),
        ({"filters": np.ones((3, 3, 2, 4), np.float32)}, "give one of filter, filters"),
        ({"filter": np.ones((3, 3, 3, 4), np.float32)}, "channels of the images and of the filter: 2 and 3 differ"),
        ({"filter": np.ones((3, 3, 2), np.float32)}, r"filter: rank 4 is needed, the shape is \[3, 3, 2\]"),
        ({"filter": np.ones((9, 3, 2, 4), np.float32), "padding": "VALID"}, "reaches over 9 does not fit into size 5"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_built(changed, message):
    given = {"input": np.ones((1, 5, 5, 2), np.float32), "filter": np.ones((3, 3, 2, 4), np.float32)}
    with pytest.raises(ValueError, match=message):
        conv2d(**{**given, "strides": 1, "padding": "SAME", **changed})


def test_what_cannot_work_is_refused_in_a_run_if_shapes_were_open():
    x, w, dy = (placeholder("float32", None) for _ in range(3))
    y, valid = conv2d(x, w, 1, "SAME"), conv2d(x, w, 2, "VALID")
    dw = conv2d_backprop_filter(x, [3, 3, 2, 4], dy, 1, "SAME")
    dx = conv2d_backprop_input([1, 5, 5, 2], w, dy, 1, "SAME")
    good = {x: np.ones((1, 5, 5, 2), np.float32), w: np.ones((3, 3, 2, 4), np.float32)}
    for tensor, feeds, message in [
        (y, {**good, x: np.ones((1, 5, 5, 3), np.float32)}, "channels of the images and of the filter: 3 and 2 differ"),
        (y, {**good, x: np.ones((5, 5, 2), np.float32)}, "images have 4 axes"),
        (valid, {**good, x: np.ones((1, 5, 2, 2), np.float32)}, "reaches over 3 does not fit into size 2"),
        (dw, {**good, dy: np.ones((1, 5, 4, 4), np.float32)}, "width of the convolution and of out_backprop: 5 and 4"),
        (dx, {**good, dy: np.ones((2, 5, 5, 4), np.float32)}, "batch of the convolution and of out_backprop: 1 and 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            evaluate(tensor, feeds)


# Values


@pytest.mark.parametrize("block", [1, 1000, 1 << 22])
def test_the_size_of_blocks_does_not_change_the_result(monkeypatch, block):
    x, w = normal(3, 7, 6, 2, dtype=np.float64), normal(3, 2, 2, 4, dtype=np.float64)
    how = {"strides": [1, 2, 1, 1], "padding": "SAME"}
    y = evaluate(conv2d(x, w, **how))
    built = [
        conv2d(x, w, **how),
        conv2d_backprop_input(x.shape, w, y, **how),
        conv2d_backprop_filter(x, w.shape, y, **how),
    ]
    expected = evaluate(built)
    monkeypatch.setattr(convolution, "BLOCK", block)
    for ours, theirs in zip(evaluate(built), expected, strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_convolutions_are_computed_as_float32(dtype):
    x, w = normal(2, 5, 5, 3).astype(dtype), normal(3, 3, 3, 4).astype(dtype)
    exact = evaluate(conv2d(x.astype(np.float32), w.astype(np.float32), 1, "SAME"))
    y = evaluate(conv2d(x, w, 1, "SAME"))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, exact.astype(dtype))
    assert evaluate(conv2d_backprop_input([2, 5, 5, 3], w, y, 1, "SAME")).dtype == dtype
    assert evaluate(conv2d_backprop_filter(x, [3, 3, 3, 4], y, 1, "SAME")).dtype == dtype


def test_inputs_in_any_memory_order():
    x, w = normal(2, 6, 5, 3), normal(3, 3, 3, 4)
    for data_format, axes in [("NHWC", (0, 1, 2, 3)), ("NCHW", (0, 3, 1, 2))]:
        expected = evaluate(conv2d(x, w, 1, "VALID")).transpose(axes)
        for array in (x.transpose(axes), np.asfortranarray(x.transpose(axes))):
            result = evaluate(conv2d(array, np.asfortranarray(w), 1, "VALID", data_format=data_format))
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
            assert result.flags.c_contiguous


@pytest.mark.parametrize(
    ("shape", "filters", "expected"),
    [
        ((0, 5, 5, 2), (3, 3, 2, 4), (0, 5, 5, 4)),
        ((2, 0, 5, 2), (3, 3, 2, 4), (2, 0, 5, 4)),
        ((2, 5, 5, 0), (3, 3, 0, 4), (2, 5, 5, 4)),
        ((2, 5, 5, 2), (3, 3, 2, 0), (2, 5, 5, 0)),
    ],
)
def test_empty_images_and_no_channels(shape, filters, expected):
    x, w = constant(np.ones(shape, np.float32)), constant(np.ones(filters, np.float32))
    y = conv2d(x, w, 1, "SAME")
    values = evaluate([y, *gradients(y, [x, w])])
    assert [value.shape for value in values] == [expected, shape, filters]
    assert not any(value.any() for value in values)


def test_gradients_have_the_shapes_of_the_inputs():
    x, w = placeholder("float32", [None, 8, 8, 2]), placeholder("float32", [3, 3, 2, 4])
    dx, dw = gradients(conv2d(x, w, 2, "SAME"), [x, w])
    assert dx.shape is x.shape
    assert dw.shape == [3, 3, 2, 4]
    values = evaluate([dx, dw], {x: normal(5, 8, 8, 2), w: normal(3, 3, 2, 4)})
    assert [value.shape for value in values] == [(5, 8, 8, 2), (3, 3, 2, 4)]


def test_a_transposed_convolution_is_the_adjoint_of_a_convolution():
    small, large, w = (
        normal(2, 3, 3, 4, dtype=np.float64),
        normal(2, 6, 5, 2, dtype=np.float64),
        normal(3, 3, 2, 4, dtype=np.float64),
    )
    up = conv2d_transpose(small, w, [2, 6, 5, 2], 2, name="up")
    assert up.op.name == "up"
    down = evaluate(conv2d(large, w, 2, "SAME"))
    np.testing.assert_allclose((evaluate(up) * large).sum(), (small * down).sum())
    with pytest.raises(ValueError, match="channels of the convolution and of out_backprop: 4 and 3 differ"):
        conv2d_transpose(small[..., :3], w, [2, 6, 5, 2], 2)


def test_a_convolution_costs_its_multiplications():
    x, w = placeholder("float32", [32, 56, 56, 64]), placeholder("float32", [3, 3, 64, 64])
    for tensor in (conv2d(x, w, 1, "SAME"), *gradients(conv2d(x, w, 1, "SAME"), [x, w])):
        op = tensor.op
        specs = [source.spec for source in op.inputs], [output.spec for output in op.outputs]
        assert op.definition.cost_rule(*specs, op.attrs) == 2 * 32 * 56 * 56 * 64 * 64 * 9
