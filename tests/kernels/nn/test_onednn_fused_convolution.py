"""Convolutions by oneDNN with the steps after them, and steps and shuffles of channels alone."""

import numpy as np
import pytest

from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.nn import (
    onednn_fused_convolution,
)
from aioflow.kernels.nn.channel_shuffle import channel_shuffle
from aioflow.kernels.nn.channel_steps import TAKES, channel_steps
from aioflow.kernels.nn.fused_convolution import fused_conv2d
from aioflow.tensors.dtypes import DeviceKind
from tests.support.evaluate import bound, evaluate
from tests.support.onednn import needs_library, numbers, switched_off

pytest_plugins = ["tests.support.onednn_small"]
pytestmark = pytest.mark.usefixtures("even_for_small_arrays")


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
@pytest.mark.parametrize("size", [1, 3])
def test_groups_of_few_channels_are_one_primitive_with_its_steps(monkeypatch, size):
    monkeypatch.delattr(onednn_fused_convolution._Kernel, "_follow")
    x, w, bias, more = numbers(2, 16, 16, 12), numbers(size, size, 6, 16), numbers(16), numbers(2, 16, 16, 16)
    x[0, 5, 5, 0], x[1, 5, 5, 11] = np.nan, np.inf
    with Graph().as_default():
        feeds = {placeholder(np.float32, array.shape): array for array in (x, w, bias, more)}
        y = fused(("add", "sum", "relu"), groups=2)(*feeds)
        ours = evaluate(y, feeds)
        with switched_off():
            theirs = evaluate(y, feeds)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours[1, ..., :8], theirs[1, ..., :8], rtol=1e-4, atol=1e-4)
    assert np.isnan(ours[0]).sum() == size * size * 8


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
    np.testing.assert_array_equal(call(x, w.transpose(2, 3, 1, 0)), first)
    assert len(prepared) == 3


@needs_library
def test_a_fused_convolution_prepares_its_weights_once_for_batches_of_all_sizes(monkeypatch):
    prepared = []
    fold = onednn_fused_convolution.folded
    monkeypatch.setattr(onednn_fused_convolution, "folded", lambda *args: prepared.append(args) or fold(*args))
    most = onednn_fused_convolution._MOST_LAYOUTS
    x, w = numbers(most + 4, 16, 16, 8), numbers(3, 3, 8, 6)
    with Graph().as_default():
        y = fused(("relu",))(placeholder(np.float32, [None, 16, 16, 8]), placeholder(np.float32, w.shape))
    kernel = bound(y.op.definition.kernel_for(DeviceKind.CPU, [tensor.spec for tensor in y.op.inputs]), y.op)
    whole = kernel(x, w)
    for size in (*range(1, most + 4), 1, 2, 1):
        np.testing.assert_array_equal(kernel(x[:size], w), whole[:size])
    assert len(prepared) == 1


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
