"""Kernels by oneDNN give what the kernels by NumPy alone give, and leave to these what they cannot do."""

import contextlib
import os

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aioflow.autodiff.gradients import gradients
from aioflow.devices import onednn
from aioflow.graph.graph import Graph
from aioflow.graph.op import REGISTRY
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.onednn_matmul import ALONE, SMALL, faster, faster_batches, laid
from aioflow.kernels.nn import (
    onednn_activation,
    onednn_convolution,
    onednn_fused_convolution,
    onednn_layer_norm,
    onednn_local_response,
    onednn_normalisation,
    onednn_pooling,
    onednn_softmax,
)
from aioflow.kernels.nn.activation import column_sums, relu
from aioflow.kernels.nn.channel_shuffle import channel_shuffle
from aioflow.kernels.nn.channel_steps import TAKES, channel_steps
from aioflow.kernels.nn.convolution import conv2d, conv2d_with_bias
from aioflow.kernels.nn.convolution_nd import conv1d, conv3d
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.kernels.nn.fused_convolution import fused_conv2d
from aioflow.kernels.nn.layer_norm import layer_norm
from aioflow.kernels.nn.local_response import local_response_normalization
from aioflow.kernels.nn.normalisation import fused_batch_norm
from aioflow.kernels.nn.pooling import avg_pool, avg_pool3d, max_pool, max_pool3d
from aioflow.kernels.nn.softmax import log_softmax, softmax
from aioflow.tensors.dtypes import DeviceKind, as_dtype
from tests.support.evaluate import bound, evaluate
from tests.support.scale import amount

needs_library = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")


@contextlib.contextmanager
def switched_off():
    before = os.environ.get(onednn.SWITCH)
    os.environ[onednn.SWITCH] = "off"
    onednn.library.cache_clear()
    try:
        yield
    finally:
        os.environ.pop(onednn.SWITCH)
        if before is not None:
            os.environ[onednn.SWITCH] = before
        onednn.library.cache_clear()


def computed(build, arrays):
    """The value of build(*tensors), and its gradients for all of them, weighted by cosines."""
    with Graph().as_default():
        feeds = {placeholder(as_dtype(a.dtype), a.shape): a for a in arrays}
        y = build(*feeds)
        weights = np.cos(np.arange(y.shape.num_elements())).reshape(y.shape.as_list()).astype(np.float32)
        return evaluate([y, *gradients([y], list(feeds), [constant(weights)])], feeds)


def agree(build, *arrays):
    """Both give the same."""
    ours = computed(build, arrays)
    with switched_off():
        theirs = computed(build, arrays)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def chosen(name, dtype):
    """Whether the kernel chosen for that op and dtype is oneDNN's."""
    spec = constant(np.zeros(1, dtype)).spec
    return REGISTRY[name].kernel_for(DeviceKind.CPU, [spec, spec]).when is not None


@pytest.fixture(autouse=True)
def even_for_small_arrays(monkeypatch):
    for module in (
        onednn_activation, onednn_convolution, onednn_fused_convolution, onednn_layer_norm, onednn_local_response,
        onednn_normalisation, onednn_pooling, onednn_softmax,
    ):  # fmt: skip
        monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(onednn_convolution, "SLOW_SMALL", 0)


# Which kernel is chosen


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


# Convolution


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


def fused(steps, convolution="conv2d", groups=1, stride=1, filter_axes=None):
    """A function of images, filter and others: the fused convolution with these steps."""
    attrs = {"convolution": convolution, "groups": groups, "padding": "SAME", "dilations": (1, 1, 1, 1)}
    attrs["filter_axes"] = filter_axes
    epsilons = (1e-3,) * steps.count("normalise")
    return lambda x, w, *others: fused_conv2d(x, w, others, steps, epsilons, strides=(1, stride, stride, 1), **attrs)


@needs_library
@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (fused(()), [(3, 3, 8, 6)]),
        (fused(("add", "sum", "relu"), stride=2), [(3, 3, 8, 6), (6,), (2, 8, 8, 6)]),
        (fused(("normalise", "multiply", "relu")), [(1, 1, 8, 6), (6,), (6,), (6,), (6,), (6,)]),
        (fused(("multiply", "add"), "depthwise_conv2d_native"), [(3, 3, 8, 1), (8,), (8,)]),
        (fused(("add",), groups=2), [(3, 3, 4, 16), (16,)]),
        (fused((), groups=4), [(1, 1, 2, 12)]),
        (fused(("add", "sum", "relu"), groups=4), [(1, 1, 2, 12), (12,), (2, 16, 16, 12)]),
        (fused(("add",), filter_axes=(2, 3, 1, 0)), [(6, 8, 3, 3), (6,)]),
        (fused((), "depthwise_conv2d_native", filter_axes=(2, 3, 0, 1)), [(8, 1, 3, 3)]),
    ],
)
def test_convolution_with_the_steps_after_it(build, shapes):
    arrays = numbers(2, 16, 16, 8), *[abs(numbers(*shape)) for shape in shapes]
    for images in (arrays[0], np.moveaxis(np.ascontiguousarray(np.moveaxis(arrays[0], -1, 1)), 1, -1)):
        with Graph().as_default():
            feeds = {placeholder(np.float32, array.shape): array for array in (images, *arrays[1:])}
            y = build(*feeds)
            ours = evaluate(y, feeds)
            with switched_off():
                theirs = evaluate(y, feeds)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@needs_library
def test_a_fused_convolution_takes_images_that_lie_between_other_fields():
    images, window = numbers(2, 16, 16, 8), numbers(3, 3, 8, 6)
    records = np.zeros(images.shape, [("red", np.float32), ("tag", np.int16)])
    records["red"] = images
    with Graph().as_default():
        x, w = placeholder(np.float32, images.shape), placeholder(np.float32, window.shape)
        y = fused(())(x, w)
        apart, together = (evaluate(y, {x: value, w: window}) for value in (records["red"], images))
    np.testing.assert_allclose(apart, together, rtol=1e-4, atol=1e-4)


@needs_library
def test_a_fused_rectifier_keeps_nan_and_gives_positive_zeros():
    x = numbers(1, 16, 16, 8)
    x[0, 5, 5, 0] = np.nan
    with Graph().as_default():
        a, b = placeholder(np.float32, x.shape), placeholder(np.float32, [1, 1, 8, 8])
        y = evaluate(fused(("relu",))(a, b), {a: x, b: numbers(1, 1, 8, 8)})
    assert np.isnan(y[0, 5, 5]).all()
    assert np.isnan(y).sum() == 8
    assert (y == 0).any()
    assert not np.signbit(y).any()


@needs_library
@pytest.mark.parametrize(("channels", "size"), [(3, 3), (16, 1), (16, 3)])
def test_a_fused_rectifier_gives_positive_zeros_of_sums_of_any_sign(channels, size):
    values = np.array([1, -1, 0, -0.0, np.nan, np.inf, -1e-40, -3e38], np.float32)
    with Graph().as_default():
        x, w = placeholder(np.float32, [1, 24, 24, channels]), placeholder(np.float32, [size, size, channels, 64])
        y = fused(("add", "relu"))(x, w, constant(np.resize(values, 64)))
        found = evaluate(y, {each: np.zeros(each.shape, np.float32) for each in (x, w)})
    expected = np.resize(np.array([1, 0, 0, 0, np.nan, np.inf, 0, 0], np.float32), 64)
    np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))
    assert not np.signbit(found[found == 0]).any()


@needs_library
def test_a_fused_convolution_prepares_its_weights_once_for_the_same_arrays(monkeypatch):
    prepared = []
    fold = onednn_fused_convolution.folded
    monkeypatch.setattr(onednn_fused_convolution, "folded", lambda *args: prepared.append(args) or fold(*args))
    x, w, other = numbers(2, 16, 16, 8), numbers(6, 8, 3, 3), numbers(6, 8, 3, 3, seed=1)
    with Graph().as_default():
        y = fused(())(placeholder(np.float32, x.shape), placeholder(np.float32, [3, 3, 8, 6]))
    kernel = y.op.definition.kernel_for(DeviceKind.CPU, [tensor.spec for tensor in y.op.inputs])
    call = bound(kernel, y.op)
    first = call(x, w.transpose(2, 3, 1, 0))  # a new view each time, as a plan makes it
    np.testing.assert_array_equal(call(x, w.transpose(2, 3, 1, 0)), first)
    assert len(prepared) == 1
    assert not np.array_equal(call(x, other.transpose(2, 3, 1, 0)), first)
    assert call(x[:1], other.transpose(2, 3, 1, 0)).shape == (1, 16, 16, 6)
    np.testing.assert_array_equal(call(x, w.transpose(2, 3, 1, 0)), first)
    assert len(prepared) == 4


@needs_library
def test_local_response_normalisation():
    build = lambda x: local_response_normalization(x, 2, 1.5, 0.3, 0.75)  # noqa: E731
    agree(build, numbers(2, 5, 4, 16))
    agree(build, numbers(3, 16))


@needs_library
@pytest.mark.parametrize("steps", [("normalise", "multiply", "add", "relu"), ("multiply",)])
def test_steps_for_each_channel_have_the_same_bits(steps):
    x, vector = numbers(2, 32, 32, 24), abs(numbers(24))
    with Graph().as_default():
        a, b = placeholder(np.float32, x.shape), placeholder(np.float32, vector.shape)
        y = channel_steps(a, [b] * sum(TAKES[step] for step in steps), steps, (0.5,) * steps.count("normalise"))
        for odd in ((), (np.inf, 0.0, -0.0), (-np.inf,), (np.nan, np.inf, -np.inf)):
            x[0, 0, 0, : len(odd)] = odd
            ours = evaluate(y, {a: x, b: vector})
            with switched_off():
                theirs = evaluate(y, {a: x, b: vector})
            np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@needs_library
def test_a_shuffle_of_channels_moves_the_bits():
    x = numbers(2, 16, 16, 24)
    x.view(np.uint32)[0, 0, 0, :2] = 0x7FA00001, 0xFFC12345
    with Graph().as_default():
        y = channel_shuffle(placeholder(np.float32, x.shape), 4)
        ours = evaluate(y, {y.op.inputs[0]: x})
        with switched_off():
            theirs = evaluate(y, {y.op.inputs[0]: x})
    np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))
    np.testing.assert_array_equal(ours[..., :4], x[..., ::6])


# Pooling


@needs_library
@settings(max_examples=amount(20, 60))
@given(st.data())
def test_pooling_and_its_gradients(data):
    pool = data.draw(st.sampled_from([max_pool, avg_pool]))
    layout = data.draw(st.sampled_from(["NHWC", "NCHW"]))
    shape = [data.draw(st.integers(0, 2)), *data.draw(st.tuples(*[st.integers(1, 9)] * 3))]
    window, strides = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    padding = data.draw(st.sampled_from(["SAME", "VALID"]))
    tied = np.round(numbers(*shape) * data.draw(st.sampled_from([1, 1000])))

    def build(x):
        return pool(x, window, strides, padding, layout)

    try:
        with Graph().as_default():
            build(constant(tied))
    except ValueError:
        assume(False)
    agree(build, tied)


@needs_library
@pytest.mark.parametrize("pool", [max_pool3d, avg_pool3d])
def test_pooling_along_three_axes(pool):
    agree(lambda x: pool(x, 2, 2, "SAME"), numbers(2, 5, 4, 6, 3))


@needs_library
@pytest.mark.parametrize("channels", [1, 3, 8, 16])
def test_gradients_of_a_filter_of_size_1_that_skips(channels):
    x = np.full(1 << 16, np.nan, np.float32)[: 3 * 12 * 12 * channels].reshape(3, 12, 12, channels)
    x[:] = numbers(*x.shape)
    for outputs in (4, 32):
        agree(lambda x, w: conv2d(x, w, 2, "SAME"), x, numbers(1, 1, channels, outputs))


@needs_library
@pytest.mark.parametrize("odd", [np.nan, -np.inf, np.inf, np.finfo(np.float32).min])
def test_the_highest_of_what_is_not_finite_is_numpys(odd):
    x = numbers(2, 4, 4, 3)
    x[0, :2, :2] = odd
    x[1, 0, 0, 0] = odd
    agree(lambda x: max_pool(x, 2, 2, "SAME"), x)
    agree(lambda x: max_pool(x, 3, 1, "SAME"), x)  # the first window sees nothing but padding and these


# Products


@needs_library
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(3, 4, 5), (64, 200, 80), (1, 1024, 1024), (1024, 1024, 1), (0, 3, 4), (300, 400, 500)]
)
def test_products_of_matrices(m, k, n, flip_a, flip_b):
    a, b = numbers(*((k, m) if flip_a else (m, k))), numbers(*((n, k) if flip_b else (k, n)), seed=1)
    with Graph().as_default():
        y = matmul(constant(a), constant(b), transpose_a=flip_a, transpose_b=flip_b)
        expected = (a.T if flip_a else a).astype(np.float64) @ (b.T if flip_b else b)
        np.testing.assert_allclose(evaluate(y), expected, rtol=1e-4, atol=1e-3)


@needs_library
def test_a_product_may_be_written_over_one_of_its_factors():
    a, b = numbers(128, 128), numbers(128, 128, seed=1)
    assert a.size * 128 > SMALL
    with Graph().as_default():
        y = matmul(constant(a), constant(b))
        call = bound(REGISTRY["matmul"].kernel_for(DeviceKind.CPU, [t.spec for t in y.op.inputs]), y.op)
    expected = a.astype(np.float64) @ b
    for place in (0, 1):
        copies = [a.copy(), b.copy()]
        result = call(*copies, out=copies[place])
        assert result is copies[place]
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


@needs_library
def test_a_batch_of_matrices_and_one_matrix_are_one_product():
    agree(matmul, numbers(4, 30, 200), numbers(200, 90, seed=1))


# Rectified linear units


@needs_library
@pytest.mark.parametrize("shape", [(1,), (7, 1, 5), (0, 3)])
def test_rectified_linear_units(shape):
    agree(lambda x: relu(relu(x) - 0.5), numbers(*shape))


# Softmax


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


# Batch normalisation


@needs_library
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((4, 9, 8, 33), "NHWC"),
        ((4, 33, 9, 8), "NCHW"),
        ((500, 16), "NHWC"),
        ((8, 4, 5, 6, 7), "NHWC"),
        ((0, 3), "NHWC"),
    ],
)
def test_batch_normalisation(shape, layout, training):
    channels = shape[-1 if layout == "NHWC" else 1]
    vectors = [np.abs(numbers(channels, seed=seed)) + 0.5 for seed in range(4)]
    given = vectors if not training else vectors[:2]

    def build(x, *vectors):
        y, mean, variance = fused_batch_norm(x, *vectors, data_format=layout, is_training=training)
        return concat([reshape(part, [-1]) for part in (y, mean, variance)], 0)

    agree(build, numbers(*shape) * 3 + 2, *given)


# Layer normalisation


@needs_library
@pytest.mark.parametrize("shape", [(64,), (5, 64), (30, 7, 9), (4, 3, 5, 7, 2), (0, 3), (3, 0), (600, 1)])
@pytest.mark.parametrize("axes", [1, 2])
def test_layer_normalisation(shape, axes):
    vectors = [numbers(*shape[-axes:], seed=seed) for seed in (1, 2)]

    def build(x, *vectors):
        return concat([reshape(part, [-1]) for part in layer_norm(x, *vectors)], 0)

    agree(build, numbers(*shape) * 3 + 2, *vectors)
    agree(build, numbers(*shape[::-1]).T, *vectors)


@needs_library
def test_layers_that_are_not_finite_or_far_from_zero_are_normalised_as_by_numpy():
    x = numbers(100, 64)
    x[0, 0], x[1, 0], x[2, 0], x[3], x[4] = np.nan, -np.inf, np.inf, -np.inf, 5
    with np.errstate(invalid="ignore"):
        agree(lambda x, *how: layer_norm(x, *how)[0], x, numbers(64), numbers(64, seed=1))
    far = numbers(100, 64) + 3000
    with Graph().as_default():
        y, mean, variance = evaluate(list(layer_norm(far, numbers(64) * 0 + 1, numbers(64) * 0)))
    exact = far.astype(np.float64)
    np.testing.assert_allclose(mean[:, 0], exact.mean(1), rtol=1e-6)
    np.testing.assert_allclose(variance[:, 0], exact.var(1), rtol=1e-5)
    np.testing.assert_allclose(y, (exact - exact.mean(1)[:, None]) / np.sqrt(exact.var(1) + 1e-3)[:, None], atol=2e-3)


@needs_library
@pytest.mark.parametrize("length", [200, 5000])
def test_constant_rows_and_channels_are_normalised_to_zero_however_long_they_are(length):
    rows = np.repeat(np.array([[3000.1], [-77777.3], [0.3]], np.float32), length, 1).repeat(80, 0)
    ones = [np.ones(size, np.float32) for size in (length, 240)]
    with Graph().as_default():
        layer, mean, _ = evaluate(list(layer_norm(rows, ones[0], ones[0] * 0)))
        batch, *_ = evaluate(list(fused_batch_norm(rows.T.reshape(length, 1, 1, 240), ones[1], ones[1] * 0)))
    np.testing.assert_array_equal(mean[:, 0], rows[:, 0])
    assert np.abs(layer).max() < 1e-6
    assert np.abs(batch).max() < 0.01  # of about 2e6, which is subtracted from as much


# Sums


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (1, 1), (70000, 7), (131, 2049), (30, 40, 300), (300001, 1)])
def test_sums_of_columns(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    total = column_sums(x)
    assert total.dtype == dtype
    np.testing.assert_allclose(
        total, x.reshape(-1, shape[-1]).sum(0, np.float64) if x.size else np.zeros(shape[-1]), atol=2e-2
    )


BATCHES = [(4,), (2, 3), (1,), (2, 1, 2)]


@needs_library
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
def test_products_of_large_batches(batch, flip_a, flip_b):
    rows, inner, columns = 96, 80, 72
    assert rows * inner * columns > ALONE
    a = np.random.default_rng(1).standard_normal((*batch, *((inner, rows) if flip_a else (rows, inner))), np.float32)
    b = np.random.default_rng(2).standard_normal(
        (*batch, *((columns, inner) if flip_b else (inner, columns))), np.float32
    )
    agree(lambda x, y: matmul(x, y, transpose_a=flip_a, transpose_b=flip_b), a, b)


def products(lib=None):
    """The products of batches by oneDNN, and how often they were left to NumPy."""
    left = []

    def by_numpy(a, b, out=None):
        left.append(a.shape)
        return np.matmul(a, b, out=out)

    return faster_batches(lib or onednn.library(), by_numpy), left


@needs_library
@pytest.mark.parametrize("into", ["a new array", "a given one", "an input", "columns of a larger one"])
@pytest.mark.parametrize("order", ["plain", "transposed", "heads"])
def test_products_of_batches_have_the_same_bits_wherever_they_are_written(into, order):
    size, rows = 6, 80
    x = np.random.default_rng(1).standard_normal((2, size // 2, rows, rows), np.float32)
    a = {"plain": x, "transposed": x.swapaxes(-1, -2), "heads": x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3)}[
        order
    ]
    b = np.random.default_rng(2).standard_normal(a.shape, np.float32)
    product, left = products()
    expected = product(a, b)
    np.testing.assert_allclose(expected, np.matmul(a, b), rtol=1e-3, atol=1e-4)
    if into == "an input":
        out = b
    else:
        out = np.empty((*a.shape[:-1], 2 * rows), np.float32)[..., ::2] if "columns" in into else np.empty_like(b)
    found = product(a, b) if into == "a new array" else product(a, b, out)
    assert into == "a new array" or found is out
    np.testing.assert_array_equal(found, expected)
    assert left == []


def heads(rows=16):
    """Queries as attention takes them: every third part of the rows of one product, a matrix for each head."""
    return numbers(2, rows, 3, 4, 32).transpose(2, 0, 3, 1, 4)[1]


def test_batches_are_multiplied_where_they_lie_unless_both_rows_and_columns_have_gaps_or_elements_are_shared():
    lying = [heads(), heads().swapaxes(-1, -2), numbers(6, 8, 9)[::2, 1:, :7], heads(rows=1)]
    x, row = numbers(2, 4, 6), numbers(2, 1, 6)
    gaps = x[:, :, ::2], x[:, :, ::2].swapaxes(-1, -2), x[..., ::-1], x.T
    shared = np.broadcast_to(row, (2, 4, 6)), np.lib.stride_tricks.sliding_window_view(row[:, 0], 3, 1)
    for x in [*lying, *gaps, *shared]:
        y, layout = laid(x)
        np.testing.assert_array_equal(y, x)
        assert layout.sizes == x.shape
        assert np.shares_memory(x, y) == any(x is one for one in lying)


@needs_library
def test_products_of_heads_need_no_copy_and_have_the_bits_of_copied_ones():
    query, key = heads(128), heads(128) + 1
    product, left = products()
    in_place = key.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3).swapaxes(-1, -2)
    expected = product(query.copy(), key.copy().swapaxes(-1, -2))
    np.testing.assert_array_equal(product(query, in_place), expected)
    np.testing.assert_allclose(expected, np.matmul(query, in_place), rtol=1e-3, atol=1e-4)
    assert left == []


@needs_library
@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 8, 8), (5, 8, 8)), ((2, 96, 96), (1, 96, 96)), ((96, 96), (2, 96, 96)), ((0, 96, 96), (0, 96, 96))],
)
def test_small_products_and_broadcast_ones_are_left_to_numpy(a, b):
    product, left = products()
    found = product(np.ones(a, np.float32), np.ones(b, np.float32))
    np.testing.assert_array_equal(found, np.matmul(np.ones(a, np.float32), np.ones(b, np.float32)))
    assert left == [a]
    with pytest.raises(ValueError, match="mismatch"):
        product(np.ones((2, 96, 96), np.float32), np.ones((2, 95, 96), np.float32))


class NotedProducts:
    """oneDNN as far as `faster` sees it.

    It notes the distance of rows of the first matrix of each dnnl_sgemm, and where the second begins.
    """

    def __init__(self, avx512):
        self.avx512, self.steps, self.begins, self._sgemm = avx512, [], [], onednn.library().sgemm

    def sgemm(self, *arguments):
        self.steps.append(arguments[7])
        self.begins.append(arguments[8])
        return self._sgemm(*arguments)


def beginning_at(matrix, offset):
    """A copy at the given offset from a multiple of 64 bytes."""
    memory = np.empty(matrix.nbytes + 64, np.uint8)
    begin = (offset - memory.ctypes.data) % 64
    copied = memory[begin : begin + matrix.nbytes].view(np.float32).reshape(matrix.shape)
    copied[...] = matrix
    return copied


@needs_library
@pytest.mark.parametrize("flipped", [False, True])
def test_dnnl_sgemm_gets_a_matrix_of_long_rows_where_it_packs_it_and_the_bits_are_the_same(flipped):
    draw, lib = np.random.default_rng(3), NotedProducts(avx512=False)
    a, b = draw.standard_normal((512, 128), np.float32), draw.standard_normal((512, 512), np.float32)
    a = a.T if flipped else np.ascontiguousarray(a.T)
    product = faster(lib, np.ndarray.dot)
    first, *others = [product(a, beginning_at(b, offset)) for offset in (0, 16, 32, 48)]
    assert [begin % 32 for begin in lib.begins] == [16] * 4
    for other in others:
        np.testing.assert_array_equal(other, first)
    np.testing.assert_allclose(first, a @ b, rtol=1e-4, atol=1e-4)


@needs_library
@pytest.mark.parametrize("columns", [128, 512])
def test_dnnl_sgemm_gets_gaps_between_long_rows_of_a_transposed_matrix_and_the_bits_are_the_same(columns):
    draw, found = np.random.default_rng(3), []
    a, b = draw.standard_normal((512, 512), np.float32), draw.standard_normal((512, columns), np.float32)
    for avx512 in (False, True):
        lib = NotedProducts(avx512)
        found.append(faster(lib, np.ndarray.dot)(a.T, beginning_at(b, 16)))
        assert lib.steps == [512 if avx512 else 528]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], a.T @ b, rtol=1e-4, atol=1e-4)


@needs_library
@pytest.mark.parametrize(("rows", "inner", "columns"), [(513, 256, 128), (512, 255, 128), (512, 256, 127)])
def test_dnnl_sgemm_gets_other_transposed_matrices_where_they_are(rows, inner, columns):
    lib = NotedProducts(avx512=False)
    a, b = np.ones((inner, rows), np.float32), np.ones((inner, columns), np.float32)
    assert faster(lib, np.ndarray.dot)(a.T, b)[0, 0] == inner
    assert lib.steps == [rows]


@needs_library
@pytest.mark.parametrize(
    ("avx512", "rows", "inner", "columns"),
    [(True, 128, 512, 512), (False, 127, 512, 1024), (False, 128, 511, 512), (False, 128, 512, 511)],
)
def test_dnnl_sgemm_gets_other_matrices_where_they_are(avx512, rows, inner, columns):
    lib = NotedProducts(avx512)
    b = beginning_at(np.ones((inner, columns), np.float32), 0)
    assert rows * inner * columns > SMALL
    assert faster(lib, np.ndarray.dot)(np.ones((rows, inner), np.float32), b)[0, 0] == inner
    assert lib.begins == [b.ctypes.data]
