"""Convolutions as products of matrices are those of the kernels by NumPy, and are left to few places."""

import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.devices import onednn
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant
from aioflow.kernels.nn import convolution_products
from aioflow.kernels.nn.activation import bias_add
from aioflow.kernels.nn.convolution import conv2d, conv2d_with_bias
from aioflow.kernels.nn.convolution_nd import conv3d
from tests.support.evaluate import evaluate

needs_library = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")


def computed(convolve, shape, window, strides, dtype, **how):
    """The convolution, and the gradients for the images and for the filter."""
    draw = np.random.default_rng(1)
    x, w = (draw.standard_normal(each, np.float32) for each in (shape, window))
    with Graph().as_default():
        images, filters = constant(x.astype(dtype)), constant(w.astype(dtype))
        y = convolve(images, filters, strides, **how)
        dy = draw.standard_normal(y.shape.as_list(), np.float32)
        return evaluate([y, *gradients([y], [images, filters], [constant(dy.astype(dtype))])])


@pytest.fixture
def products(monkeypatch):
    """The names of the functions that computed with products."""
    seen = []
    for name in ("forward", "backprop_filter", "backprop_input"):
        compute = getattr(convolution_products, name)

        def counted(*arguments, name=name, compute=compute):
            seen.append(name)
            return compute(*arguments)

        monkeypatch.setattr(convolution_products, name, counted)
    return seen


@needs_library
@pytest.mark.parametrize(
    ("convolve", "shape", "window", "strides", "how"),
    [
        (conv2d, (2, 2, 2, 256), (3, 3, 256, 256), 1, {"padding": "SAME"}),
        (conv2d, (1, 5, 4, 256), (3, 2, 256, 256), 2, {"padding": [[0, 0], [1, 0], [0, 2], [0, 0]]}),
        (conv2d, (3, 1, 1, 512), (3, 3, 512, 128), 1, {"padding": "SAME", "dilations": 2}),
        (conv2d, (2, 4, 4, 512), (1, 1, 512, 256), 2, {"padding": "VALID"}),
        (conv3d, (1, 2, 2, 3, 256), (2, 1, 2, 256, 256), 1, {"padding": "VALID"}),
    ],
)
def test_convolutions_at_few_places_are_products(convolve, shape, window, strides, how, products):
    found = computed(convolve, shape, window, strides, np.float32, **how)
    assert sorted(products) == ["backprop_filter", "backprop_input", "forward"]
    for ours, exact in zip(found, computed(convolve, shape, window, strides, np.float64, **how), strict=True):
        assert ours.dtype == np.float32
        assert ours.flags.c_contiguous
        np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-4)


@needs_library
@pytest.mark.parametrize(
    ("shape", "window", "layout"),
    [
        ((4, 16, 16, 256), (1, 1, 256, 256), "NHWC"),
        ((1, 2, 2, 32), (9, 9, 32, 32), "NHWC"),
        ((1, 256, 2, 2), (3, 3, 256, 256), "NCHW"),
    ],
)
def test_many_places_small_filters_and_channels_first_are_not(shape, window, layout, products):
    computed(conv2d, shape, window, 1, np.float32, padding="SAME", data_format=layout)
    assert not products


@needs_library
def test_a_bias_in_the_same_op_gives_the_same_bits(products):
    draw = np.random.default_rng(1)
    shapes = (2, 2, 2, 256), (3, 3, 256, 256), (256,)
    with Graph().as_default():
        x, window, bias = (constant(draw.standard_normal(shape, np.float32)) for shape in shapes)
        apart = bias_add(conv2d(x, window, 1, "SAME"), bias)
        together = conv2d_with_bias(x, window, bias, (1, 1, 1, 1), "SAME")
        np.testing.assert_array_equal(*evaluate([apart, together]))
    assert products
