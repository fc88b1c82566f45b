"""Convolutions by oneDNN and their gradients: the same as by NumPy, for all layouts, strides and sizes."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.nn import (
    onednn_convolution,
)
from aioflow.kernels.nn.convolution import conv2d, conv2d_with_bias
from aioflow.kernels.nn.convolution_nd import conv1d, conv3d
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.kernels.nn.pooling import max_pool
from tests.support.evaluate import evaluate
from tests.support.onednn import agree, needs_library, numbers
from tests.support.scale import amount

pytest_plugins = ["tests.support.onednn_small"]
pytestmark = pytest.mark.usefixtures("even_for_small_arrays")


@needs_library
@settings(max_examples=amount(20, 60))
@given(st.data())
def test_convolution_and_its_gradients(data):
    size = st.integers(1, 9)
    channels_last = data.draw(st.booleans())
    batch, height, width = data.draw(st.integers(0, 3)), data.draw(size), data.draw(size)
    inputs, outputs = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    window = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    strides = [data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))]
    dilations = [data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))]
    pairs = st.tuples(st.integers(0, 3), st.integers(0, 3))
    padding = data.draw(st.sampled_from(["SAME", "VALID"]) | st.tuples(pairs, pairs))
    if not isinstance(padding, str):
        padding = [(0, 0), *padding, (0, 0)] if channels_last else [(0, 0), (0, 0), *padding]
    layout = "NHWC" if channels_last else "NCHW"
    shape = (batch, height, width, inputs) if channels_last else (batch, inputs, height, width)
    x, w = numbers(*shape), numbers(*window, inputs, outputs, seed=1)

    def build(x, w):
        return conv2d(x, w, strides, padding, data_format=layout, dilations=dilations)

    try:
        with Graph().as_default():
            build(constant(x), constant(w))
    except ValueError:
        assume(False)
    agree(build, x, w)


@needs_library
@pytest.mark.parametrize(
    ("shape", "window", "strides", "padding", "layout", "dilations"),
    [
        ((2, 28, 28, 1), (5, 5, 1, 32), 1, "SAME", "NHWC", 1),
        ((2, 14, 14, 32), (5, 5, 32, 64), 1, "SAME", "NHWC", 1),
        ((1, 15, 17, 16), (3, 3, 16, 16), 2, "SAME", "NHWC", 1),
        ((1, 15, 17, 16), (3, 3, 16, 16), 1, "SAME", "NHWC", 3),
        ((2, 16, 15, 17), (3, 3, 16, 8), 2, "VALID", "NCHW", 1),
        ((2, 8, 8, 64), (1, 1, 64, 16), 1, "VALID", "NHWC", 1),
        ((2, 8, 8, 64), (1, 1, 64, 16), 2, "VALID", "NHWC", 1),
        ((1, 3, 3, 4), (3, 3, 4, 0), 1, "SAME", "NHWC", 1),
        ((0, 3, 3, 4), (3, 3, 4, 2), 1, "SAME", "NHWC", 1),
        ((2, 2, 2, 3), (3, 3, 3, 2), 1, [(0, 0), (4, 4), (4, 0), (0, 0)], "NHWC", 1),
    ],
)
def test_convolutions_of_the_usual_and_of_odd_kinds(shape, window, strides, padding, layout, dilations):
    def build(x, w):
        return conv2d(x, w, strides, padding, data_format=layout, dilations=dilations)

    agree(build, numbers(*shape), numbers(*window, seed=1))


@needs_library
@pytest.mark.parametrize("channels", [3, 8, 16])
def test_the_gradient_of_a_filter_of_size_1_that_skips_images_of_few_channels_is_numpys(channels, monkeypatch):
    """oneDNN 3.2 writes beyond arrays there, and its values are wrong, as for 8 x 8 images of 3 channels."""
    built, build = [], onednn_convolution._backprop_filter
    monkeypatch.setattr(onednn_convolution, "_backprop_filter", lambda *args: built.append(args) or build(*args))
    agree(lambda x, w: conv2d(x, w, 2, "SAME"), numbers(3, 8, 8, channels), numbers(1, 1, channels, 4))
    assert bool(built) == (channels >= onednn_convolution.FEW)


@needs_library
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(("channels", "times", "strides"), [(3, 1, 1), (16, 1, 2), (4, 3, 1), (1, 2, 1)])
def test_convolution_by_channel(layout, channels, times, strides):
    shape = (2, 9, 8, channels) if layout == "NHWC" else (2, channels, 9, 8)

    def build(x, w):
        return depthwise_conv2d_native(x, w, strides, "SAME", data_format=layout)

    agree(build, numbers(*shape), numbers(3, 2, channels, times, seed=1))


@needs_library
def test_convolution_along_one_axis_and_along_three():
    agree(lambda x, w: conv1d(x, w, 2, "SAME"), numbers(3, 11, 4), numbers(3, 4, 5, seed=1))
    agree(lambda x, w: conv3d(x, w, 1, "SAME"), numbers(2, 5, 6, 7, 3), numbers(2, 3, 2, 3, 4, seed=1))
    agree(
        lambda x, w: conv3d(x, w, 2, "VALID", data_format="NCDHW"),
        numbers(2, 3, 5, 6, 7),
        numbers(2, 3, 2, 3, 4, seed=1),
    )


@needs_library
def test_arrays_with_gaps_in_memory_are_taken_too():
    x, w = numbers(2, 8, 8, 8)[:, ::2, :, 1::2], numbers(4, 3, 3, 5).transpose(1, 2, 0, 3)
    with Graph().as_default():
        a, b = constant(x), constant(w)
        y = conv2d(a, b, 1, "SAME")
        z = max_pool(a, 2, 2, "SAME")
        found = evaluate([y, z], {a: x, b: w})
        expected = evaluate([y, z], {a: x.copy(), b: w.copy()})
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@needs_library
def test_a_gradient_of_another_shape_is_refused_as_without_it():
    with Graph().as_default():
        x, w = placeholder(np.float32, [None, None, None, 1]), placeholder(np.float32, [3, 3, 1, 2])
        dw = gradients([conv2d(x, w, 1, "VALID")], [w], [placeholder(np.float32, None, name="dy")])[0]
        feeds = {
            x: numbers(1, 4, 4, 1),
            w: numbers(3, 3, 1, 2),
            x.op.graph.get_tensor_by_name("dy:0"): numbers(1, 3, 3, 2),
        }
        with pytest.raises(ValueError, match="differ"):
            evaluate(dw, feeds)


@needs_library
@pytest.mark.parametrize(("shape", "layout"), [((2, 7, 6, 3), "NHWC"), ((2, 3, 7, 6), "NCHW"), ((0, 7, 6, 3), "NHWC")])
def test_convolution_with_bias(shape, layout):
    attrs = {"strides": (1, 1, 1, 1), "padding": "SAME", "data_format": layout}
    agree(lambda x, w, b: conv2d_with_bias(x, w, b, **attrs), numbers(*shape), numbers(3, 3, 3, 5), numbers(5))
