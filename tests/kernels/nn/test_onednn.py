"""Kernels by oneDNN: when they are chosen, and rectified linear units, softmax and sums of columns."""

import numpy as np
import pytest

from aioflow.graph.graph import Graph
from aioflow.graph.op import REGISTRY
from aioflow.kernels.array.constants import constant
from aioflow.kernels.nn.activation import column_sums, relu
from aioflow.kernels.nn.convolution import conv2d
from aioflow.kernels.nn.softmax import log_softmax, log_softmax_grad, softmax, softmax_grad
from aioflow.tensors.dtypes import DeviceKind
from tests.support.evaluate import bound, evaluate
from tests.support.onednn import agree, needs_library, numbers, switched_off

pytest_plugins = ["tests.support.onednn_small"]
pytestmark = pytest.mark.usefixtures("even_for_small_arrays")


def chosen(name, dtype):
    """Whether the kernel chosen for that op and dtype is oneDNN's."""
    spec = constant(np.zeros(1, dtype)).spec
    return REGISTRY[name].kernel_for(DeviceKind.CPU, [spec, spec]).when is not None


@needs_library
@pytest.mark.parametrize("name", ["conv2d", "conv3d", "depthwise_conv2d_native", "max_pool", "avg_pool", "matmul"])
def test_it_is_chosen_for_float32_while_it_is_there(name):
    with Graph().as_default():
        assert chosen(name, np.float32)
        assert not chosen(name, np.float64)
        assert not chosen(name, np.float16)
        with switched_off():
            assert not chosen(name, np.float32)


@needs_library
def test_a_kernel_chosen_before_it_was_switched_off_still_computes():
    with Graph().as_default(), switched_off():
        x, w = constant(numbers(1, 4, 4, 1)), constant(numbers(3, 3, 1, 2))
        kernel = REGISTRY["conv2d"].kernels[DeviceKind.CPU][0]
        assert kernel.when is not None
        y = conv2d(x, w, 1, "SAME")
        assert bound(kernel, y.op)(*evaluate([x, w])).shape == (1, 4, 4, 2)


@needs_library
@pytest.mark.parametrize("shape", [(1,), (7, 1, 5), (0, 3)])
def test_rectified_linear_units(shape):
    agree(lambda x: relu(relu(x) - 0.5), numbers(*shape))


@needs_library
@pytest.mark.parametrize("function", [softmax, log_softmax])
@pytest.mark.parametrize(
    ("shape", "axis"), [((70, 1000), -1), ((300, 11, 13), 1), ((40000,), 0), ((3, 4), -1), ((0, 4), -1)]
)
def test_softmax(function, shape, axis):
    agree(lambda x: function(x, axis), numbers(*shape) * 5)


@needs_library
@pytest.mark.parametrize("function", [softmax, log_softmax])
def test_softmax_of_what_is_not_finite_is_numpys(function):
    x = numbers(100, 1000)
    x[0, 0], x[1, 0], x[2, 0], x[3], x[4] = np.nan, -np.inf, np.inf, -np.inf, np.inf
    agree(function, x)


@needs_library
@pytest.mark.parametrize("gradient", [softmax_grad, log_softmax_grad])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_the_gradient_of_softmax_of_what_is_not_finite_is_numpys(gradient, odd):
    dy, y = numbers(100, 1000), numbers(100, 1000)
    dy[0, 3], dy[1, 0], y[2, 5], y[4], y[3, 7], dy[3, 7] = odd, odd, odd, odd, 0, odd
    with Graph().as_default():
        dx = gradient(constant(dy), constant(y))
        ours = evaluate(dx)
        with switched_off():
            theirs = evaluate(dx)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (1, 1), (70000, 7), (131, 2049), (30, 40, 300), (300001, 1)])
def test_sums_of_columns(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    total = column_sums(x)
    assert total.dtype == dtype
    np.testing.assert_allclose(
        total, x.reshape(-1, shape[-1]).sum(0, np.float64) if x.size else np.zeros(shape[-1]), atol=2e-2
    )
